"""Chapter 2: which bytes a request touches."""

from svg import BLUE, GREEN, GREY, ORANGE, RED, Picture


def figures(folder):
    """Writes the pictures of the chapter."""
    chunks(folder)
    layouts(folder)
    wide(folder)


def chunks(folder):
    """A chunk per thread, or neighbouring lanes on neighbouring elements."""
    picture = Picture(480, 170, "First request of four lanes: one element of each chunk, or four neighbours")
    for side, title in enumerate(("a chunk per thread: lane t reads 4t + k", "neighbours: lane t reads 4k + t")):
        y = 34 + 74 * side
        picture.text(20, y - 8, title, size=12)
        lanes = [i // 4 if side == 0 else i % 4 for i in range(16)]
        first = [i % 4 == 0 if side == 0 else i < 4 for i in range(16)]
        colours = [(RED if side == 0 else GREEN) if now else GREY for now in first]
        picture.row(20, y, 27, [f"t{lane}" for lane in lanes], colours)
    picture.text(20, 160, "coloured: the request for k = 0", size=12)
    picture.write(folder / "02-chunks.svg")


def layouts(folder):
    """An array of structs, and a struct of arrays."""
    picture = Picture(480, 176, "Four particles of four fields: the request for the field m")
    fields = "xvmq"
    picture.text(20, 24, "array of structs: number 4·i + field", size=12)
    picture.row(20, 32, 27, [f"{field}{i}" for i in range(4) for field in fields],
                [RED if field == "m" else GREY for _ in range(4) for field in fields])
    picture.text(20, 94, "struct of arrays: number field·n + i", size=12)
    picture.row(20, 102, 27, [f"{field}{i}" for field in fields for i in range(4)],
                [GREEN if field == "m" else GREY for field in fields for _ in range(4)])
    picture.text(20, 160, "coloured: what four lanes read by one request for the mass m", size=12)
    picture.write(folder / "02-layouts.svg")


def wide(folder):
    """Four elements per lane, and padding."""
    picture = Picture(480, 110, "Eleven elements and one of padding: three threads take four each")
    picture.text(20, 24, "n = 11: three threads take four elements each", size=12)
    picture.row(20, 34, 36, [*range(11), ""], [BLUE] * 4 + [ORANGE] * 4 + [GREEN] * 3 + [GREY])
    for i in range(3):
        picture.text(20 + 144 * i + 72, 92, f"t{i}", "middle", 12)
    picture.write(folder / "02-wide.svg")
