"""ShaDowKHopSampler and SAINTSampler against DGL's own, and by exact frequencies."""

import dgl
import pytest
import torch
from hypothesis import given, settings

from cases import cases
from gttf_dgl import SAINTSampler, ShaDowKHopSampler


def ring(size=8):
    ids = torch.arange(size)
    ends = torch.cat([ids, ids]), torch.cat([(ids + 1) % size, (ids + 3) % size])
    g = dgl.graph(ends)
    g.ndata["x"], g.edata["w"] = torch.rand(size, 2), torch.rand(2 * size)
    return g


@settings(max_examples=40, deadline=None)
@given(cases())
def test_shadow_is_the_induced_graph(case):
    """Of the nodes reached, all edges between them that are not excluded."""
    options = {**case.options, "replace": case.replace, "edge_dir": case.edge_dir}
    seeds = {name: ids.unique() for name, ids in case.seeds.items()}
    sampler = ShaDowKHopSampler(case.fanouts, **options)
    nodes, _, batch = sampler.sample(case.g, seeds, case.exclude)
    if len(case.g.ntypes) == 1:
        nodes = {case.g.ntypes[0]: nodes}
    theirs = case.g.subgraph(nodes)
    for kind in case.g.canonical_etypes:
        gone = set() if case.exclude is None else set(case.exclude[kind].tolist())
        ours = batch.edges[case.turned(kind)].data[dgl.EID].tolist()
        expected = set(theirs.edges[kind].data[dgl.EID].tolist()) - gone
        assert sorted(ours) == sorted(expected)
    for name, ids in seeds.items():
        assert batch.nodes[name].data[dgl.NID][: len(ids)].equal(ids)


def test_shadow_reaches_what_dgl_reaches():
    g = ring()
    for fanouts in ([-1], [-1, -1]):
        ours = ShaDowKHopSampler(fanouts).sample(g, torch.tensor([2, 5]))
        theirs = dgl.dataloading.ShaDowKHopSampler(fanouts).sample(
            g, torch.tensor([2, 5])
        )
        assert set(ours[0].tolist()) == set(theirs[0].tolist())
        assert ours[2].num_edges() == theirs[2].num_edges()
        assert ours[2].ndata.keys() == theirs[2].ndata.keys()
        assert ours[2].edata.keys() == theirs[2].edata.keys()


def test_shadow_draws_anew_for_every_hop():
    """A seed with two neighbours draws one of them in each of two hops."""
    seeds = torch.arange(0, 60_000, 3)
    ends = torch.cat([seeds + 1, seeds + 2]), torch.cat([seeds, seeds])
    nodes = ShaDowKHopSampler([1, 1], seed=0).sample(dgl.graph(ends), seeds)[0]
    count = len(seeds)
    both = len(nodes) - 2 * count  # beside each seed and one of its neighbours
    assert abs(both / count - 0.5) < 4 * (0.25 / count) ** 0.5


def test_shadow_validate():
    with pytest.raises(ValueError, match="'normalize' must not be given where all"):
        ShaDowKHopSampler([2], normalize="both")


@pytest.mark.parametrize(
    ("mode", "budget"), [("node", 4), ("edge", 3), ("walk", [2, 2])]
)
def test_saint_is_an_induced_graph_of_distinct_nodes(mode, budget):
    g = ring()
    sampler = SAINTSampler(mode, budget, prefetch_ndata=["x"], prefetch_edata=["w"])
    loader = dgl.dataloading.DataLoader(g, torch.arange(20), sampler)
    for batch in loader:
        nodes = batch.ndata[dgl.NID]
        assert nodes.tolist() == sorted(set(nodes.tolist()))
        whole = g.subgraph(nodes)
        assert sorted(batch.edata[dgl.EID].tolist()) == sorted(
            whole.edata[dgl.EID].tolist()
        )
        assert torch.equal(batch.ndata["x"], g.ndata["x"][nodes])
        assert torch.equal(batch.edata["w"], g.edata["w"][batch.edata[dgl.EID]])


def frequencies(g, mode, budget, count=2000):
    """Frequencies of the nodes in a graph."""
    sampler, hits = SAINTSampler(mode, budget, seed=1), torch.zeros(g.num_nodes())
    for _ in range(count):
        hits[sampler.sample(g, None).ndata[dgl.NID]] += 1
    return hits / count


def assert_near(share, exact, count=2000):
    error = (exact * (1 - exact) / count) ** 0.5
    assert ((share - exact).abs() <= 4.5 * error + 1e-9).all(), (share, exact)


def test_saint_node_frequencies():
    g = dgl.graph(([0, 0, 0, 1], [1, 2, 3, 0]))
    weight = g.out_degrees().double().clamp(min=1)
    exact = 1 - (1 - weight / weight.sum()) ** 2
    assert_near(frequencies(g, "node", 2), exact)


def test_saint_edge_frequencies():
    g = dgl.graph(([0, 0, 0, 1], [1, 2, 3, 0]))
    leave, arrive = (x.double().clamp(min=1) for x in (g.out_degrees(), g.in_degrees()))
    row, col = g.edges()
    weight = 1 / arrive[col] + 1 / leave[row]
    touched = torch.zeros(4, dtype=torch.float64)
    for node in range(4):
        touched[node] = weight[(row == node) | (col == node)].sum() / weight.sum()
    assert_near(frequencies(g, "edge", 2), 1 - (1 - touched) ** 2)


def test_saint_walk_frequencies():
    g = dgl.graph(([0, 1, 2], [1, 2, 3]))
    exact = torch.tensor([1.0, 2, 2, 2]) / 4  # from itself, or the node before it
    assert_near(frequencies(g, "walk", (1, 1)), exact)


def test_saint_awkward():
    empty = dgl.graph(([], []), num_nodes=0)
    lone = dgl.graph(([], []), num_nodes=3)
    assert SAINTSampler("node", 0).sample(lone, None).num_nodes() == 0
    assert SAINTSampler("edge", 0).sample(lone, None).num_nodes() == 0
    for mode, budget, g in (("walk", (2, 2), empty), ("node", 2, empty)):
        with pytest.raises(ValueError, match="'g' must have at least one node to draw"):
            SAINTSampler(mode, budget).sample(g, None)
    with pytest.raises(dgl.DGLError, match="'g' must have at least one edge to draw"):
        SAINTSampler("edge", 2).sample(lone, None)
    small = ring().int()
    assert SAINTSampler("edge", 2).sample(small, None).idtype == torch.int32


def test_saint_validate():
    with pytest.raises(dgl.DGLError, match="'mode' must be one of"):
        SAINTSampler("path", 2)
    with pytest.raises(
        ValueError, match=r"'budget' must be \(walks, steps\) for walks"
    ):
        SAINTSampler("walk", 3)
    with pytest.raises(TypeError, match="'budget'"):
        SAINTSampler("node", "many")
    typed = dgl.heterograph({("a", "r", "b"): ([0], [0])})
    with pytest.raises(dgl.DGLError, match="'g' must have one node type"):
        SAINTSampler("node", 2).sample(typed, None)
