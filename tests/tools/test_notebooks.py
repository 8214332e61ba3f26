"""The notebooks run, and print what they are kept with."""

import contextlib
import io
import json
import pathlib

import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "examples" / "notebooks"
NEEDS = {
    "pyg_in_five_minutes": ["torch_geometric"],
    "dgl_in_five_minutes": ["dgl"],
    "karate_club": ["networkx", "matplotlib"],
    "shop_database": ["torch_geometric", "pandas", "matplotlib"],
}
PICTURES = {"karate_club": 2, "shop_database": 1}


def printed(cell):
    """The output kept with a cell."""
    streams = [out for out in cell["outputs"] if out["output_type"] == "stream"]
    return "".join("".join(out["text"]) for out in streams)


def test_every_notebook_is_tested():
    assert {file.stem for file in FOLDER.glob("*.ipynb")} == set(NEEDS)


@pytest.mark.parametrize("name", NEEDS)
@pytest.mark.filterwarnings("ignore:Dataloader CPU affinity")
def test_notebook_prints_what_it_says(name):
    for module in NEEDS[name]:
        pytest.importorskip(module)
    cells = json.loads((FOLDER / f"{name}.ipynb").read_text("utf-8"))["cells"]
    names = {"__name__": "__main__"}
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            said = io.StringIO()
            code = compile("".join(cell["source"]), f"{name}, cell {number}", "exec")
            with contextlib.redirect_stdout(said):
                exec(code, names)
            assert said.getvalue() == printed(cell), f"{name}, cell {number}"


@pytest.mark.parametrize("name", NEEDS)
def test_notebook_is_kept_with_outputs_and_no_place_of_a_machine(name):
    text = (FOLDER / f"{name}.ipynb").read_text("utf-8")
    cells = [c for c in json.loads(text)["cells"] if c["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in cells)
    assert any(cell["outputs"] for cell in cells)
    assert "site-packages" not in text
    assert "/home/" not in text
    assert not any(out.get("name") == "stderr" for c in cells for out in c["outputs"])
    data = [out.get("data", {}) for c in cells for out in c["outputs"]]
    assert sum("image/png" in one for one in data) == PICTURES.get(name, 0)
