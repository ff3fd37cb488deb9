"""The notebooks of docs/notebooks run from top to bottom as they stand, and none has an output stored."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import refreshlab as rl

folder = Path(__file__).resolve().parents[2] / "docs/notebooks"
#: Words that the outputs of each have.
SAID = {
    "first-run": ["entries replaced", "<svg", "tokens"],
    "tune-a-gate": ["widget-view", "set_parameter", "OverFill + entropy"],
    "a-policy-of-your-own": ["difference: None", "of the tokens are those of the full cache", "<svg"],
    "landscape": ["best single refresh at step", "<svg"],
    "figures-for-a-paper": ["<svg", "spliced"],
    "a-real-model": ["not fetched: refreshlab models get smollm2-135m"] if rl.published_models()["smollm2-135m"] is None else ["every 4 tokens", "<svg"],
}


def test_all_are_known():
    assert {path.stem for path in folder.glob("*.ipynb")} == set(SAID)
    assert all(f"({name}.ipynb)" in (folder / "README.md").read_text() for name in SAID)


@pytest.mark.parametrize("name", SAID)
def test_a_notebook_runs(name, tmp_path):
    notebook = nbformat.read(folder / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert all(cell.execution_count is None and not cell.outputs for cell in notebook.cells if cell.cell_type == "code")
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in outputs if output.get("name") == "stderr"], outputs
    text = "\n".join(str(output) for output in outputs)
    for words in SAID[name]:
        assert words in text, words
    if name == "first-run":
        assert [output for output in outputs if "image/svg+xml" in output.get("data", {})] and (tmp_path / "run.rlt").exists()
