"""The notebooks run, their assertions hold, and each ends in a picture. Where nbclient and ipykernel are installed."""

import base64
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("matplotlib")

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def test_each_model_class_and_application_has_one():
    assert [path.stem for path in NOTEBOOKS] == ["cpg", "hmm", "mdp", "pomdp", "regimes"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code), "committed with outputs"
    assert sum(cell.source.count("assert ") for cell in code) > 4
    client = nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    images = [output.data["image/png"] for output in code[-1].outputs if "image/png" in output.get("data", {})]
    assert len(images) == 1
    png = base64.b64decode(images[0])
    # An empty pair of axes has about 3 kB.
    assert png.startswith(b"\x89PNG") and len(png) > 10_000
