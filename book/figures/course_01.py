"""Chapter 1: indices of threads and of elements."""

from svg import BLUE, GREEN, GREY, ORANGE, RED, Picture


def figures(folder):
    """Writes the pictures of the chapter."""
    guard(folder)
    lanes(folder)
    stride(folder)


def guard(folder):
    """A grid over an image, and a thread that wraps around."""
    picture = Picture(480, 262, "Six blocks of 4 by 4 threads cover an image of 6 rows and 10 columns")
    for row in range(8):
        for column in range(12):
            colour = GREY
            if row < 6 and column < 10:
                colour = BLUE if (row // 4 + column // 4) % 2 == 0 else ORANGE
            if (row, column) == (0, 10):
                colour = RED
            picture.box(20 + 24 * column, 30 + 24 * row, 24, 24, "", colour)
    picture.box(20, 54, 24, 24, "", GREEN)
    picture.text(20, 20, "6 × 10 pixels, blocks of 4 × 4 threads", size=12)
    picture.text(320, 46, "thread (row 0, column 10)", size=12)
    picture.text(320, 62, "index 0 · 10 + 10 = 10", size=12)
    picture.text(320, 94, "pixel (row 1, column 0)", size=12)
    picture.text(320, 110, "index 1 · 10 + 0 = 10", size=12)
    picture.text(320, 150, "grey: no pixel.", size=12)
    picture.text(320, 166, "row < 6 && column < 10", size=12)
    picture.text(20, 248, "An index below 60 does not mean a pixel of one's own.", size=12)
    picture.write(folder / "01-guard.svg")


def lanes(folder):
    """A warp along a column, and along a row."""
    picture = Picture(480, 250, "A warp along a column touches as many sectors as lanes; along a row, few")
    for side, title in enumerate(("lane ↔ row", "lane ↔ column")):
        left = 20 + 235 * side
        picture.text(left, 22, title)
        for row in range(8):
            for column in range(8):
                lane = row if side == 0 and column == 0 else column if side == 1 and row == 0 else None
                picture.box(left + 24 * column, 32 + 22 * row, 24, 22, "" if lane is None else lane,
                            GREY if lane is None else (RED if side == 0 else GREEN), 12)
        picture.text(left, 226, ("8 lanes in 8 rows: 8 sectors", "8 lanes in 32 bytes: 1 sector")[side], size=12)
    picture.text(20, 243, "Rows of 8 floats: each row is one sector of 32 bytes.", size=12)
    picture.write(folder / "01-lanes.svg")


def stride(folder):
    """Rounds of a grid-stride loop."""
    picture = Picture(480, 150, "Four threads work on eleven elements in three rounds")
    colours = (BLUE, ORANGE, GREEN)
    picture.text(20, 24, "4 threads, 11 elements: thread t takes t, t + 4, t + 8", size=12)
    picture.row(20, 36, 36, list(range(12))[:11], [colours[i // 4] for i in range(11)])
    for i in range(11):
        picture.text(38 + 36 * i, 90, f"t{i % 4}", "middle", 12)
    for k, colour in enumerate(colours):
        picture.box(20 + 144 * k, 104, (144, 144, 108)[k], 20, f"round {k}", colour, 12)
    picture.text(20, 142, "Only the last round may have threads without an element.", size=12)
    picture.write(folder / "01-stride.svg")
