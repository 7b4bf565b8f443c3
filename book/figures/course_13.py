"""Chapter 13: where the counters of a thread are."""

from svg import BLUE, GREEN, GREY, ORANGE, RED, Picture


def figures(folder):
    """Writes the pictures of the chapter."""
    picture = Picture(480, 300, "An array with a variable index lies in memory, one with constant indices in registers")
    picture.text(12, 22, "counts[state] += 1")
    picture.box(12, 34, 110, 40, "registers", BLUE)
    picture.box(180, 34, 120, 40, "L1 cache", ORANGE)
    picture.box(350, 34, 118, 40, "local memory", RED)
    picture.arrow(123, 46, 179, 46)
    picture.arrow(179, 62, 123, 62)
    picture.arrow(301, 46, 349, 46)
    picture.arrow(349, 62, 301, 62)
    picture.text(12, 96, "An address is computed; a load, an addition and a store; each waits.", size=12)
    picture.text(12, 140, "counts[k] += (state == k), for all k")
    for k in range(8):
        picture.box(12 + 57 * k, 152, 52, 30, f"r{k}", GREEN if k == 5 else BLUE, 12)
        picture.box(12 + 57 * k, 196, 52, 24, "+ 1" if k == 5 else "+ 0", GREEN if k == 5 else GREY, 12)
        picture.arrow(38 + 57 * k, 195, 38 + 57 * k, 183)
    picture.text(12, 246, "state = 5: eight comparisons and additions, no address, no memory", size=12)
    picture.text(12, 276, "A register has no address: its number is part of the instruction.", size=12)
    picture.write(folder / "13-registers.svg")
