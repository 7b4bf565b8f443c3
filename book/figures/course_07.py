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

    picture = Picture(480, 184, "Tile 6 looks back over two aggregates to a prefix")
    names = ["P", "P", "P", "P", "A", "A", "?", "A"]
    colours = [GREEN] * 4 + [ORANGE] * 2 + [BLUE, GREY]
    left, pitch, width, top, bottom = 16, 57, 48, 30, 64
    for tile, (name, colour) in enumerate(zip(names, colours)):
        x = left + pitch * tile
        picture.text(x + width / 2, 22, f"tile {tile}", "middle", 13)
        picture.box(x, top, width, bottom - top, name, colour)
    # Each arrow has a level of its own below the tiles, so that none crosses another.
    for back in (1, 2, 3):
        start, target = left + pitch * 6 + 12 * back, left + pitch * (6 - back) + width / 2
        level = bottom + 18 * back
        picture.route((start, bottom), (start, level), (target, level), (target, bottom + 2))
    picture.text(16, 150, "P: the prefix is released   A: only the aggregate", size=13)
    picture.text(16, 172, "before(6) = aggregate(5) + aggregate(4) + prefix(3)", size=13)
    picture.write(folder / "07-look-back.svg")
