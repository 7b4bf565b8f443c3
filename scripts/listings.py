#!/usr/bin/env python3
"""Writes what pages show of other files into the pages of the book. With --check: fails if a page is out of date.

A page names the files in a comment. Before a block of code, with several files one after another:

    <!-- listing ../../learn/exercises/00_vector_add/kernels.rs:part1 -->

Around text:

    <!-- text ../../learn/exercises/00_vector_add/hints.md -->
    <!-- end -->

After the colon stands the name of an ANCHOR, or FIRST:LAST, two numbers of lines; without a colon, it is the whole file.
"""

import re
import sys
import textwrap
from pathlib import Path

BOOK = Path(__file__).resolve().parent.parent / "book"
LISTING = re.compile(r"(<!-- listing ([^\n]+) -->\n)(`{3,}\w*)\n.*?\n?(`{3,})(?=\n)", re.DOTALL)
TEXT = re.compile(r"(<!-- text ([^\n]+) -->\n).*?(<!-- end -->)(?=\n)", re.DOTALL)
ANCHOR = re.compile(r"\bANCHOR(_END)?:\s*([\w-]+)")


def part(place, page):
    """The lines that PATH[:ANCHOR or :FIRST:LAST] names, without marks of anchors and common indentation."""
    path, _, wanted = place.partition(":")
    lines = (page.parent / path).read_text().splitlines()
    if re.fullmatch(r"\d+:\d+", wanted):
        first, last = map(int, wanted.split(":"))
        lines = lines[first - 1 : last]
    elif wanted:
        marks = [(found[1] is None, at) for at, line in enumerate(lines) if (found := ANCHOR.search(line)) and found[2] == wanted]
        if len(marks) != 2 or not marks[0][0] or marks[1][0]:
            sys.exit(f"{page}: {place}: expected one ANCHOR and one ANCHOR_END of this name")
        lines = lines[marks[0][1] + 1 : marks[1][1]]
    return textwrap.dedent("\n".join(line for line in lines if not ANCHOR.search(line))).strip("\n")


def listing(found, page):
    """A block of code, whose fence is longer than any in the code."""
    code = "\n".join(part(place, page) for place in found[2].split())
    fence = "`" * max([3, *(1 + len(run) for run in re.findall(r"^`{3,}", code, re.MULTILINE))])
    return f"{found[1]}{fence}{found[3].lstrip('`')}\n{code}\n{fence}"


def current(page):
    """The text of a page, with what other files hold now."""
    text = LISTING.sub(lambda found: listing(found, page), page.read_text())
    return TEXT.sub(lambda found: f"{found[1]}\n{part(found[2], page)}\n\n{found[3]}", text)


def main():
    """Writes, or checks."""
    stale = []
    for page in sorted(BOOK.rglob("*.md")):
        if (text := current(page)) != page.read_text():
            stale.append(str(page.relative_to(BOOK.parent)))
            if sys.argv[1:] != ["--check"]:
                page.write_text(text)
    if stale and sys.argv[1:] == ["--check"]:
        sys.exit(f"out of date, written by scripts/listings.py: {', '.join(stale)}")


if __name__ == "__main__":
    main()
