"""The examples of both READMEs, of the book's page on Python and of the manual print what they show."""

import ast
import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from warpkov import mdp

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "book" / "python.md"
MANUAL = sorted(page for part in ("tutorials", "how-to", "explanation") for page in (ROOT / "book" / part).glob("*.md"))


def python_blocks(page):
    return [block.removeprefix("python\n") for block in page.split("```")[1::2] if block.startswith("python\n")]


def test_readme(tmp_path, monkeypatch, capsys):
    (block,) = python_blocks((ROOT / "README.md").read_text())
    monkeypatch.chdir(tmp_path)
    mdp.save(mdp.generate("grid", width=8, height=8), "grid.safetensors")
    exec(block, {})
    assert str(mdp.solve("grid.safetensors", gamma=0.95).values[0])[:6] in capsys.readouterr().out


@pytest.mark.parametrize(("page", "least"), [(PAGE, 20), (ROOT / "python" / "README.md", 4)])
def test_page(page, least):
    blocks = python_blocks(page.read_text())
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page.name, str(page), 0)
    assert len(test.examples) > least
    messages = []
    with np.printoptions(legacy=False):
        result = doctest.DocTestRunner(verbose=False).run(test, out=messages.append)
    assert result.failed == 0, "".join(messages)


def blocks(page):
    """Kind, file name and text of each block."""
    for block in page.read_text().split("```")[1::2]:
        kind, text = block.split("\n", 1)
        kind, _, name = kind.partition(" ")
        yield kind, name, text


def warpkov(line):
    """The output of a command of a page, run as `python -m warpkov`; its exit code is that of the comment behind it."""
    command, _, code = line.partition(" # exit code ")
    name, *arguments = shlex.split(command)
    assert name == "warpkov", line
    done = subprocess.run(
        [sys.executable, "-m", "warpkov", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == int(code or 0), done.stderr
    return done.stdout + (done.stderr if code else "")


def is_like(text, pattern):
    """Whether a text matches a pattern, in which … matches any text."""
    parts = [part.removeprefix("\n") for part in pattern.split("…")]
    return re.match(".*?".join(map(re.escape, parts)), text, re.DOTALL) is not None


def modules(source):
    """The packages that a source imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module.partition(".")[0]


def test_manual_has_python():
    assert sum(kind == "python" for page in MANUAL for kind, _, _ in blocks(page)) >= 10


@pytest.mark.parametrize("page", MANUAL, ids=lambda page: page.stem)
def test_manual(page, tmp_path, monkeypatch):
    """Files, commands and examples of a page with Python, in its order."""
    found = list(blocks(page))
    if all(kind != "python" for kind, _, _ in found):
        return
    parser, known = doctest.DocTestParser(), {}
    sources = [text for kind, name, text in found if kind == "python" and name]
    examples = "".join(text for kind, name, text in found if kind == "python" and not name)
    sources += [example.source for example in parser.get_examples(examples)]
    for module in sorted({module for source in sources for module in modules(source)}):
        pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    for kind, name, text in found:
        if name:
            Path(name).write_text(text)
            continue
        if kind == "sh":
            printed = "".join(warpkov(line) for line in text.splitlines() if line)
        if kind == "text":
            assert is_like(printed, text), printed
        if kind == "python":
            test = parser.get_doctest(text, known, page.name, str(page), 0)
            assert test.examples, f"not an example: {text}"
            messages = []
            with np.printoptions(legacy=False):
                result = doctest.DocTestRunner(verbose=False).run(test, out=messages.append, clear_globs=False)
            assert result.failed == 0, "".join(messages)
            known = test.globs
