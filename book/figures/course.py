#!/usr/bin/env python3
"""Draws the pictures of the course into book/course/figures. With --check: fails if they are out of date."""

import filecmp
import importlib
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = HERE.parent / "course" / "figures"


def draw(folder):
    """Draws all chapters."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(HERE.glob("course_*.py")):
        importlib.import_module(path.stem).figures(folder)


def main():
    """Draws, or checks."""
    sys.path.insert(0, str(HERE))
    if sys.argv[1:] != ["--check"]:
        draw(TARGET)
        return
    with tempfile.TemporaryDirectory() as folder:
        draw(Path(folder))
        names = sorted({path.name for place in (Path(folder), TARGET) for path in place.iterdir()})
        _, differ, missing = filecmp.cmpfiles(folder, TARGET, names, shallow=False)
    if differ or missing:
        sys.exit(f"out of date, written by book/figures/course.py: {', '.join(differ + missing)}")


if __name__ == "__main__":
    main()
