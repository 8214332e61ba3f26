"""sample_rooted over several types of nodes and edges."""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from all_pairs import all_pairs
from gttf_sampler import (
    CompactAdj,
    EdgeWeightBias,
    ExcludeBias,
    HeteroSubgraph,
    Node2VecBias,
    NoRevisitBias,
    TemporalBias,
    sample_rooted,
    use_backend,
)
from gttf_sampler.bench.peak import PeakMemory
from strategies import Hetero, backends, counts, fanouts, hetero

HOPS = 3


class Case(NamedTuple):
    """One call; `allowed(kind, root, edge)` says what its bias does not forbid."""

    data: Hetero
    fanouts: dict[tuple[str, str, str], list[int]]
    bias: Any
    allowed: Callable[[tuple[str, str, str], int, int], bool]
    replace: bool
    disjoint: bool
    key: int
    backend: str

    def sample(self) -> tuple[dict, HeteroSubgraph]:
        with use_backend(self.backend):
            adjs = self.data.adjs()
            sub = sample_rooted(
                adjs,
                self.data.seeds,
                self.fanouts,
                replace=self.replace,
                bias=self.bias,
                disjoint=self.disjoint,
                generator=self.key,
            )
        return adjs, sub

    def admitted(self, kind: tuple[str, str, str], node: int, root: int) -> list:
        """The (neighbour, caller's edge) of one relation that may be taken."""
        row = self.data.graphs[kind].rows()[node]
        return [entry for entry in row if self.allowed(kind, root, entry[1])]


@st.composite
def cases(draw: st.DrawFn, values: tuple[int, ...] = (-1, 0, 1, 2, 30)) -> Case:
    """Per-type fanouts; no bias, weights or times, for all or for some relations."""
    data = draw(hetero(timed=True, weighted=True))
    hops = draw(counts(HOPS))
    plan = st.lists(st.sampled_from(values), min_size=hops, max_size=hops)
    total = sum(len(ids) for ids in data.seeds.values())
    clock = draw(st.lists(st.integers(-4, 7), min_size=total, max_size=total))
    weight = {kind: graph.weight.tolist() for kind, graph in data.graphs.items()}
    time = {kind: graph.time.tolist() for kind, graph in data.graphs.items()}
    some = draw(st.sampled_from(list(data.graphs)))
    temporal = TemporalBias(torch.tensor(clock, dtype=torch.int64))

    def heavy(kind, root, edge):
        return weight[kind][edge] > 0

    def heavy_for_some(kind, root, edge):
        return kind != some or weight[kind][edge] > 0

    def timely(kind, root, edge):
        return time[kind][edge] <= clock[root]

    bias, allowed = draw(
        st.just((None, lambda kind, root, edge: True))
        | st.sampled_from(
            [
                (EdgeWeightBias(), heavy),
                ({some: EdgeWeightBias()}, heavy_for_some),
                (temporal, timely),
                (
                    temporal * EdgeWeightBias(),
                    lambda *edge: heavy(*edge) and timely(*edge),
                ),
            ]
        )
    )
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


def begins(counts: list[int]) -> list[int]:
    """0, and the running sums."""
    return [sum(counts[:i]) for i in range(len(counts) + 1)]


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


def lists(tensors: dict) -> dict:
    """The same as lists."""
    return {name: tensor.tolist() for name, tensor in tensors.items()}


def original(adjs: dict, sub: HeteroSubgraph) -> dict:
    """The caller's edges."""
    return {kind: adjs[kind].original_edge(sub.edge[kind]).tolist() for kind in adjs}


@given(cases(values=(-1, -1, 0)))
def test_hetero_all_neighbours_are_breadth_first_search(case):
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


@given(cases())
def test_hetero_edges_exist(case):
    adjs, sub = case.sample()
    assert list(sub.node) == list(sub.num_sampled_nodes)
    assert set(sub.node) == set(case.data.sizes)
    for arrays in (sub.row, sub.col, sub.edge, sub.num_sampled_edges):
        assert list(arrays) == list(adjs)
    for kind, edges in original(adjs, sub).items():
        source, target = case.data.graphs[kind].edge_index[:, edges].tolist()
        assert sub.node[kind[0]][sub.row[kind]].tolist() == source
        assert sub.node[kind[2]][sub.col[kind]].tolist() == target


@given(cases())
def test_hetero_fanouts(case):
    adjs, sub = case.sample()
    for kind, edges in original(adjs, sub).items():
        to = kind[2]
        node = sub.node[to].tolist()
        root = [-1] * len(node) if sub.batch is None else sub.batch[to].tolist()
        taken: dict[int, list[int]] = {}
        for place, edge in zip(sub.col[kind].tolist(), edges, strict=True):
            taken.setdefault(place, []).append(edge)
        first = begins(sub.num_sampled_nodes[to])
        for hop, fanout in enumerate(case.fanouts[kind]):
            for place in range(first[hop], first[hop + 1]):
                may = [
                    edge for _, edge in case.admitted(kind, node[place], root[place])
                ]
                got = taken.pop(place, [])
                assert set(got) <= set(may)
                if fanout < 0:
                    assert got == may
                elif case.replace:
                    assert len(got) == (fanout if may else 0)
                else:
                    assert len(got) == len(set(got)) == min(fanout, len(may))
        assert not taken


@given(cases())
def test_hetero_hops(case):
    _, sub = case.sample()
    depth = len(next(iter(case.fanouts.values())))
    for name, new in sub.num_sampled_nodes.items():
        assert len(new) == depth + 1
        assert sum(new) == sub.node[name].numel()
    for kind, taken in sub.num_sampled_edges.items():
        col = sub.col[kind].tolist()
        assert len(taken) == depth
        assert sum(taken) == len(col)
        assert col == sorted(col)
        first, ends = begins(sub.num_sampled_nodes[kind[2]]), begins(taken)
        for hop in range(depth):
            there = col[ends[hop] : ends[hop + 1]]
            assert all(first[hop] <= place < first[hop + 1] for place in there)


@given(cases())
def test_hetero_numbering(case):
    """Seeds as given; then hop by hop, edge type by edge type, as discovered."""
    adjs, sub = case.sample()
    for name, ids in sub.node.items():
        given_seeds = case.data.seeds.get(name, [])
        count = len(given_seeds)
        assert ids[:count].tolist() == given_seeds
        root = [-1] * len(ids) if sub.batch is None else sub.batch[name].tolist()
        identity = list(zip(root, ids.tolist(), strict=True))
        assert len(identity[count:]) == len(set(identity[count:]))
        assert not set(identity[count:]) & set(identity[:count])
    found = {name: len(case.data.seeds.get(name, [])) for name in sub.node}
    for hop in range(len(next(iter(case.fanouts.values())))):
        for kind in adjs:
            ends = begins(sub.num_sampled_edges[kind])
            for place in sub.row[kind][ends[hop] : ends[hop + 1]].tolist():
                assert place <= found[kind[0]]
                found[kind[0]] += place == found[kind[0]]
    assert found == {name: ids.numel() for name, ids in sub.node.items()}


@given(cases())
def test_hetero_trees(case):
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


@given(hetero(), fanouts())
def test_hetero_one_list_of_fanouts_serves_all(data, plan):
    adjs = data.adjs()
    one = sample_rooted(adjs, data.seeds, plan, generator=4)
    each = sample_rooted(adjs, data.seeds, dict.fromkeys(adjs, plan), generator=4)
    assert lists(one.node) == lists(each.node)
    assert lists(one.edge) == lists(each.edge)


RELATIONS = {
    ("user", "rates", "item"): CompactAdj.from_edge_index(
        [[0, 1, 2, 2], [0, 0, 1, 0]], (5, 2)
    ),
    ("item", "rated", "user"): CompactAdj.from_edge_index(
        [[0, 1, 1], [0, 1, 4]], (2, 5)
    ),
    ("item", "like", "item"): CompactAdj.from_edge_index([[0, 1], [1, 0]], 2),
}


def test_hetero_numbers_new_nodes_by_edge_type_in_mapping_order():
    first = CompactAdj.from_edge_index([[3], [0]], (5, 1))
    second = CompactAdj.from_edge_index([[1], [0]], (5, 1))
    adjs = {("u", "first", "v"): first, ("u", "second", "v"): second}
    forward = sample_rooted(adjs, {"v": [0]}, [-1])
    assert forward.node["u"].tolist() == [3, 1]
    backward = sample_rooted(dict(reversed(adjs.items())), {"v": [0]}, [-1])
    assert backward.node["u"].tolist() == [1, 3]


@pytest.mark.parametrize("bias", [None, EdgeWeightBias()])
def test_hetero_type_that_never_sends(bias):
    """No relation leads away from an item, so that no hop after the seeds has any."""
    adjs = {
        ("user", "rates", "item"): CompactAdj.from_edge_index(
            [[0], [0]], (2, 1), edge_weight=[1.0]
        ),
        ("user", "knows", "user"): CompactAdj.from_edge_index(
            [[1], [0]], 2, edge_weight=[1.0]
        ),
    }
    sub = sample_rooted(adjs, {"item": [0]}, [-1, -1], bias=bias)
    assert lists(sub.node) == {"user": [0, 1], "item": [0]}
    assert sub.num_sampled_nodes == {"user": [0, 1, 1], "item": [1, 0, 0]}


@pytest.mark.parametrize("disjoint", [False, True])
def test_hetero_one_graph_for_several_relations(disjoint):
    """The relations share a graph, and with it the scratch of both node types."""
    ring = CompactAdj.from_edge_index([[0, 1, 2], [1, 2, 0]])
    adjs = {("a", "x", "b"): ring, ("b", "y", "a"): ring, ("b", "z", "b"): ring}
    seeds = {"a": [0], "b": [2, 2]}
    sub = sample_rooted(adjs, seeds, [-1, -1], disjoint=disjoint)
    twins = {kind: copy.deepcopy(ring) for kind in adjs}
    expected = sample_rooted(twins, seeds, [-1, -1], disjoint=disjoint)
    assert lists(sub.node) == lists(expected.node)
    assert lists(sub.row) == lists(expected.row)


@pytest.mark.parametrize("disjoint", [False, True])
def test_hetero_fanout_far_beyond_the_degree(disjoint):
    sub = sample_rooted(RELATIONS, {"item": [0]}, [1 << 40, 1 << 40], disjoint=disjoint)
    every = sample_rooted(RELATIONS, {"item": [0]}, [-1, -1], disjoint=disjoint)
    assert lists(sub.node) == lists(every.node)
    assert lists(sub.edge) == lists(every.edge)


def test_hetero_repr():
    sub = sample_rooted(RELATIONS, {"item": [0]}, [-1])
    assert repr(sub) == (
        "HeteroSubgraph(nodes {user: 3, item: 2}, edges {user→rates→item: 3, "
        "item→rated→user: 0, item→like→item: 1})"
    )


@all_pairs
@pytest.mark.parametrize("plan", [[], [0], [-1, 2]])
@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("start", [{}, {"user": []}, {"item": [], "user": []}])
def test_hetero_empty(start, plan, disjoint):
    sub = sample_rooted(RELATIONS, start, plan, disjoint=disjoint)
    assert lists(sub.node) == {"user": [], "item": []}
    assert all(edges.numel() == 0 for edges in sub.edge.values())
    assert sub.num_sampled_nodes["user"] == [0] * (len(plan) + 1)


def test_hetero_one_type_equals_no_types(toy_edges):
    adj = CompactAdj.from_edge_index(toy_edges)
    plain = sample_rooted(adj, [4, 0, 4], [2, -1, 1], generator=9)
    typed = sample_rooted({("v", "e", "v"): adj}, {"v": [4, 0, 4]}, [2, -1, 1])
    again = sample_rooted(
        {("v", "e", "v"): adj}, {"v": [4, 0, 4]}, [2, -1, 1], generator=9
    )
    assert again.node["v"].tolist() == plain.node.tolist()
    assert again.edge["v", "e", "v"].tolist() == plain.edge.tolist()
    assert typed.num_sampled_nodes["v"][0] == 3


def test_hetero_no_revisit_changes_nothing():
    """sample_rooted expands a node once anyway, through each of its relations."""
    plain = sample_rooted(RELATIONS, {"item": [0]}, [-1, -1, -1])
    sub = sample_rooted(RELATIONS, {"item": [0]}, [-1, -1, -1], bias=NoRevisitBias())
    assert lists(sub.edge) == lists(plain.edge)


def test_hetero_direction_out_is_refused():
    """Rows must be the nodes of the target type; along the edges they are sources."""
    adj = CompactAdj.from_edge_index([[0, 1], [1, 2]], 3, direction="out")
    with pytest.raises(ValueError, match=r"^'adj' must .*'in'"):
        sample_rooted({("a", "to", "b"): adj}, {"b": [0]}, [-1])


KINDS = list(RELATIONS)
SQUARE = CompactAdj.from_edge_index([[0], [1]], 2)

ERRORS = [
    ({"adj": {}}, ValueError, r"'adj' must hold at least one edge type"),
    ({"adj": {"x": SQUARE}}, ValueError, r"'adj' must have keys \(source, .*'x'\)"),
    ({"adj": {("a", "b"): SQUARE}}, ValueError, r"'adj' must have keys \(source"),
    ({"adj": {("a", "b", "c"): 5}}, TypeError, r"'adj' must "),
    ({"adj": {("a", "b", "c"): None}}, TypeError, r"'adj' must "),
    (
        {"adj": {**RELATIONS, ("user", "knows", "user"): SQUARE}},
        ValueError,
        r"'adj' must agree on the number of 'user' nodes \(got 5 and 2 in",
    ),
    ({"seeds": [0]}, TypeError, r"'seeds' must map node types to ids.*\(got list\)"),
    (
        {"seeds": {"film": [0]}},
        ValueError,
        r"'seeds' must use the node types of 'adj', \['user', 'item'\] \(got 'film'\)",
    ),
    (
        {"seeds": {"item": [2]}},
        ValueError,
        r"'seeds\[item\]' must hold ids below .* 2 \(got 2",
    ),
    (
        {"seeds": {"item": [-1]}},
        ValueError,
        r"'seeds\[item\]' must not hold negative ids",
    ),
    (
        {"seeds": {"item": 0}},
        ValueError,
        r"'seeds\[item\]' must have .*\(got shape \[\]\)",
    ),
    (
        {"seeds": {"item": None}},
        TypeError,
        r"'seeds\[item\]' must be .*\(got NoneType\)",
    ),
    (
        {"seeds": {"item": [0.0]}},
        TypeError,
        r"'seeds\[item\]' must have dtype int32 or int64",
    ),
    ({"fanouts": 3}, TypeError, r"'fanouts' must be a list of integers \(got 3\)"),
    ({"fanouts": {KINDS[0]: [1]}}, ValueError, r"'fanouts' must name every edge type"),
    (
        {"fanouts": {**{key: [1] for key in KINDS}, ("a", "b", "c"): [1]}},
        ValueError,
        r"'fanouts' must use the edge types of 'adj', .*\(got \('a', 'b', 'c'\)\)",
    ),
    (
        {"fanouts": {kind: [1] * n for n, kind in enumerate(KINDS)}},
        ValueError,
        r"'fanouts' must have one length for all edge types \(got \[0, 1, 2\]\)",
    ),
    ({"fanouts": dict.fromkeys(KINDS, 1)}, TypeError, r"'fanouts\[user, .*\]' must"),
    (
        {"fanouts": {key: [1.0] for key in KINDS}},
        TypeError,
        r"'fanouts\[.*\]' must be ",
    ),
    (
        {"bias": {("a", "b", "c"): EdgeWeightBias()}},
        ValueError,
        r"'bias' must use the edge types of 'adj', .*\(got \('a', 'b', 'c'\)\)",
    ),
    ({"bias": {KINDS[0]: 5}}, TypeError, r"'bias' must be .*5"),
    ({"bias": 5}, TypeError, r"'bias' must be .*5"),
    (
        {"bias": Node2VecBias(2.0, 0.5)},
        ValueError,
        r"'bias' must not ask for the last node where there are several node types",
    ),
    ({"bias": {KINDS[2]: Node2VecBias()}}, ValueError, r"'bias' must not ask for the"),
    ({"bias": EdgeWeightBias()}, ValueError, r"'bias' needs edge weights .*; build"),
    ({"bias": TemporalBias([1])}, ValueError, r"'bias' needs edge times .*; build"),
    (
        {"bias": TemporalBias([1, 2])},
        ValueError,
        r"'seed_time' must have one entry per seed, 1 in all \(got 2\)",
    ),
    ({"generator": 1.5}, TypeError, r"'generator' must be .*1.5"),
]


@pytest.mark.parametrize(("arguments", "error", "match"), ERRORS)
def test_hetero_validate(arguments, error, match):
    good = {"adj": RELATIONS, "seeds": {"item": [0]}, "fanouts": [1]}
    with pytest.raises(error, match=f"^{match}"):
        sample_rooted(**{**good, **arguments})


@given(cases())
def test_hetero_induced(case):
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


def test_hetero_induced_validate():
    sub = sample_rooted(RELATIONS, {"item": [0]}, [1])
    some = dict(list(RELATIONS.items())[:1])
    with pytest.raises(ValueError, match="'adjs' must hold the edge types that were"):
        sub.induced(some)


@pytest.mark.parametrize("backend", ["numba", "torch"])
@pytest.mark.parametrize("kind", ["plain", "weighted", "excluded"])
def test_hetero_memory_follows_what_is_drawn(backend, kind):
    """One hub makes the fanout useful; other rows must not pay 200 MB for it."""
    hub = torch.stack([torch.arange(5000), torch.zeros(5000, dtype=torch.long)])
    ring = torch.stack([torch.arange(4999), torch.arange(1, 5000)])
    edges = torch.cat([hub, ring], dim=1)
    weight = 1 + torch.arange(9999) % 3
    adj = CompactAdj.from_edge_index(edges, 5000, edge_weight=weight)
    biases = {"weighted": EdgeWeightBias(), "excluded": ExcludeBias([0, 5000, 7000])}
    bias, relation = biases.get(kind), ("a", "r", "a")

    def call():
        seeds = {"a": torch.arange(5000)}
        how = {"bias": None if bias is None else {relation: bias}, "generator": 0}
        return sample_rooted({relation: adj}, seeds, [4900], **how)

    with use_backend(backend):
        found = call()
        with PeakMemory() as memory:
            call()
    lost = 2 if kind == "excluded" else 0
    assert found.row[relation].numel() == 4900 + 4999 - lost
    assert memory.beyond < 50 << 20
