"""Chapter 10: waits of a warp, and residency."""

from svg import BLUE, GREEN, ORANGE, Picture


def waits(folder):
    """The chain of dependent loads of a state in three versions."""
    picture = Picture(480, 310, "Loads of one state in three versions of the sweep")
    versions = [
        ("one entry after the other: 7 waits", ["p", "c", "v", "c", "v", "c", "v"]),
        ("all entries first: 3 waits", ["p", "ccc", "vvv"]),
        ("position loaded ahead: 2 waits", ["ccc", "vvv"]),
    ]
    colours = {"p": ORANGE, "c": BLUE, "v": GREEN}
    for i, (name, steps) in enumerate(versions):
        y = 40 + 84 * i
        picture.text(14, y - 10, name)
        for k, step in enumerate(steps):
            for n, kind in enumerate(step):
                picture.box(14 + 62 * k, y + 14 * n, 54, 12, "", colours[kind])
        if i == 2:
            picture.box(14, y + 42, 54, 12, "", ORANGE)
            picture.text(76, y + 54, "of the next state", size=12)
    for x, kind, text in ((240, "p", "position"), (322, "c", "col, prob"), (404, "v", "V(s')")):
        picture.box(x, 280, 14, 14, "", colours[kind])
        picture.text(x + 19, 292, text, size=12)
    picture.text(14, 292, "time goes to the right", size=12)
    picture.write(folder / "10-waits.svg")


def residency(folder):
    """Grids larger than what the GPU holds run in waves."""
    picture = Picture(480, 190, "A grid of a thread per state runs in waves, a resident grid does not")
    picture.text(14, 24, "a thread per state: blocks come and go")
    for wave in range(4):
        for slot in range(2):
            picture.box(14 + 112 * wave, 34 + 26 * slot, 84, 22, "states", BLUE, 12)
            picture.box(98 + 112 * wave, 34 + 26 * slot, 24, 22, "R", ORANGE, 12)
    picture.text(14, 112, "resident: each block takes the states of four")
    for slot in range(2):
        picture.box(14, 122 + 26 * slot, 336, 22, "states, states, states, states", BLUE, 12)
        picture.box(350, 122 + 26 * slot, 24, 22, "R", ORANGE, 12)
    picture.box(392, 122, 14, 14, "", ORANGE)
    picture.text(412, 134, "residual,", size=12)
    picture.text(392, 150, "one address", size=12)
    picture.write(folder / "10-residency.svg")


def figures(folder):
    """Writes the pictures of the chapter."""
    waits(folder)
    residency(folder)
