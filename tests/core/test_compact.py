"""CompactAdj: what is built from a list of edges, and what is refused."""

import copy
import dataclasses
import itertools
import math
import pickle

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st

from all_pairs import all_pairs
from apart import forks
from gttf_sampler import (
    CompactAdj,
    EdgeWeightBias,
    sample_rooted,
    traverse,
    use_backend,
)
from odd_values import mistyped, wrong
from strategies import DIRECTIONS, Graph, graphs

FORMATS = ("csr", "csc", "coo", "lil")
WRAPPERS = (scipy.sparse.csr_array, scipy.sparse.csr_matrix)


def neighbours(adj: CompactAdj) -> list[list[int]]:
    """The rows of Â."""
    ends = adj.rowptr.tolist()
    return [adj.col[a:b].tolist() for a, b in itertools.pairwise(ends)]


def same(left: CompactAdj, right: CompactAdj) -> bool:
    """True if all arrays and facts agree, dtypes included."""
    mine, other = left.arrays(), right.arrays()
    facts = [(adj.num_rows, adj.num_cols, adj.direction) for adj in (left, right)]
    return (
        facts[0] == facts[1]
        and mine.keys() == other.keys()
        and all(mine[name].dtype == other[name].dtype for name in mine)
        and all(torch.equal(mine[name], other[name]) for name in mine)
    )


def with_everything() -> CompactAdj:
    """A graph that has all optional arrays."""
    return CompactAdj.from_edge_index(
        [[3, 0, 2, 0, 1], [0, 1, 0, 0, 3]],
        6,
        edge_weight=torch.tensor([1.0, 2.0, 0.0, 4.0, 5.0]),
        edge_time=torch.tensor([5, 4, 3, 2, 1]),
    )


def test_from_edge_index_figure(toy):
    assert toy.degree.tolist() == [1, 4, 1, 2, 2]
    assert neighbours(toy) == [[1], [0, 2, 3, 4], [1], [1, 4], [1, 3]]


@given(graphs())
def test_from_edge_index_rows(graph):
    adj, rows = graph.adj(), graph.rows()
    assert adj.degree.tolist() == [len(row) for row in rows]
    assert neighbours(adj) == [[node for node, _ in row] for row in rows]
    order = [edge for row in rows for _, edge in row]
    position = torch.arange(adj.num_edges)
    assert adj.original_edge(position).tolist() == order
    assert (adj.edge_id is None) == (order == sorted(order))
    assert adj.max_degree == max(map(len, rows), default=0)
    assert adj.validate() is adj


@given(graphs(bipartite=True))
def test_from_edge_index_bipartite(graph):
    adj, rows = graph.adj(), graph.rows()
    assert (adj.num_rows, adj.num_cols) == graph.sizes()
    assert neighbours(adj) == [[node for node, _ in row] for row in rows]
    assert torch.equal(adj.to_edge_index(), graph.edge_index.long())


@given(graphs())
def test_to_edge_index_round_trip(graph):
    adj = graph.adj()
    edges = adj.to_edge_index()
    assert edges.dtype == torch.int64
    assert torch.equal(edges, graph.edge_index.long())
    again = CompactAdj.from_edge_index(
        edges,
        graph.num_nodes,
        direction=graph.direction,
        edge_weight=graph.weight,
        edge_time=graph.time,
    )
    assert same(adj, again)


@given(graphs(weighted=True, timed=True))
def test_from_edge_index_carries_weights_and_times(graph):
    adj = graph.adj()
    order = [edge for row in graph.rows() for _, edge in row]
    assert adj.edge_weight.tolist() == graph.weight[order].tolist()
    assert adj.edge_time.tolist() == graph.time[order].tolist()
    assert adj.edge_weight.dtype == graph.weight.dtype
    assert adj.edge_time.dtype == graph.time.dtype


@given(graphs(weighted=False, timed=True))
def test_from_edge_index_keeps_order_unless_sorted_by_time(graph):
    adj = CompactAdj.from_edge_index(
        graph.edge_index,
        graph.num_nodes,
        direction=graph.direction,
        edge_time=graph.time,
        sort_by_time=False,
    )
    rows = graph._replace(time=None).rows()
    assert neighbours(adj) == [[node for node, _ in row] for row in rows]
    assert torch.equal(
        adj.edge_time, graph.time[[edge for row in rows for _, edge in row]]
    )


@pytest.mark.parametrize(
    ("direction", "times"),
    [("in", [[40, 50], [10], [], []]), ("out", [[0], [], [10], [10]])],
)
def test_from_edge_index_node_time_is_that_of_the_neighbour(direction, times):
    edges = [[2, 3, 0], [0, 0, 1]]  # 2 → 0, 3 → 0, 0 → 1
    adj = CompactAdj.from_edge_index(
        edges, direction=direction, node_time=[10, 0, 50, 40]
    )
    assert [row.tolist() for row in adj.edge_time.split(adj.degree.tolist())] == times


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_from_edge_index_col_is_int32(toy_edges, dtype):
    adj = CompactAdj.from_edge_index(toy_edges.to(dtype))
    assert adj.col.dtype == torch.int32
    assert adj.rowptr.dtype == torch.int64


def test_from_edge_index_counts_nodes_by_the_largest_id():
    assert CompactAdj.from_edge_index([[0, 7], [1, 2]]).num_rows == 8
    assert CompactAdj.from_edge_index([[], []]).num_rows == 0
    assert CompactAdj.from_edge_index([[0], [0]], 4).degree.tolist() == [1, 0, 0, 0]


@given(graphs(weighted=True, timed=False), st.sampled_from(FORMATS), st.booleans())
def test_from_scipy_agrees_with_from_edge_index(graph, form, weighted):
    size = (graph.num_nodes, graph.num_nodes)
    sources, targets = graph.edge_index.long()
    matrix = scipy.sparse.coo_array(
        (graph.weight.numpy(), (sources.numpy(), targets.numpy())), shape=size
    )
    matrix.sum_duplicates()
    matrix.data = np.minimum(matrix.data, 1e30)
    stored = matrix.asformat(form)
    adj = CompactAdj.from_scipy(stored, direction=graph.direction, weighted=weighted)
    entries = stored.tocoo()
    expected = CompactAdj.from_edge_index(
        np.stack([entries.coords[0], entries.coords[1]]).astype(np.int64),
        graph.num_nodes,
        direction=graph.direction,
        edge_weight=entries.data if weighted else None,
    )
    assert neighbours(adj) == neighbours(expected)
    assert (adj.edge_weight is None) == (not weighted)
    if weighted:
        assert torch.equal(adj.edge_weight, expected.edge_weight)


@pytest.mark.parametrize(("form", "direction"), [("csr", "out"), ("csc", "in")])
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_from_scipy_shares_memory(form, direction, wrapper):
    matrix = wrapper(np.arange(12.0).reshape(3, 4)).asformat(form)
    adj = CompactAdj.from_scipy(matrix, direction=direction, weighted=True)
    assert adj.col.data_ptr() == matrix.indices.ctypes.data
    assert adj.edge_weight.data_ptr() == matrix.data.ctypes.data
    assert (adj.num_rows, adj.num_cols) == ((3, 4) if direction == "out" else (4, 3))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("form", FORMATS)
def test_from_scipy_bipartite(form, direction):
    matrix = scipy.sparse.coo_array(([1, 1, 1], ([0, 2, 2], [1, 0, 3])), shape=(3, 5))
    adj = CompactAdj.from_scipy(matrix.asformat(form), direction=direction)
    ends = adj.to_edge_index()
    assert sorted(zip(*ends.tolist(), strict=True)) == [(0, 1), (2, 0), (2, 3)]
    assert (adj.num_rows, adj.num_cols) == ((3, 5) if direction == "out" else (5, 3))


def test_from_csr_shares_memory(toy):
    weight, time = torch.ones(10), torch.arange(10)
    identity = torch.arange(10)
    adj = CompactAdj.from_csr(
        toy.rowptr,
        toy.col,
        direction="out",
        edge_id=identity,
        edge_weight=weight,
        edge_time=time,
    )
    given_arrays = [toy.rowptr, toy.col, identity, weight, time]
    for mine, theirs in zip(adj.arrays().values(), given_arrays, strict=True):
        assert mine.data_ptr() == theirs.data_ptr()


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_from_csr_takes_any_layout(toy, dtype):
    spread = torch.stack([toy.col, toy.col], dim=1).to(dtype)[:, 0]
    adj = CompactAdj.from_csr(toy.rowptr.to(dtype), spread, direction="out")
    assert neighbours(adj) == neighbours(toy)
    assert adj.rowptr.dtype == torch.int64
    assert adj.col.dtype == dtype


@given(graphs())
def test_from_csr_agrees_with_from_edge_index(graph):
    adj = graph.adj()
    rows = CompactAdj.from_csr(
        adj.rowptr.tolist(),
        adj.col,
        direction=adj.direction,
        edge_id=adj.edge_id,
        edge_weight=adj.edge_weight,
        edge_time=adj.edge_time,
    )
    assert same(adj, rows)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_neighbor_slots(toy, dtype):
    node = torch.tensor([0, 1, 1, 4], dtype=dtype)
    slot = torch.tensor([0, 0, 3, 1], dtype=dtype)
    found = toy.neighbor(node, slot)
    assert found.tolist() == [1, 0, 4, 3]
    assert found.dtype == torch.int64
    assert toy.neighbor(1, 2).item() == 3
    assert toy.neighbor([[1], [3]], [[0], [1]]).tolist() == [[0], [4]]


def test_neighbor_of_no_nodes(toy):
    none = torch.empty(0, dtype=torch.int64)
    assert toy.neighbor(none, none).tolist() == []


def test_original_edge_keeps_none(toy_edges, toy):
    adj = CompactAdj.from_edge_index(toy_edges, direction="in")
    edge = torch.tensor([[0, -1], [9, 1]])
    assert adj.original_edge(edge).tolist() == [[1, -1], [7, 0]]
    assert toy.original_edge(edge).tolist() == edge.tolist()  # the orders are the same


def test_from_edge_index_stays_where_the_edges_are(toy_edges):
    """Whatever the default device of the script."""
    expected = CompactAdj.from_edge_index(toy_edges, edge_weight=torch.ones(10))
    weight = torch.ones(10)
    with torch.device("meta"):
        adj = CompactAdj.from_edge_index(toy_edges, edge_weight=weight)
        edges = adj.to_edge_index()
        adj.validate()
        adj.degree.tolist()
    assert same(adj, expected)
    assert torch.equal(edges, toy_edges)


def test_to_maps_every_array():
    adj = with_everything()
    there = adj.to("meta")
    assert {array.device.type for array in there.arrays().values()} == {"meta"}
    assert there.arrays().keys() == adj.arrays().keys()
    assert same(adj.to("cpu"), adj)


def test_to_makes_tables_anew():
    adj = with_everything()
    sample_rooted(adj, [0], [2], bias=EdgeWeightBias())  # fills what is kept with it
    there = adj.to("meta")
    assert there.degree.device.type == "meta"
    assert there.max_degree == adj.max_degree


def test_share_memory_moves_every_array():
    adj = with_everything()
    assert adj.share_memory_() is adj
    assert all(array.is_shared() for array in adj.arrays().values())
    assert same(adj, with_everything())


def test_nbytes_counts_every_array():
    # rowptr 7 × 8, col 5 × 4, edge_id 5 × 4, edge_weight 5 × 4, edge_time 5 × 8
    assert with_everything().nbytes == 156


REPRS = [
    (
        lambda: CompactAdj.from_edge_index([[], []]),
        "CompactAdj(0 nodes, 0 edges, direction='in', max_degree=0, 8 bytes on cpu)",
    ),
    (
        lambda: CompactAdj.from_edge_index([[0], [1]], (1, 2), direction="out"),
        "CompactAdj(1 × 2 nodes, 1 edges, direction='out', max_degree=1, "
        "20 bytes on cpu)",
    ),
    (
        with_everything,
        "CompactAdj(6 nodes, 5 edges, direction='in', max_degree=3, edge_weight, "
        "edge_time, 156 bytes on cpu)",
    ),
    (
        lambda: CompactAdj.from_edge_index([[0], [0]], 1_999_999),
        "CompactAdj(1,999,999 nodes, 1 edges, direction='in', max_degree=1, "
        "16.0 MB on cpu)",
    ),
]


@pytest.mark.parametrize(("make", "text"), REPRS)
def test_compact_repr(make, text):
    assert repr(make()) == text


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, copy.copy, lambda adj: pickle.loads(pickle.dumps(adj))]
)
def test_compact_copies(duplicate):
    adj = with_everything()
    drawn = sample_rooted(adj, [0, 3], [2, 2], bias=EdgeWeightBias(), generator=5)
    twin = duplicate(adj)  # with filled caches and a used scratch table
    assert same(twin, adj)
    again = sample_rooted(twin, [0, 3], [2, 2], bias=EdgeWeightBias(), generator=5)
    assert torch.equal(again.node, drawn.node)
    assert torch.equal(again.edge, drawn.edge)


def test_compact_is_frozen(toy):
    with pytest.raises(dataclasses.FrozenInstanceError):
        toy.num_cols = 3


def draw_elsewhere(adj: CompactAdj) -> list[list[int]]:
    """Draws in a worker process; a module-level function, so that spawn finds it."""
    sub = sample_rooted(adj, [0, 3], [2, 2], bias=EdgeWeightBias(), generator=5)
    return [sub.node.tolist(), sub.row.tolist(), sub.col.tolist(), sub.edge.tolist()]


@pytest.mark.process
def test_compact_in_a_spawned_process():
    adj = with_everything().share_memory_()
    here = draw_elsewhere(adj)
    with forks().Pool(1) as pool:
        assert pool.apply(draw_elsewhere, (adj,)) == here


@given(graphs())
def test_validate_accepts_what_was_built(graph):
    graph.adj().validate()


EDGES = torch.tensor([[0, 1, 2], [1, 2, 0]])
NAN, INF = math.nan, math.inf

EDGE_INDEX_ERRORS = [
    mistyped(r"must be .*\(got NoneType\)", edge_index=None),
    mistyped(r"must be .*\(got str\)", edge_index="ab"),
    mistyped("must be ", edge_index=[[0], [1, 2]]),
    wrong(r"must have .*\[3\]", edge_index=EDGES[0]),
    wrong(r"must have .*\(got shape \[\]\)", edge_index=3),
    wrong(r"must have shape \[2, m\] \(got .*\[3, 2\]\)", edge_index=EDGES.t()),
    mistyped(
        r"must have dtype int32 or int64 \(got torch.float32\)",
        edge_index=EDGES.float(),
    ),
    mistyped(
        r"must have dtype int32 or int64 \(got torch.int16\)",
        edge_index=EDGES.to(torch.int16),
    ),
    wrong(
        r"must have shape \[2, m\] \(got \[5, 2\]\); transpose it",
        edge_index=torch.zeros(5, 2, dtype=torch.int64),
    ),
    mistyped(
        r"must have dtype int32 or int64 \(got torch.bool\)", edge_index=EDGES > 1
    ),
    mistyped(
        r"must be a dense tensor \(got torch.sparse_coo\)", edge_index=EDGES.to_sparse()
    ),
    wrong(r"must not hold negative ids \(got -4\)", edge_index=[[0, -4], [1, 1]]),
    wrong(r"must not hold negative ids \(got -1\)", edge_index=[[0, 1], [1, -1]]),
    wrong(
        r"'edge_index' must hold ids below the number of nodes 2 \(got 2\)", num_nodes=2
    ),
    wrong(
        r"'edge_index' must hold ids below the number of .* 2 \(got 2\)",
        num_nodes=(2, 3),
    ),
    wrong(r"must not be negative \(got -1\)", num_nodes=-1),
    mistyped(r"must be an integer \(got 3.0\)", num_nodes=3.0),
    mistyped(r"must be an integer \(got '3'\)", num_nodes="3"),
    mistyped(r"must be an integer \(got True\)", num_nodes=True),
    mistyped("must be an integer", num_nodes=torch.tensor(3.5)),
    mistyped("must be ", num_nodes=torch.tensor([3, 3])),
    mistyped("must be ", num_nodes=np.array([3, 3])),
    wrong(
        r"must be one number, or \(sources, targets\) \(got \(3,\)\)", num_nodes=(3,)
    ),
    mistyped("must be an integer", num_nodes=(3.0, 3)),
    wrong(r"must be one of 'in', 'out' \(got 'sideways'\)", direction="sideways"),
    wrong("must be one of 'in', 'out'", direction=None),
    wrong(r"must have one entry per edge, 3 in all \(got 1\)", edge_weight=[1.0]),
    wrong(r"must have .*\(got shape \[\]\)", edge_weight=1.0),
    wrong(r"must have .*\[3, 1\]", edge_weight=[[1.0]] * 3),
    mistyped(r"must be .*\(got str\)", edge_weight="abc"),
    wrong(r"must not hold NaN \(got NaN\)", edge_weight=[1, NAN, 1]),
    wrong(r"must not hold negative weights \(got -0.5\)", edge_weight=[1, -0.5, 1]),
    wrong(r"must hold finite weights \(got inf\)", edge_weight=[1, INF, 1]),
    wrong(r"must .*\(got -inf\)", edge_weight=[1, -INF, 1]),
    mistyped(
        r"must hold integers or floats \(got torch.bool\)", edge_weight=[True] * 3
    ),
    mistyped(
        r"must hold integers or floats \(got torch.complex64\)", edge_weight=[1j] * 3
    ),
    mistyped(r"must .*\(got torch.uint64\)", edge_weight=np.ones(3, dtype=np.uint64)),
    wrong(r"must have one entry per edge, 3 in all \(got 2\)", edge_time=[1, 2]),
    wrong(r"must have .*\[3, 1\]", edge_time=[[1]] * 3),
    wrong(r"must not hold NaN \(got NaN\)", edge_time=[1.0, NAN, 2.0]),
    mistyped(r"must hold integers or floats \(got torch.bool\)", edge_time=[True] * 3),
    mistyped(r"must .*\(got torch.uint64\)", edge_time=np.ones(3, dtype=np.uint64)),
    wrong(r"must have one entry per node, 3 in all \(got 2\)", node_time=[1, 2]),
    wrong(
        r"excludes 'edge_time' \(got both\)", node_time=[1, 2, 3], edge_time=[1, 2, 3]
    ),
]


@pytest.mark.parametrize(("arguments", "error", "match"), EDGE_INDEX_ERRORS)
def test_from_edge_index_validate(arguments, error, match):
    with pytest.raises(error, match=f"^{match}"):
        CompactAdj.from_edge_index(**{"edge_index": EDGES, **arguments})


CSR_ERRORS = [
    mistyped(r"must be .*\(got NoneType\)", rowptr=None),
    wrong("must have one entry more than .* rows", rowptr=[]),
    wrong(r"must have .*\[1, 3\]", rowptr=[[0, 2, 3]]),
    mistyped("must have dtype int32 or int64", rowptr=[0.0, 2, 3]),
    wrong(r"must start at 0 \(got 1\)", rowptr=[1, 2, 3]),
    wrong(r"must end at the number of edges 3 \(got 4\)", rowptr=[0, 2, 4]),
    wrong(r"must not decrease \(got a step of -2\)", rowptr=[0, 5, 3]),
    mistyped(r"must be .*\(got NoneType\)", col=None),
    mistyped("must have dtype int32 or int64", col=[0.0, 1, 1]),
    wrong(r"must have .*\[1, 3\]", col=[[0, 1, 1]]),
    wrong(r"must not hold negative ids \(got -2\)", col=[0, -2, 1]),
    wrong(r"must hold ids below the number of .* 2 \(got 2\)", col=[0, 2, 1]),
    wrong(r"must not be negative \(got -1\)", num_cols=-1),
    mistyped(r"must be an integer \(got 2.0\)", num_cols=2.0),
    wrong(r"'col' must hold ids below the number of .* 1 \(got 1\)", num_cols=1),
    wrong("must be one of 'in', 'out'", direction="up"),
    wrong(r"must have one entry per edge, 3 in all \(got 2\)", edge_id=[0, 1]),
    mistyped("must have dtype int32 or int64", edge_id=[0.0, 1, 2]),
    wrong(r"must hold ids below the number of edges 3 \(got 3\)", edge_id=[0, 1, 3]),
    wrong(r"must not hold negative ids \(got -1\)", edge_id=[0, 1, -1]),
    wrong(r"must have one entry per edge, 3 in all \(got 1\)", edge_weight=[1.0]),
    wrong("must not hold negative", edge_weight=[1, -1, 1]),
    wrong("must have one entry per edge", edge_time=[1]),
]


@pytest.mark.parametrize(("arguments", "error", "match"), CSR_ERRORS)
def test_from_csr_validate(arguments, error, match):
    good = {"rowptr": [0, 2, 3], "col": [0, 1, 1]}
    with pytest.raises(error, match=f"^{match}"):
        CompactAdj.from_csr(**{**good, **arguments})


def sparse(values: list[list[float]], dtype: type = float) -> scipy.sparse.csr_array:
    """A small matrix."""
    return scipy.sparse.csr_array(np.array(values, dtype=dtype))


SCIPY_ERRORS = [
    mistyped(r"must be a scipy sparse .*\(got int\)", matrix=5),
    mistyped(r"must be a scipy .*\(got ndarray\)", matrix=np.eye(2)),
    mistyped("must be .*Tensor", matrix=torch.eye(2).to_sparse()),
    wrong("must have .*2", matrix=scipy.sparse.coo_array([1.0, 2.0])),
    wrong("must be one of 'in', 'out'", direction="up"),
    wrong(
        r"'edge_weight' must not hold negative weights \(got -1.0\)",
        matrix=sparse([[-1.0]]),
        weighted=True,
    ),
    mistyped(
        r"'edge_weight' must hold integers or floats \(got torch.bool\)",
        matrix=sparse([[1]], bool),
        weighted=True,
    ),
]


@pytest.mark.parametrize(("arguments", "error", "match"), SCIPY_ERRORS)
def test_from_scipy_validate(arguments, error, match):
    with pytest.raises(error, match=f"^{match}"):
        CompactAdj.from_scipy(**{"matrix": sparse([[0, 1], [1, 0]]), **arguments})


NEIGHBOR_ERRORS = [
    ((5, 0), ValueError, r"'node' must hold ids below the number of nodes 5 \(got 5\)"),
    ((-1, 0), ValueError, r"'node' must not hold negative ids \(got -1\)"),
    ((1, 4), ValueError, r"'slot' must lie in \[0, degree\) of its node \(got 4 at"),
    (([0, 1], [0, -1]), ValueError, r"'slot' must lie in \[0, degree\) of its node"),
    ((1.5, 0), TypeError, r"'node' must have dtype int32 or int64"),
    ((1, 0.5), TypeError, r"'slot' must have dtype int32 or int64"),
    ((True, 0), TypeError, r"'node' must have dtype int32 or int64"),
    (("a", 0), TypeError, r"'node' must be "),
    ((None, 0), TypeError, r"'node' must be "),
    (([1, 2], [0, 0, 0]), ValueError, r"'slot' must "),
]


@pytest.mark.parametrize(("arguments", "error", "match"), NEIGHBOR_ERRORS)
def test_neighbor_validate(toy, arguments, error, match):
    with pytest.raises(error, match=f"^{match}"):
        toy.neighbor(*arguments)


@pytest.mark.parametrize("direction", DIRECTIONS)  # with an edge_id and without
@pytest.mark.parametrize(
    ("edge", "error", "match"),
    [
        ([10], ValueError, r"'edge' must .* below the number of edges 10.*\(got 10\)"),
        ([-2], ValueError, r"'edge' must .*\(got -2\)"),
        ([0.5], TypeError, r"'edge' must have dtype int32 or int64"),
        ([True], TypeError, r"'edge' must have dtype int32 or int64"),
        ("all", TypeError, r"'edge' must be "),
        (None, TypeError, r"'edge' must be "),
    ],
)
def test_original_edge_validate(toy_edges, direction, edge, error, match):
    adj = CompactAdj.from_edge_index(toy_edges, direction=direction)
    with pytest.raises(error, match=f"^{match}"):
        adj.original_edge(edge)


def by_hand(**changes: object) -> CompactAdj:
    """Two rows that were not made by a constructor that checks."""
    good = {"rowptr": torch.tensor([0, 2, 3]), "col": torch.tensor([0, 1, 1])}
    return CompactAdj(**{**good, "num_cols": 2, **changes})


HAND_ERRORS = [
    wrong("must end at .* 3", rowptr=torch.tensor([0, 2, 4])),
    wrong("must not decrease", rowptr=torch.tensor([0, 4, 3])),
    mistyped("must have dtype", rowptr=torch.tensor([0.0, 2, 3])),
    wrong("must hold ids below", col=torch.tensor([0, 1, 2])),
    wrong("must not hold negative", col=torch.tensor([0, 1, -1])),
    mistyped("must have dtype", col=torch.tensor([0.0, 1, 1])),
    wrong("must have 1 dim", col=torch.tensor([[0, 1, 1]])),
    wrong("must be one of 'in', 'out'", direction="up"),
    mistyped("must be an integer", num_cols="2"),
    wrong(r"must name every edge once \(got .*", edge_id=torch.tensor([0, 1, 1])),
    wrong("must have one entry", edge_id=torch.tensor([0, 1])),
    wrong("must hold ids bel", edge_id=torch.tensor([0, 1, 3])),
    wrong("must have one", edge_weight=torch.tensor([1.0])),
    wrong("must not", edge_weight=torch.tensor([1, -1, 1])),
    wrong("must have one entry", edge_time=torch.tensor([1])),
]


@pytest.mark.parametrize(("changes", "error", "match"), HAND_ERRORS)
def test_compact_validate(changes, error, match):
    adj = by_hand(**changes)
    with pytest.raises(error, match=f"^{match}"):
        adj.validate()


READ_ONLY = np.array([[0, 1], [1, 0]])
READ_ONLY.flags.writeable = False

AWKWARD_ARRAYS = [
    ("read-only", READ_ONLY),
    ("reversed", np.array([[1, 0], [0, 1]])[:, ::-1]),
    ("flipped", np.array([[1, 0], [0, 1]])[::-1]),
    ("int32", np.array([[0, 1], [1, 0]], dtype=np.int32)),
    ("fortran", np.asfortranarray([[0, 1], [1, 0]])),
    ("lists", [[0, 1], [1, 0]]),
    ("tuples", ((0, 1), (1, 0))),
]


@pytest.mark.parametrize(("name", "edges"), AWKWARD_ARRAYS)
def test_from_edge_index_takes_what_numpy_makes(name, edges):
    adj = CompactAdj.from_edge_index(edges)
    assert neighbours(adj) == [[1], [0]], name


def test_from_edge_index_takes_trainable_weights():
    weight = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
    adj = CompactAdj.from_edge_index(EDGES, edge_weight=weight)
    assert neighbours(adj) == [[2], [0], [1]]
    sample_rooted(adj, [0], [1], bias=EdgeWeightBias())


def test_from_csr_never_returns_uninitialised_edges():
    # A repeated edge id leaves a place in the caller's order that nothing fills.
    with pytest.raises(ValueError, match=r"^'edge_id' must name every edge once"):
        CompactAdj.from_csr([0, 2], [0, 0], edge_id=[0, 0]).to_edge_index()


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_from_edge_index_orients_rows(direction):
    graph = Graph(torch.tensor([[0, 0], [1, 2]]), 3, direction, None, None)
    expected = {"in": [[], [0], [0]], "out": [[1, 2], [], []]}
    assert neighbours(graph.adj()) == expected[direction]


@all_pairs
@pytest.mark.parametrize("kind", ["csr", "csc"])
@pytest.mark.parametrize("direction", ["in", "out"])
@pytest.mark.parametrize(
    "indptr", [[0, 5, 2, 3], [0, 1, 2, 10**9], [1, 2, 3, 3], [0, 1, 3], [-1, 1, 2, 3]]
)
def test_scipy_rows_that_do_not_fit_are_refused(kind, direction, indptr):
    matrix = scipy.sparse.eye(3, format=kind)
    matrix.indptr = np.array(indptr, dtype=np.int32)
    with pytest.raises(ValueError, match=r"'matrix.indptr' must "):
        CompactAdj.from_scipy(matrix, direction=direction)
    matrix = scipy.sparse.eye(3, format=kind)
    matrix.indices = np.array([0, 1, 99], dtype=np.int32)
    with pytest.raises(ValueError, match=r"'matrix.indices' must hold ids below"):
        CompactAdj.from_scipy(matrix, direction=direction)


HAND = {
    "rowptr": torch.tensor([0, 1, 2]),
    "col": torch.tensor([1, 0], dtype=torch.int32),
    "num_cols": 2,
}


@pytest.mark.parametrize("backend", ["numba", "torch"])
@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"col": torch.tensor([10**9, 0])}, "'col' must hold ids below"),
        ({"col": torch.tensor([-1, 0])}, "'col' must not hold negative ids"),
        ({"rowptr": torch.tensor([0, 1, 99])}, "'rowptr' must end at"),
        ({"rowptr": torch.tensor([0, 5, 2])}, "'rowptr' must not decrease"),
        ({"rowptr": torch.tensor([0, 1, 2], dtype=torch.int32)}, "'rowptr' must have"),
        ({"num_cols": 0}, "'col' must hold ids below"),
        ({"num_cols": 10**30}, "'num_cols' must "),
        ({"direction": "up"}, "'direction' must be one of"),
        ({"edge_id": torch.tensor([0, 7])}, "'edge_id' must hold ids below"),
        ({"edge_weight": torch.tensor([1.0])}, "'edge_weight' must have one entry"),
    ],
)
def test_graph_put_together_by_hand_is_checked_before_use(backend, changes, match):
    with use_backend(backend):
        for use in (
            lambda adj: traverse(adj, [0], [1]),
            lambda adj: sample_rooted(adj, [0], [1]),
            lambda adj: sample_rooted({("n", "e", "n"): adj}, {"n": [0]}, [1]),
            lambda adj: adj.edges_between([0], [1]),
        ):
            with pytest.raises((TypeError, ValueError), match=match):
                use(CompactAdj(**{**HAND, **changes}))
        assert traverse(CompactAdj(**HAND), [0], [1]).nodes[1].tolist() == [[1]]


@pytest.mark.parametrize("size", [10**13, 10**30])
def test_graph_of_more_nodes_than_memory_is_refused(size):
    with pytest.raises(ValueError, match="'num_nodes' must "):
        CompactAdj.from_edge_index([[0], [1]], size)
