"""Samples of static shapes are the others with padding, which no layer notices."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gttf_sampler import (
    CompactAdj,
    EdgeWeightBias,
    ExcludeBias,
    TemporalBias,
    sample_rooted,
    traverse,
)
from gttf_sampler.rooted import RootedSampler
from simulated import Accelerator
from strategies import graphs, hetero, seeds

FIELDS = ("node", "row", "col", "edge", "batch")
FANOUTS = st.lists(st.sampled_from([0, 1, 2, 3, 30]), max_size=3)


def same(ours, theirs):
    """True if two tensors, mappings of them, or None, are equal."""
    if isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(
            same(ours[name], theirs[name]) for name in ours
        )
    return ours.tolist() == theirs.tolist() if ours is not None else theirs is None


def check_padding(node, col, edge, n, e):
    """Padding can be looked up, and the order of receivers stays."""
    assert node[n:].tolist() == [0] * (len(node) - n)
    assert edge[e:].tolist() == [0] * (len(edge) - e)
    assert len(node) > n
    assert bool((col[1:] >= col[:-1]).all())


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_padded_starts_with_the_sample(data):
    graph = data.draw(graphs(weighted=True, timed=True))
    start = data.draw(seeds(graph.num_nodes))
    adj, fanouts = graph.adj(), data.draw(FANOUTS)
    hidden = torch.arange(0, adj.num_edges, 3)
    bias = data.draw(
        st.sampled_from(["none", "weight", "hidden", "time", "last", "both"])
    )
    time = torch.full((len(start),), 2, dtype=graph.time.dtype)
    how = {
        "replace": data.draw(st.booleans()),
        "disjoint": data.draw(st.booleans()),
        "generator": 3,
        "bias": {
            "none": None,
            "weight": EdgeWeightBias(),
            "hidden": ExcludeBias(hidden),
            "time": TemporalBias(time, window=3),
            "last": TemporalBias(time, strategy="last"),
            "both": TemporalBias(time, weighted=True),
        }[bias],
    }
    plain = sample_rooted(adj, start, fanouts, **how)
    padded = sample_rooted(adj, start, fanouts, padded=True, **how)
    found = padded.unpadded()
    assert all(same(getattr(found, f), getattr(plain, f)) for f in FIELDS)
    assert found.num_sampled_nodes == plain.num_sampled_nodes
    assert found.num_sampled_edges == plain.num_sampled_edges
    n, e = plain.num_nodes, plain.num_edges
    check_padding(padded.node, padded.col, padded.edge, n, e)
    dummy = padded.node.numel() - 1
    assert set(padded.row[e:].tolist()) | set(padded.col[e:].tolist()) <= {dummy}
    assert int(padded.node_mask.sum()) == n
    assert int(padded.edge_mask.sum()) == e


@settings(deadline=None, max_examples=25)
@given(given_=hetero(), fanouts=FANOUTS, how=st.tuples(st.booleans(), st.booleans()))
def test_padded_starts_with_the_sample_of_every_type(given_, fanouts, how):
    options = {"replace": how[0], "disjoint": how[1], "generator": 3}
    plain = sample_rooted(given_.adjs(), given_.seeds, fanouts, **options)
    padded = sample_rooted(given_.adjs(), given_.seeds, fanouts, padded=True, **options)
    found = padded.unpadded()
    assert all(same(getattr(found, f), getattr(plain, f)) for f in FIELDS)
    assert found.num_sampled_nodes == plain.num_sampled_nodes
    assert found.num_sampled_edges == plain.num_sampled_edges
    for kind, row in padded.row.items():
        e = plain.row[kind].numel()
        left = set(row[e:].tolist()), set(padded.col[kind][e:].tolist())
        ends = padded.node[kind[0]].numel() - 1, padded.node[kind[2]].numel() - 1
        assert all(ids <= {end} for ids, end in zip(left, ends, strict=True))


def train(sub, x, weights, seeds):
    """The loss of a two-layer GNN in plain torch, and its gradients."""
    hidden = x[sub.node]
    for weight in weights:
        hidden = hidden @ weight
        mixed = torch.zeros_like(hidden).index_add(0, sub.col, hidden[sub.row])
        hidden = (hidden + mixed).relu()
    loss = hidden[:seeds].square().sum()
    return [loss, *torch.autograd.grad(loss, [x, *weights])]


@pytest.mark.parametrize("how", [{}, {"replace": True}, {"disjoint": True}])
def test_training_step_has_the_same_loss_and_gradients(how):
    """Of small whole numbers, which no order of summation rounds."""
    generator = torch.Generator().manual_seed(0)

    def whole(*shape):
        values = torch.randint(-2, 3, shape, generator=generator)
        return values.double().requires_grad_()

    adj = CompactAdj.from_edge_index(torch.randint(0, 50, (2, 300)), 50)
    start, x, weights = [4, 0, 4, 9], whole(50, 3), [whole(3, 4), whole(4, 2)]
    subs = [
        sample_rooted(adj, start, [3, 2], generator=1, padded=padded, **how)
        for padded in (False, True)
    ]
    assert subs[1].node.numel() > subs[0].node.numel()
    for ours, theirs in zip(*(train(s, x, weights, 4) for s in subs), strict=True):
        assert torch.equal(ours, theirs)
    for scheme in ("unbiased", "paper", "sampled"):
        plain, padded = (sub.gcn_weight(adj, scheme) for sub in subs)
        assert torch.equal(padded.edge[: plain.edge.numel()], plain.edge)
        assert torch.equal(padded.loop[: plain.loop.numel()], plain.loop)


@pytest.mark.parametrize("bias", [None, EdgeWeightBias()])
def test_padded_never_waits(bias):
    ends, weight = torch.randint(0, 40, (2, 200)), torch.rand(200)
    with Accelerator() as gpu:
        adj = CompactAdj.from_edge_index(ends, 40, edge_weight=weight)
        expected = sample_rooted(adj, [3, 1, 3], [4, 3], bias=bias, generator=2)
        adj, start = adj.to("cuda"), torch.tensor([3, 1, 3]).to("cuda")
        sampler = RootedSampler(adj, [4, 3], padded=True)
        sampler(start, bias=bias, generator=2)
        gpu.syncs.clear()
        found = sampler(start, bias=bias, generator=2)
        found.gcn_weight(adj)
        assert gpu.syncs == []
        assert all(getattr(found, f).is_cuda for f in FIELDS[:4])
        found = [getattr(found.unpadded(), f).tolist() for f in FIELDS[:4]]
    assert found == [getattr(expected, f).tolist() for f in FIELDS[:4]]


def test_padded_validate():
    adj = CompactAdj.from_edge_index([[0, 1, 2], [1, 2, 0]])
    with pytest.raises(ValueError, match=r"'fanouts' must not hold -1 .*max_degree"):
        sample_rooted(adj, [0], [2, -1], padded=True)
    with pytest.raises(ValueError, match="'bias' must be told by a law"):
        sample_rooted(
            *(adj, [0], [2]), padded=True, bias=lambda path, node, hood: hood.edge
        )
    assert "room for 3 nodes and 2 edges" in repr(
        sample_rooted(adj, [0], [1, 1], padded=True)
    )


def loss_of(adj, sampler, table):
    """A forest, a padded sample and a loss: what a compiler is given whole."""

    def step(start, key):
        forest = traverse(adj, start, [3, 2], generator=key)
        sub = sampler(start, generator=key)
        hidden = table[sub.node]
        mixed = torch.zeros_like(hidden).index_add(0, sub.col, hidden[sub.row])
        walked = table[forest.nodes[2]].sum(-1) * forest.walk_weight(2)
        return walked.sum() + mixed[: start.numel()].square().sum()

    return step


@pytest.mark.compile
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_step_is_compiled_whole(backend):
    generator = torch.Generator().manual_seed(0)
    adj = CompactAdj.from_edge_index(
        torch.randint(0, 50, (2, 300), generator=generator), 50
    )
    table = torch.rand(50, 4, generator=generator, dtype=torch.float64)
    table.requires_grad_()
    sampler = RootedSampler(adj, [3, 2], padded=True)
    plain = loss_of(adj, sampler, table)
    compiled = torch.compile(plain, fullgraph=True, backend=backend)
    start, key = torch.tensor([4, 0, 4]), torch.tensor(0)
    for _ in range(2):
        key = key + 1  # another batch, and nothing is compiled anew
        found = [f(start, key) for f in (plain, compiled)]
        grads = [torch.autograd.grad(loss, table)[0] for loss in found]
        assert torch.allclose(*found, rtol=1e-12)
        assert torch.allclose(*grads, rtol=1e-12)
    with pytest.raises(RuntimeError, match="'seeds' must hold ids in"):
        compiled(torch.tensor([4, 0, 50]), key)
