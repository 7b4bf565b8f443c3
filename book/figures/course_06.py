"""Chapter 6: two trees over the same eight sums, and a tree of shuffles."""

from svg import BLUE, GREEN, GREY, ORANGE, Picture


def tree(picture, x, title, pairs):
    """Draws the steps of a tree; `pairs` gives (target, source) of each step."""
    cell, gap = 26, 62
    picture.text(x + 4 * cell, 22, title, "middle")
    for step in range(len(pairs) + 1):
        y = 34 + gap * step
        targets = [target for target, _ in pairs[step - 1]] if step else []
        colours = [ORANGE if i in targets else (BLUE if step == 0 else GREY) for i in range(8)]
        picture.row(x, y, cell, range(8), colours)
        if step < len(pairs):
            for target, source in pairs[step]:
                to = y + gap
                picture.arrow(x + (source + 0.5) * cell, y + cell, x + (target + 0.65) * cell, to)
                picture.arrow(x + (target + 0.5) * cell, y + cell, x + (target + 0.5) * cell, to)


def figures(folder):
    """Writes the pictures of the chapter."""
    picture = Picture(480, 268, "Two trees that add eight numbers in three steps")
    interleaved = [[(i, i + d) for i in range(0, 8, 2 * d)] for d in (1, 2, 4)]
    halves = [[(i, i + d) for i in range(d)] for d in (4, 2, 1)]
    tree(picture, 16, "distances 1, 2, 4", interleaved)
    tree(picture, 256, "distances 4, 2, 1", halves)
    picture.write(folder / "06-trees.svg")

    picture = Picture(480, 190, "A block's reduction: registers, shuffles, one exchange through shared memory")
    for warp in range(4):
        x = 60 + 104 * warp
        picture.text(x + 44, 22, f"warp {warp}", "middle")
        picture.row(x, 30, 22, ["", "", "", ""], BLUE)
        picture.arrow(x + 44, 53, x + 44, 78)
        picture.box(x + 22, 79, 44, 24, "sum", GREEN, 12)
        picture.arrow(x + 44, 104, 196 + 22 * warp + 11, 132)
    picture.text(6, 46, "lanes", size=12)
    picture.text(6, 72, "shuffles", size=12)
    picture.text(6, 122, "barrier", size=12)
    picture.row(196, 133, 22, ["0", "1", "2", "3"], ORANGE)
    picture.text(6, 148, "shared", size=12)
    picture.text(6, 180, "The first warp reads the sums of the warps, and adds them by shuffles again.", size=12)
    picture.write(folder / "06-block.svg")
