"""Chapter 7: the steps of a scan, and a look-back."""

from svg import BLUE, GREEN, GREY, ORANGE, Picture


def figures(folder):
    """Writes the pictures of the chapter."""
    picture = Picture(480, 250, "Three steps of Hillis and Steele scan eight elements")
    values, cell, x = [1] * 8, 36, 140
    for step in range(4):
        y = 20 + 64 * step
        distance = 2**step
        done = 2**step  # So many elements from the left are final.
        picture.row(x, y, cell, values, [GREEN if i < done else BLUE for i in range(8)])
        if step < 3:
            picture.text(10, y + 54, f"distance {distance}")
            for i in range(distance, 8):
                picture.arrow(x + (i - distance + 0.5) * cell, y + cell, x + (i + 0.4) * cell, y + 64)
            values = [value + (values[i - distance] if i >= distance else 0) for i, value in enumerate(values)]
    picture.text(10, 43, "eight ones")
    picture.text(10, 235, "sums")
    picture.write(folder / "07-steps.svg")

    picture = Picture(480, 150, "Tile 6 looks back over two aggregates to a prefix")
    names = ["P", "P", "P", "P", "A", "A", "?", "A"]
    colours = [GREEN] * 4 + [ORANGE] * 2 + [BLUE, GREY]
    for tile, (name, colour) in enumerate(zip(names, colours)):
        x = 16 + 57 * tile
        picture.text(x + 24, 22, f"tile {tile}", "middle", 12)
        picture.box(x, 30, 48, 34, name, colour)
    for tile, y in ((5, 84), (4, 94), (3, 104)):
        picture.arrow(16 + 57 * 6 + 24, 65, 16 + 57 * tile + 24, 66 + (6 - tile) * 8)
    picture.text(16, 118, "P: the prefix is released   A: only the aggregate", size=12)
    picture.text(16, 138, "before(6) = aggregate(5) + aggregate(4) + prefix(3)", size=12)
    picture.write(folder / "07-look-back.svg")
