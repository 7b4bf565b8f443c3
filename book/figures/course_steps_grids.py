"""The steps before chapters 0, 1 and 2: which thread has which element."""

from svg import BLUE, GREEN, GREY, ORANGE, RED, Picture

CELL = 36


def figures(folder):
    """Writes the pictures of the steps."""
    add_ten(folder)
    zipped(folder)
    guard(folder)
    blocks(folder)
    map_2d(folder)
    broadcast(folder)
    index_types(folder)
    sectors(folder)


def threads(picture, y, count, colours, left=76):
    """Threads 0, 1, … in a row, with an arrow from above and one to below each."""
    picture.text(12, y + 23, "threads", size=13)
    picture.row(left, y, CELL, [f"t{i}" for i in range(count)], colours, 13)


def down(picture, y, count, left=76, gap=20):
    """An arrow from each of the boxes above to the one below."""
    for i in range(count):
        x = left + CELL * (i + 0.5)
        picture.arrow(x, y, x, y + gap)


def add_ten(folder):
    """A thread for each element."""
    picture = Picture(400, 190, "Eight threads add ten to eight elements, one each")
    x = [3, 1, 4, 1, 5, 9, 2, 6]
    picture.text(12, 35, "x", size=13)
    picture.row(76, 12, CELL, x, BLUE, 13)
    down(picture, 48, 8)
    threads(picture, 69, 8, GREY)
    down(picture, 105, 8)
    picture.text(12, 149, "y", size=13)
    picture.row(76, 126, CELL, [value + 10 for value in x], ORANGE, 13)
    picture.text(76, 180, "Thread i: y[i] = x[i] + 10.", size=13)
    picture.write(folder / "00-1-add-ten.svg")


def zipped(folder):
    """Element i of both inputs goes to thread i."""
    picture = Picture(400, 228, "Thread i reads element i of two inputs and writes element i of the result")
    x, y = [3, 1, 4, 1, 5, 9, 2, 6], [2, 7, 1, 8, 2, 8, 1, 8]
    picture.text(12, 35, "x", size=13)
    picture.row(76, 12, CELL, x, BLUE, 13)
    picture.text(12, 71, "y", size=13)
    picture.row(76, 48, CELL, y, GREEN, 13)
    down(picture, 84, 8)
    threads(picture, 105, 8, GREY)
    down(picture, 141, 8)
    picture.text(12, 185, "z", size=13)
    picture.row(76, 162, CELL, [a * b for a, b in zip(x, y)], ORANGE, 13)
    picture.text(76, 217, "Thread i: z[i] = x[i] · y[i].", size=13)
    picture.write(folder / "00-2-zip.svg")


def guard(folder):
    """Two of eight threads have no element."""
    picture = Picture(400, 168, "Of eight threads, the last two have no element")
    threads(picture, 12, 8, [BLUE] * 6 + [RED] * 2)
    down(picture, 48, 6, gap=38)
    picture.text(12, 110, "y", size=13)
    picture.row(76, 87, CELL, range(6), BLUE, 13)
    picture.text(286, 70, "no element", size=13)
    picture.text(76, 144, "n = 6: threads 0 to 5 have an element.", size=13)
    picture.text(76, 161, "Threads 6 and 7 must not touch memory.", size=13)
    picture.write(folder / "00-3-guard.svg")


def blocks(folder):
    """Numbers of blocks and threads make numbers of elements."""
    picture = Picture(400, 196, "Thread t of block b, of four threads each, has element 4 b + t")
    for block, colour in enumerate((BLUE, ORANGE, GREEN)):
        left = 12 + 129 * block
        picture.text(left + 59, 26, f"block {block}", "middle", 13)
        for t in range(4):
            x = left + 29.5 * t
            picture.box(x, 34, 29.5, 30, f"t{t}", colour, 13)
            element = 12 + 31.3 * (4 * block + t)
            picture.arrow(x + 14.75, 64, element + 15.6, 103)
    for i in range(12):
        picture.box(12 + 31.3 * i, 104, 31.3, 30, i, (BLUE, ORANGE, GREEN)[i // 4], 13)
    picture.text(12, 162, "Thread 2 of block 1 has element 1 · 4 + 2 = 6:", size=13)
    picture.text(12, 182, "number of the block · threads of a block + thread.", size=13)
    picture.write(folder / "00-4-blocks.svg")


def map_2d(folder):
    """x is the column, y is the row."""
    picture = Picture(400, 250, "A block of 4 by 4 threads covers a matrix of 3 rows and 4 columns")
    cell, top = 38, 46
    for side, title in enumerate(("threads (x, y)", "elements of the buffer")):
        left = (28, 228)[side]
        picture.text(left + 2 * cell, 20, title, "middle", 13)
        for k in range(4):
            picture.text(left + cell * (k + 0.5), 40, k, "middle", 13)
            if side == 0 or k < 3:
                picture.text(left - 14, top + cell * (k + 0.5) + 5, k, size=13)
        for row in range(4 - side):
            for column in range(4):
                text = f"{column},{row}" if side == 0 else 4 * row + column
                chosen = (row, column) == (1, 2)
                colour = ORANGE if chosen else GREY if row == 3 else BLUE
                picture.box(left + cell * column, top + cell * row, cell, cell, text, colour, 13)
    picture.text(228, 178, "no row 3: no element", size=13)
    picture.arrow(28 + 4 * cell + 2, top + 1.5 * cell, 211, top + 1.5 * cell)
    picture.text(12, 222, "Thread (x, y) = (2, 1) has column 2 of row 1.", size=13)
    picture.text(12, 240, "Row 0 has elements 0 to 3; row 1 begins with 4.", size=13)
    picture.write(folder / "01-1-map-2d.svg")


def broadcast(folder):
    """An element of the result needs one of the column and one of the row."""
    picture = Picture(400, 226, "Element (r, c) of the result is element r of a plus element c of b")
    cell, left, top = 38, 118, 58
    a, b = [10, 20, 30], [1, 2, 3, 4, 5]
    picture.text(left - 18, 35, "b", "middle", 13)
    picture.text(31, 72, "a", "middle", 13)
    picture.row(left, 12, cell, b, [ORANGE if c == 3 else GREY for c in range(5)], 13)
    for r in range(3):
        picture.box(50, top + cell * r, cell, cell, a[r], BLUE if r == 1 else GREY, 13)
        for c in range(5):
            colour = GREEN if (r, c) == (1, 3) else ORANGE if c == 3 else BLUE if r == 1 else GREY
            picture.box(left + cell * c, top + cell * r, cell, cell, a[r] + b[c], colour, 13)
    picture.arrow(89, top + 1.5 * cell, left - 1, top + 1.5 * cell)
    picture.text(322, 122, "out", size=13)
    picture.text(12, 198, "Thread (row 1, column 3): 20 + 4 = 24. All threads of", size=13)
    picture.text(12, 216, "a row read one number of a; of a column, one of b.", size=13)
    picture.write(folder / "01-2-broadcast.svg")


def index_types(folder):
    """A product in 32 bits loses its upper half."""
    picture = Picture(400, 186, "The product of 69 999 and 70 000 fits into 64 bits and not into 32")

    def digits(number):
        return f"{number:,}".replace(",", "\u202f")

    row, columns = 69_999, 70_000
    upper, lower = divmod(row * columns, 2**32)
    picture.text(12, 26, f"row · columns = {digits(row)} · {digits(columns)}", size=13)
    for y, title, colour in ((38, "u64", GREEN), (76, "u32", RED)):
        picture.text(12, y + 20, title, size=13)
        picture.box(218, y, 170, 30, digits(lower), colour, 13)
    picture.box(60, 38, 158, 30, upper, GREEN, 13)
    picture.text(139, 96, "lost", "middle", 13)
    picture.text(139, 128, "upper 32 bits", "middle", 13)
    picture.text(303, 128, "lower 32 bits", "middle", 13)
    picture.text(12, 168, f"{upper} · 2³² + {digits(lower)} = {digits(row * columns)}", size=13)
    picture.write(folder / "01-3-index-types.svg")


def sectors(folder):
    """Eight lanes and four sectors of eight floats."""
    picture = Picture(400, 226, "Eight lanes that read every second float touch two sectors of eight floats")
    for side, (title, lanes) in enumerate((("8 lanes, neighbours", range(8)), ("8 lanes, every second float", range(0, 16, 2)))):
        y = 40 + 92 * side
        picture.text(12, y - 10, title, size=13)
        lanes = list(lanes)
        for i in range(16):
            lane = lanes.index(i) if i in lanes else ""
            touched = any(i // 8 == other // 8 for other in lanes)
            colour = (ORANGE if lane != "" else BLUE) if touched else GREY
            picture.box(12 + 23 * i + (8 if i >= 8 else 0), y, 23, 26, lane, colour, 13)
        for sector in range(2):
            picture.text(12 + 92 + 192 * sector, y + 44, f"sector {sector}", "middle", 13)
    picture.text(12, 202, "numbers: lanes; blue: bytes that arrive for nothing", size=13)
    picture.text(12, 219, "first 1 sector, then 2 sectors", size=13)
    picture.write(folder / "02-1-sectors.svg")
