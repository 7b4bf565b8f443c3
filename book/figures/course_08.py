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


def figures(folder):
    """Writes the pictures of the chapter."""
    picture = Picture(480, 330, "The roofline model of the H200 and the rungs of the matrix product")
    left, top, right, bottom = 52, 20, 456, 262

    def x(flop_per_byte):
        return round(left + (right - left) * (log10(flop_per_byte) + 1) / 4, 1)

    def y(tera_flop):
        return round(bottom - (bottom - top) * (log10(tera_flop) + 1) / 4, 1)

    def line(x1, y1, x2, y2, colour=INK, width=2):
        picture.parts.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}" stroke-width="{width}"/>'
        )

    for power in range(-1, 4):
        line(x(10**power), top, x(10**power), bottom, GREY, 1)
        line(left, y(10**power), right, y(10**power), GREY, 1)
        picture.text(x(10**power), bottom + 18, f"{10.0**power:g}", "middle", 12)
        picture.text(left - 6, y(10**power) + 4, f"{10.0**power:g}", "end", 12)
    line(x(0.1), y(0.1 * BANDWIDTH), x(TF32 / BANDWIDTH), y(TF32))
    line(x(FP32 / BANDWIDTH), y(FP32), right, y(FP32))
    line(x(TF32 / BANDWIDTH), y(TF32), right, y(TF32))
    picture.text(right, y(FP32) - 6, "FP32", "end", 12)
    picture.text(right, y(TF32) - 6, "TF32", "end", 12)
    picture.text(x(0.12), y(1.6), "4.8 TB/s", size=12)
    rungs = {}
    for part in range(1, 6):
        rungs.setdefault(round(intensity(part), 2), []).append(part)
    for (value, parts), colour in zip(rungs.items(), (RED, ORANGE, BLUE, GREEN)):
        roof = min(BANDWIDTH * value, TF32 if 5 in parts else FP32)
        line(x(value), bottom, x(value), y(roof), colour, 3)
        picture.parts.append(
            f'<circle cx="{x(value)}" cy="{y(roof)}" r="5" fill="{colour}" stroke="{INK}"/>'
        )
        label = " and ".join(map(str, parts))
        picture.text(x(value) - 5, bottom - 8, label, "end", 12)
    picture.text((left + right) / 2, bottom + 38, "FLOP per byte of loads (numbers at the lines: parts)", "middle", 12)
    picture.text(left, 14, "TFLOP/s at most", size=12)
    picture.text(6, 322, "Peaks: NVIDIA's data sheet of the H200. Intensities: counts of the emulator.", size=12)
    picture.write(folder / "08-roofline.svg")

    picture = Picture(480, 210, "A tile of C needs a band of A and a band of B, in steps along k")
    picture.box(40, 90, 150, 90, "", GREY)
    picture.box(40, 115, 150, 40, "", BLUE)
    picture.box(90, 115, 30, 40, "A", ORANGE)
    picture.box(230, 10, 150, 60, "", GREY)
    picture.box(280, 10, 50, 60, "", BLUE)
    picture.box(280, 25, 50, 20, "B", ORANGE, 12)
    picture.box(230, 90, 150, 90, "", GREY)
    picture.box(280, 115, 50, 40, "C", GREEN)
    picture.arrow(90, 105, 150, 105)
    picture.text(110, 102, "k", "middle", 12)
    picture.arrow(270, 20, 270, 66)
    picture.text(260, 46, "k", "middle", 12)
    picture.text(40, 200, "orange: tiles of one step, in shared memory   green: sums of a block", size=12)
    picture.write(folder / "08-tiles.svg")
