"""sample_rooted over several types of nodes and edges."""

import copy

import pytest
import torch
from hypothesis import given

from all_pairs import all_pairs
from gttf_sampler import (
    CompactAdj,
    EdgeWeightBias,
    ExcludeBias,
    Node2VecBias,
    NoRevisitBias,
    TemporalBias,
    sample_rooted,
    use_backend,
)
from gttf_sampler.bench.machine import PeakMemory
from odd_values import mistyped, wrong
from strategies import fanouts, hetero


def lists(tensors: dict) -> dict:
    """The same as lists."""
    return {name: tensor.tolist() for name, tensor in tensors.items()}


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
    wrong("must hold at least one edge type", adj={}),
    wrong(r"must have keys \(source, .*'x'\)", adj={"x": SQUARE}),
    wrong(r"must have keys \(source", adj={("a", "b"): SQUARE}),
    mistyped("must ", adj={("a", "b", "c"): 5}),
    mistyped("must ", adj={("a", "b", "c"): None}),
    wrong(
        r"must agree on the number of 'user' nodes \(got 5 and 2 in",
        adj={**RELATIONS, ("user", "knows", "user"): SQUARE},
    ),
    mistyped(r"must map node types to ids.*\(got list\)", seeds=[0]),
    wrong(
        r"must use the node types of 'adj', \['user', 'item'\] \(got 'film'\)",
        seeds={"film": [0]},
    ),
    wrong(r"'seeds\[item\]' must hold ids below .* 2 \(got 2", seeds={"item": [2]}),
    wrong(r"'seeds\[item\]' must not hold negative ids", seeds={"item": [-1]}),
    wrong(r"'seeds\[item\]' must have .*\(got shape \[\]\)", seeds={"item": 0}),
    mistyped(r"'seeds\[item\]' must be .*\(got NoneType\)", seeds={"item": None}),
    mistyped(r"'seeds\[item\]' must have dtype int32 or int64", seeds={"item": [0.0]}),
    mistyped(r"must be a list of integers \(got 3\)", fanouts=3),
    wrong("must name every edge type", fanouts={KINDS[0]: [1]}),
    wrong(
        r"must use the edge types of 'adj', .*\(got \('a', 'b', 'c'\)\)",
        fanouts={**{key: [1] for key in KINDS}, ("a", "b", "c"): [1]},
    ),
    wrong(
        r"must have one length for all edge types \(got \[0, 1, 2\]\)",
        fanouts={kind: [1] * n for n, kind in enumerate(KINDS)},
    ),
    mistyped(r"'fanouts\[user, .*\]' must", fanouts=dict.fromkeys(KINDS, 1)),
    mistyped(r"'fanouts\[.*\]' must be ", fanouts={key: [1.0] for key in KINDS}),
    wrong(
        r"must use the edge types of 'adj', .*\(got \('a', 'b', 'c'\)\)",
        bias={("a", "b", "c"): EdgeWeightBias()},
    ),
    mistyped("must be .*5", bias={KINDS[0]: 5}),
    mistyped("must be .*5", bias=5),
    wrong(
        "must not ask for the last node where there are several node types",
        bias=Node2VecBias(2.0, 0.5),
    ),
    wrong("must not ask for the", bias={KINDS[2]: Node2VecBias()}),
    wrong("needs edge weights .*; build", bias=EdgeWeightBias()),
    wrong("needs edge times .*; build", bias=TemporalBias([1])),
    wrong(
        r"'seed_time' must have one entry per seed, 1 in all \(got 2\)",
        bias=TemporalBias([1, 2]),
    ),
    mistyped("must be .*1.5", generator=1.5),
]


@pytest.mark.parametrize(("arguments", "error", "match"), ERRORS)
def test_hetero_validate(arguments, error, match):
    good = {"adj": RELATIONS, "seeds": {"item": [0]}, "fanouts": [1]}
    with pytest.raises(error, match=f"^{match}"):
        sample_rooted(**{**good, **arguments})


def test_hetero_induced_validate():
    sub = sample_rooted(RELATIONS, {"item": [0]}, [1])
    some = dict(list(RELATIONS.items())[:1])
    with pytest.raises(ValueError, match="'adjs' must hold the edge types that were"):
        sub.induced(some)


@pytest.mark.parametrize("backend", ["numba", "torch"])
@pytest.mark.parametrize("kind", ["plain", "weighted", "excluded"])
def test_hetero_memory_follows_what_is_drawn(backend, kind):
    """One hub makes the fanout useful; other rows must not pay 50 MB for it."""
    hub = torch.stack([torch.arange(2000), torch.zeros(2000, dtype=torch.long)])
    ring = torch.stack([torch.arange(1999), torch.arange(1, 2000)])
    edges = torch.cat([hub, ring], dim=1)
    weight = 1 + torch.arange(3999) % 3
    adj = CompactAdj.from_edge_index(edges, 2000, edge_weight=weight)
    biases = {"weighted": EdgeWeightBias(), "excluded": ExcludeBias([0, 2000, 3000])}
    bias, relation = biases.get(kind), ("a", "r", "a")

    def call():
        seeds = {"a": torch.arange(2000)}
        how = {"bias": None if bias is None else {relation: bias}, "generator": 0}
        return sample_rooted({relation: adj}, seeds, [1900], **how)

    with use_backend(backend):
        found = call()
        with PeakMemory() as memory:
            call()
    lost = 2 if kind == "excluded" else 0
    assert found.row[relation].numel() == 1900 + 1999 - lost
    assert memory.beyond < 15 << 20
