"""sample_rooted, with types of nodes and without: what every sample promises."""

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gttf_sampler import (
    AttentionBias,
    EdgeWeightBias,
    HeteroSubgraph,
    Neighborhood,
    Node2VecBias,
    Subgraph,
    TemporalBias,
    sample_rooted,
    use_backend,
)
from strategies import Hetero, backends, counts, graphs, hetero, seeds

HOPS = 3
ONLY = ("", "", "")  # the one relation of a graph without types
EdgeType = tuple[str, str, str]


class Case(NamedTuple):
    """One call; `allowed(kind, root, edge)` says what its bias does not forbid."""

    data: Hetero
    fanouts: dict[EdgeType, list[int]]
    bias: Any
    allowed: Callable[[EdgeType, int, int], bool]
    replace: bool
    disjoint: bool
    key: int
    backend: str

    def sample(self) -> tuple[dict, HeteroSubgraph]:
        given: Any = self.data.adjs(), self.data.seeds, self.fanouts
        adjs = given[0]
        if ONLY in adjs:
            given = adjs[ONLY], self.data.seeds[""], self.fanouts[ONLY]
        options = {"replace": self.replace, "disjoint": self.disjoint}
        with use_backend(self.backend):
            sub = sample_rooted(*given, bias=self.bias, generator=self.key, **options)
        return adjs, typed(sub) if ONLY in adjs else sub

    def admitted(self, kind: EdgeType, node: int, root: int) -> list:
        """The (neighbour, caller's edge) of one relation that may be taken."""
        row = self.data.graphs[kind].rows()[node]
        return [entry for entry in row if self.allowed(kind, root, entry[1])]

    @property
    def depth(self) -> int:
        return len(next(iter(self.fanouts.values())))


def typed(sub: Subgraph) -> HeteroSubgraph:
    """A sample of one type, by its name."""
    return HeteroSubgraph(
        {"": sub.node},
        {ONLY: sub.row},
        {ONLY: sub.col},
        {ONLY: sub.edge},
        None if sub.batch is None else {"": sub.batch},
        {"": sub.num_sampled_nodes},
        {ONLY: sub.num_sampled_edges},
    )


def plain(path: torch.Tensor, node: torch.Tensor, hood: Neighborhood) -> torch.Tensor:
    """A user's BiasFn: twice as much for even neighbours."""
    return 2.0 - hood.neighbor % 2


@st.composite
def cases(draw: st.DrawFn, types: bool, values: tuple[int, ...]) -> Case:
    """Graphs with weights and times, and all biases; TemporalBias implies disjoint."""
    if types:
        data = draw(hetero(timed=True, weighted=True))
    else:
        graph = draw(graphs(weighted=True, timed=True))
        start = draw(seeds(graph.num_nodes))
        data = Hetero({ONLY: graph}, {"": graph.num_nodes}, {"": start})
    hops = draw(counts(HOPS))
    plan = st.lists(st.sampled_from(values), min_size=hops, max_size=hops)
    total = sum(len(ids) for ids in data.seeds.values())
    clock = draw(st.lists(st.integers(-4, 7), min_size=total, max_size=total))
    window = draw(st.sampled_from([None, 0, 2, 3.5]))
    weight = {kind: graph.weight.tolist() for kind, graph in data.graphs.items()}
    when = {kind: graph.time.tolist() for kind, graph in data.graphs.items()}
    some = draw(st.sampled_from(list(data.graphs)))
    p, q = draw(st.sampled_from([(1.0, 1.0), (0.25, 4.0), (1e3, 1e-3)]))

    def heavy(kind, root, edge):
        return weight[kind][edge] > 0

    def heavy_for_some(kind, root, edge):
        return kind != some or weight[kind][edge] > 0

    def timely(kind, root, edge):
        first = -100 if window is None else clock[root] - window
        return first <= when[kind][edge] <= clock[root]

    def both(kind, root, edge):
        return heavy(kind, root, edge) and timely(kind, root, edge)

    def every(kind, root, edge):
        return True

    seed_time = torch.tensor(clock, dtype=torch.int64)
    temporal = TemporalBias(seed_time, window=window)
    weighed = TemporalBias(seed_time, window=window, weighted=True)
    walk = Node2VecBias(p, q)
    biases: list[Any] = [
        (plain, every),
        (AttentionBias(lambda here, there: 1.0 + here + there), every),
        (EdgeWeightBias(), heavy),
        (temporal, timely),
        (weighed, both),
        (plain * EdgeWeightBias(), heavy),
        (temporal * EdgeWeightBias(), both),
        (plain * temporal * EdgeWeightBias(), both),
    ]
    if types:
        biases.append(({some: EdgeWeightBias()}, heavy_for_some))
    else:
        biases += [
            (walk, every),
            (Node2VecBias(p, q, weighted=True), heavy),
            (EdgeWeightBias() * walk, heavy),
            (walk * temporal, timely),
        ]
    # half of the time: the fused path
    bias, allowed = draw(st.just((None, every)) | st.sampled_from(biases))
    return Case(
        data,
        {kind: draw(plan) for kind in data.graphs},
        bias,
        allowed,
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.integers(0, 1 << 40)),
        draw(backends()),
    )


def promise(*values: int) -> Callable:
    """Checks a test's promise on cases with types, and on cases without."""

    def with_cases(test: Callable) -> Callable:
        @pytest.mark.parametrize("types", [False, True], ids=["plain", "typed"])
        @given(data=st.data())
        def run(types, data):
            test(data.draw(cases(types, values)))

        return run

    return with_cases


ANY = (-1, 0, 1, 2, 3, 30)


def begins(counts: list[int]) -> list[int]:
    """0, and the running sums."""
    return [sum(counts[:i]) for i in range(len(counts) + 1)]


def lists(tensors: dict) -> dict:
    """The same as lists."""
    return {name: tensor.tolist() for name, tensor in tensors.items()}


def original(adjs: dict, sub: HeteroSubgraph) -> dict:
    """The caller's edges."""
    return {kind: adjs[kind].original_edge(sub.edge[kind]).tolist() for kind in adjs}


def roots(sub: HeteroSubgraph, name: str) -> list[int]:
    """The tree of every node of a type; -1 where trees share nodes."""
    if sub.batch is None:
        return [-1] * sub.node[name].numel()
    return sub.batch[name].tolist()


@promise(*ANY)
def test_rooted_edges_exist(case):
    adjs, sub = case.sample()
    assert list(sub.node) == list(sub.num_sampled_nodes)
    assert set(sub.node) == set(case.data.sizes)
    for arrays in (sub.row, sub.col, sub.edge, sub.num_sampled_edges):
        assert list(arrays) == list(adjs)
    for kind, edges in original(adjs, sub).items():
        graph = case.data.graphs[kind]
        ends = graph.edge_index[:, edges].tolist()
        sent, received = ends if graph.direction == "in" else ends[::-1]
        assert sub.node[kind[0]][sub.row[kind]].tolist() == sent
        assert sub.node[kind[2]][sub.col[kind]].tolist() == received


@promise(*ANY)
def test_rooted_fanouts(case):
    adjs, sub = case.sample()
    for kind, edges in original(adjs, sub).items():
        to = kind[2]
        node, root = sub.node[to].tolist(), roots(sub, to)
        taken: dict[int, list[int]] = {}
        for place, edge in zip(sub.col[kind].tolist(), edges, strict=True):
            taken.setdefault(place, []).append(edge)
        first = begins(sub.num_sampled_nodes[to])
        for hop, fanout in enumerate(case.fanouts[kind]):
            for place in range(first[hop], first[hop + 1]):
                found = case.admitted(kind, node[place], root[place])
                may, got = [edge for _, edge in found], taken.pop(place, [])
                assert set(got) <= set(may)
                if fanout < 0:
                    assert got == may
                elif case.replace:
                    assert len(got) == (fanout if may else 0)
                else:
                    assert len(got) == len(set(got)) == min(fanout, len(may))
        assert not taken  # the nodes of the last hop are not expanded


@promise(*ANY)
def test_rooted_numbering(case):
    """Seeds as given; then hop by hop, edge type by edge type, as discovered."""
    adjs, sub = case.sample()
    identity = {}
    for name, ids in sub.node.items():
        start = case.data.seeds.get(name, [])
        assert ids[: len(start)].tolist() == start
        identity[name] = list(zip(roots(sub, name), ids.tolist(), strict=True))
        later = identity[name][len(start) :]
        assert len(later) == len(set(later))
        assert not set(later) & set(identity[name][: len(start)])
    # the local id that the next discovery gets
    found = {name: len(case.data.seeds.get(name, [])) for name in sub.node}
    for hop in range(case.depth):
        for kind in adjs:
            ends, known = begins(sub.num_sampled_edges[kind]), identity[kind[0]]
            for place in sub.row[kind][ends[hop] : ends[hop + 1]].tolist():
                assert place <= found[kind[0]]
                found[kind[0]] += place == found[kind[0]]
                if sub.batch is None:
                    assert known.index(known[place]) == place  # first copy of a seed
    assert found == {name: ids.numel() for name, ids in sub.node.items()}


@promise(*ANY)
def test_rooted_hops(case):
    _, sub = case.sample()
    first = {name: begins(new) for name, new in sub.num_sampled_nodes.items()}
    new: dict = {(name, hop): set() for name in first for hop in range(case.depth)}
    for name, counted in sub.num_sampled_nodes.items():
        assert len(counted) == case.depth + 1
        assert sum(counted) == sub.node[name].numel()
    for kind, taken in sub.num_sampled_edges.items():
        col, ends = sub.col[kind].tolist(), begins(taken)
        assert (len(taken), sum(taken)) == (case.depth, len(col))
        assert col == sorted(col)
        for hop in range(case.depth):
            there, own = col[ends[hop] : ends[hop + 1]], first[kind[2]]
            assert all(own[hop] <= place < own[hop + 1] for place in there)
            new[kind[0], hop] |= set(sub.row[kind][ends[hop] : ends[hop + 1]].tolist())
    for (name, hop), places in new.items():
        begin, end = first[name][hop + 1 : hop + 3]
        assert set(range(begin, end)) <= places
        assert all(place < end for place in places)


@promise(*ANY)
def test_rooted_dtypes(case):
    _, sub = case.sample()
    for arrays in (sub.node, sub.row, sub.col, sub.edge):
        for array in arrays.values():
            assert array.dtype == torch.int64
            assert array.dim() == 1
            assert array.is_contiguous()
    for kind, row in sub.row.items():
        assert row.numel() == sub.col[kind].numel() == sub.edge[kind].numel()


@promise(*ANY)
def test_rooted_trees(case):
    adjs, sub = case.sample()
    timed = getattr(case.bias, "separates_trees", False)
    assert (sub.batch is not None) == (case.disjoint or timed)
    if sub.batch is None:
        return
    number = 0
    for name, ids in case.data.seeds.items():
        own = sub.batch[name][: len(ids)].tolist()
        assert own == list(range(number, number + len(ids)))
        number += len(ids)
    for kind in adjs:
        sent, received = sub.batch[kind[0]], sub.batch[kind[2]]
        assert torch.equal(sent[sub.row[kind]], received[sub.col[kind]])


@promise(*ANY)
def test_rooted_copies_of_a_seed_draw_the_same(case):
    _, sub = case.sample()
    if sub.batch is not None:
        return  # trees of their own
    for kind in sub.row:
        rows: dict[int, list[tuple[int, int]]] = {}
        columns = (sub.row[kind], sub.col[kind], sub.edge[kind])
        for row, col, edge in zip(*(x.tolist() for x in columns), strict=True):
            rows.setdefault(col, []).append((row, edge))
        start = case.data.seeds.get(kind[2], [])
        for place, seed in enumerate(start):
            assert rows.get(place) == rows.get(start.index(seed))


def reference(case: Case, disjoint: bool) -> tuple[dict, dict, dict, dict, dict, dict]:
    """Breadth-first search for fanouts of -1 and 0, in plain Python."""
    data, depth = case.data, len(next(iter(case.fanouts.values())))
    node: dict[str, list[int]] = {name: [] for name in data.sizes}
    root: dict[str, list[int]] = {name: [] for name in data.sizes}
    local: dict[tuple[str, int, int], int] = {}
    trees = 0
    for name, ids in data.seeds.items():
        for seed in ids:
            local.setdefault((name, trees if disjoint else -1, seed), len(node[name]))
            node[name].append(seed)
            root[name].append(trees)
            trees += 1
    rows: dict = {kind: [] for kind in data.graphs}
    cols: dict = {kind: [] for kind in data.graphs}
    edges: dict = {kind: [] for kind in data.graphs}
    node_hops = {name: [len(ids)] for name, ids in node.items()}
    edge_hops: dict = {kind: [] for kind in data.graphs}
    frontier = {name: range(len(ids)) for name, ids in node.items()}
    for hop in range(depth):
        known = {name: len(ids) for name, ids in node.items()}
        for kind in data.graphs:
            by, to, found = kind[0], kind[2], len(edges[kind])
            for place in frontier[to] if case.fanouts[kind][hop] else ():
                tree = root[to][place]
                for there, edge in case.admitted(kind, node[to][place], tree):
                    identity = (by, tree if disjoint else -1, there)
                    if identity not in local:
                        local[identity] = len(node[by])
                        node[by].append(there)
                        root[by].append(tree)
                    rows[kind].append(local[identity])
                    cols[kind].append(place)
                    edges[kind].append(edge)
            edge_hops[kind].append(len(edges[kind]) - found)
        frontier = {name: range(known[name], len(ids)) for name, ids in node.items()}
        for name, places in frontier.items():
            node_hops[name].append(len(places))
    return node, rows, cols, edges, node_hops, edge_hops


@promise(-1, -1, -1, 0)
def test_rooted_all_neighbours_are_breadth_first_search(case):
    adjs, sub = case.sample()
    found = (
        lists(sub.node),
        lists(sub.row),
        lists(sub.col),
        original(adjs, sub),
        sub.num_sampled_nodes,
        sub.num_sampled_edges,
    )
    assert found == reference(case, sub.batch is not None)


@promise(*ANY)
def test_rooted_large_fanout_takes_all(case):
    """30 is more than any degree here: the same edges as -1, whatever the bias."""
    drawn = []
    for fanout in (30, -1):
        plan = {kind: [fanout] for kind in case.fanouts}
        drawn.append(case._replace(fanouts=plan, replace=False).sample()[1])
    for kind in case.fanouts:
        some, every = (Counter(sub.edge[kind].tolist()) for sub in drawn)
        assert some == every


@given(cases(True, ANY))
def test_rooted_induced(case):
    adjs, sub = case.sample()
    with use_backend(case.backend):
        induced = sub.induced(adjs)
    tree = sub.batch or {name: torch.full_like(x, -1) for name, x in sub.node.items()}
    identity = {
        name: list(zip(tree[name].tolist(), node.tolist(), strict=True))
        for name, node in sub.node.items()
    }
    for kind, graph in case.data.graphs.items():
        known, rows = identity[kind[0]], graph.rows()
        expected = [
            (known.index((root, there)), place, edge)
            for place, (root, node) in enumerate(identity[kind[2]])
            for there, edge in rows[node]
            if (root, there) in known
        ]
        edge = adjs[kind].original_edge(induced.edge[kind])
        ends = induced.row[kind].tolist(), induced.col[kind].tolist()
        assert list(zip(*ends, edge.tolist(), strict=True)) == expected
    assert induced.node is sub.node
    assert induced.num_sampled_nodes is induced.num_sampled_edges is None
