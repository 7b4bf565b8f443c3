"""Chapter 0: threads and elements."""

from svg import BLUE, GREY, ORANGE, Picture


def figures(folder):
    """Writes the pictures of the chapter."""
    picture = Picture(480, 150, "Two blocks of four threads add vectors of six elements")
    for block, colour in enumerate((BLUE, ORANGE)):
        picture.text(110 + 160 * block, 22, f"block {block}")
        texts = [f"t{thread}" for thread in range(4)]
        colours = [colour if 4 * block + thread < 6 else GREY for thread in range(4)]
        picture.row(90 + 160 * block, 32, 36, texts, colours)
    picture.text(20, 55, "threads")
    picture.text(20, 125, "z")
    for i in range(6):
        x = 90 + 36 * i + (16 if i >= 4 else 0)
        picture.row(x, 102, 36, [i], [BLUE if i < 4 else ORANGE])
        picture.arrow(x + 18, 69, x + 18, 101)
    picture.text(330, 100, "no element:", size=12)
    picture.text(330, 116, "guarded by i < n", size=12)
    picture.write(folder / "00-threads.svg")
