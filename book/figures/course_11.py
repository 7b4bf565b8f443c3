"""Chapter 11: a product with and without its matrix of scores, and the bits of a key."""

from svg import BLUE, GREEN, GREY, ORANGE, RED, Picture


def fused(folder):
    """The way of the scores in two kernels and in one."""
    picture = Picture(480, 300, "The scores pass through memory between two kernels, and stay in registers in one")
    picture.text(14, 24, "two kernels")
    picture.box(14, 36, 84, 40, "beliefs", BLUE)
    picture.box(14, 84, 84, 40, "vectors", BLUE)
    picture.box(134, 60, 76, 40, "product", GREY)
    picture.box(246, 36, 96, 88, "", RED)
    picture.text(294, 76, "B·n scores", "middle")
    picture.text(294, 96, "in memory", "middle", 12)
    picture.box(378, 36, 88, 36, "best", GREY)
    picture.box(378, 96, 88, 28, "winners", GREEN)
    picture.arrow(98, 56, 132, 72)
    picture.arrow(98, 104, 132, 88)
    picture.arrow(210, 80, 244, 80)
    picture.arrow(342, 56, 376, 54)
    picture.arrow(422, 72, 422, 94)
    picture.text(14, 172, "one kernel")
    picture.box(14, 184, 84, 40, "beliefs", BLUE)
    picture.box(14, 232, 84, 40, "vectors", BLUE)
    picture.box(134, 184, 208, 88, "", GREY)
    picture.text(238, 206, "product", "middle")
    picture.box(150, 214, 176, 26, "16 scores in registers", ORANGE, 12)
    picture.box(150, 242, 176, 26, "16 best keys in registers", ORANGE, 12)
    picture.box(378, 214, 88, 28, "winners", GREEN)
    picture.arrow(98, 204, 132, 220)
    picture.arrow(98, 252, 132, 236)
    picture.arrow(342, 228, 376, 228)
    picture.write(folder / "11-fused.svg")


def key(folder):
    """A score and an index in one integer."""
    picture = Picture(480, 130, "A key: the score in the high half, the complement of the index in the low half")
    picture.box(20, 40, 220, 36, "score, as an ordered integer", ORANGE, 13)
    picture.box(240, 40, 220, 36, "complement of the index", BLUE, 13)
    picture.text(20, 30, "bit 63", size=12)
    picture.text(236, 30, "32", "end", 12)
    picture.text(244, 30, "31", size=12)
    picture.text(460, 30, "0", "end", 12)
    picture.text(20, 100, "a larger score wins", size=13)
    picture.text(240, 100, "on a tie, the smaller index wins", size=13)
    picture.write(folder / "11-key.svg")


def figures(folder):
    """Writes the pictures of the chapter."""
    fused(folder)
    key(folder)
