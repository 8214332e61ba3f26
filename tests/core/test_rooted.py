"""sample_rooted on one type of nodes: what every sample promises."""

import itertools
import os
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from all_pairs import all_pairs
from apart import run_script
from gttf_sampler import (
    AttentionBias,
    CompactAdj,
    EdgeWeightBias,
    Neighborhood,
    Node2VecBias,
    NoRevisitBias,
    Subgraph,
    TemporalBias,
    sample_rooted,
    use_backend,
)
from strategies import BACKENDS, Graph, backends, fanouts, graphs, seeds


class Case(NamedTuple):
    """One call, and `allowed(root, edge)`: which edges its bias does not forbid."""

    graph: Graph
    seeds: list[int]
    fanouts: list[int]
    bias: Any
    allowed: Callable[[int, int], bool]
    replace: bool
    disjoint: bool
    key: int
    backend: str

    def sample(self) -> tuple[CompactAdj, Subgraph]:
        with use_backend(self.backend):
            adj = self.graph.adj()
            sub = sample_rooted(
                adj,
                self.seeds,
                self.fanouts,
                replace=self.replace,
                bias=self.bias,
                disjoint=self.disjoint,
                generator=self.key,
            )
        return adj, sub

    def admitted(self, node: int, root: int) -> list[tuple[int, int]]:
        """The (neighbour, caller's edge) that may be taken from `node`, in order."""
        row = self.graph.rows()[node]
        return [entry for entry in row if self.allowed(root, entry[1])]


def plain(path: torch.Tensor, node: torch.Tensor, hood: Neighborhood) -> torch.Tensor:
    """A user's BiasFn: twice as much for even neighbours."""
    return 2.0 - hood.neighbor % 2


@st.composite
def cases(draw: st.DrawFn, plan: st.SearchStrategy[list[int]] | None = None) -> Case:
    """Graphs with weights and times, and all biases; TemporalBias implies disjoint."""
    graph = draw(graphs(weighted=True, timed=True))
    start = draw(seeds(graph.num_nodes))
    clock = draw(st.lists(st.integers(-4, 7), min_size=len(start), max_size=len(start)))
    window = draw(st.sampled_from([None, 0, 2, 3.5]))
    weight, when = graph.weight.tolist(), graph.time.tolist()
    p, q = draw(st.sampled_from([(1.0, 1.0), (0.25, 4.0), (1e3, 1e-3)]))

    def heavy(root: int, edge: int) -> bool:
        return weight[edge] > 0

    def timely(root: int, edge: int) -> bool:
        first = -100 if window is None else clock[root] - window
        return first <= when[edge] <= clock[root]

    def both(root: int, edge: int) -> bool:
        return heavy(root, edge) and timely(root, edge)

    def every(root: int, edge: int) -> bool:
        return True

    temporal = TemporalBias(torch.tensor(clock, dtype=torch.int64), window=window)
    weighed = TemporalBias(
        torch.tensor(clock, dtype=torch.int64), window=window, weighted=True
    )
    walk = Node2VecBias(p, q)
    bias, allowed = draw(
        st.just((None, every))  # half of the time: the fused path
        | st.sampled_from(
            [
                (plain, every),
                (AttentionBias(lambda here, there: 1.0 + here + there), every),
                (EdgeWeightBias(), heavy),
                (walk, every),
                (Node2VecBias(p, q, weighted=True), heavy),
                (temporal, timely),
                (weighed, both),
                (EdgeWeightBias() * walk, heavy),
                (plain * EdgeWeightBias(), heavy),
                (temporal * EdgeWeightBias(), both),
                (walk * temporal, timely),
                (plain * temporal * EdgeWeightBias(), both),
            ]
        )
    )
    return Case(
        graph,
        start,
        draw(fanouts() if plan is None else plan),
        bias,
        allowed,
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.integers(0, 1 << 40)),
        draw(backends()),
    )


def offsets(counts: list[int]) -> list[int]:
    """0, and the running sums."""
    return [sum(counts[:i]) for i in range(len(counts) + 1)]


def roots(case: Case, sub: Subgraph) -> list[int]:
    """The tree of every node; the seed's own number where trees share nodes."""
    return [-1] * sub.num_nodes if sub.batch is None else sub.batch.tolist()


@given(cases())
def test_rooted_edges_exist(case):
    adj, sub = case.sample()
    sources, targets = case.graph.edge_index[:, adj.original_edge(sub.edge)].tolist()
    sent, received = sub.node[sub.row].tolist(), sub.node[sub.col].tolist()
    if case.graph.direction == "in":
        assert (sent, received) == (sources, targets)
    else:
        assert (received, sent) == (sources, targets)


@given(cases())
def test_rooted_fanouts(case):
    adj, sub = case.sample()
    original, col = adj.original_edge(sub.edge).tolist(), sub.col.tolist()
    node, root = sub.node.tolist(), roots(case, sub)
    begins = offsets(sub.num_sampled_nodes)
    taken: dict[int, list[int]] = {}
    for place, edge in zip(col, original, strict=True):
        taken.setdefault(place, []).append(edge)
    for hop, fanout in enumerate(case.fanouts):
        for place in range(begins[hop], begins[hop + 1]):
            may = [edge for _, edge in case.admitted(node[place], root[place])]
            got = taken.pop(place, [])
            if fanout < 0:
                assert got == may
            elif case.replace:
                assert len(got) == (fanout if may else 0)
                assert set(got) <= set(may)
            else:
                assert len(got) == len(set(got)) == min(fanout, len(may))
                assert set(got) <= set(may)
    assert not taken  # the nodes of the last hop are not expanded


@given(cases())
def test_rooted_numbering(case):
    _, sub = case.sample()
    count = len(case.seeds)
    assert sub.node[:count].tolist() == case.seeds
    identity = list(zip(roots(case, sub), sub.node.tolist(), strict=True))
    later = identity[count:]
    assert len(later) == len(set(later))
    assert not set(later) & set(identity[:count])
    found = count  # the local id that the next discovery gets
    for place in sub.row.tolist():
        assert place <= found
        found += place == found
    assert found == sub.num_nodes
    if sub.batch is None:
        for place in sub.row.tolist():
            assert identity.index(identity[place]) == place  # first copy of a seed


@given(cases())
def test_rooted_hops(case):
    _, sub = case.sample()
    nodes, edges = sub.num_sampled_nodes, sub.num_sampled_edges
    assert (sum(nodes), sum(edges)) == (sub.num_nodes, sub.num_edges)
    assert (len(nodes), len(edges)) == (len(case.fanouts) + 1, len(case.fanouts))
    col = sub.col.tolist()
    assert col == sorted(col)
    begins, ends = offsets(nodes), offsets(edges)
    for hop in range(len(edges)):
        there = col[ends[hop] : ends[hop + 1]]
        assert all(begins[hop] <= place < begins[hop + 1] for place in there)
        new = set(sub.row[ends[hop] : ends[hop + 1]].tolist())
        assert set(range(begins[hop + 1], begins[hop + 2])) <= new
        assert all(place < begins[hop + 2] for place in new)


@given(cases())
def test_rooted_dtypes(case):
    _, sub = case.sample()
    for array in (sub.node, sub.row, sub.col, sub.edge):
        assert array.dtype == torch.int64
        assert array.dim() == 1
        assert array.is_contiguous()
    assert sub.row.numel() == sub.col.numel() == sub.edge.numel()


@given(cases())
def test_rooted_trees(case):
    _, sub = case.sample()
    timed = getattr(case.bias, "separates_trees", False)
    assert (sub.batch is not None) == (case.disjoint or timed)
    if sub.batch is not None:
        assert sub.batch[: len(case.seeds)].tolist() == list(range(len(case.seeds)))
        assert torch.equal(sub.batch[sub.row], sub.batch[sub.col])


@given(cases())
def test_rooted_copies_of_a_seed_draw_the_same(case):
    _, sub = case.sample()
    if sub.batch is not None:
        return  # trees of their own
    rows: dict[int, list[tuple[int, int]]] = {}
    for row, col, edge in zip(
        sub.row.tolist(), sub.col.tolist(), sub.edge.tolist(), strict=True
    ):
        rows.setdefault(col, []).append((row, edge))
    for place, seed in enumerate(case.seeds):
        assert rows.get(place) == rows.get(case.seeds.index(seed))


def reference(case: Case, disjoint: bool) -> tuple[list, list, list, list, list, list]:
    """Breadth-first search for fanouts of -1 and 0, in plain Python.

    Gives nodes, rows, columns, caller's edges, new nodes per hop and edges per hop.
    """
    node, root = list(case.seeds), list(range(len(case.seeds)))
    local: dict[tuple[int, int], int] = {}
    for place, seed in enumerate(case.seeds):
        local.setdefault((root[place] if disjoint else -1, seed), place)
    frontier = list(range(len(node)))
    rows, cols, edges = [], [], []
    node_hops, edge_hops = [len(node)], []
    for fanout in case.fanouts:
        before, found = len(node), len(edges)
        for place in frontier if fanout else []:
            for there, edge in case.admitted(node[place], root[place]):
                identity = (root[place] if disjoint else -1, there)
                if identity not in local:
                    local[identity] = len(node)
                    node.append(there)
                    root.append(root[place])
                rows.append(local[identity])
                cols.append(place)
                edges.append(edge)
        frontier = list(range(before, len(node)))
        node_hops.append(len(frontier))
        edge_hops.append(len(edges) - found)
    return node, rows, cols, edges, node_hops, edge_hops


@given(cases(plan=st.lists(st.sampled_from([-1, -1, -1, 0]), max_size=4)))
def test_rooted_all_neighbours_are_breadth_first_search(case):
    adj, sub = case.sample()
    expected = reference(case, sub.batch is not None)
    assert expected == (
        sub.node.tolist(),
        sub.row.tolist(),
        sub.col.tolist(),
        adj.original_edge(sub.edge).tolist(),
        sub.num_sampled_nodes,
        sub.num_sampled_edges,
    )


@given(cases())
def test_rooted_large_fanout_takes_all(case):
    """30 is more than any degree here: the same edges as -1, whatever the bias."""
    _, some = case._replace(fanouts=[30], replace=False).sample()
    _, every = case._replace(fanouts=[-1], replace=False).sample()
    assert Counter(some.edge.tolist()) == Counter(every.edge.tolist())


@all_pairs
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("bias", [None, EdgeWeightBias(), Node2VecBias(2.0, 0.5)])
def test_rooted_fanout_far_beyond_the_degree(backend, bias, disjoint):
    """Costs what the neighbours cost, in time and memory, not what the fanout says."""
    adj = CompactAdj.from_edge_index([[1, 2, 3], [0, 0, 0]], edge_weight=[1, 2, 3])
    before = time.process_time()
    with use_backend(backend):
        for fanout in (20_000, 1 << 40):
            sub = sample_rooted(adj, [0], [fanout] * 2, bias=bias, disjoint=disjoint)
            assert sub.num_edges == 3
    assert time.process_time() - before < 3


EMPTY = [
    ("no seed", [], [2, -1], ([], 0)),
    ("no hop", [4, 0, 4], [], ([4, 0, 4], 0)),
    ("nothing wanted", [4, 0], [0, 0], ([4, 0], 0)),
    ("nothing wanted, then all", [4, 0], [0, -1], ([4, 0], 0)),
    ("no seed, no hop", [], [], ([], 0)),
]


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize(("name", "start", "plan", "expected"), EMPTY)
def test_rooted_empty(toy, name, start, plan, expected, disjoint):
    sub = sample_rooted(toy, start, plan, disjoint=disjoint)
    assert (sub.node.tolist(), sub.num_edges) == expected, name
    assert sub.num_sampled_nodes == [len(start)] + [0] * len(plan)
    assert sub.num_sampled_edges == [0] * len(plan)
    assert sub.edge_index.shape == (2, 0)


@pytest.mark.parametrize("fanout", [-1, 2])
@pytest.mark.parametrize("replace", [False, True])
def test_rooted_isolated_node_and_empty_graph(fanout, replace):
    lonely = CompactAdj.from_edge_index([[1], [2]], 4)
    sub = sample_rooted(lonely, [0, 3], [fanout, fanout], replace=replace)
    assert (sub.node.tolist(), sub.num_edges) == ([0, 3], 0)
    nothing = CompactAdj.from_edge_index([[], []])
    sub = sample_rooted(nothing, [], [fanout], replace=replace)
    assert (sub.num_nodes, sub.num_edges) == (0, 0)


def test_rooted_self_loop_and_multi_edge():
    adj = CompactAdj.from_edge_index([[0, 1, 1, 0], [0, 0, 0, 1]])
    sub = sample_rooted(adj, [0], [-1, -1])
    assert sub.node.tolist() == [0, 1]
    assert sub.edge_index.tolist() == [[0, 1, 1, 0], [0, 0, 0, 1]]
    assert adj.original_edge(sub.edge).tolist() == [0, 1, 2, 3]


SEED_FORMS = [
    ("list", [4, 0]),
    ("tuple", (4, 0)),
    ("range", range(0, 4, 3)),
    ("int32", torch.tensor([4, 0], dtype=torch.int32)),
    ("strided", torch.tensor([4, 9, 0, 9])[::2]),
    ("numpy", np.array([4, 0])),
    ("reversed numpy", np.array([0, 4])[::-1]),
    ("empty list", []),
]


@pytest.mark.parametrize(("name", "form"), SEED_FORMS)
def test_rooted_seeds_may_be(toy, name, form):
    expected = [int(seed) for seed in form]
    sub = sample_rooted(toy, form, [2])
    assert sub.node[: len(expected)].tolist() == expected, name


def test_rooted_leaves_its_arguments_alone(toy):
    start, plan = torch.tensor([4, 0]), [2, -1]
    before = {name: array.clone() for name, array in toy.arrays().items()}
    sub = sample_rooted(toy, start, plan)
    sub.node.fill_(0)
    sub.edge.fill_(0)
    assert (start.tolist(), plan) == ([4, 0], [2, -1])
    assert all(torch.equal(toy.arrays()[name], before[name]) for name in before)


def test_rooted_table_survives_its_refill(toy):
    """The scratch numbers run out after 2³¹ ids; then the table is filled again."""
    expected = sample_rooted(toy, [4, 0, 4], [-1, -1])
    with toy.borrow_table(toy.num_rows) as table:
        table._floor = 20
    for _ in range(5):
        sub = sample_rooted(toy, [4, 0, 4], [-1, -1])
        assert torch.equal(sub.node, expected.node)
        assert torch.equal(sub.edge_index, expected.edge_index)
    with toy.borrow_table(toy.num_rows) as table:
        assert table._floor > 20


@pytest.mark.parametrize("disjoint", [False, True])
def test_rooted_calls_a_bias_once_per_hop(toy, disjoint):
    """With the walkers of the frontier, the way to them, and their neighbours."""
    begun, calls = [], []

    class Bias:
        def begin(self, adj, start):
            begun.append((adj, start.tolist()))

        def __call__(self, path, node, hood):
            calls.append((path, node, hood))
            return torch.ones(hood.edge.numel())

    sample_rooted(toy, [2, 0], [2, -1, 1], bias=Bias(), disjoint=disjoint)
    assert begun == [(toy, [2, 0])]
    assert len(calls) == 3
    for hop, (path, node, hood) in enumerate(calls):
        assert path.shape == (node.numel(), hop)
        assert hood.adj is toy
        assert hood.ptr.tolist() == [0, *toy.degree[node].cumsum(0).tolist()]
        assert torch.equal(hood.neighbor, toy.col[hood.edge].long())
        assert torch.equal(hood.ptr.diff(), hood.walker.bincount(minlength=len(node)))
        assert set(hood.root.tolist()) <= {0, 1}
        for way, place in zip(path.tolist(), node.tolist(), strict=True):
            steps = [*way, place]
            for here, there in itertools.pairwise(steps):
                row = toy.col[toy.rowptr[here] : toy.rowptr[here + 1]].tolist()
                assert there in row


def test_rooted_no_revisit_changes_nothing(toy):
    """It is what sample_rooted does anyway."""
    plain_sub = sample_rooted(toy, [2, 4], [-1, -1])
    sub = sample_rooted(toy, [2, 4], [-1, -1], bias=NoRevisitBias())
    assert torch.equal(sub.node, plain_sub.node)
    assert torch.equal(sub.edge, plain_sub.edge)


def weightless(path: Any, node: Any, hood: Neighborhood) -> torch.Tensor:
    return torch.zeros(hood.edge.numel())


@pytest.mark.parametrize("fanout", [-1, 3])
@pytest.mark.parametrize("replace", [False, True])
def test_rooted_weightless_neighbours_are_never_taken(toy, fanout, replace):
    sub = sample_rooted(toy, [1, 4], [fanout, fanout], bias=weightless, replace=replace)
    assert (sub.node.tolist(), sub.num_edges) == ([1, 4], 0)


def test_rooted_takes_the_latest():
    adj = CompactAdj.from_edge_index(
        [[0, 1, 2, 3], [4, 4, 4, 4]], edge_time=[30, 10, 40, 20]
    )
    for clock, fanout, expected in (
        (40, 2, [0, 2]),
        (35, 2, [3, 0]),
        (35, 9, [1, 3, 0]),
        (5, 2, []),
    ):
        bias = TemporalBias([clock], strategy="last")
        sub = sample_rooted(adj, [4], [fanout], bias=bias)
        assert sub.node[1:].tolist() == expected


def returns(value: Any) -> Callable[..., Any]:
    """A BiasFn with a fixed answer."""
    return lambda path, node, hood: value


def fills(value: float, dtype: torch.dtype = torch.float32) -> Callable[..., Any]:
    """A BiasFn that gives every neighbour the same weight."""
    return lambda path, node, hood: torch.full((hood.edge.numel(),), value, dtype=dtype)


NAN, INF = float("nan"), float("inf")
BIPARTITE = CompactAdj.from_edge_index([[0, 4, 5], [0, 1, 1]], (6, 2))

ERRORS = [
    ({"adj": "graph"}, TypeError, r"'adj' must be a CompactAdj .*\(got str\)"),
    ({"adj": None}, TypeError, r"'adj' must be a CompactAdj .*\(got NoneType\)"),
    ({"adj": CompactAdj}, TypeError, r"'adj' must be a CompactAdj"),
    ({"adj": BIPARTITE, "fanouts": [1, 1]}, ValueError, r"'adj' must have one set of"),
    ({"seeds": [5]}, ValueError, r"'seeds' must hold ids below .* 5 \(got 5\)"),
    ({"seeds": [-1]}, ValueError, r"'seeds' must not hold negative ids \(got -1\)"),
    ({"seeds": [1.0]}, TypeError, r"'seeds' must have dtype int32 or int64 .*float32"),
    ({"seeds": [True]}, TypeError, r"'seeds' must have dtype int32 or int64 .*bool"),
    ({"seeds": 2}, ValueError, r"'seeds' must have .*\(got shape \[\]\)"),
    ({"seeds": [[2]]}, ValueError, r"'seeds' must have .*\(got shape \[1, 1\]\)"),
    ({"seeds": None}, TypeError, r"'seeds' must be .*\(got NoneType\)"),
    ({"seeds": "all"}, TypeError, r"'seeds' must be .*\(got str\)"),
    ({"seeds": {"a": [1]}}, TypeError, r"'seeds' must be .*\(got dict\)"),
    ({"seeds": torch.ones(2).to_sparse()}, TypeError, r"'seeds' must be a dense"),
    ({"seeds": torch.ones(2)}, TypeError, r"'seeds' must have dtype int32 or int64"),
    ({"fanouts": 3}, TypeError, r"'fanouts' must be a list of integers \(got 3\)"),
    ({"fanouts": None}, TypeError, r"'fanouts' must be a list of integers"),
    ({"fanouts": "12"}, TypeError, r"'fanouts' must be a list of integers .*'12'"),
    ({"fanouts": b"12"}, TypeError, r"'fanouts' must be a list of integers"),
    ({"fanouts": [2.0]}, TypeError, r"'fanouts' must be a list of integers .*2.0"),
    ({"fanouts": [True]}, TypeError, r"'fanouts' must be a list of integers .*True"),
    ({"fanouts": ["2"]}, TypeError, r"'fanouts' must be a list of integers"),
    ({"fanouts": [None]}, TypeError, r"'fanouts' must be a list of integers"),
    ({"fanouts": [[2]]}, TypeError, r"'fanouts' must be a list of integers"),
    ({"fanouts": {1}}, TypeError, r"'fanouts' must be a list of integers"),
    ({"fanouts": [torch.tensor(2.5)]}, TypeError, r"'fanouts' must be a list of int"),
    ({"fanouts": torch.tensor([2.5])}, TypeError, r"'fanouts' must be a list of int"),
    ({"fanouts": {("a", "to", "b"): [1]}}, TypeError, r"'fanouts' must be a list of"),
    (
        {"fanouts": [1 << 31], "replace": True},
        ValueError,
        r"'fanouts' must not exceed 2147483647 with replacement \(got 2147483648\)",
    ),
    ({"bias": 5}, TypeError, r"'bias' must be .*5"),
    ({"bias": "weight"}, TypeError, r"'bias' must be .*'weight'"),
    ({"bias": {}}, TypeError, r"'bias' must be "),
    ({"bias": EdgeWeightBias}, TypeError, r"'bias' must be "),
    ({"bias": TemporalBias}, TypeError, r"'bias' must be "),
    ({"bias": EdgeWeightBias()}, ValueError, r"'bias' needs edge weights .*; build"),
    ({"bias": TemporalBias([1])}, ValueError, r"'bias' needs edge times .*; build"),
    (
        {"bias": TemporalBias([1, 2])},
        ValueError,
        r"'seed_time' must have one entry per seed, 1 in all \(got 2\)",
    ),
    (
        {"bias": returns(1.0)},
        TypeError,
        r"'bias' must return a tensor \(got float\)",
    ),
    ({"bias": returns(None)}, TypeError, r"'bias' must return a tensor \(got NoneTyp"),
    (
        {"bias": returns(torch.ones(2))},
        ValueError,
        r"'bias' must return one weight per neighbour, .*\[4\] \(got shape \[2\]\)",
    ),
    (
        {"bias": returns(torch.ones(4, 1))},
        ValueError,
        r"'bias' must return one weight per neighbour, .*\[4\] \(got shape \[4, 1\]\)",
    ),
    ({"bias": fills(NAN)}, ValueError, r"'bias' must not .* NaN \(got NaN\)"),
    ({"bias": fills(INF)}, ValueError, r"'bias' must .*finite weights \(got inf\)"),
    ({"bias": fills(-1.0)}, ValueError, r"'bias' must not .*negative.*\(got -1.0\)"),
    ({"bias": fills(1, torch.complex64)}, TypeError, r"'bias' must .*complex64"),
    ({"generator": 1.5}, TypeError, r"'generator' must be .*1.5"),
    ({"generator": "seed"}, TypeError, r"'generator' must be .*'seed'"),
    ({"generator": torch.tensor(3.0)}, TypeError, r"'generator' must be "),
    ({"generator": torch.tensor([3])}, TypeError, r"'generator' must be "),
]


@pytest.mark.parametrize("fanout", [2, -1])
@pytest.mark.parametrize(("arguments", "error", "match"), ERRORS)
def test_rooted_validate(toy, arguments, error, match, fanout):
    good = {"adj": toy, "seeds": [1], "fanouts": [fanout]}
    with pytest.raises(error, match=f"^{match}"):
        sample_rooted(**{**good, **arguments})


# Compiled kernels check no index: what gets past the checks reads, or writes, beyond
# the arrays. Each line runs in a process forked before torch starts a thread.
SETUP = """
import os, sys, torch
from gttf_sampler import *
torch.set_num_threads(1)
wide = CompactAdj.from_edge_index([[0, 4, 900_000], [0, 1, 1]], (10**6, 2))
large = CompactAdj.from_edge_index([[10**6, 9], [9, 10**6]])
small = CompactAdj.from_edge_index([[0, 1], [1, 0]])
mixed = CompactAdj.from_edge_index([[2, 1, 0], [1, 0, 1]])
sub, acc = sample_rooted(large, [10**6], [-1]), RootedAdjAcc()
typed = {("a", "to", "b"): wide, ("b", "to", "a"): CompactAdj.from_edge_index(
    [[0, 1], [900_000, 4]], (2, 10**6))}
lines = sys.argv[1:]
for number, line in enumerate(lines):
    if os.fork():
        _, status = os.wait()
        print(number, os.waitstatus_to_exitcode(status), flush=True)
        continue
    try:
        exec(line)
    except (IndexError, TypeError, ValueError):
        os._exit(0)
    except BaseException:
        os._exit(2)
    os._exit(1)
"""
BEYOND = [
    "sample_rooted(wide, [0, 1], [-1])",
    "sample_rooted(wide, [0, 1], [3])",
    "sample_rooted(wide, [0, 1], [3], disjoint=True)",
    "traverse(wide, [0, 1], [2], accumulate=acc); acc.result()",
    "sample_rooted(typed, {'b': [1]}, [-1, -1], bias=Node2VecBias(2.0, 0.5))",
    "sample_rooted(typed, {'b': [1]}, [2, 2], bias=Node2VecBias(2.0, 0.5))",
    "mixed.original_edge(torch.tensor([10**9]))",
    "mixed.original_edge(torch.tensor([3]))",
    "sub.induced(small)",
    "sub.gcn_weight(small)",
    "sub.induced(wide)",
    "sub.gcn_weight(wide)",
]


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("backend", BACKENDS)
def test_rooted_refuses_what_leads_beyond_the_arrays(backend, tmp_path):
    setup = f"from gttf_sampler import set_backend; set_backend({backend!r})\n" + SETUP
    (tmp_path / "setup.py").write_text(setup)
    told = run_script(tmp_path / "setup.py", *BEYOND)
    says = {0: "refused", 1: "accepted", 2: "another error"}
    codes = dict(map(int, line.split()) for line in told)
    found = {BEYOND[i]: says.get(code, f"signal {-code}") for i, code in codes.items()}
    assert found == dict.fromkeys(BEYOND, "refused")


def test_rooted_takes_numpy_numbers(toy):
    expected = sample_rooted(toy, [1], [2, 2], generator=3).edge
    sub = sample_rooted(toy, [1], [np.int64(2), torch.tensor(2)], generator=3)
    assert torch.equal(sub.edge, expected)
    sub = sample_rooted(toy, [1], torch.tensor([2, 2]), generator=3)
    assert torch.equal(sub.edge, expected)
    sub = sample_rooted(toy, [1], (2, 2), generator=np.int64(3))
    assert torch.equal(sub.edge, expected)


def test_rooted_a_failed_call_leaves_the_graph_usable(toy):
    expected = sample_rooted(toy, [4, 0], [-1, -1])
    for wrong in (returns(None), fills(NAN)):
        with pytest.raises((TypeError, ValueError)):
            sample_rooted(toy, [4, 0], [-1, -1], bias=wrong)
    sub = sample_rooted(toy, [4, 0], [-1, -1])
    assert torch.equal(sub.node, expected.node)


@pytest.mark.parametrize("backend", ["numba", "torch"])
@pytest.mark.parametrize(
    "options", [{}, {"disjoint": True}, {"bias": EdgeWeightBias()}]
)
def test_rooted_refuses_what_does_not_fit(backend, options):
    ring = CompactAdj.from_edge_index([[0, 1], [1, 0]], edge_weight=[1.0, 1.0])
    with (
        use_backend(backend),
        pytest.raises(ValueError, match=r"'fanouts' must ask .* \(got [\d,]+ bytes\)"),
    ):
        sample_rooted(ring, [0] * 100, [10**9], replace=True, **options)
    assert sample_rooted(ring, [0], [10**9], **options).num_edges == 1


@pytest.mark.parametrize("options", [{}, {"disjoint": True}])
def test_rooted_costs_what_there_is_to_draw(options):
    """A fanout far above the degrees at hand, and a hub that nobody stands on."""
    hub = torch.stack([torch.arange(1, 100_001), torch.zeros(100_000).long()])
    ring = torch.stack([torch.arange(1000), (torch.arange(1000) + 1) % 1000]) + 1
    adj = CompactAdj.from_edge_index(torch.cat([hub, ring], dim=1))
    with use_backend("torch"):
        begin = time.process_time()
        found = sample_rooted(adj, torch.arange(1, 1001), [50_000, 50_000], **options)
        assert time.process_time() - begin < 1
    assert found.num_edges == (2000 if options else 1000)
