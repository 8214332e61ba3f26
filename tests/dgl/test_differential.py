"""The same work by DGL's own samplers: same structure, same chances of every edge."""

import dgl
import pytest
import torch
from dgl.dataloading import NeighborSampler

from all_pairs import all_pairs
from exact import SIGMAS
from gttf_dgl import GTTFSampler, node2vec_random_walk, random_walk

COPIES = 1500  # of a small graph side by side: a batch is as many draws


def homogeneous(copies=1, idtype=torch.int64):
    """A multigraph with self-loops, a hub and an isolated node, `copies` times."""
    torch.manual_seed(3)
    one = torch.randint(8, (2, 40))
    ends = (one[:, None] + 9 * torch.arange(copies)[:, None]).view(2, -1)
    g = dgl.graph(tuple(ends), num_nodes=9 * copies, idtype=idtype)
    g.edata["w"] = (torch.rand(40) * (torch.rand(40) < 0.8)).repeat(copies)
    g.edata["m"] = (torch.rand(40) < 0.7).repeat(copies)
    return g


def heterogeneous(copies=1, idtype=torch.int64):
    """Two node types, four relations, one of them without edges."""
    torch.manual_seed(4)
    sizes, ends = {"a": 6, "b": 5}, {}
    for kind, count in {
        ("a", "x", "a"): 20,
        ("a", "y", "b"): 15,
        ("b", "z", "a"): 15,
        ("b", "none", "b"): 0,
    }.items():
        parts = []
        for name in (kind[0], kind[2]):
            one = torch.randint(sizes[name], (count,))
            parts.append((one + sizes[name] * torch.arange(copies)[:, None]).view(-1))
        ends[kind] = tuple(parts)
    total = {name: size * copies for name, size in sizes.items()}
    return dgl.heterograph(ends, total, idtype=idtype)


def seeds_of(g, every):
    """Every `every`-th node of each type; a tensor if there is one type only."""
    named = {name: g.nodes(name)[::every] for name in g.ntypes}
    return named if len(g.ntypes) > 1 else named[g.ntypes[0]]


def edge_sets(blocks):
    """Per layer and relation the ids of the edges, sorted."""
    return [
        {
            kind: sorted(b.edges[kind].data[dgl.EID].tolist())
            for kind in b.canonical_etypes
        }
        for b in blocks
    ]


MAKERS = pytest.mark.parametrize("make", [homogeneous, heterogeneous])


@all_pairs
@MAKERS
@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("fanout", [-1, 1000])
@pytest.mark.parametrize("options", [{}, {"prob": "w"}, {"mask": "m"}])
def test_full_neighbourhoods_are_those_of_dgl(make, idtype, fanout, options):
    g = make(idtype=idtype)
    if make is heterogeneous and options:
        g.edges["x"].data["w"] = torch.arange(20.0) % 3
        g.edges["x"].data["m"] = torch.arange(20) % 3 > 0
    seeds = seeds_of(g, 2)
    ours = GTTFSampler([fanout] * 2, **options).sample(g, seeds)
    theirs = NeighborSampler([fanout] * 2, **options, fused=False).sample(g, seeds)
    assert edge_sets(ours[2]) == edge_sets(theirs[2])
    for mine, other in zip(ours[2], theirs[2], strict=True):
        assert mine.canonical_etypes == other.canonical_etypes
        assert mine.idtype == other.idtype
        for name in g.ntypes:
            nodes = (b.srcnodes[name].data[dgl.NID].tolist() for b in (mine, other))
            assert sorted(next(nodes)) == sorted(next(nodes))
            targets = [b.dstnodes[name].data[dgl.NID].tolist() for b in (mine, other)]
            known = len(targets[0])  # of deeper layers, in the order of discovery
            assert sorted(targets[0]) == sorted(targets[1])
            assert mine.srcnodes[name].data[dgl.NID][:known].tolist() == targets[0]


def chances(sampler, g, kind, copies):
    """Frequencies of one copy's edges in the last block, and edges per copy."""
    block = sampler.sample(g, seeds_of(g, 1))[2][-1]
    taken = block.edges[kind].data[dgl.EID]
    count = g.num_edges(kind) // copies
    # the edges of a relation are numbered copy by copy
    found = torch.bincount(taken % count, minlength=count).double() / copies
    return found, taken.numel() / copies


@all_pairs
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("fanout", [1, 3])
@pytest.mark.parametrize(
    ("make", "options"),
    [
        (homogeneous, {}),
        (homogeneous, {"prob": "w"}),
        (homogeneous, {"mask": "m"}),
        (heterogeneous, {}),
    ],
)
def test_edges_are_as_likely_as_with_dgl(make, replace, fanout, options):
    g = make(COPIES)
    dgl.seed(1)
    kinds = [kind for kind in g.canonical_etypes if g.num_edges(kind)]
    ours = GTTFSampler([fanout], replace=replace, seed=2, **options)
    theirs = NeighborSampler([fanout], replace=replace, fused=False, **options)
    for kind in kinds:
        mine, number = chances(ours, g, kind, COPIES)
        other, expected = chances(theirs, g, kind, COPIES)
        assert number == expected  # min(fanout, what there is), or fanout
        # two samples of counts, of up to `fanout` draws each
        error = ((mine + other) * fanout / COPIES).clamp(min=1 / COPIES**2) ** 0.5
        assert bool(((mine - other).abs() <= SIGMAS * error).all())
        assert torch.equal(mine > 0, other > 0)


@pytest.mark.parametrize(
    "walk",
    [
        lambda ours, g, at: (random_walk if ours else dgl.sampling.random_walk)(
            g, at, length=3
        )[0],
        lambda ours, g, at: (random_walk if ours else dgl.sampling.random_walk)(
            g, at, length=3, prob="w"
        )[0],
        lambda ours, g, at: (random_walk if ours else dgl.sampling.random_walk)(
            g, at, length=3, restart_prob=0.3
        )[0],
        lambda ours, g, at: (
            node2vec_random_walk if ours else dgl.sampling.node2vec_random_walk
        )(g, at, 0.5, 2.0, 3),
    ],
    ids=["uniform", "weighted", "restart", "node2vec"],
)
def test_walks_are_as_likely_as_with_dgl(walk):
    g = homogeneous()
    start = torch.arange(9).repeat(3000)
    torch.manual_seed(5)
    dgl.seed(5)
    ends = [walk(ours, g, start)[:, 1:] + 1 for ours in (True, False)]
    mine, other = (
        torch.stack(
            [torch.bincount(start * 10 + step, minlength=90) for step in found.T]
        ).double()
        / 3000
        for found in ends
    )
    error = ((mine + other) / 3000).clamp(min=1 / 3000**2) ** 0.5
    assert bool(((mine - other).abs() <= SIGMAS * error).all())
