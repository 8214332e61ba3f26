"""`gttf bench modes`: its graphs, its rows, and what it refuses to compare."""

import json
import pathlib
import sys
import types
from importlib.util import find_spec

import pytest
import torch

from gttf_sampler.bench import (
    command,
    in_memory,
    in_processes,
    modes,
    modes_pyg,
    peers,
    ratios,
    task_modes,
)
from gttf_sampler.bench.modes import GRAPHS, MODES
from gttf_sampler.cli.main import main

ROOT = pathlib.Path(__file__).parents[2]
MODULES = {"PyG": "torch_geometric", "DGL": "dgl"}


def silent(what, share):
    pass


def measured(graph, only=None, batches=6):
    """The result of one small job."""
    names = only or [mode.name for mode in MODES if mode.graph == graph]
    pytest.importorskip(MODULES[GRAPHS[graph].host])
    return task_modes.run(graph, names, 0.001, batches, 1, 0, silent)


@pytest.mark.parametrize("graph", list(GRAPHS))
def test_every_mode_runs(graph):
    """Ours whoever else is there, and a peer that is there does the same work."""
    found = measured(graph)
    rows = [row for group in found["groups"] for row in group["rows"]]
    wanted = [mode for mode in MODES if mode.graph == graph]
    assert {row["name"] for row in rows} == {mode.name for mode in wanted}
    reach = {mode.name: mode.reach for mode in MODES}
    refused = [entry for entry in found["left_out"] if "install" not in entry["why"]]
    for row in rows:
        assert row["best"] > 0
        assert row["edges"] > row["batch"] > 0
        assert row["ours"].startswith("gttf_")
        assert row["reach"] == reach[row["name"]]
        assert row["differs"] is None, row
        assert (row["peer"] is None) == (row["ratio"] is None)
        assert row["peer"] or found["left_out"]
    if GRAPHS[graph].host == "DGL" or find_spec("pyg_lib"):
        assert refused == []
        assert all(row["ratio"] > 0 for row in rows)


@pytest.mark.parametrize("graph", ["plain", "database"])
def test_modes_with_workers_stand_beside_none(graph):
    (name,) = (m.name for m in MODES if m.graph == graph and m.workers)
    (group,) = measured(graph, [name])["groups"]
    (row,) = group["rows"]
    assert group["columns"] == "workers"
    assert row["best"] > row["best_alone"] / 100 > 0
    assert row["batches"] == 6
    assert "6 batches" in row["mode"]


@pytest.fixture
def pretend(monkeypatch):
    """PyG's own classes are these, and can run."""

    def hire(**classes):
        module = types.ModuleType("pretended")
        vars(module).update(classes)
        monkeypatch.setitem(sys.modules, "pretended", module)
        kinds = modes_pyg.CLASSES.items()
        others = {k: named._replace(module="pretended") for k, named in kinds}
        monkeypatch.setattr(modes_pyg, "CLASSES", others)
        monkeypatch.setattr(peers, "pyg_backend", lambda: "pretended 1.0")

    return hire


def test_modes_compare_equal_work(pretend):
    pytest.importorskip("torch_geometric")
    import gttf_pyg

    pretend(NeighborLoader=gttf_pyg.NeighborLoader)
    found = measured("plain", ["plain", "node-time", "workers"])
    rows = [row for group in found["groups"] for row in group["rows"]]
    assert found["left_out"] == []
    for row in rows:
        assert row["peer"].endswith("NeighborLoader (pretended 1.0)")
        assert row["differs"] is None
        assert row["ratio"] == pytest.approx(row["theirs"] / row["best"])
        assert row["their_nodes"] == pytest.approx(row["nodes"], rel=0.02)
    assert rows[-1]["theirs_alone"] > 0


def test_modes_refuse_other_work(pretend, capsys, monkeypatch):
    """A peer that takes one neighbour less gets no ratio, and the status says so."""
    pytest.importorskip("torch_geometric")
    import gttf_pyg

    class Lazy(gttf_pyg.NeighborLoader):
        def __init__(self, data, num_neighbors, **kwargs):
            super().__init__(data, [n - 1 for n in num_neighbors], **kwargs)

    pretend(NeighborLoader=Lazy)
    found = measured("plain", ["disjoint", "workers"], batches=12)
    for group in found["groups"]:
        (row,) = group["rows"]
        assert row["ratio"] is None
        assert "edges where" in row["differs"]
    monkeypatch.setattr(in_processes, "run_job", lambda job, progress: found)
    assert main(["bench", "modes", "--only", "disjoint"]) == command.DISAGREEMENT
    assert "disjoint, [10, 5], batch 1,000: no ratio, " in capsys.readouterr().out


def test_modes_name_what_a_peer_cannot_do(pretend):
    pytest.importorskip("torch_geometric")

    def refuse(data, num_neighbors, **kwargs):
        raise ImportError("Weighted sampling needs more\nthan this")

    pretend(NeighborLoader=refuse)
    found = measured("plain", ["weighted"])
    (row,) = found["groups"][0]["rows"]
    assert row["peer"] is row["ratio"] is None
    assert row["best"] > 0
    (entry,) = found["left_out"]
    assert entry["peer"].endswith("NeighborLoader (pretended 1.0), weighted")
    assert entry["why"] == "Weighted sampling needs more"


def test_modes_without_a_host(monkeypatch, capsys):
    monkeypatch.setattr(peers, "load", lambda module: None)
    monkeypatch.setattr(peers, "version", lambda module: None)
    assert task_modes.run("cora", ["cora"], 0.1, 2, 1, 0, silent)["groups"] == []
    job = {"left_out": [{"peer": "PyG NeighborLoader", "why": "it is not installed"}]}
    monkeypatch.setattr(in_processes, "run_job", lambda *_: {"groups": [], **job})
    assert main(["bench", "modes"]) == command.FAILED
    assert "NeighborLoader: it is not installed" in capsys.readouterr().err


def test_modes_from_end_to_end(tmp_path, capsys):
    pytest.importorskip("torch_geometric")
    pytest.importorskip("matplotlib")
    files = [tmp_path / "out.json", tmp_path / "out.svg"]
    words = ["bench", "modes", "--only", "cora", "--scale", "0.1", "--batches", "8"]
    words += ["--rounds", "1", "--json", str(files[0]), "--plot", str(files[1])]
    assert main(words) == 0
    assert "plain, [10, 10], batch 64" in capsys.readouterr().out
    found = json.loads(files[0].read_text())
    assert found["command"] == " ".join(
        ["gttf", *words[:2], "--scale 0.1 --batches 8 --rounds 1 --only cora"]
    )
    (bar,) = ratios.bars(found)
    assert bar.graph.startswith("PyG: as small as Cora; 271 nodes")
    assert bar.name in files[1].read_text()
    assert found["settings"]["scale"] == 0.1


def test_modes_have_names_of_their_own():
    names = [mode.name for mode in MODES]
    assert len(set(names)) == len(names)
    assert modes.chosen(None) == list(MODES)
    assert [m.name for m in modes.chosen(["typed", "plain"])] == ["plain", "typed"]
    assert {mode.graph for mode in MODES} == set(GRAPHS)


def test_database_is_as_described():
    """Five tables, twelve relations; 14.6 million edges at full size."""
    made = in_memory.database(0.01, seed=1)
    assert made.nodes == {
        **{"user": 2000, "item": 1000, "order": 20_000, "review": 15_000},
        "shop": in_memory.FEWEST,
    }
    assert len(made.edges) == 12
    assert made.num_edges == pytest.approx(in_memory.DATABASE_EDGES / 100, rel=0.01)
    assert set(made.times) == {"order", "review", "user"}
    for (source, relation, target), ends in made.edges.items():
        assert (
            ends.amax(1) < torch.tensor([made.nodes[source], made.nodes[target]])
        ).all()
        if relation.startswith("has_"):
            back = made.edges[target, f"rev_{source}", source]
            assert torch.equal(back, ends.flip(0))
            share = (ends[1] < made.nodes[target] // 2).double().mean()  # P(r < ½^0.4)
            assert abs(share - 0.5**0.4) < 5 * (0.25 / ends.shape[1]) ** 0.5


def test_relational_mode_has_the_shape_of_the_example():
    """Its tables a hundred times as large, asked as the script asks."""
    made = in_memory.database(0.1, schema="relational")
    assert made.nodes == {"user": 8000, "item": 600, "order": 50_000, "review": 15_000}
    assert len(made.edges) == 8
    (mode,) = modes.chosen(["relational"])
    assert (mode.time, mode.options) == ("time", {"temporal_strategy": "last"})
    script = (ROOT / "examples" / "pyg_relational.py").read_text()
    assert f"GTTFLoader(data, {list(mode.fanouts)}, nodes, time" in script
    assert f"batch_size={mode.batch}" in script


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: in_memory.plain(500, 8.0, seed).col,
        lambda seed: in_memory.database(0.001, seed).edges["order", "has_user", "user"],
        lambda seed: in_memory.ring_of_types(4, 50, 90, seed).edges[
            "type3", "step2", "type1"
        ],
        lambda seed: in_memory.seed_times((3, 50), seed),
    ],
    ids=["plain", "database", "ring", "times"],
)
def test_graphs_in_memory_follow_their_seed(make):
    assert torch.equal(make(3), make(3))
    assert not torch.equal(make(3), make(4))


def test_plain_rows_in_memory_are_those_on_disk(tmp_path):
    from gttf_sampler import CompactAdj
    from gttf_sampler.bench import graphs

    graphs.make(tmp_path / "graph", 700, 9_000, seed=2)
    stored = CompactAdj.open(tmp_path / "graph")
    made = in_memory.plain(700, 9_000 / 700, seed=2)
    assert torch.equal(made.rowptr, stored.rowptr)
    assert torch.equal(made.col, stored.col)


def test_ring_of_types_has_as_many_relations_as_said():
    made = in_memory.ring_of_types(4, 100, 250)
    assert len(made.edges) == 8
    assert made.num_edges == 2000
    assert all(kind[0] != kind[2] for kind in made.edges)


@pytest.mark.parametrize(
    ("count", "said"), [(999, "999"), (30_460, "30.5 k"), (14_560_700, "14.6 M")]
)
def test_sizes_in_titles(count, said):
    assert task_modes.short(count) == said


def test_ratio_bars_say_what_is_missing():
    row = {"mode": "m", "best": 2.0, "theirs": 5.0, "ratio": 2.5, "differs": None}
    rows = [
        row,
        row | {"ratio": None, "differs": "5 edges where 9 are expected"},
        {"mode": "m", "best": 2.0, "ratio": None, "differs": None, "peer": None},
    ]
    found = ratios.bars({"groups": [{"title": "PyG: g", "rows": rows}]})
    notes = ["2 ms, peer 5 ms", "2 ms, peer 5 ms for other work", "2 ms"]
    assert [bar.note for bar in found] == notes


def test_docs_show_what_was_measured(tmp_path):
    """JSON → tables of the page → bars of its picture, and nothing else is touched."""
    pytest.importorskip("matplotlib")
    pictures = pytest.importorskip("docs.pictures")
    row = {"mode": "m, [1, 2]", "best": 2.0, "theirs": 5.0, "ratio": 2.5}
    row |= {"nodes": 9.0, "edges": 8.0, "peer": "PyG 1", "differs": None}
    odd = row | {"mode": "odd", "ratio": None, "differs": "5 edges where 9"}
    alone = {"mode": "alone", "best": 7.0, "ratio": None, "peer": None, "differs": None}
    slow = row | {"mode": "w", "best_alone": 1.0, "theirs_alone": 3.0, "ratio": 0.44}
    result = {
        "task": "modes",
        "command": "gttf bench modes",
        "machine": {"cpu": "CPU", "cores": 2},
        "groups": [
            {"title": "PyG: one; 9 nodes", "rows": [row, odd, alone]},
            {"title": "DGL: two", "columns": "workers", "rows": [slow]},
        ],
        "left_out": [{"peer": "PyG 1, odd", "why": "no"}],
        "notes": ["busy"],
    }
    begin, end = pictures.marks(pictures.MODES)
    page, text = f"before\n{begin}old\n{end}after\n", pictures.markdown(result)
    filled = pictures.fill(page, pictures.MODES, text)
    assert filled.startswith("before\n")
    assert filled.endswith("after\n")
    assert "old" not in filled
    assert "No ratio: odd: 5 edges where 9." in filled
    assert "Left out: PyG 1, odd: no." in filled
    bars = pictures.modes(filled)
    assert [(bar.graph, bar.name, bar.ratio) for bar in bars] == [
        ("PyG: one; 9 nodes", "m, [1, 2]", 2.5),
        ("PyG: one; 9 nodes", "odd", None),
        ("PyG: one; 9 nodes", "alone", None),
        ("DGL: two", "w", 0.44),
    ]
    assert bars[0].note == "2.00 ms, peer 5.00 ms"
    assert bars[2].note == "7.00 ms"
    assert bars[3].note == "2.00 s, peer 5.00 s"
    assert pictures.fill(filled, pictures.MODES, text) == filled
