"""The examples of both READMEs and of the book's page on Python print what they show."""

import doctest
from pathlib import Path

import numpy as np
import pytest

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


@pytest.mark.parametrize(("page", "least"), [(PAGE, 20), (ROOT / "python" / "README.md", 4)])
def test_page(page, least):
    blocks = python_blocks(page.read_text())
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page.name, str(page), 0)
    assert len(test.examples) > least
    messages = []
    with np.printoptions(legacy=False):
        result = doctest.DocTestRunner(verbose=False).run(test, out=messages.append)
    assert result.failed == 0, "".join(messages)
