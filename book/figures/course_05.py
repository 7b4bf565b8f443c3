"""Chapter 5: parts of a fault report, and order between blocks."""

from svg import BLUE, GREEN, GREY, ORANGE, RED, Picture


def figures(folder):
    """Writes the pictures of the chapter."""
    report(folder)
    order(folder)


def report(folder):
    """The lines of a report."""
    picture = Picture(480, 216, "A report says where, what, who, and what may be missing")
    rows = (
        ("where", "kernel, block, threads", BLUE),
        ("what", "kind of fault, element, memory", RED),
        ("who, first", "thread, access, file:line", ORANGE),
        ("who, second", "thread, access, file:line", ORANGE),
        ("why, perhaps", "hint: a question, not a verdict", GREEN),
        ("again", "order of threads: repeats the fault", GREY),
    )
    for i, (name, text, colour) in enumerate(rows):
        picture.box(20, 14 + 32 * i, 130, 26, name, colour, 12)
        picture.text(164, 32 + 32 * i, text)
    picture.write(folder / "05-report.svg")


def order(folder):
    """A block releases, another one acquires."""
    picture = Picture(480, 214, "A release and an acquire order a write before a read of another block")
    picture.text(90, 22, "block 0", "middle")
    picture.text(390, 22, "block 1 (arrives last)", "middle")
    picture.box(20, 34, 140, 28, "parts[0] = 17", BLUE, 12)
    picture.box(20, 84, 140, 28, "arrived: 0 → 1", ORANGE, 12)
    picture.text(20, 128, "release", size=12)
    picture.box(320, 104, 140, 28, "arrived: 1 → 2", ORANGE, 12)
    picture.text(320, 148, "acquire", size=12)
    picture.box(320, 158, 140, 28, "read parts[0]", GREEN, 12)
    picture.arrow(90, 62, 90, 83)
    picture.arrow(390, 132, 390, 157)
    picture.arrow(160, 98, 319, 118)
    picture.text(180, 92, "reads its value", size=12)
    picture.text(12, 206, "An arrow means “happens before”. Relaxed operations give none.", size=12)
    picture.write(folder / "05-order.svg")
