"""Chapter 9: compressed rows and slices of a sparse matrix, and the bytes of an entry."""

from svg import BLUE, GREEN, GREY, ORANGE, RED, Picture

COLOURS = (BLUE, ORANGE, GREEN, RED)
LENGTHS = (3, 1, 3, 2)


def orders(folder):
    """The same four rows in both orders of storage."""
    picture = Picture(480, 290, "Four rows in compressed rows and in a slice of four")
    picture.text(20, 24, "compressed rows: one row after the other")
    x = 20
    for row, length in enumerate(LENGTHS):
        for j in range(length):
            picture.box(x, 34, 38, 32, f"{row}.{j}", COLOURS[row], 13)
            x += 38
    picture.text(20, 88, "ptr = 0, 3, 4, 7, 9. A lane per row reads elements 0, 3, 4, 7.", size=13)
    picture.text(20, 130, "a slice of four rows: first, second, then third entries")
    x = 20
    for j in range(max(LENGTHS)):
        for row, length in enumerate(LENGTHS):
            real = j < length
            picture.box(x, 140, 36, 32, f"{row}.{j}" if real else "0", COLOURS[row] if real else GREY, 13)
            x += 36
    for lane in range(4):
        picture.arrow(38 + 36 * lane, 204, 38 + 36 * lane, 174)
        picture.text(38 + 36 * lane, 218, lane, "middle", 12)
    picture.text(172, 218, "lanes in step 1: neighbours in memory", size=13)
    picture.text(20, 246, "r.j: entry j of row r. Grey: padding of probability 0.", size=13)
    picture.text(20, 266, "first = 0, 12. A warp has 32 lanes, so SELL has slices of 32 rows.", size=13)
    picture.write(folder / "09-orders.svg")


def bytes_of_a_state(folder):
    """The floor of each layout, to scale."""
    picture = Picture(480, 250, "Bytes of a state with four actions of three successors, in each layout")
    parts = {
        "rows": ((96, BLUE, "entries 96"), (32, ORANGE, "r, ptr"), (8, GREEN, "")),
        "SELL": ((96, BLUE, "entries 96"), (16, ORANGE, "r"), (8, GREEN, "")),
        "narrow": ((36, BLUE, "36"), (4, ORANGE, ""), (8, GREEN, "")),
        "patterns": ((1, BLUE, ""), (8, GREEN, "")),
    }
    scale = 2.5
    for i, (name, boxes) in enumerate(parts.items()):
        y = 20 + 46 * i
        picture.text(14, y + 20, name)
        x = 84
        for size, colour, text in boxes:
            picture.box(x, y, size * scale, 30, text, colour, 12)
            x += size * scale
        picture.text(x + 8, y + 20, str(sum(size for size, _, _ in boxes)), size=13)
    picture.box(84, 208, 14, 14, "", BLUE)
    picture.text(104, 220, "transitions", size=12)
    picture.box(194, 208, 14, 14, "", ORANGE)
    picture.text(214, 220, "rewards, pointers", size=12)
    picture.box(344, 208, 14, 14, "", GREEN)
    picture.text(364, 220, "V and V_new", size=12)
    picture.write(folder / "09-bytes.svg")


def figures(folder):
    """Writes the pictures of the chapter."""
    orders(folder)
    bytes_of_a_state(folder)
