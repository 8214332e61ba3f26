"""The benchmark of the loaders runs, and writes what it prints."""

import json
import os
import runpy
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch_geometric", reason="gttf_pyg needs torch-geometric")
pytest.importorskip("tqdm")

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_bench_loader(tmp_path, monkeypatch, capsys):
    """Without DGL, whose loader warns, so that there is one peer to wait for."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setitem(sys.modules, "dgl", None)
    path = os.pathsep.join(entry for entry in sys.path if entry)
    monkeypatch.setenv("PYTHONPATH", path)
    options = ["--graphs", "tiny", "--rounds", "1", "--batches", "2"]
    file = tmp_path / "loader.json"
    monkeypatch.setattr(sys, "argv", ["bench", *options, "--json", str(file)])
    runpy.run_path(str(EXAMPLES / "bench_loader.py"), run_name="__main__")
    (found,) = json.loads(file.read_text())["tiny"].values()
    assert found["ms"] > 0
    assert found["nodes"] > 1024
    if sys.platform == "linux":
        assert 0 <= found["peak_gb"] < 1
    assert f"{found['ms']:.2f} ms" in capsys.readouterr().out
