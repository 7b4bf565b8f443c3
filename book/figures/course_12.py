"""Chapter 12: a chain and a scan."""

from svg import BLUE, GREEN, GREY, ORANGE, Picture


def figures(folder):
    """Writes the pictures of the chapter."""
    picture = Picture(480, 330, "A chain of seven products, and a scan with three rounds")
    picture.text(12, 20, "a chain: 7 waits")
    for t in range(8):
        picture.box(20 + 56 * t, 32, 40, 26, f"M{t}", BLUE if t == 0 else GREY, 12)
        if t:
            picture.arrow(4 + 56 * t, 45, 19 + 56 * t, 45)
    picture.text(12, 90, "a scan: 3 waits")
    for level in range(4):
        y = 102 + 58 * level
        for t in range(8):
            first = max(0, t + 1 - 2**level)
            text = f"{first}…{t}" if first < t else f"{t}"
            colour = GREY if level == 0 else GREEN if first == 0 else ORANGE
            picture.box(20 + 56 * t, y, 40, 26, text, colour, 12)
            if level:
                distance = 2 ** (level - 1)
                picture.arrow(40 + 56 * t, y - 31, 40 + 56 * t, y - 1)
                if t >= distance:
                    picture.arrow(40 + 56 * (t - distance), y - 31, 36 + 56 * t, y - 1)
    picture.text(12, 322, "i…t: the product of the matrices i to t; green: complete", size=12)
    picture.write(folder / "12-scan.svg")
