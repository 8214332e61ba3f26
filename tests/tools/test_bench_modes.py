"""`gttf bench modes`: its graphs, its rows, and what it refuses to compare."""

import json
import pathlib
from importlib.util import find_spec

import pytest
import torch

from gttf_sampler.bench import graphs, loader, report
from gttf_sampler.bench.hosts import hosts
from gttf_sampler.bench.machine import Missing
from gttf_sampler.bench.measure import Options
from gttf_sampler.cli import bench as command
from gttf_sampler.cli.main import main

ROOT = pathlib.Path(__file__).parents[2]
EVERY = loader.chosen_modes(None, Missing())
GRAPHS = list(dict.fromkeys(mode.graph for _, mode in EVERY))


def silent(what, share):
    pass


def measured(graph, only=None, batches=6):
    """The result of one small job."""
    names = only or [mode.name for _, mode in EVERY if mode.graph == graph]
    options = {"only": names, "scale": 0.001, "batches": batches, "rounds": 1}
    return loader.run_modes(vars(Options(**options)), silent)


@pytest.mark.parametrize("graph", GRAPHS)
def test_every_mode_runs(graph):
    """Ours whoever else is there, and a peer that is there does the same work."""
    found = measured(graph)
    rows = [row for group in found["groups"] for row in group["rows"]]
    wanted = {mode.name: mode for _, mode in EVERY if mode.graph == graph}
    assert {row["name"] for row in rows} == set(wanted)
    for row in rows:
        assert row["best"] > 0
        assert row["edges"] > row["batch"] > 0
        assert row["ours"].startswith("gttf_")
        assert row["reach"] == wanted[row["name"]].reach
        assert row["differs"] is None, row
        assert (row["peer"] is None) == (row["ratio"] is None)
        assert row["peer"] or found["left_out"]
    if rows[0]["host"] == "DGL" or find_spec("pyg_lib"):
        assert all(row["ratio"] > 0 for row in rows)


@pytest.mark.parametrize("graph", ["plain", "database"])
def test_modes_with_workers_stand_beside_none(graph):
    names = [m.name for _, m in EVERY if m.graph == graph and m.workers]
    if not names:
        pytest.skip("torch-geometric is not installed")
    (group,) = measured(graph, names)["groups"]
    (row,) = group["rows"]
    assert group["columns"] == "workers"
    assert row["best"] > row["best_alone"] / 100 > 0
    assert row["batches"] == 6
    assert "6 batches" in row["mode"]


@pytest.fixture
def pretend(monkeypatch):
    """PyG's own loader is this class, and can run."""
    pytest.importorskip("torch_geometric")
    from gttf_pyg import _bench_modes as _bench

    def hire(loader):
        ours, _ = _bench.CLASSES_OF["nodes"]
        monkeypatch.setitem(_bench.CLASSES_OF, "nodes", (ours, loader))
        monkeypatch.setattr(_bench, "backend", lambda: "pretended 1.0")

    return hire


def left_out(found):
    """The peers that could not run, beside a host that is not installed."""
    missing = [] if find_spec("dgl") else ["gttf_dgl"]
    return [entry for entry in found["left_out"] if entry["peer"] not in missing]


def test_modes_compare_equal_work(pretend):
    import gttf_pyg

    pretend(gttf_pyg.NeighborLoader)
    found = measured("plain", ["plain", "node-time", "workers"])
    rows = [row for group in found["groups"] for row in group["rows"]]
    assert left_out(found) == []
    for row in rows:
        assert row["peer"].endswith("Loader (pretended 1.0)")
        assert row["differs"] is None
        assert row["ratio"] == pytest.approx(row["theirs"] / row["best"])
        assert row["their_nodes"] == pytest.approx(row["nodes"], rel=0.02)
    assert rows[-1]["theirs_alone"] > 0


def test_modes_refuse_other_work(pretend, capsys, monkeypatch):
    """A peer that takes one neighbour less gets no ratio, and the status says so."""
    import gttf_pyg

    class Lazy(gttf_pyg.NeighborLoader):
        def __init__(self, data, num_neighbors, **kwargs):
            super().__init__(data, [n - 1 for n in num_neighbors], **kwargs)

    pretend(Lazy)
    found = measured("plain", ["disjoint", "workers"], batches=12)
    for group in found["groups"]:
        (row,) = group["rows"]
        assert row["ratio"] is None
        assert "edges a batch where" in row["differs"]
    monkeypatch.setattr(loader, "run_job", lambda job, report: found)
    assert main(["bench", "modes", "--only", "disjoint"]) == command.DISAGREEMENT
    assert "disjoint, [10, 5], batch 1,000: no ratio, " in capsys.readouterr().out


def test_modes_name_what_a_peer_cannot_do(pretend):
    class Refuses:
        def __init__(self, data, num_neighbors, **kwargs):
            raise ImportError("Weighted sampling needs more\nthan this")

    pretend(Refuses)
    found = measured("plain", ["weighted"])
    (row,) = found["groups"][0]["rows"]
    assert row["peer"] is row["ratio"] is None
    assert row["best"] > 0
    (entry,) = left_out(found)
    assert entry["peer"].endswith("Refuses (pretended 1.0), weighted")
    assert entry["why"] == "Weighted sampling needs more"


def test_modes_without_a_host(monkeypatch, capsys):
    def nobody(missing):
        missing.add("gttf_pyg", "it is not installed")
        return []

    monkeypatch.setattr(loader, "hosts", nobody)
    assert main(["bench", "modes"]) == command.FAILED
    assert "gttf_pyg: it is not installed" in capsys.readouterr().err


def test_modes_from_end_to_end(tmp_path, capsys):
    pytest.importorskip("torch_geometric")
    pytest.importorskip("matplotlib")
    files = [tmp_path / "out.json", tmp_path / "out.svg"]
    words = ["bench", "modes", "--scale", "0.1", "--batches", "8", "--rounds", "1"]
    words += ["--only", "cora"]
    assert main([*words, "--json", str(files[0]), "--plot", str(files[1])]) == 0
    assert "plain, [10, 10], batch 64" in capsys.readouterr().out
    found = json.loads(files[0].read_text())
    assert found["command"] == " ".join(["gttf", *words])
    (group,) = found["groups"]
    assert group["title"].startswith("PyG: as small as Cora; 271 nodes")
    assert "plain, [10, 10], batch 64" in files[1].read_text()
    assert found["settings"]["scale"] == 0.1


def test_modes_have_names_of_their_own():
    names = [mode.name for _, mode in EVERY]
    assert len(set(names)) == len(names)
    with pytest.raises(ValueError, match=r"'--only' must name some of .*\(got "):
        loader.chosen_modes(["nothing"], Missing())
    for host in hosts(Missing()):
        assert {mode.graph for mode in host.modes} == set(host.graphs)


def test_database_is_as_described():
    """Five tables, twelve relations; 14.6 million edges at full size."""
    pytest.importorskip("torch_geometric")
    made = graphs.database(0.01, seed=1)
    assert made.nodes == {
        **{"user": 2000, "item": 1000, "order": 20_000, "review": 15_000},
        "shop": graphs.FEWEST,
    }
    assert len(made.edges) == 12
    assert made.num_edges == pytest.approx(graphs.EDGES / 100, rel=0.01)
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
    pytest.importorskip("torch_geometric")
    made = graphs.database(0.1, schema="relational")
    assert made.nodes == {"user": 8000, "item": 600, "order": 50_000, "review": 15_000}
    assert len(made.edges) == 8
    ((_, mode),) = loader.chosen_modes(["relational"], Missing())
    assert (mode.time, mode.options) == ("time", {"temporal_strategy": "last"})
    script = (ROOT / "examples" / "pyg_relational.py").read_text()
    assert f"GTTFLoader(data, {list(mode.fanouts)}, nodes, time" in script
    assert f"batch_size={mode.batch}" in script


def test_graphs_in_memory_follow_their_seed():
    pytest.importorskip("torch_geometric")
    for make in (
        lambda seed: graphs.plain(500, 8.0, seed).col,
        lambda seed: graphs.database(0.001, seed).edges["order", "has_user", "user"],
        lambda seed: graphs.seed_times((3, 50), seed),
    ):
        assert torch.equal(make(3), make(3))
        assert not torch.equal(make(3), make(4))


def test_plain_rows_in_memory_are_those_on_disk(tmp_path):
    from gttf_sampler import CompactAdj

    graphs.make(tmp_path / "graph", 700, 9_000, seed=2)
    stored = CompactAdj.open(tmp_path / "graph")
    made = graphs.plain(700, 9_000 / 700, seed=2)
    assert torch.equal(made.rowptr, stored.rowptr)
    assert torch.equal(made.col, stored.col)


def test_ring_of_types_has_as_many_relations_as_said():
    made = graphs.ring(4, 100, 2.5)
    assert len(made.edges) == 8
    assert made.num_edges == 2000
    assert all(kind[0] != kind[2] for kind in made.edges)


@pytest.mark.parametrize(
    ("count", "said"), [(999, "999"), (30_460, "30.5 k"), (14_560_700, "14.6 M")]
)
def test_sizes_in_titles(count, said):
    assert loader.short(count) == said


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
    groups = pictures.modes(filled)
    assert [group["title"] for group in groups] == ["PyG: one; 9 nodes", "DGL: two"]
    rows = [row for group in groups for row in group["rows"]]
    assert [(row["mode"], row["ratio"]) for row in rows] == [
        ("m, [1, 2]", 2.5),
        ("odd", None),
        ("alone", None),
        ("w", 0.44),
    ]
    assert (rows[0]["best"], rows[0]["theirs"]) == (2.0, 5.0)
    assert rows[2]["theirs"] is None
    assert pictures.fill(filled, pictures.MODES, text) == filled
    report.bars(pictures.Figure().subplots(), groups[0], report.TABLES["modes"])
