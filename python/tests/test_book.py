"""The examples of the README and of the book's page on Python print what they show."""

import doctest
from pathlib import Path

import numpy as np

from warpkov import mdp

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "book" / "python.md"


def python_blocks(page):
    return [block.removeprefix("python\n") for block in page.split("```")[1::2] if block.startswith("python\n")]


def test_readme(tmp_path, monkeypatch, capsys):
    (block,) = python_blocks((ROOT / "README.md").read_text())
    monkeypatch.chdir(tmp_path)
    mdp.save(mdp.generate("grid", width=8, height=8), "grid.safetensors")
    exec(block, {})
    assert str(mdp.solve("grid.safetensors", gamma=0.95).values[0])[:6] in capsys.readouterr().out


def test_page():
    blocks = python_blocks(PAGE.read_text())
    assert len(blocks) > 5
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "python.md", str(PAGE), 0)
    assert len(test.examples) > 20
    messages = []
    with np.printoptions(legacy=False):
        result = doctest.DocTestRunner(verbose=False).run(test, out=messages.append)
    assert result.failed == 0, "".join(messages)
