"""Chapter 4: shared memory, tiles and banks."""

from svg import BLUE, GREEN, GREY, ORANGE, RED, Picture

COLOURS = (BLUE, ORANGE, GREEN, RED)


def figures(folder):
    """Writes the pictures of the chapter."""
    reverse(folder)
    tiles(folder)
    banks(folder)


def reverse(folder):
    """Write, barrier, read."""
    picture = Picture(480, 196, "Threads write the tile, wait at the barrier, and read what others have written")
    picture.text(20, 47, "x")
    picture.text(20, 97, "tile")
    picture.text(20, 177, "y")
    for i in range(8):
        colour = BLUE if i < 4 else ORANGE
        picture.row(80 + 48 * i, 28, 30, [f"x{i}"], colour)
        picture.arrow(95 + 48 * i, 58, 95 + 48 * i, 77)
        picture.row(80 + 48 * i, 78, 30, [f"x{i}"], colour)
        picture.arrow(95 + 48 * (7 - i), 132, 95 + 48 * i, 157)
        picture.row(80 + 48 * i, 158, 30, [f"x{7 - i}"], ORANGE if i < 4 else BLUE)
    picture.box(70, 116, 390, 16, "barrier: all have written before any reads", GREY, 12)
    picture.write(folder / "04-reverse.svg")


def tiles(folder):
    """A tile is read by rows of A and written by rows of B."""
    picture = Picture(480, 210, "A warp writes a row of A into the tile, and reads a column of it for a row of B")
    for k, title in enumerate(("A", "tile", "B")):
        left = 20 + 160 * k
        picture.text(left + 60, 22, title, "middle")
        for row in range(4):
            for column in range(4):
                number = 4 * column + row if k == 2 else 4 * row + column
                colour = GREY
                if (k in (0, 1) and row == 1) or (k == 2 and column == 1):
                    colour = BLUE
                if (k == 1 and column == 2) or (k == 2 and row == 2):
                    colour = ORANGE if colour == GREY else GREEN
                picture.box(left + 30 * column, 32 + 30 * row, 30, 30, number, colour, 12)
    picture.arrow(142, 77, 178, 77)
    picture.arrow(302, 107, 338, 107)
    picture.text(20, 178, "blue: a warp loads a row of A and stores a row of the tile", size=12)
    picture.text(20, 196, "orange: a warp loads a column of the tile and stores a row of B", size=12)
    picture.write(folder / "04-tiles.svg")


def banks(folder):
    """Elements of a column in four banks: rows of four words, and of five."""
    picture = Picture(480, 222, "With rows of 4 words a column lies in one bank; with rows of 5 words in all banks")
    for side, stride in enumerate((4, 5)):
        left = 20 + 230 * side
        picture.text(left, 22, f"rows of {stride} words, 4 banks", size=12)
        for row in range(4):
            for column in range(stride):
                bank = (stride * row + column) % 4
                padding = column == 4
                text = "" if padding else f"b{bank}"
                colour = COLOURS[bank] if column == 1 else GREY
                picture.box(left + 36 * column, 32 + 30 * row, 36, 30, text, colour, 12)
        words = ("column 1: all in bank 1", "column 1: banks 1, 2, 3, 0")[side]
        picture.text(left, 174, words, size=12)
        picture.text(left, 190, ("4 passes", "1 pass")[side], size=12)
    picture.text(20, 212, "The fifth word of a row is never used: it shifts the next row by one bank.", size=12)
    picture.write(folder / "04-banks.svg")
