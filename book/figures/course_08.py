"""Chapter 8: the roofline of the rungs, from the emulator's counts."""

import re
from math import log10
from pathlib import Path

from svg import BLUE, GREEN, GREY, INK, ORANGE, RED, Picture

COUNTS = Path(__file__).resolve().parent.parent / "course" / "generated" / "08_matrix_product"
# The size at which the emulator counts.
N = 128
# NVIDIA's data sheet of the H200 (SXM): memory 4.8 TB/s, FP32 67 TFLOP/s, TF32 989 TFLOP/s with sparsity, half without.
BANDWIDTH, FP32, TF32 = 4.8, 67, 989 / 2


def intensity(part):
    """FLOP per byte that the loads of a part ask for: requests ask for whole sectors."""
    text = (COUNTS / f"counts-{part}.txt").read_text(encoding="utf-8")
    sectors = sum(map(int, re.findall(r"× load, \d+ lanes, (\d+) sectors", text)))
    return 2 * N**3 / (32 * sectors)


def roofline(path):
    """The roofs of the H200, and a line up to its roof for each part."""
    picture = Picture(480, 380, "The roofline model of the H200 and the rungs of the matrix product")
    left, top, right, bottom = 60, 30, 464, 272

    def x(flop_per_byte):
        return round(left + (right - left) * (log10(flop_per_byte) + 1) / 4, 1)

    def y(tera_flop):
        return round(bottom - (bottom - top) * (log10(tera_flop) + 1) / 4, 1)

    for power in range(-1, 4):
        picture.line(x(10**power), top, x(10**power), bottom, GREY, 1)
        picture.line(left, y(10**power), right, y(10**power), GREY, 1)
        picture.text(x(10**power), bottom + 36, f"{10.0**power:g}", "middle" if power < 3 else "end", 13)
        picture.text(left - 8, y(10**power) + 4, f"{10.0**power:g}", "end", 13)
    picture.line(x(0.1), y(0.1 * BANDWIDTH), x(TF32 / BANDWIDTH), y(TF32))
    picture.line(x(FP32 / BANDWIDTH), y(FP32), right, y(FP32))
    picture.line(x(TF32 / BANDWIDTH), y(TF32), right, y(TF32))
    # Below their lines: no line of the grid is there.
    picture.text(right - 6, y(FP32) + 17, "FP32", "end", 13)
    picture.text(right - 6, y(TF32) + 17, "TF32", "end", 13)
    picture.text(left + 4, 184, "4.8 TB/s", size=13)
    rungs = {}
    for part in range(1, 6):
        rungs.setdefault(round(intensity(part), 2), []).append(part)
    for (value, parts), colour in zip(rungs.items(), (RED, ORANGE, BLUE, GREEN)):
        roof = min(BANDWIDTH * value, TF32 if 5 in parts else FP32)
        picture.line(x(value), bottom, x(value), y(roof), colour, 3)
        picture.parts.append(f'<circle cx="{x(value)}" cy="{y(roof)}" r="5" fill="{colour}" stroke="{INK}"/>')
        picture.text(x(value), bottom + 17, ", ".join(map(str, parts)), "middle", 13)
    picture.text(left - 8, bottom + 17, "part", "end", 13)
    picture.text((left + right) / 2, bottom + 57, "FLOP per byte of loads", "middle", 13)
    picture.text(8, 17, "TFLOP/s at most", size=13)
    picture.text(8, 352, "Peaks: NVIDIA's data sheet of the H200.", size=13)
    picture.text(8, 371, "Intensities: counts of the emulator.", size=13)
    picture.write(path)


def tiles(path):
    """The bands of A and of B that a tile of C needs: B is above C and A is beside it, so that rows and columns are in line."""
    picture = Picture(480, 366, "A tile of C needs a band of A and a band of B, in steps along k")
    size, tile, step = 110, 30, 22
    (a, c), (above, beside) = (120, 260), (34, 170)
    # The tile of C, from the matrix's corner.
    across, down = 40, 35
    picture.box(a, beside, size, size)
    picture.box(a, beside + down, size, tile, "", BLUE)
    picture.box(a + 40, beside + down, step, tile, "A", ORANGE, 13)
    picture.box(c, above, size, size)
    picture.box(c + across, above, tile, size, "", BLUE)
    picture.box(c + across, above + 40, tile, step, "B", ORANGE, 13)
    picture.box(c, beside, size, size)
    picture.box(c + across, beside + down, tile, tile, "C", GREEN, 13)
    picture.arrow(a, beside - 12, a + size, beside - 12)
    picture.text(a - 8, beside - 8, "k", "end", 13)
    picture.arrow(c - 12, above, c - 12, above + size)
    picture.text(c - 12, above - 8, "k", "middle", 13)
    legend = ((ORANGE, "tiles of one step, in shared memory"), (BLUE, "bands of a block"), (GREEN, "sums of a block"))
    for line, (colour, text) in enumerate(legend):
        picture.box(40, 298 + 22 * line, 14, 14, "", colour)
        picture.text(64, 310 + 22 * line, text, size=13)
    picture.write(path)


def figures(folder):
    """Writes the pictures of the chapter."""
    roofline(folder / "08-roofline.svg")
    tiles(folder / "08-tiles.svg")
