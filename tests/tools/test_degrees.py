"""The comparison of ways to normalise runs, resumes, and writes what it found."""

import json
import pathlib
import re
import sys

import pytest

pytest.importorskip("torch_geometric")

from examples.degrees import __main__ as command
from examples.degrees import table

ROOT = pathlib.Path(__file__).parents[2]


def run(monkeypatch, folder, *options):
    """The command, on the planted partition."""
    argv = ["degrees", "--results", str(folder), "--steps", "2", *options]
    monkeypatch.setattr(sys, "argv", argv)
    command.main()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_degrees_runs_and_resumes(monkeypatch, tmp_path, capsys):
    ways = ("--ways", "full", "sampled", "unbiased", "layerwise")
    run(monkeypatch, tmp_path, "--splits", "1", "--models", "gcn", "appnp", *ways)
    runs = json.loads((tmp_path / "planted-gcn.json").read_text())
    assert [one["way"] for one in runs] == ["full", "sampled", "unbiased"]
    appnp = json.loads((tmp_path / "planted-appnp.json").read_text())
    assert [one["way"] for one in appnp][-1] == "layerwise"
    run(monkeypatch, tmp_path, "--splits", "2", "--models", "gcn", *ways)
    more = json.loads((tmp_path / "planted-gcn.json").read_text())
    assert [one for one in more if one["split"] == 0] == runs
    assert len(more) == 6
    assert (tmp_path / "table.md").read_text() in capsys.readouterr().out
    assert (tmp_path / "accuracy.png").exists()


def test_degrees_table():
    runs = [
        {"graph": "cora", "model": "gcn", "way": way, "test": test}
        for way, test in (("full", 80.0), ("full", 82.0), ("unbiased", 81.0))
    ]
    assert table.markdown(runs).splitlines()[2] == "| Cora | GCN | 81.0 ± 1.4 | 81.0 |"


def test_degrees_tables_of_the_pages_are_those_of_the_results():
    runs = command.read(ROOT / "examples" / "degrees" / "results")
    page = (ROOT / "docs" / "normalise.md").read_text("utf-8")
    assert table.markdown(runs) in page
    cells = [line.split("|")[1:] for line in page.splitlines() if "| GCN |" in line]
    gcn = {row[0].strip(): {cell.strip() for cell in row[2:]} for row in cells}
    readme = (ROOT / "README.md").read_text("utf-8")
    shown = re.findall(r"\d+\.\d ± \d+\.\d", readme)
    assert len(shown) == 3
    assert set(shown) <= gcn["Amazon Computers"]
