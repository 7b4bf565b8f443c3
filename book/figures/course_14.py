"""Chapter 14: parts of a grid, and time on several devices."""

from svg import BLUE, GREEN, GREY, ORANGE, Picture


def halo(folder):
    """Three parts with their outer rows."""
    picture = Picture(480, 280, "Three parts of a grid exchange their outer rows")
    for part in range(3):
        y = 16 + 88 * part
        picture.text(12, y + 40, f"GPU {part}")
        for row in range(4):
            colour = ORANGE if row in (0, 3) else BLUE
            picture.box(80, y + 18 * row, 220, 18, "", colour)
    for y in (16, 104):
        picture.arrow(150, y + 63, 150, y + 97)
        picture.arrow(230, y + 97, 230, y + 63)
    picture.box(330, 40, 18, 18, "", ORANGE)
    picture.text(356, 54, "outer rows: travel", size=12)
    picture.box(330, 70, 18, 18, "", BLUE)
    picture.text(356, 84, "inner rows: stay", size=12)
    picture.write(folder / "14-halo.svg")


def overlap(folder):
    """The order of operations, without and with overlap."""
    picture = Picture(480, 220, "Without overlap the devices wait for the exchange; with it they compute inner rows")
    picture.text(12, 22, "one after the other")
    picture.box(12, 32, 250, 28, "all rows", BLUE, 12)
    picture.box(262, 32, 90, 28, "exchange", GREEN, 12)
    picture.box(352, 32, 116, 28, "next sweep", GREY, 12)
    picture.text(12, 96, "inner rows while the outer rows travel")
    picture.text(12, 125, "GPU", size=12)
    picture.box(60, 106, 50, 28, "outer", ORANGE, 12)
    picture.box(110, 106, 200, 28, "inner rows", BLUE, 12)
    picture.box(310, 106, 158, 28, "next sweep", GREY, 12)
    picture.text(12, 169, "host", size=12)
    picture.box(110, 150, 90, 28, "exchange", GREEN, 12)
    picture.arrow(110, 135, 110, 149)
    picture.text(12, 206, "time →", size=12)
    picture.write(folder / "14-overlap.svg")


def figures(folder):
    """Writes the pictures of the chapter."""
    halo(folder)
    overlap(folder)
