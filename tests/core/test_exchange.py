"""Graphs of other libraries and files: in, out again, names and all."""

import sys

import numpy as np
import pytest
import torch

from gttf_sampler import CompactAdj, sample_rooted
from gttf_sampler.graph import read_edge_list, read_edges, read_graph, write_graph

SOURCE, TARGET = ["ann", "bo", "ann", "é t"], ["bo", "cy", "cy", "ann"]
WEIGHT, TIME = [0.5, 1.0, 2.0, 4.0], [30, 10, 20, 40]
TABLE = {"u": SOURCE, "v": TARGET, "w": WEIGHT, "t": TIME}
NAMED = {"source": "u", "target": "v", "weight": "w", "time": "t"}


def frame(library):
    if library == "dict":
        return TABLE
    module = pytest.importorskip(library)
    make = module.table if library == "pyarrow" else module.DataFrame
    return make(TABLE)


def said(adj):
    """All that a graph says of its edges, by name, in any order."""
    ends = adj.to_edge_index()
    names = np.arange(adj.num_rows) if adj.node_id is None else adj.node_id
    columns = [names[x.numpy()].tolist() for x in ends]
    for values in (adj.edge_weight, adj.edge_time):
        if values is not None:
            columns.append(adj.in_caller_order(values).tolist())
    return sorted(zip(*columns, strict=True), key=str)


EXPECTED = sorted(zip(SOURCE, TARGET, WEIGHT, TIME, strict=True), key=str)


@pytest.mark.parametrize("direction", ["in", "out"])
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "dict"])
def test_tables_in(library, direction):
    adj = CompactAdj.from_pandas(frame(library), **NAMED, direction=direction)
    assert adj.direction == direction
    assert adj.node_id.tolist() == ["ann", "bo", "cy", "é t"]
    assert said(adj) == EXPECTED


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_out_and_in_again(library):
    adj = CompactAdj.from_pandas(TABLE, **NAMED)
    pytest.importorskip(library)
    out = getattr(adj, f"to_{library}")("u", "v")
    assert list(out.columns) == ["u", "v", "weight", "time"]
    assert out["u"].to_list() == SOURCE  # the caller's order
    again = getattr(CompactAdj, f"from_{library}")(
        out, "u", "v", weight="weight", time="time"
    )
    assert said(again) == EXPECTED


def test_integer_ids_with_gaps_are_names_and_others_are_not():
    adj = CompactAdj.from_pandas({"source": [7, 3], "target": [3, 9]})
    assert adj.node_id.tolist() == [3, 7, 9]
    assert CompactAdj.from_pandas({"source": [0, 1], "target": [1, 2]}).node_id is None


def test_dates_are_seconds():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(
        {
            "source": ["a", "b"],
            "target": ["b", "a"],
            "on": pandas.to_datetime(["1970-01-02", "1970-01-01"]),
        }
    )
    adj = CompactAdj.from_pandas(table, time="on")
    assert said(adj) == [("a", "b", 86400), ("b", "a", 0)]
    table.loc[0, "on"] = None
    with pytest.raises(ValueError, match="'time' must have a date in every row"):
        CompactAdj.from_pandas(table, time="on")


def test_tables_validate():
    with pytest.raises(ValueError, match=r"'target' must be one of the columns \['u'"):
        CompactAdj.from_pandas(TABLE, "u", "missing")
    pandas = pytest.importorskip("pandas")
    with pytest.raises(
        ValueError, match=r"'source' must be one of the columns \['a'\]"
    ):
        CompactAdj.from_pandas(pandas.DataFrame({"a": [1]}))
    for wrong in (["a", None], [1, "a"], [1.5, 2.5], [(1,), (2,)]):
        table = pandas.DataFrame({"source": wrong, "target": [1, 2]})
        with pytest.raises((TypeError, ValueError), match=r"'source|source and"):
            CompactAdj.from_pandas(table)
    with pytest.raises(TypeError, match="'weight' must be a column of numbers"):
        CompactAdj.from_pandas(TABLE, "u", "v", weight="u")
    with pytest.raises(TypeError, match="'source' must name a column"):
        CompactAdj.from_pandas(TABLE, 0, "v")


@pytest.mark.parametrize("kind", ["Graph", "DiGraph", "MultiGraph", "MultiDiGraph"])
def test_networkx_in_and_out(kind):
    networkx = pytest.importorskip("networkx")
    graph = getattr(networkx, kind)()
    graph.add_node("alone")
    for u, v, w, t in zip(SOURCE, TARGET, WEIGHT, TIME, strict=True):
        graph.add_edge(u, v, weight=w, time=t)
    if "Multi" in kind:
        graph.add_edge("ann", "bo", weight=9.0, time=50)
    graph.add_edge("bo", "bo", weight=3.0, time=5)
    adj = CompactAdj.from_networkx(graph, weight="weight", time="time")
    assert adj.node_id.tolist() == list(graph.nodes)
    expected = [(u, v, d["weight"], d["time"]) for u, v, d in graph.edges(data=True)]
    if not graph.is_directed():
        expected += [(v, u, w, t) for u, v, w, t in expected if u != v]
    assert said(adj) == sorted(expected, key=str)
    again = adj.to_networkx()
    assert again.is_multigraph() == ("Multi" in kind)
    assert said(CompactAdj.from_networkx(again, weight="weight", time="time")) == said(
        adj
    )
    assert list(again.nodes) == list(graph.nodes)


def test_networkx_attributes_and_any_ids():
    networkx = pytest.importorskip("networkx")
    graph = networkx.Graph([((0, 0), "x"), ("x", 5)])
    adj = CompactAdj.from_networkx(graph, weight="absent")
    assert adj.node_id.tolist() == [(0, 0), "x", 5]
    assert adj.edge_weight.tolist() == [1, 1, 1, 1]
    with pytest.raises(ValueError, match="'time' must be an attribute of every edge"):
        CompactAdj.from_networkx(graph, time="when")
    with pytest.raises(TypeError, match="'graph' must be a networkx graph"):
        CompactAdj.from_networkx([[0], [1]])
    with pytest.raises(TypeError, match="'node_id' must be integers or words to be"):
        adj.save("nowhere")
    sub = sample_rooted(adj, [0], [-1])
    assert [adj.node_id[i] for i in sub.node] == [(0, 0), "x"]


@pytest.mark.parametrize("directed", [True, False])
def test_igraph_in_and_out(directed):
    igraph = pytest.importorskip("igraph")
    graph = igraph.Graph(n=4, edges=[(0, 1), (1, 2), (3, 3)], directed=directed)
    graph.vs["name"] = ["a", "b", "c", "d"]
    graph.es["w"] = [1.0, 2.0, 3.0]
    adj = CompactAdj.from_igraph(graph, weight="w")
    expected = [("a", "b", 1.0), ("b", "c", 2.0), ("d", "d", 3.0)]
    expected += [] if directed else [("b", "a", 1.0), ("c", "b", 2.0)]
    assert said(adj) == sorted(expected)
    again = adj.to_igraph()
    assert said(CompactAdj.from_igraph(again, weight="weight")) == said(adj)
    with pytest.raises(
        ValueError, match=r"'weight' must be one of the edge attributes"
    ):
        CompactAdj.from_igraph(graph, weight="none")
    with pytest.raises(TypeError, match="'graph' must be an igraph Graph"):
        CompactAdj.from_igraph(3)
    assert CompactAdj.from_igraph(igraph.Graph.Ring(3)).node_id is None


@pytest.mark.parametrize("direction", ["in", "out"])
@pytest.mark.parametrize("weighted", [True, False])
def test_scipy_out_and_in_again(direction, weighted):
    pytest.importorskip("scipy")
    edges = [[0, 2, 2, 1], [1, 1, 0, 3]]
    weight = [1.0, 2.0, 3.0, 4.0] if weighted else None
    adj = CompactAdj.from_edge_index(
        edges, (3, 4), direction=direction, edge_weight=weight
    )
    matrix = adj.to_scipy()
    assert matrix.shape == (3, 4)
    dense = np.zeros((3, 4))
    dense[edges[0], edges[1]] = weight or 1
    assert (matrix.toarray() == dense).all()
    again = CompactAdj.from_scipy(matrix, direction=direction, weighted=weighted)
    assert torch.equal(again.col, adj.col)
    assert torch.equal(again.rowptr, adj.rowptr)


@pytest.mark.parametrize("library", ["pandas", "polars", "networkx", "igraph", "scipy"])
def test_missing_library_is_named(library, monkeypatch):
    for name in [m for m in sys.modules if m.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    adj = CompactAdj.from_edge_index([[0], [1]])
    with pytest.raises(
        ImportError, match=f"to_{library} needs .*pip install {library}"
    ):
        getattr(adj, f"to_{library}")()


ENDS = ["csv", "tsv", "csv.gz", "tsv.gz", "npz", "parquet"]


@pytest.mark.parametrize("ids", [[7, 3, 9], ["a", "b", "c"], [0, 1, 2], None])
@pytest.mark.parametrize("end", [*ENDS, "txt"])
def test_files_out_and_in_again(tmp_path, ids, end):
    if end == "parquet":
        pytest.importorskip("pyarrow")
    if ids is None:
        adj = CompactAdj.from_pandas(TABLE, **NAMED)
    else:
        adj = CompactAdj.from_pandas({"source": ids, "target": [*ids[1:], ids[0]]})
    if (ids, end) == (None, "txt"):  # é t
        with pytest.raises(ValueError, match="'node_id' must be words without spaces"):
            write_graph(tmp_path / "graph.txt", adj)
        assert list(tmp_path.iterdir()) == []
        return
    file = write_graph(tmp_path / f"graph.{end}", adj)
    assert [p.name for p in tmp_path.iterdir()] == [file.name]
    again = read_graph(file)
    assert said(again) == said(adj)
    assert (again.edge_weight is None) == (ids is not None)
    if adj.node_id is not None:
        assert read_edges(file).node_id.tolist() == adj.node_id.tolist()


def test_named_columns_of_text(tmp_path):
    file = tmp_path / "shop.csv"
    file.write_text('when,who,what,paid\n5,ann,"tea, green",2\n6,bo,pot,30\n')
    adj = read_graph(file, ["who", "what", "paid", "when"], direction="out")
    assert said(adj) == [("ann", "tea, green", 2.0, 5.0), ("bo", "pot", 30.0, 6.0)]
    with pytest.raises(ValueError, match=r"'columns' must be two to four of the names"):
        read_edge_list(file, ["who", "whom"])
    table = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(
        table.table({"x": [1], "b": ["q"], "a": ["p"]}), tmp_path / "t.parquet"
    )
    adj = read_graph(tmp_path / "t.parquet", ["a", "b"])
    assert said(adj) == [("p", "q")]
    with pytest.raises(ValueError, match="'columns' must be two to four of the names"):
        read_graph(tmp_path / "t.parquet", ["c", "b"])


@pytest.mark.parametrize("ids", [[5, 3, 8], ["x", "é", "zz"]])
@pytest.mark.parametrize("mmap", [True, False])
def test_directories_keep_names(tmp_path, ids, mmap):
    adj = CompactAdj.from_edge_index([[0, 1], [1, 2]]).named(np.array(ids))
    adj.save(tmp_path / "graph")
    again = CompactAdj.open(tmp_path / "graph", mmap)
    assert again.node_id.tolist() == ids
    adj.named(None).save(tmp_path / "graph")
    assert CompactAdj.open(tmp_path / "graph").node_id is None
    assert adj.to("cpu").node_id is adj.node_id


def test_named_validate():
    adj = CompactAdj.from_edge_index([[0, 1], [1, 2]])
    with pytest.raises(ValueError, match="'node_id' must have one entry per node, 3"):
        adj.named(np.array(["a"]))


def test_files_validate(tmp_path):
    adj = CompactAdj.from_pandas(TABLE, **NAMED)
    with pytest.raises(ValueError, match=r"'path' must end in one of \.csv"):
        write_graph(tmp_path / "graph.xlsx", adj)
    with pytest.raises(ValueError, match=r"'path' must end in one of \.csv"):
        write_graph(tmp_path / "graph.npz.gz", adj)
    assert list(tmp_path.iterdir()) == []
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"no")
    pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match=r"'path' must be a whole \.parquet file"):
        read_graph(broken)
