"""random_walk and node2vec_random_walk, with the results of dgl.sampling."""

import inspect

import dgl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from all_pairs import all_pairs
from exact import assert_frequencies, one_thread, paths, second_order
from gttf_dgl import NeighborSampler, node2vec_random_walk, ppr_graph, random_walk
from strategies import Graph, graphs, seeds

__all__ = ["one_thread"]

WALKS = 40_000
ROWS = [[1, 2, 3], [0, 2, 2], [0, 3], [1, 4], []]  # one-way and multi-edges, an end
WEIGHTS = [1.0, 0.0, 3.0, 2.0, 1.0, 1.0, 0.5, 0.5, 1.0, 2.0]  # in their order


def as_graph(rows, weights=None, idtype=torch.int64):
    """Node u has edges to rows[u]; they are shuffled, so that ids are not positions."""
    ends = [(u, v) for u, row in enumerate(rows) for v in row]
    order = torch.randperm(len(ends), generator=torch.Generator().manual_seed(0))
    source, target = torch.tensor(ends)[order].t()
    g = dgl.graph((source, target), num_nodes=len(rows), idtype=idtype)
    if weights is not None:
        g.edata["w"] = torch.tensor(weights)[order]
    return g


def first_order(weights):
    return second_order(ROWS, weights, 1, 1)


ONES = [1.0] * sum(map(len, ROWS))


@all_pairs
@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("prob", [None, "w"])
@pytest.mark.parametrize("start", [0, 1, 4])
def test_random_walk_has_the_exact_distribution(prob, idtype, start):
    g = as_graph(ROWS, WEIGHTS, idtype)
    nodes = torch.full((WALKS,), start, dtype=idtype)
    traces, types = random_walk(g, nodes, length=3, prob=prob, generator=1)
    assert traces.dtype == types.dtype == idtype
    assert types.tolist() == [0] * 4
    exact = paths(first_order(WEIGHTS if prob else ONES), start, 3, -1)
    assert_frequencies(traces.long(), exact)


@pytest.mark.parametrize("prob", [None, "w"])
@pytest.mark.parametrize(("p", "q"), [(1, 1), (0.25, 4.0), (5.0, 0.2), (100, 1)])
def test_node2vec_has_the_exact_distribution(p, q, prob):
    g = as_graph(ROWS, WEIGHTS)
    traces = node2vec_random_walk(g, [0] * WALKS, p, q, 3, prob=prob, generator=1)
    exact = paths(second_order(ROWS, WEIGHTS if prob else ONES, p, q), 0, 3, -1)
    assert_frequencies(traces, exact)


@pytest.mark.parametrize(
    "restart", [0.3, torch.tensor([0.3, 0.0, 0.5]), torch.tensor([0.0, 1.0, 0.0])]
)
def test_restarts_end_walks_before_a_step(restart):
    chance = [restart] * 3 if isinstance(restart, float) else restart.tolist()
    plain = first_order(ONES)

    def step(path):
        stop = chance[len(path) - 1]
        moves = {v: (1 - stop) * share for v, share in plain(path).items()}
        return {**moves, -1: 1 - sum(moves.values())}

    g = as_graph(ROWS)
    traces, _ = random_walk(g, [1] * WALKS, length=3, restart_prob=restart, generator=1)
    assert_frequencies(traces, paths(step, 1, 3, -1))


def test_walks_stop_where_nothing_weighs_anything():
    g = as_graph([[1], [0]], [1.0, 0.0])
    traces, eids, _ = random_walk(g, [0], length=3, prob="w", return_eids=True)
    assert traces.tolist() == [[0, 1, -1, -1]]
    assert g.find_edges(eids[0, :1])[1].tolist() == [1]
    assert eids[0, 1:].tolist() == [-1, -1]
    found = node2vec_random_walk(g, [0], 1, 1, 3, prob="w")
    assert found.tolist() == [[0, 1, -1, -1]]


@settings(max_examples=40)
@given(data=graphs(weighted=True, timed=False), draw=st.data())
def test_walks_follow_edges(data: Graph, draw):
    """And pad with -1 from where there is none, in traces and in edge ids."""
    size = data.num_nodes
    g = dgl.graph(tuple(data.edge_index.contiguous()), num_nodes=size)
    g.edata["w"] = data.weight
    nodes = draw.draw(seeds(size))
    length = draw.draw(st.integers(0, 4))
    prob = draw.draw(st.sampled_from([None, "w"]))
    walks = (
        random_walk(g, nodes, length=length, prob=prob, return_eids=True)[:2],
        node2vec_random_walk(g, nodes, 0.5, 2.0, length, prob, return_eids=True),
    )
    ends = data.edge_index.t().tolist()
    weight = data.weight.tolist() if prob else [1.0] * len(ends)
    for traces, eids in walks:
        assert traces.shape == (len(nodes), length + 1)
        assert eids.shape == (len(nodes), length)
        assert traces.dtype == eids.dtype == g.idtype
        assert traces[:, 0].tolist() == nodes
        for path, edges in zip(traces.tolist(), eids.tolist(), strict=True):
            for here, there, eid in zip(path, path[1:], edges, strict=False):
                if eid >= 0:
                    assert ends[eid] == [here, there]
                    assert weight[eid] > 0
                else:
                    assert there == -1
                    ways = [i for i, (u, _) in enumerate(ends) if u == here]
                    assert not any(weight[i] for i in ways)


SHOP = dgl.heterograph(
    {
        ("user", "follow", "user"): ([0, 1, 1, 2, 3], [1, 2, 3, 0, 0]),
        ("user", "view", "item"): ([0, 0, 1, 2, 3, 3], [0, 1, 1, 2, 2, 1]),
        ("item", "viewed-by", "user"): ([0, 1, 1, 2, 2, 1], [0, 0, 1, 2, 3, 3]),
    }
)


def test_metapath_walks_have_the_exact_distribution():
    """Whatever DGL draws has the same node types and the same ends."""
    metapath = ["follow", "view", "viewed-by"]
    traces, eids, types = random_walk(
        SHOP, [1] * WALKS, metapath=metapath, return_eids=True, generator=1
    )
    _, theirs = dgl.sampling.random_walk(SHOP, [1], metapath=metapath)
    assert torch.equal(types, theirs)
    for step, name in enumerate(metapath):
        source, target = SHOP.find_edges(eids[:, step], etype=name)
        assert torch.equal(source, traces[:, step])
        assert torch.equal(target, traces[:, step + 1])
    rows = {
        kind[1]: [
            SHOP.successors(u, etype=kind).tolist()
            for u in range(SHOP.num_nodes(kind[0]))
        ]
        for kind in SHOP.canonical_etypes
    }

    def step(path):
        row = rows[metapath[len(path) - 1]][path[-1]]
        return {v: row.count(v) / len(row) for v in row}

    assert_frequencies(traces, paths(step, 1, 3, -1))


def test_metapath_walks_end_where_a_type_has_no_edge():
    g = dgl.heterograph(
        {("a", "r", "b"): ([0, 1], [0, 2]), ("b", "s", "a"): ([0], [1])},
    )
    traces, eids, types = random_walk(
        g, [0, 1], metapath=["r", "s", "r"], return_eids=True
    )
    assert traces.tolist() == [[0, 0, 1, 2], [1, 2, -1, -1]]
    assert eids.tolist() == [[0, 0, 1], [1, -1, -1]]
    assert types.tolist() == [0, 1, 0, 1]
    g.edges["s"].data["w"] = torch.zeros(1)  # r has no such data: uniform there
    traces, _ = random_walk(g, [0, 1], metapath=["r", "s"], prob="w")
    assert traces.tolist() == [[0, 0, -1], [1, 2, -1]]


def test_metapath_through_a_type_without_nodes_ends():
    none = torch.empty(0, dtype=torch.int64)
    edges = {("u", "r", "g"): (none, none), ("g", "b", "u"): (none, none)}
    g = dgl.heterograph(edges, num_nodes_dict={"u": 2, "g": 0})
    traces, _ = random_walk(g, [0, 1], metapath=["r", "b"])
    assert traces.tolist() == [[0, -1, -1], [1, -1, -1]]


@pytest.mark.parametrize("nodes", [[], [4], [0, 0, 2]])
def test_walks_of_no_step(nodes):
    g = as_graph(ROWS)
    traces, eids, types = random_walk(g, nodes, length=0, return_eids=True)
    assert traces.tolist() == [[node] for node in nodes]
    assert eids.shape == (len(nodes), 0)
    assert types.tolist() == [0]
    assert node2vec_random_walk(g, nodes, 1, 1, 0).tolist() == traces.tolist()


def test_walks_follow_the_seed():
    g = dgl.graph(tuple(torch.randint(50, (2, 2000))))
    calls = [
        lambda **more: random_walk(g, range(50), length=9, restart_prob=0.1, **more)[0],
        lambda **more: node2vec_random_walk(g, range(50), 2.0, 0.5, 9, **more),
        lambda **more: random_walk(SHOP, [0, 1] * 9, metapath=["follow"] * 9, **more)[
            0
        ],
    ]
    threads = torch.get_num_threads()
    for call in calls:
        found = []
        for count in (1, 2, 1):
            torch.set_num_threads(count)
            torch.manual_seed(7)
            found += [call(), call()]
        assert torch.equal(found[0], found[2])
        assert torch.equal(found[0], found[4])
        assert torch.equal(found[1], found[3])
        assert not torch.equal(found[0], found[1])
        assert torch.equal(call(generator=3), call(generator=3))
    torch.set_num_threads(threads)


def test_changed_probabilities_are_noticed():
    g = as_graph([[1, 2], [], []], [1.0, 0.0])
    assert random_walk(g, [0], length=1, prob="w")[0].tolist() == [[0, 1]]
    g.edata["w"] = 1 - g.edata["w"]
    assert random_walk(g, [0], length=1, prob="w")[0].tolist() == [[0, 2]]
    assert node2vec_random_walk(g, [0], 1, 1, 1, prob="w").tolist() == [[0, 2]]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (random_walk, dgl.sampling.random_walk),
        (node2vec_random_walk, dgl.sampling.node2vec_random_walk),
    ],
)
def test_signatures_are_those_of_dgl(ours, theirs):
    ours, theirs = (inspect.signature(x).parameters for x in (ours, theirs))
    assert [*theirs, "generator"] == list(ours)
    for name, parameter in theirs.items():
        assert (ours[name].default, ours[name].kind) == (
            parameter.default,
            parameter.kind,
        )


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        ({}, ValueError, "'length' must be given, or 'metapath'"),
        ({"length": -1}, ValueError, "'length' must not be negative"),
        ({"length": 1.0}, TypeError, "'length' must be an integer"),
        ({"nodes": [5], "length": 1}, ValueError, "below the number of nodes 5"),
        ({"nodes": [-1], "length": 1}, ValueError, "must not hold negative ids"),
        ({"g": SHOP, "length": 1}, dgl.DGLError, "'metapath' must be given"),
        ({"g": SHOP, "metapath": "view"}, TypeError, "'metapath' must be a list"),
        ({"g": SHOP, "metapath": ["x"]}, dgl.DGLError, "'metapath' must name one"),
        (
            {"g": SHOP, "metapath": ["view", "follow"]},
            dgl.DGLError,
            "'metapath' must go on from the node type",
        ),
        (
            {"length": 1, "prob": "x"},
            ValueError,
            "'prob' must be the name of edge data",
        ),
        ({"length": 1, "restart_prob": 1}, TypeError, "'restart_prob' must be a float"),
        ({"length": 1, "restart_prob": 1.5}, ValueError, "probabilities from 0 to 1"),
        (
            {"length": 2, "restart_prob": torch.tensor([0.5])},
            ValueError,
            "'restart_prob' must have one entry per step, 2 in all",
        ),
        ({"length": 1, "generator": 0.5}, TypeError, "'generator' must be"),
    ],
)
def test_validate_random_walk(call, error, match):
    call = {"g": as_graph(ROWS), "nodes": [0], **call}
    with pytest.raises(error, match=match):
        random_walk(**call)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        ({"p": 0}, ValueError, "'p' must be finite and greater than 0"),
        ({"p": -1.0}, ValueError, "'p' must be finite and greater than 0"),
        ({"q": 0.0}, ValueError, "'q' must be finite and greater than 0"),
        ({"q": float("inf")}, ValueError, "'q' must be finite and greater than 0"),
        ({"p": float("nan")}, ValueError, "'p' must be finite"),
        ({"p": "1"}, TypeError, "'p' must be a number"),
        ({"walk_length": -1}, ValueError, "'walk_length' must not be negative"),
        ({"g": SHOP}, dgl.DGLError, "'g' must have one node type and one edge type"),
        ({"prob": "x"}, ValueError, "'prob' must be the name of edge data"),
        ({"nodes": [9]}, ValueError, "'nodes' must hold ids below"),
    ],
)
def test_validate_node2vec(call, error, match):
    call = {"g": as_graph(ROWS), "nodes": [0], "p": 1, "q": 1, "walk_length": 2, **call}
    with pytest.raises(error, match=match):
        node2vec_random_walk(**call)


@pytest.mark.parametrize("nodes", [[-1], [99], torch.tensor([4])])
def test_walks_from_nowhere_raise_as_in_dgl(nodes):
    g = dgl.graph(([0, 1, 2], [1, 2, 3]))
    for walk in (
        lambda: random_walk(g, nodes, length=2),
        lambda: node2vec_random_walk(g, nodes, 1, 1, 2),
    ):
        with pytest.raises(dgl.DGLError, match="'nodes' must "):
            walk()
        with pytest.raises(ValueError, match="'nodes' must "):
            walk()


def test_walks_take_what_dgl_takes():
    g = dgl.graph(([0, 1, 2], [1, 2, 3]))
    for nodes in (0, torch.tensor(0), [0]):
        for length in (3, torch.tensor(3)):
            assert random_walk(g, nodes, length=length)[0].tolist() == [[0, 1, 2, 3]]


def test_walks_by_a_column_of_columns_raise_as_in_dgl():
    g = dgl.graph(([0, 1, 2], [1, 2, 3]))
    g.edata["w"] = torch.ones(3, 1)
    with pytest.raises(dgl.DGLError, match="'prob' must name one number per edge"):
        random_walk(g, [0], length=2, prob="w")
    with pytest.raises(dgl.DGLError, match="'prob' must name one number per edge"):
        node2vec_random_walk(g, [0], 1.0, 2.0, 2, prob="w")


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
def test_ppr_graph_is_one_for_any_sampler(idtype):
    rows = [[1, 2, 3], [0, 2], [0, 3], [1, 4], [0]]
    g = as_graph(rows, [1.0] * 10, idtype)
    g.ndata["x"] = torch.rand(5, 2)
    near = ppr_graph(g, 2, walks=400, prob="w", generator=0)
    assert near.idtype == idtype
    assert (near.in_degrees() == 2).all()
    assert torch.equal(near.ndata["x"], g.ndata["x"])
    assert (near.edata["weight"] > 0).all()
    exact = torch.zeros(5, 5)  # walks go against the edges
    for u, row in enumerate(rows):
        exact[row, u] = 1
    step, power, rank = exact / exact.sum(1, keepdim=True), torch.eye(5), 0
    for k in range(60):
        rank, power = rank + 0.15 * 0.85**k * power, power @ step
    source, target = (end.long() for end in near.edges())
    assert torch.allclose(near.edata["weight"], rank[target, source], atol=0.06)
    sampler = NeighborSampler([1, 1], prob="weight")
    blocks = sampler.sample(near, torch.tensor([0, 1], dtype=idtype))[2]
    assert blocks[-1].num_edges() == 2
