"""traverse: the shape of the forest, and who is called with what."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from all_pairs import all_pairs
from gttf_sampler import (
    CompactAdj,
    EdgeWeightBias,
    Neighborhood,
    Node2VecBias,
    NoRevisitBias,
    RootedAdjAcc,
    TemporalBias,
    TransitionAcc,
    WalkForest,
    traverse,
    use_backend,
)
from odd_values import DRAWS, mistyped, wrong
from strategies import BACKENDS, Graph, backends, graphs, positive_fanouts, seeds


class Case(NamedTuple):
    """One call; `allowed(root, edge)` says which edges its bias does not forbid."""

    graph: Graph
    seeds: list[int]
    fanouts: list[int]
    bias: Any
    allowed: Callable[[int, int], bool]
    replace: bool
    key: int
    backend: str

    def walk(self, accumulate: Any = None) -> tuple[CompactAdj, WalkForest]:
        with use_backend(self.backend):
            adj = self.graph.adj()
            forest = traverse(
                adj,
                self.seeds,
                self.fanouts,
                self.bias,
                accumulate,
                replace=self.replace,
                generator=self.key,
            )
        return adj, forest


def no_odd_nodes(path: Any, node: Any, hood: Neighborhood) -> torch.Tensor:
    """A user's BiasFn that stops walkers at nodes with odd neighbours only."""
    return 1.0 - hood.neighbor % 2


@st.composite
def cases(draw: st.DrawFn) -> Case:
    graph = draw(graphs(weighted=True, timed=True))
    start = draw(seeds(graph.num_nodes))
    clock = draw(st.lists(st.integers(-4, 7), min_size=len(start), max_size=len(start)))
    weight, time = graph.weight.tolist(), graph.time.tolist()
    sources, targets = graph.edge_index.tolist()
    there = sources if graph.direction == "in" else targets

    def every(root, edge):
        return True

    def even(root, edge):
        return there[edge] % 2 == 0

    def heavy(root, edge):
        return weight[edge] > 0

    def timely(root, edge):
        return time[edge] <= clock[root]

    temporal = TemporalBias(torch.tensor(clock, dtype=torch.int64))
    bias, allowed = draw(
        st.just((None, every))  # half of the time: the fused path
        | st.sampled_from(
            [
                (no_odd_nodes, even),
                (EdgeWeightBias(), heavy),
                (Node2VecBias(0.5, 3.0), every),
                (Node2VecBias(8.0, 0.1, weighted=True), heavy),
                (temporal, timely),
                (temporal * EdgeWeightBias(), lambda *e: heavy(*e) and timely(*e)),
                (no_odd_nodes * Node2VecBias(2.0, 0.5), even),
            ]
        )
    )
    return Case(
        graph,
        start,
        draw(positive_fanouts()),
        bias,
        allowed,
        draw(st.booleans()),
        draw(st.integers(0, 1 << 40)),
        draw(backends()),
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_traverse_figure(toy, backend):
    with use_backend(backend):
        forest = traverse(toy, [4, 0], [2, 2], generator=21874)
    assert [level.tolist() for level in forest.nodes] == [
        [[4], [0]],
        [[3, 1], [1, 1]],
        [[4, 1, 2, 0], [0, 2, 4, 2]],
    ]


@given(cases())
def test_traverse_widths(case):
    _, forest = case.walk()
    widths = [math.prod(case.fanouts[:k]) for k in range(len(case.fanouts) + 1)]
    for levels in (forest.nodes, forest.edges):
        assert [tuple(x.shape) for x in levels] == [
            (len(case.seeds), w) for w in widths
        ]
        assert all(x.dtype == torch.int64 for x in levels)
    assert forest.fanouts == tuple(case.fanouts)
    assert forest.depth == len(case.fanouts)
    assert forest.nodes[0][:, 0].tolist() == case.seeds
    assert (forest.edges[0] == -1).all()


@given(cases())
def test_traverse_steps(case):
    """Each walker takes an admitted edge, stays at a dead end, or stops for good."""
    adj, forest = case.walk()
    rows = case.graph.rows()
    for depth, fanout in enumerate(case.fanouts, start=1):
        parents, children = forest.nodes[depth - 1], forest.nodes[depth]
        taken = adj.original_edge(forest.edges[depth]).tolist()
        for root in range(len(case.seeds)):
            for i, parent in enumerate(parents[root].tolist()):
                family = slice(i * fanout, (i + 1) * fanout)
                nodes, edges = children[root, family].tolist(), taken[root][family]
                if parent < 0:
                    assert nodes == edges == [-1] * fanout
                elif not rows[parent]:
                    stays = fanout if case.replace else 1
                    assert nodes == [parent] * stays + [-1] * (fanout - stays)
                    assert edges == [-1] * fanout
                else:
                    check_family(case, rows[parent], root, nodes, edges)


def check_family(case: Case, row: list, root: int, nodes: list, edges: list) -> None:
    """The children of one walker."""
    may = {edge: there for there, edge in row if case.allowed(root, edge)}
    alive = [edge for edge in edges if edge >= 0]
    assert nodes == [may[edge] if edge >= 0 else -1 for edge in edges]
    if case.replace:
        assert len(alive) == (len(edges) if may else 0)
    else:
        assert len(alive) == len(set(alive)) == min(len(edges), len(may))


@given(cases())
def test_traverse_accumulate_sees_every_depth(case):
    """path [w, k] is the way to node [w]; the order of the functions is kept."""
    seen: list[tuple[str, torch.Tensor, torch.Tensor, int]] = []

    def first(path, node, fanout):
        seen.append(("first", path, node, fanout))

    class Second:
        def begin(self, forest):
            self.begun = (forest.depth, forest.nodes[0][:, 0].tolist())

        def __call__(self, path, node, fanout):
            seen.append(("second", path, node, fanout))

    second = Second()
    _, forest = case.walk([first, second])
    assert second.begun == (0, case.seeds)
    assert [name for name, *_ in seen] == ["first", "second"] * len(case.fanouts)
    for number, (_, path, node, fanout) in enumerate(seen):
        depth = number // 2 + 1
        whole = forest.path(depth)
        assert path.shape == (node.numel(), depth)
        assert torch.equal(path, whole[:, :-1])
        assert torch.equal(node, whole[:, -1])
        assert torch.equal(node.view_as(forest.nodes[depth]), forest.nodes[depth])
        assert fanout == case.fanouts[depth - 1]


@given(cases())
def test_traverse_accumulating_changes_no_draw(case):
    _, forest = case.walk()
    _, watched = case.walk(lambda path, node, fanout: None)
    for mine, theirs in zip(forest.nodes, watched.nodes, strict=True):
        assert torch.equal(mine, theirs)
    for mine, theirs in zip(forest.edges, watched.edges, strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("replace", [True, False])
def test_traverse_calls_a_bias_once_per_depth(toy, replace):
    begun, calls = [], []

    class Bias:
        def begin(self, adj, start):
            begun.append((adj, start.tolist()))

        def __call__(self, path, node, hood):
            calls.append((path, node, hood))
            weight = torch.ones(hood.edge.numel())
            return weight.masked_fill(node[hood.walker] == 2, 0)

    forest = traverse(toy, [4, 2, 0], [2, 3], Bias(), replace=replace, generator=1)
    assert begun == [(toy, [4, 2, 0])]
    assert len(calls) == 2
    for depth, (path, node, hood) in enumerate(calls):
        width = forest.nodes[depth].shape[1]
        assert torch.equal(node, forest.nodes[depth].view(-1))
        assert torch.equal(path, forest.path(depth)[:, :-1])
        assert torch.equal(hood.root, torch.arange(3).repeat_interleave(width))
        degree = toy.degree[node.clamp(min=0)].masked_fill(node < 0, 0)
        assert hood.adj is toy
        assert torch.equal(hood.ptr.diff(), degree)
        assert torch.equal(
            hood.walker, torch.arange(node.numel()).repeat_interleave(degree)
        )
        assert torch.equal(hood.neighbor, toy.col[hood.edge].long())
        start = toy.rowptr[node[hood.walker]]
        assert ((hood.edge >= start) & (hood.edge < start + 4)).all()
    assert (forest.nodes[1][1] == -1).all()  # node 2 stops its walkers
    assert (forest.nodes[2][1] == -1).all()


def test_traverse_accumulate_alone_or_in_any_sequence(toy):
    for accumulate in (RootedAdjAcc(), [RootedAdjAcc()], (RootedAdjAcc(),), [], None):
        traverse(toy, [4], [2], accumulate=accumulate)


@all_pairs
@pytest.mark.parametrize("plan", [[], [2], [2, 3]])
@pytest.mark.parametrize(
    "bias", [None, NoRevisitBias(), Node2VecBias(2.0, 0.5), no_odd_nodes]
)
@pytest.mark.parametrize("replace", [True, False])
def test_traverse_empty_batch(toy, plan, bias, replace):
    forest = traverse(toy, [], plan, bias, replace=replace)
    widths = [math.prod(plan[:k]) for k in range(len(plan) + 1)]
    assert [tuple(level.shape) for level in forest.nodes] == [(0, w) for w in widths]
    assert [tuple(level.shape) for level in forest.edges] == [(0, w) for w in widths]


def test_traverse_no_fanouts(toy):
    calls = []
    forest = traverse(
        toy, [4, 4, 0], [], no_odd_nodes, lambda *args: calls.append(args)
    )
    assert [level.tolist() for level in forest.nodes] == [[[4], [4], [0]]]
    assert forest.path(0).tolist() == [[4], [4], [0]]
    assert calls == []


@pytest.mark.parametrize("replace", [True, False])
def test_traverse_dead_end_and_self_loop(replace):
    adj = CompactAdj.from_edge_index([[0, 1], [1, 1]], 3, direction="out")
    forest = traverse(adj, [2, 1], [2, 1], replace=replace)
    stay = [2, 2] if replace else [2, -1]
    loop = [1, 1] if replace else [1, -1]
    assert forest.nodes[1].tolist() == [stay, loop]
    assert forest.nodes[2].tolist() == [stay, loop]
    assert forest.edges[2].tolist() == [[-1, -1], [1, 1 if replace else -1]]


def test_traverse_graph_without_edges():
    adj = CompactAdj.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 2)
    for bias in (None, NoRevisitBias(), Node2VecBias(), no_odd_nodes):
        forest = traverse(adj, [1, 0], [2, 1], bias)
        assert forest.nodes[2].tolist() == [[1, 1], [0, 0]]


def test_traverse_bipartite_takes_one_step():
    adj = CompactAdj.from_edge_index([[0, 4, 5], [0, 1, 1]], (6, 2))
    forest = traverse(adj, [1, 0, 1], [3], replace=False)
    assert sorted(forest.nodes[1][0].tolist()) == [-1, 4, 5]
    assert forest.nodes[1][1].tolist() == [0, -1, -1]


@pytest.mark.parametrize("replace", [True, False])
def test_traverse_bipartite_dead_end_stops(replace):
    """A walker cannot stay: node 3 of the rows is no node of the columns."""
    adj = CompactAdj.from_edge_index([[0], [0]], (2, 6))
    forest = traverse(adj, [3, 0], [1], replace=replace)
    assert forest.nodes[1].tolist() == [[-1], [0]]


SEED_FORMS = [
    ("list", [4, 0]),
    ("int32", torch.tensor([4, 0], dtype=torch.int32)),
    ("strided", torch.tensor([4, 9, 0, 9])[::2]),
    ("numpy", np.array([4, 0])),
    ("reversed numpy", np.array([0, 4])[::-1]),
]


@pytest.mark.parametrize(("name", "form"), SEED_FORMS)
def test_traverse_seeds_may_be(toy, name, form):
    assert traverse(toy, form, [1]).nodes[0].tolist() == [[4], [0]], name


@pytest.mark.parametrize(
    "plan", [(2, 3), torch.tensor([2, 3]), [np.int64(2), torch.tensor(3)], range(2, 4)]
)
def test_traverse_fanouts_may_be(toy, plan):
    assert traverse(toy, [4], plan).fanouts == (2, 3)


class Draws:
    """A bias that draws by itself, and gives a fixed answer."""

    def __init__(self, drawn: Any) -> None:
        self.drawn = drawn

    def __call__(self, path: Any, node: Any, hood: Neighborhood) -> torch.Tensor:
        return torch.ones(hood.edge.numel())

    def draw(self, walkers: Any, fanout: int, replace: bool) -> Any:
        return self.drawn


NAN, INF = float("nan"), float("inf")
BIPARTITE = CompactAdj.from_edge_index([[0, 4, 5], [0, 1, 1]], (6, 2))
POSITIVE = r"'fanouts' must hold positive integers \(got"

ERRORS = [
    *DRAWS,
    mistyped("must be a CompactAdj", adj={("a", "b", "c"): BIPARTITE}),
    wrong(
        r"must have one set of nodes here \(got 2 rows and 6 columns\)",
        adj=BIPARTITE,
        fanouts=[1, 1],
    ),
    wrong(r"must have 1 .*; write \[3\]", seeds=3),
    mistyped("must be .*; make one: Node2VecBias", bias=Node2VecBias),
    ({"fanouts": [0]}, ValueError, POSITIVE + r" \[0\]\); 'sample_rooted' takes"),
    ({"fanouts": [2, -1]}, ValueError, POSITIVE + r" \[2, -1\]\); 'sample_rooted'"),
    wrong("must ", fanouts=[2**64]),
    wrong("must ", fanouts=[2**32, 2**32]),
    mistyped(r"must draw a tensor \(got NoneType\)", bias=Draws(None)),
    wrong(
        r"must draw positions of shape \[1, 2\] \(got shape \[2\]\)",
        bias=Draws(torch.zeros(2, dtype=torch.int64)),
    ),
    wrong(
        r"must hold positions below the number of edges 10, or -1 \(got 10\)",
        bias=Draws(torch.tensor([[0, 10]])),
    ),
    mistyped("must have dtype", bias=Draws(torch.tensor([[0.0, 1.0]]))),
    mistyped("must be .*5", accumulate=5),
    mistyped("must be .*'all'", accumulate="all"),
    mistyped("must be .*5", accumulate=[print, 5]),
    mistyped("must be ", accumulate=RootedAdjAcc),
    wrong(r"'k' must not exceed .* 1 \(got 2", accumulate=TransitionAcc(2)),
]


@pytest.mark.parametrize(("arguments", "error", "match"), ERRORS)
def test_traverse_validate(toy, arguments, error, match):
    good = {"adj": toy, "seeds": [1], "fanouts": [2]}
    with pytest.raises(error, match=f"^{match}"):
        traverse(**{**good, **arguments})


class Vandal:
    """Writes into everything it is shown."""

    def __call__(self, path, node, fanout):
        path.fill_(-7)
        node.clamp_(max=0)


@all_pairs
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("bias", [None, Node2VecBias(2, 3), lambda p, n, h: h.edge + 1])
@pytest.mark.parametrize("fanouts", [[1, 1, 1], [2, 3, 2]])
def test_traverse_cannot_be_spoiled_by_who_watches(toy, backend, bias, fanouts):
    """Neither the forest, nor what others are shown, nor where the walk goes."""
    seen = []

    def watch(path, node, fanout):
        seen.append((path.clone(), node.clone()))

    with use_backend(backend):
        plain = traverse(toy, [4, 0, 1], fanouts, bias, generator=1)
        watchers = [Vandal(), watch, Vandal()]
        spoiled = traverse(toy, [4, 0, 1], fanouts, bias, watchers, generator=1)
    for left, right in zip(plain.nodes, spoiled.nodes, strict=True):
        assert torch.equal(left, right)
    for depth, (path, node) in enumerate(seen, start=1):
        assert torch.equal(torch.cat([path, node[:, None]], 1), plain.path(depth))
    with torch.inference_mode():
        again = traverse(toy, [4, 0, 1], fanouts, bias, watchers, generator=1)
    assert all(map(torch.equal, plain.nodes, again.nodes))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fanouts", [[10**9], [10**6, 10**6], [10**12], [2] * 200])
def test_traverse_refuses_what_does_not_fit(toy, backend, fanouts):
    with (
        use_backend(backend),
        pytest.raises(ValueError, match=r"'fanouts' must ask .* \(got [\d,]+ bytes\)"),
    ):
        traverse(toy, [0] * 100, fanouts)


def test_accumulator_may_keep_what_it_is_shown(toy):
    """Also for a gradient: nothing is written to it at a later depth."""
    weight = torch.randn(5, 3, requires_grad=True)
    kept = []

    def record(path, node, fanout):
        kept.append((path, node, (weight[path].sum(1) * weight[node]).sum()))

    forest = traverse(toy, [0, 2], [1, 1, 1], accumulate=record)
    sum(loss for _, _, loss in kept).backward()
    for depth, (path, node, _) in enumerate(kept, 1):
        whole = forest.path(depth)
        assert torch.equal(path, whole[:, :-1])
        assert torch.equal(node, whole[:, -1])


def test_accumulator_cannot_spoil_what_is_shown_later(toy):
    shown = []

    def spoil(path, node, fanout):
        shown.append(path.clone())
        path.numpy()[:] = 3
        node.numpy()[:] = 3

    forest = traverse(toy, [0, 2], [1, 2, 1], accumulate=spoil)
    for depth, path in enumerate(shown, 1):
        assert torch.equal(path, forest.path(depth)[:, :-1])
