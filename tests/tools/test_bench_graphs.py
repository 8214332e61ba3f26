"""Made graphs and given ones."""

import numpy as np
import pytest
import torch

from gttf_sampler import CompactAdj
from gttf_sampler.bench import graphs
from gttf_sampler.bench.machine import RefusedError


def silent(what, share):
    pass


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "graph"
    graphs.make(folder, 20_000, 400_000)
    return CompactAdj.open(folder, verify=True).validate()


def test_made_graph_has_the_size_asked_for(made):
    assert made.num_rows == made.num_cols == 20_000
    # a sum of independent degrees, 5 standard errors; rounding to 1 adds a little
    error = float(made.degree.double().std()) * 20_000**0.5
    assert abs(made.num_edges - 400_000) < 5 * error
    assert int(made.degree.min()) >= 1
    assert made.max_degree <= 10_000


def test_made_graph_has_no_edge_twice(made):
    source, target = made.to_edge_index()
    assert (target * made.num_rows + source).unique().numel() == made.num_edges


@pytest.mark.parametrize("side", ["in", "out"])
def test_made_graph_has_a_power_law(made, side):
    """The tail index of degrees is 2, that is an exponent of 3 (Hill's estimator)."""
    degree = made.degree
    if side == "out":
        degree = made.col.long().bincount(minlength=made.num_rows)
    top = degree.double().sort(descending=True).values[:401]
    index = 1 / (top[:400] / top[400]).log().mean()
    assert 1.5 < float(index) < 2.7


def test_made_graph_does_not_depend_on_pieces(tmp_path, monkeypatch):
    """The same call gives the same bytes; another seed gives others."""
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        graphs.make(tmp_path / name, 500, 5000, seed=seed)
    a, b, c = (CompactAdj.open(tmp_path / name) for name in "abc")
    assert torch.equal(a.col, b.col)
    assert not torch.equal(a.rowptr, c.rowptr)
    monkeypatch.setattr(graphs, "PIECE", 64)
    ticks = []
    graphs.make(tmp_path / "d", 500, 5000, tick=ticks.append)
    assert ticks == sorted(ticks)
    assert ticks[-1] == 1.0
    assert len(ticks) == 500 // (64 * 500 // 5000) + 2  # pieces, and the end
    CompactAdj.open(tmp_path / "d").validate()


def test_made_graph_needs_room(tmp_path):
    with pytest.raises(ValueError, match=r"'--scale' must leave a graph .*--tmp"):
        graphs.check_room(tmp_path, 10**12, 10**14)
    graphs.check_room(tmp_path, 10, 100)


@pytest.mark.parametrize(
    ("name", "scale", "nodes"),
    [("reddit-like", None, 232_965), ("papers-like", None, 1_110_600)],
)
def test_scaled(name, scale, nodes):
    size = graphs.scaled(name, scale)
    real = graphs.SIZES[name]
    assert size.nodes == nodes
    assert size.edges / size.nodes == pytest.approx(real.edges / real.nodes, rel=1e-3)


EDGES = [[0, 1, 2, 2], [1, 2, 0, 1]]


def write(path, kind):
    source, target = np.array(EDGES)
    if kind == "list":
        path.write_text("# comment\n10 20\n20 30\n30 10\n30 20\n")
    elif kind == "edge_index":
        np.savez(path, edge_index=np.array(EDGES))
    elif kind == "row, col":
        np.savez(path, row=source, col=target)
    elif kind.startswith("scipy"):
        sparse = pytest.importorskip("scipy.sparse")
        matrix = sparse.coo_array((np.ones(4), (source, target)), shape=(3, 3))
        sparse.save_npz(path, matrix.asformat(kind[-3:]))
    elif kind == "csr":
        np.savez(path, indptr=[0, 1, 3, 4], indices=[2, 0, 2, 1])
    else:
        CompactAdj.from_edge_index(EDGES).save(path)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("list", "edges.txt"),
        ("edge_index", "edges.npz"),
        ("row, col", "edges.npz"),
        ("csr", "rows.npz"),
        *((f"scipy {form}", "matrix.npz") for form in ("csr", "csc", "coo")),
        ("saved", "folder"),
    ],
)
def test_inputs(tmp_path, kind, name):
    write(tmp_path / name, kind)
    facts = graphs.read_job(str(tmp_path / name), str(tmp_path / "graph"), silent)
    assert (facts["nodes"], facts["edges"], facts["max_degree"]) == (3, 4, 2)
    adj = CompactAdj.open(facts["place"])
    rows = [sorted(row.tolist()) for row in adj.col.split(adj.degree.tolist())]
    assert rows == [[2], [0, 2], [1]]
    assert (adj.edge_id is None) == (kind != "saved")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("one\n", "must have two columns"),
        ("", "must hold at least one edge"),
    ],
)
def test_inputs_refuse(tmp_path, content, match):
    file = tmp_path / "edges.txt"
    file.write_text(content)
    with pytest.raises(RefusedError, match=f"--graph .*edges.txt: .*{match}"):
        graphs.read_job(str(file), str(tmp_path / "graph"), silent)


def test_inputs_refuse_other_arrays(tmp_path):
    np.savez(tmp_path / "x.npz", features=np.zeros(3))
    with pytest.raises(RefusedError, match=r"must hold 'edge_index'.*features"):
        graphs.read_job(str(tmp_path / "x.npz"), str(tmp_path / "graph"), silent)
    (tmp_path / "y.npz").write_bytes((tmp_path / "x.npz").read_bytes()[:50])
    with pytest.raises(RefusedError, match=r"must be a whole \.npz file"):
        graphs.read_job(str(tmp_path / "y.npz"), str(tmp_path / "graph"), silent)
    with pytest.raises(RefusedError, match="no such file"):
        graphs.read_job(str(tmp_path), "", silent)
