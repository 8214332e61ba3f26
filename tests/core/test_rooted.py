"""sample_rooted on one type of nodes: awkward inputs, draws, memory, errors."""

import itertools
import os
import time
from typing import Any

import numpy as np
import pytest
import torch

from all_pairs import all_pairs
from apart import run_script
from gttf_sampler import (
    CompactAdj,
    EdgeWeightBias,
    Neighborhood,
    Node2VecBias,
    NoRevisitBias,
    TemporalBias,
    sample_rooted,
    use_backend,
)
from odd_values import DRAWS, fills, mistyped, returns, wrong
from strategies import BACKENDS


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


NAN, INF = float("nan"), float("inf")
BIPARTITE = CompactAdj.from_edge_index([[0, 4, 5], [0, 1, 1]], (6, 2))

ERRORS = [
    *DRAWS,
    mistyped("must be a CompactAdj", adj=CompactAdj),
    wrong("must have one set of", adj=BIPARTITE, fanouts=[1, 1]),
    mistyped(r"must be .*\(got str\)", seeds="all"),
    mistyped("must be a dense", seeds=torch.ones(2).to_sparse()),
    mistyped("must have dtype int32 or int64", seeds=torch.ones(2)),
    mistyped("must be a list of integers", fanouts=["2"]),
    mistyped("must be a list of integers", fanouts=[None]),
    mistyped("must be a list of integers", fanouts=[[2]]),
    mistyped("must be a list of integers", fanouts={1}),
    mistyped("must be a list of int", fanouts=torch.tensor([2.5])),
    mistyped("must be a list of", fanouts={("a", "to", "b"): [1]}),
    wrong(
        r"must not exceed 2147483647 with replacement \(got 2147483648\)",
        fanouts=[1 << 31],
        replace=True,
    ),
    mistyped("must be ", bias={}),
    wrong(
        r"must return one weight per neighbour, .*\[4\] \(got shape \[4, 1\]\)",
        bias=returns(torch.ones(4, 1)),
    ),
    mistyped("must .*complex64", bias=fills(1, torch.complex64)),
    mistyped("must be ", generator=torch.tensor(3.0)),
    mistyped("must be ", generator=torch.tensor([3])),
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
    for bad in (returns(None), fills(NAN)):
        with pytest.raises((TypeError, ValueError)):
            sample_rooted(toy, [4, 0], [-1, -1], bias=bad)
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
