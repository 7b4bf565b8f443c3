"""The steps before chapters 3 and 6: threads that exchange numbers."""

from math import exp

from svg import BLUE, GREEN, GREY, ORANGE, RED, Picture

CELL = 36


def figures(folder):
    """Writes the pictures of the steps."""
    neighbour(folder)
    reverse(folder)
    ballot(folder)
    compaction(folder)
    sliding_sum(folder)
    convolution(folder)
    life(folder)
    warp_sum(folder)
    block_max(folder)
    softmax(folder)


def through_tile(picture, reads):
    """Threads write a tile, wait at a barrier, and read: thread t reads element `reads[t]`."""
    left, values = 90, [3, 1, 4, 1, 5, 9, 2, 6]
    picture.text(12, 35, "x", size=13)
    picture.row(left, 12, CELL, values, BLUE, 13)
    picture.text(12, 92, "tile", size=13)
    picture.row(left, 69, CELL, values, BLUE, 13)
    picture.box(left - 6, 117, 8 * CELL + 12, 22, "barrier", GREY, 13)
    picture.text(12, 220, "y", size=13)
    picture.row(left, 197, CELL, [values[source] for source in reads], ORANGE, 13)
    for t, source in enumerate(reads):
        x = left + CELL * (t + 0.5)
        picture.arrow(x, 48, x, 68)
        picture.line(left + CELL * (source + 0.5), 105, left + CELL * (source + 0.5), 117, width=1.2)
        picture.arrow(left + CELL * (source + 0.5), 139, x, 196)


def neighbour(folder):
    """Thread t reads what thread t + 1 has written."""
    picture = Picture(400, 266, "Threads write a tile, wait at the barrier, and read the element of their right neighbour")
    through_tile(picture, [1, 2, 3, 4, 5, 6, 7, 0])
    picture.text(90, 256, "Thread t reads what thread t + 1 wrote.", size=13)
    picture.write(folder / "03-1-neighbour.svg")


def reverse(folder):
    """Thread t reads what the thread opposite has written."""
    picture = Picture(400, 266, "Threads write a tile, wait at the barrier, and read the element opposite")
    through_tile(picture, [7, 6, 5, 4, 3, 2, 1, 0])
    picture.text(90, 256, "Thread t reads element 7 − t of the tile.", size=13)
    picture.write(folder / "03-2-reverse.svg")


def ballot(folder):
    """A bit of each lane becomes a bit of one number, which all lanes get."""
    picture = Picture(400, 206, "Each lane gives one bit, and all lanes get all bits as one number")
    left, bits = 90, [0, 1, 0, 0, 1, 1, 0, 1]
    picture.text(12, 35, "lane", size=13)
    picture.row(left, 12, CELL, range(7, -1, -1), GREY, 13)
    colours = [GREEN if bit else GREY for bit in bits]
    picture.text(12, 77, "x > 0", size=13)
    picture.row(left, 54, CELL, ["yes" if bit else "no" for bit in bits], colours, 13)
    for k in range(8):
        picture.arrow(left + CELL * (k + 0.5), 90, left + CELL * (k + 0.5), 115)
    picture.text(12, 139, "bits", size=13)
    picture.row(left, 116, CELL, bits, colours, 13)
    picture.text(12, 176, "Bit k of the number is 1 if lane k says yes.", size=13)
    picture.text(12, 194, "Lane 6 counts the ones to the right of its own: 3.", size=13)
    picture.write(folder / "03-3-ballot.svg")


def compaction(folder):
    """A warp reserves places; a lane's place is the number of chosen lanes below it."""
    picture = Picture(400, 264, "Lanes 0, 2, 3 and 6 keep their numbers, at four places that the warp has reserved")
    left, values, bits = 90, [3, -1, 4, 1, -5, -9, 2, -6], [1, 0, 1, 1, 0, 0, 1, 0]
    picture.text(12, 35, "lane", size=13)
    picture.row(left, 12, CELL, range(8), GREY, 13)
    picture.text(12, 77, "x", size=13)
    colours = [GREEN if bit else GREY for bit in bits]
    picture.row(left, 54, CELL, [f"{value}".replace("-", "−") for value in values], colours, 13)
    picture.text(12, 119, "yes below", size=13)
    picture.row(left, 96, CELL, [sum(bits[:lane]) for lane in range(8)], colours, 13)
    picture.text(12, 205, "y", size=13)
    # Other warps have the places 0, 1, and those from 6 on.
    picture.row(left, 182, CELL, ["…", "…", *[value for value, bit in zip(values, bits) if bit], "…", "…"],
                [GREY] * 2 + [GREEN] * 4 + [GREY] * 2, 13)
    for lane in range(8):
        if bits[lane]:
            picture.arrow(left + CELL * (lane + 0.5), 132, left + CELL * (2 + sum(bits[:lane]) + 0.5), 181)
    picture.text(12, 238, "count was 2: the warp adds 4, and has places 2 to 5.", size=13)
    picture.text(12, 256, "A lane's place is 2 + the number of yes below it.", size=13)
    picture.write(folder / "03-4-compaction.svg")


def sliding_sum(folder):
    """Three neighbours make a sum; the tile has one element more than the block on each side."""
    picture = Picture(400, 176, "Six threads need a tile of eight elements: each adds three of them")
    left, values = 64, [2, 3, 1, 4, 1, 5, 9, 2]
    picture.text(12, 35, "tile", size=13)
    colours = [GREY, *[BLUE] * 2, *[ORANGE] * 3, BLUE, GREY]
    picture.row(left, 12, CELL, values, colours, 13)
    sums = [sum(values[i - 1 : i + 2]) for i in range(1, 7)]
    picture.text(12, 111, "y", size=13)
    picture.row(left + CELL, 88, CELL, sums, [ORANGE if i == 3 else BLUE for i in range(6)], 13)
    for i in (3, 4, 5):
        picture.arrow(left + CELL * (i + 0.5), 48, left + CELL * (4.5 + 0.2 * (i - 4)), 87)
    picture.text(12, 150, "Thread 3 adds elements 3, 4 and 5 of the tile: 4 + 1 + 5.", size=13)
    picture.text(12, 168, "grey: one element more on each side of the block", size=13)
    picture.write(folder / "06-1-sliding-sum.svg")


def convolution(folder):
    """A tile is longer than its block: it has a halo on both sides."""
    picture = Picture(400, 240, "A block of six threads needs a tile of ten elements: two more on each side")
    cell, left = 32, 72
    colours = [ORANGE] * 2 + [BLUE] * 6 + [ORANGE] * 2
    picture.text(left + cell, 24, "halo", "middle", 13)
    picture.text(left + 5 * cell, 24, "elements of the block", "middle", 13)
    picture.text(left + 9 * cell, 24, "halo", "middle", 13)
    picture.text(12, 54, "tile", size=13)
    picture.row(left, 32, cell, range(10), colours, 13)
    picture.text(12, 93, "weights", size=13)
    picture.row(left, 72, cell, [1, 4, 6, 4, 1], GREEN, 13)
    picture.text(12, 171, "block", size=13)
    picture.row(left + 2 * cell, 149, cell, [f"t{t}" for t in range(6)], BLUE, 13)
    for i in range(5):
        picture.arrow(left + cell * (i + 0.5), 72 + cell, left + cell * (2.5 + 0.15 * (i - 2)), 148)
    picture.text(12, 208, "Thread t reads elements t to t + 4 of the tile.", size=13)
    picture.text(12, 226, "The weights are divided by 16.", size=13)
    picture.write(folder / "06-2-convolution.svg")


def life(folder):
    """A cell and its eight neighbours."""
    picture = Picture(400, 272, "A cell with three living neighbours is alive in the next generation")
    cell, top = 32, 36
    now, after = {(1, 2), (2, 3), (3, 1), (3, 2), (3, 3)}, {(2, 1), (2, 3), (3, 2), (3, 3), (4, 2)}
    for side, (title, alive) in enumerate((("now", now), ("next", after))):
        left = 20 + 200 * side
        picture.text(left + 2.5 * cell, 24, title, "middle", 13)
        for row in range(5):
            for column in range(5):
                near = side == 0 and abs(row - 2) <= 1 and abs(column - 1) <= 1
                chosen = (row, column) == (2, 1)
                text = 3 if chosen and side == 0 else 1 if near and (row, column) in alive else ""
                colour = GREEN if (row, column) in alive else ORANGE if chosen else BLUE if near else GREY
                picture.box(left + cell * column, top + cell * row, cell, cell, text, colour, 13)
    picture.arrow(20 + 5 * cell + 4, top + 2.5 * cell, 216, top + 2.5 * cell)
    picture.text(12, 220, "green: alive; blue: neighbours of the orange cell", size=13)
    picture.text(12, 239, "3 living neighbours: alive next. 2: stays as it is.", size=13)
    picture.text(12, 258, "Any other number: dead next.", size=13)
    picture.write(folder / "06-3-life.svg")


def warp_sum(folder):
    """Three shuffles add eight lanes."""
    picture = Picture(400, 292, "In three steps, lane 0 gets the sum of eight lanes")
    left, values, step = 100, [3, 1, 4, 1, 5, 9, 2, 6], 70
    for k, distance in enumerate((4, 2, 1, 0)):
        y = 12 + step * k
        live = 2 * distance or 1
        picture.row(left, y, CELL, values[:live] + [""] * (8 - live), [BLUE] * live + [GREY] * (8 - live), 13)
        for lane in range(distance):
            picture.arrow(left + CELL * (lane + distance + 0.5), y + CELL, left + CELL * (lane + 0.7), y + step - 1)
            picture.arrow(left + CELL * (lane + 0.4), y + CELL, left + CELL * (lane + 0.4), y + step - 1)
        if distance:
            picture.text(12, y + 57, f"distance {distance}", size=13)
            values = [values[lane] + values[lane + distance] for lane in range(distance)]
    picture.text(12, 35, "8 lanes", size=13)
    picture.text(left, 280, "Lane 0 has the sum of all.", size=13)
    picture.write(folder / "06-4-warp-sum.svg")


def block_max(folder):
    """The maximum of each warp, and then of these."""
    picture = Picture(400, 236, "Each warp finds its maximum, and after a barrier the maximum of these")
    values = [[3, 1, 4, 1], [5, 9, 2, 6], [5, 3, 5, 8]]
    for k, (warp, colour) in enumerate(zip(values, (BLUE, ORANGE, GREEN))):
        left = 90 + 102 * k
        picture.text(left + 48, 24, f"warp {k}", "middle", 13)
        picture.row(left, 32, 24, warp, [colour if value == max(warp) else GREY for value in warp], 13)
        picture.arrow(left + 48, 56, left + 48, 85)
        picture.box(left + 33, 86, 30, 28, max(warp), colour, 13)
        picture.arrow(left + 48, 114, 195 + 30 * k + 15, 153)
        picture.box(195 + 30 * k, 154, 30, 28, max(warp), colour, 13)
    picture.arrow(240, 182, 240, 203)
    picture.box(225, 204, 30, 26, 9, RED, 13)
    picture.text(12, 49, "lanes", size=13)
    picture.text(12, 76, "shuffles", size=13)
    picture.text(12, 138, "barrier", size=13)
    picture.text(12, 173, "shared memory", size=13)
    picture.text(12, 198, "shuffles", size=13)
    picture.text(265, 222, "maximum of all", size=13)
    picture.write(folder / "06-5-block-max.svg")


def softmax(folder):
    """A row's maximum, its exponentials, and their sum."""
    picture = Picture(400, 242, "Softmax of a row: subtract the maximum, take exponentials, divide by their sum")
    left, cell, row = 100, 48, [1, 2, 4, 3]
    powers = [exp(value - max(row)) for value in row]
    rows = (
        ("row", [f"{value}" for value in row], BLUE),
        ("− maximum", [f"{value - max(row)}".replace("-", "−") for value in row], BLUE),
        ("exp", [f"{power:.2f}" for power in powers], BLUE),
        ("/ sum", [f"{power / sum(powers):.2f}" for power in powers], ORANGE),
    )
    for k, (title, texts, colour) in enumerate(rows):
        y = 12 + 54 * k
        picture.text(12, y + 20, title, size=13)
        for i, text in enumerate(texts):
            picture.box(left + cell * i, y, cell, 30, text, colour, 13)
            if k:
                picture.arrow(left + cell * (i + 0.5), y - 24, left + cell * (i + 0.5), y - 1)
    picture.text(left + 4 * cell + 10, 32, "maximum 4", size=13)
    picture.text(left + 4 * cell + 10, 140, f"sum {sum(powers):.2f}", size=13)
    picture.text(12, 230, "The results of a row add up to 1.", size=13)
    picture.write(folder / "06-6-softmax.svg")
