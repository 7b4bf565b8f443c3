"""Chapter 3: updates that get lost, and private histograms."""

from svg import BLUE, GREEN, GREY, ORANGE, RED, Picture


def figures(folder):
    """Writes the pictures of the chapter."""
    lost(folder)
    private(folder)


def lost(folder):
    """Two threads read 7, and both write 8."""
    picture = Picture(480, 190, "Two threads read 7, add 1, and write 8: one count is lost")
    picture.text(60, 24, "thread a", "middle")
    picture.text(240, 24, "bins[3]", "middle")
    picture.text(420, 24, "thread b", "middle")
    for y, value in ((36, 7), (124, 8)):
        picture.box(210, y, 60, 28, value, GREEN if value == 7 else RED)
    picture.box(20, 56, 90, 26, "read 7", BLUE, 12)
    picture.box(370, 72, 90, 26, "read 7", ORANGE, 12)
    picture.box(20, 100, 90, 26, "write 8", BLUE, 12)
    picture.box(370, 124, 90, 26, "write 8", ORANGE, 12)
    picture.arrow(210, 54, 112, 67)
    picture.arrow(270, 58, 368, 82)
    picture.arrow(110, 114, 208, 132)
    picture.arrow(370, 138, 272, 138)
    picture.text(20, 180, "Two elements, one count. An atomic add reads and writes in one step.", size=12)
    picture.write(folder / "03-lost.svg")


def private(folder):
    """Histograms of blocks are added to the result."""
    picture = Picture(480, 190, "Each block counts in its shared memory, and adds its histogram to the result")
    for block, colour in enumerate((BLUE, ORANGE, GREEN)):
        x = 20 + 155 * block
        picture.text(x + 65, 22, f"block {block}: 8 elements", "middle", 12)
        picture.row(x, 32, 33, [(3, 0, 1, 4), (2, 5, 0, 1), (6, 1, 1, 0)][block], colour)
        picture.arrow(x + 66, 66, 190 + 50 * block, 118)
    picture.text(20, 140, "one atomic add per", size=12)
    picture.text(20, 156, "bin and block", size=12)
    picture.row(172, 120, 33, (11, 6, 2, 5), GREY)
    picture.text(172, 172, "bins, in global memory", size=12)
    picture.write(folder / "03-private.svg")
