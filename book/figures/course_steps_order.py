"""The steps before chapters 7 and 8: blocks that wait for each other, and fragments."""

from svg import BLUE, GREEN, GREY, ORANGE, RED, Picture


def figures(folder):
    """Writes the pictures of the steps."""
    ticket(folder)
    flag(folder)
    look_back(folder)
    fragments(folder)


def ticket(folder):
    """Blocks start in any order, and take tickets in that order."""
    picture = Picture(400, 250, "Blocks take tickets in the order in which they start")
    starts, colours = [2, 0, 3, 1], {0: BLUE, 1: ORANGE, 2: GREEN, 3: RED}
    picture.text(12, 24, "blocks, in the order in which they start", size=13)
    for k, block in enumerate(starts):
        x = 12 + 96 * k
        picture.box(x, 34, 88, 30, f"block {block}", colours[block], 13)
        picture.arrow(x + 44, 64, x + 44, 105)
        picture.text(x + 50, 89, "+1", size=13)
        picture.box(x, 106, 88, 30, f"ticket {k}", colours[block], 13)
        picture.arrow(x + 44, 136, x + 44, 167)
        picture.box(x, 168, 88, 30, f"tile {k}", colours[block], 13)
    picture.text(12, 222, "Ticket k works on tile k. Then the tiles before it", size=13)
    picture.text(12, 240, "belong to blocks that have started already.", size=13)
    picture.write(folder / "07-1-ticket.svg")


def flag(folder):
    """The number is written before the flag, and read after it."""
    picture = Picture(400, 236, "A block writes a number, then a flag by release; another waits for the flag by acquire, then reads the number")
    picture.text(82, 24, "block with ticket 0", "middle", 13)
    picture.text(318, 24, "another block", "middle", 13)
    picture.box(12, 36, 140, 30, "number = 42", BLUE, 13)
    picture.box(12, 96, 140, 30, "release: flag = 1", GREEN, 13)
    picture.box(248, 126, 140, 30, "acquire: flag is 1", GREEN, 13)
    picture.box(248, 186, 140, 30, "read number: 42", ORANGE, 13)
    picture.arrow(82, 66, 82, 95)
    picture.arrow(152, 111, 247, 141)
    picture.arrow(318, 156, 318, 185)
    picture.text(318, 94, "flag is 0: wait", "middle", 13)
    picture.arrow(318, 102, 318, 125)
    picture.text(12, 180, "What is above an arrow", size=13)
    picture.text(12, 198, "happens before what", size=13)
    picture.text(12, 216, "is at its tip.", size=13)
    picture.write(folder / "07-2-flag.svg")


def look_back(folder):
    """Each tile waits for the sum up to the tile before it."""
    picture = Picture(400, 214, "Each tile waits for the prefix of the tile before it, and adds its own sum")
    sums, before = [5, 3, 7, 4], 0
    picture.text(12, 80, "sum", size=13)
    picture.text(12, 150, "prefix", size=13)
    for tile, own in enumerate(sums):
        x = 80 + 80 * tile
        picture.text(x + 24, 40, f"tile {tile}", "middle", 13)
        picture.box(x, 60, 48, 30, own, BLUE, 13)
        picture.arrow(x + 24, 90, x + 24, 129)
        if tile:
            picture.arrow(x - 32, 145, x - 1, 145)
        before += own
        picture.box(x, 130, 48, 30, before, GREEN, 13)
    picture.text(12, 186, "prefix(i) = prefix(i − 1) + sum(i)", size=13)
    picture.text(12, 204, "Each arrow to the right waits for a flag.", size=13)
    picture.write(folder / "07-3-look-back.svg")


def fragments(folder):
    """Row g has the lanes 4g to 4g + 3, for the first four columns of the first eight rows."""
    picture = Picture(400, 312, "The first element of each lane's fragment lies in the first 8 rows and 4 columns of A")
    cell, left, top = 27, 36, 46
    picture.text(left + 4 * cell, 20, "A: 16 rows, 8 columns", "middle", 13)
    for column in range(8):
        picture.text(left + cell * (column + 0.5), 40, column, "middle", 13)
    for row in range(8):
        picture.text(left - 12, top + cell * (row + 0.5) + 5, row, "end", 13)
        for column in range(8):
            first = column < 4
            text = 4 * row + column if first and row < 2 else "?" if first else ""
            picture.box(left + cell * column, top + cell * row, cell, cell, text, ORANGE if first else GREY, 13)
    for k, line in enumerate(("numbers: lanes", "", "Lane 6 holds", "element (1, 2)", "of A.", "", "Which lane holds", "(g, t)?")):
        picture.text(270, top + 18 + 19 * k, line, size=13)
    picture.text(12, 284, "Grey, and rows 8 to 15: each lane holds three more", size=13)
    picture.text(12, 302, "elements, (g + 8, t), (g, t + 4) and (g + 8, t + 4).", size=13)
    picture.write(folder / "08-1-fragments.svg")
