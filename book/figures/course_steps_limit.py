"""The steps behind chapter 8: products on warp groups."""

from svg import BLUE, GREEN, GREY, ORANGE, Picture


def figures(folder):
    """Writes the pictures of the steps."""
    warp_group(folder)
    stages(folder)
    multicast(folder)
    order(folder)


def warp_group(folder):
    """Tiles of A and B in shared memory, and the rows of each warp."""
    picture = Picture(400, 262, "The copy engine writes tiles to shared memory, the tensor cores read them, and the sums are in registers")
    picture.box(20, 36, 150, 40, "copy engine", GREY, 13)
    picture.box(20, 112, 60, 60, "A", BLUE)
    picture.box(100, 112, 70, 120, "B", ORANGE)
    picture.arrow(50, 76, 50, 111)
    picture.arrow(135, 76, 135, 111)
    picture.text(50, 188, "64 × 64", "middle", 12)
    picture.text(135, 248, "128 × 64", "middle", 12)
    picture.text(20, 22, "global memory → shared memory", size=13)
    picture.text(236, 22, "registers", size=13)
    for warp in range(4):
        picture.box(236, 112 + 30 * warp, 144, 30, f"warp {warp}: 16 × 128", GREEN, 13)
    picture.arrow(171, 142, 235, 142)
    picture.text(203, 132, "A·Bᵀ", "middle", 12)
    picture.text(236, 100, "sums: 64 × 128", size=13)
    picture.write(folder / "08-2-warp-group.svg")


def stages(folder):
    """Rounds that are copied and multiplied at the same time."""
    picture = Picture(400, 226, "The copying warp is up to four stages ahead of the warp groups")
    cell, left = 37, 96
    picture.text(left, 22, "time →", size=13)
    for y, text in ((50, "copies"), (100, "products"), (150, "stage")):
        picture.text(12, y + 19, text, size=13)
    for round in range(8):
        x = left + cell * round
        colour = (BLUE, ORANGE, GREEN, GREY)[round % 4]
        picture.box(x, 36 if round < 4 else 50, cell, 28, round, colour, 13)
        picture.box(x, 150, cell, 28, round % 4, colour, 13)
        if round >= 3:
            picture.box(x, 100, cell, 28, round - 3, (BLUE, ORANGE, GREEN, GREY)[(round - 3) % 4], 13)
    picture.text(12, 200, "Round 4 is copied to stage 0", size=13)
    picture.text(12, 218, "once round 0 has been multiplied.", size=13)
    picture.write(folder / "08-3-stages.svg")


def multicast(folder):
    """Each half of B goes to both blocks."""
    picture = Picture(400, 250, "Each block of a cluster loads its tile of A, and half of the tile of B for both")
    picture.text(12, 22, "L2 cache", size=13)
    for rank, x in ((0, 20), (1, 216)):
        picture.box(x, 36, 70, 30, f"A, rows {rank}", BLUE, 13)
        picture.box(x + 84, 36, 70, 30, f"half {rank} of B", (ORANGE, GREEN)[rank], 12)
        picture.box(x, 140, 70, 60, f"A, rows {rank}", BLUE, 13)
        picture.box(x + 84, 140, 70, 30, "half 0", ORANGE, 13)
        picture.box(x + 84, 170, 70, 30, "half 1", GREEN, 13)
        picture.arrow(x + 35, 66, x + 35, 139)
        picture.text(x, 222, f"block of rank {rank}", size=13)
    picture.arrow(139, 66, 139, 139)
    picture.arrow(139, 66, 314, 139)
    picture.arrow(335, 66, 335, 139)
    picture.arrow(335, 66, 160, 139)
    picture.text(12, 242, "one copy for each half, to both blocks", size=13)
    picture.write(folder / "08-4-multicast.svg")


def order(folder):
    """The first 66 of 32 × 32 squares in two orders, and the bands that they need."""
    picture = Picture(400, 228, "66 squares in rows need 3 bands of A and all 32 of B; in columns of 8 they need 8 and 9")
    cell, top = 5, 50

    def squares(left, title, need, place):
        picture.text(left, 20, title, size=13)
        chosen = {place(i) for i in range(66)}
        picture.box(left, top, 32 * cell, 32 * cell, "", "#ffffff")
        for row, column in sorted(chosen):
            picture.box(left + cell * column, top + cell * row, cell, cell, "", ORANGE)
        for column in sorted({column for _, column in chosen}):
            picture.box(left + cell * column, top - 12, cell, 8, "", GREEN)
        for row in sorted({row for row, _ in chosen}):
            picture.box(left - 12, top + cell * row, 8, cell, "", BLUE)
        picture.text(left, top + 32 * cell + 16, need, size=12)

    squares(24, "row by row", "3 bands of A, 32 of B", lambda i: (i // 32, i % 32))
    squares(224, "down columns of 8", "8 bands of A, 9 of B", lambda i: (i % 8, i // 8))
    picture.write(folder / "08-5-order.svg")
