"""Other systems, Table 4 and larger graphs in `examples/reproduce`."""

import json
import pathlib
import sys
from dataclasses import replace

import pytest
import torch

from exact import one_thread as one_thread

pytest.importorskip("torch_geometric")
pytest.importorskip("tqdm")
# behind an installed package, which is the one to test
sys.path.append(str(pathlib.Path(__file__).parents[2]))

from examples.reproduce import (
    __main__,
    costs,
    larger_pages,
    race_chart,
    samplers,
    systems,
    table4,
)
from examples.reproduce.cells import MEMORY, SECONDS, TABLE_4
from examples.reproduce.config import METHODS
from examples.reproduce.data import planted
from examples.reproduce.store import Store
from examples.reproduce.tasks import Task
from gttf_sampler.bench.machine import Missing

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.parametrize("way", systems.LABELS)
def test_race(way):
    if samplers.missing(way):
        pytest.skip(samplers.missing(way))
    found = systems.race(way, planted(), METHODS["gcn"], 0, budget=0.2)
    seconds, scores = zip(*found["curve"], strict=True)
    assert list(seconds) == sorted(seconds)
    assert found["seconds"] == pytest.approx(seconds[-1], abs=1e-3)
    assert found["val"] == pytest.approx(max(scores), abs=1e-3)
    assert 0 <= found["first step"] <= found["seconds"]
    assert found["steps"] >= 1
    assert 20 < found["nodes per step"] <= 240
    assert 0 < found["test"] <= 100
    assert json.loads(json.dumps(found)) == found


def test_race_keeps_to_its_budget():
    found = systems.race("full", planted(), METHODS["gcn"], 0, budget=0.5)
    pace = found["seconds"] / found["steps"]
    assert 0.5 <= found["seconds"] < 0.5 + 20 * pace
    marks = list(systems.marks(0.5))
    assert marks[0] == 0.5 / 64
    assert marks[-1] == 0.5
    assert marks == sorted(marks)


def test_clusters_have_every_training_node_once():
    pytest.importorskip("pymetis")
    data = planted()
    method = replace(METHODS["gcn"], options={"parts": 6, "together": 2})
    drawn = samplers.batches(method, data, "cluster", 0)
    trained, seen = [], []
    while len(trained) < data.train.numel():
        batch = next(drawn)
        trained += batch.node[: batch.size].tolist()
        seen += batch.node.tolist()
        inside = torch.isin(data.edge_index, batch.node).all(0)
        ends = {tuple(pair) for pair in batch.node[batch.edge_index].T.tolist()}
        assert ends == {tuple(pair) for pair in data.edge_index[:, inside].T.tolist()}
    assert sorted(trained) == sorted(data.train.tolist())
    assert len(seen) == len(set(seen))  # parts do not overlap


def test_nodewise_batches_are_neighbourhoods():
    data, method = planted(), METHODS["gcn"]
    batch = next(samplers.batches(method, data, "nodewise", 0))
    assert torch.equal(batch.node[: batch.size], data.train)
    degree = torch.bincount(batch.edge_index[1], minlength=batch.node.numel())
    assert degree.max() <= max(method.fanouts)
    known = {tuple(pair) for pair in data.edge_index.T.tolist()}
    assert {tuple(p) for p in batch.node[batch.edge_index].T.tolist()} <= known


def test_clusters_need_pymetis(monkeypatch):
    monkeypatch.setattr(samplers, "find_spec", lambda name: None)
    assert "pip install" in samplers.missing("cluster")
    assert samplers.missing("saint") is None


def raced(ways=("full", "gttf")):
    runs = [
        {
            **{"way": way, "seed": seed, "val": 80.0 + seed, "test": 79.0 + seed},
            **{"first step": 0.5, "seconds": 8.5, "steps": 81, "nodes per step": 30.0},
            "curve": [[0.5, 40.0], [1.0, 60.0 + seed], [8.5, 80.0 + seed]],
        }
        for seed in range(2)
        for way in ways
    ]
    found = {"dataset": "cora", "budget": 8.0, "left out": {}, "notes": []}
    return {**found, "runs": runs}


def test_race_table_and_chart(tmp_path):
    found = {**raced(), "left out": {"cluster": "it needs wings"}}
    lines = race_chart.markdown(found).splitlines()
    expected = "| GTTF | 79.5 ± 0.7 | 60.5 | 81 | 100.0 | 30 | 0.50 |"
    assert expected in lines
    assert lines[-1] == "ClusterGCN: it needs wings."
    assert set(race_chart.COLORS) == set(systems.LABELS)
    pytest.importorskip("matplotlib")
    race_chart.draw([found, raced()], tmp_path / "new" / "race.png")
    assert (tmp_path / "new" / "race.png").stat().st_size > 10_000


def test_table_4_has_ratios_beside_those_of_the_paper():
    row = {"metric": MEMORY, "dataset": "cora", "nodes": 9, "edges": 20}
    row |= {"DGL": 0.03, "PyG": 0.008, "GTTF": 0.01, "left out": []}  # GB
    slow = {**row, "metric": SECONDS, "dataset": "reddit", "DGL": 3.0, "GTTF": 2.0}
    slow.pop("PyG")
    slow["left out"] = [{"peer": "PyG", "why": "no pyg-lib"}]
    lines = table4.markdown(
        {"command": "this", "notes": [], "rows": [row, slow]}
    ).splitlines()
    assert lines[4].endswith("| 30 | 8 | 10 | 3.0 × | 3.4 × | 0.8 × | 3.8 × |")
    assert lines[5].endswith("| 3.0 |  | 2.0 | 1.5 × | 9.6 × |  | 3.2 × |")
    assert lines[-1] == "Left out: PyG: no pyg-lib."


def test_table_4_measures_memory(monkeypatch):
    missing = Missing([{"peer": "PyG", "why": "it is far away"}])
    monkeypatch.setattr(table4.gcn_memory, "subjects", lambda: (["gttf"], missing))
    found = table4.run(scale=0.03, only=["cora"], metrics=["memory"])
    (row,) = found["rows"]
    assert (row["metric"], row["dataset"]) == (MEMORY, "cora")
    assert row["nodes"] == 81
    assert row["GTTF"] > 0
    assert row["left out"] == missing
    said = "table4 --scale 0.03 --only cora --metrics memory"
    assert found["command"].endswith(said)
    assert json.loads(json.dumps(found)) == found


def test_table_4_knows_who_is_who():
    peers = ["gttf_pyg.GTTFLoader", "PyG 2.8.1 NeighborLoader", "DGL 1.1.3 x", "dgl"]
    assert [table4._framework(peer) for peer in peers] == ["GTTF", "PyG", "DGL", "DGL"]
    assert set(table4.SIZES) | set(table4.EPOCHS) == {name for _, name in TABLE_4}


def test_costs_are_those_of_training():
    task = Task("gcn", "planted", "pyg", "gttf", 0)
    found = costs.train(task, METHODS["gcn"], planted(), 3)
    assert 0 < found["best"] <= found["s per epoch"]
    assert 40 < found["nodes per step"] < 240


def test_costs_refuse_what_is_not_there(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["costs", "--root", str(tmp_path)])
    with pytest.raises(SystemExit):
        costs.main()
    assert "amazon_electronics_computers.npz" in capsys.readouterr().err


def costly():
    rows = [
        {
            **{"method": "gcn", "dataset": "computers", "host": "dgl", "way": way},
            **{"s per epoch": 0.1 * (i + 1), "peak MB": 100.0 * (i + 1)},
        }
        for i, way in enumerate(costs.WAYS)
    ]
    return {"command": "this", "notes": [], "left out": {}, "rows": rows}


def test_pages_of_larger_graphs(tmp_path):
    assert set(larger_pages.blocks(tmp_path).values()) == {larger_pages.NOTHING}
    store = Store(tmp_path / "larger")
    for seed in range(3):
        for way, score in {"full": 80.0, "gttf": 80.2, "neighbor": 79.0}.items():
            task = Task("sage", "computers", "dgl", way, seed)
            store.add(task, {"test": score + seed})
    (tmp_path / "larger" / "costs.json").write_text(json.dumps(costly()), "utf-8")
    (tmp_path / "systems_cora.json").write_text(json.dumps(raced()), "utf-8")
    found = larger_pages.blocks(tmp_path)
    line = found["larger graphs"].splitlines()[2]
    assert line.startswith("| Amazon Computers, SAGE, DGL | 81.0 ± 1.0 | 81.2 ± 1.0 |")
    assert line.endswith("| +0.2 | +0.2 … +0.2 | equal | 3 of 5 |")
    line = found["costs of larger graphs"].splitlines()[4]
    assert line.endswith("| 0.100 | 0.200 | 0.300 | 100 | 200 | 300 |")
    assert "| GTTF |" in found["systems on cora"]


def test_page_shows_what_was_measured():
    """Every block is on the page, and says what the records say."""
    pictures = pytest.importorskip("docs.pictures")
    page = (ROOT / "docs" / "reproduce.md").read_text("utf-8")
    for name, text in larger_pages.blocks().items():
        begin, end = pictures.marks(name)
        assert f"{begin}\n{text}\n{end}" in page


def test_list_is_printed(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["reproduce", "--list"])
    __main__.main()
    told = capsys.readouterr().out
    for name in ("wys-livejournal", "sage-products", "gcnii-pubmed", "gcn-reddit"):
        assert name in told
    assert "needs --root DIR with Reddit/raw/reddit_data.npz" in told
