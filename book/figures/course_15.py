"""Chapter 15: the parts of a project and what they check."""

from svg import BLUE, GREEN, ORANGE, RED, Picture


def figures(folder):
    """Writes the pictures of the chapter."""
    picture = Picture(480, 260, "A reference and two further kernels make the checks of a project meaningful")
    picture.box(20, 20, 120, 44, "reference", GREEN)
    picture.box(180, 100, 120, 44, "fast", BLUE)
    picture.box(20, 100, 120, 44, "plain", ORANGE)
    picture.box(340, 100, 120, 44, "wrong", RED)
    picture.box(180, 196, 120, 44, "budgets", GREEN)
    picture.arrow(80, 65, 80, 99)
    picture.arrow(141, 50, 200, 99)
    picture.arrow(141, 42, 380, 99)
    picture.text(20, 84, "agrees", size=12)
    picture.text(206, 92, "agrees", size=12)
    picture.text(330, 76, "must be caught", size=12)
    picture.arrow(240, 195, 240, 145)
    picture.arrow(190, 195, 110, 145)
    picture.text(248, 176, "met, and not loose", size=12)
    picture.text(20, 190, "exceeded at least once", size=12)
    picture.write(folder / "15-project.svg")
