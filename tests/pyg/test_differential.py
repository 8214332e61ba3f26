"""The same work by PyG's own loaders: same structure, same chances of every edge.

They need pyg-lib, which is on no package index; without it these tests are left out.
"""

import pytest
import torch

pytest.importorskip("pyg_lib", reason="PyG's own sampler needs pyg-lib")

from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import LinkNeighborLoader, NeighborLoader

from all_pairs import all_pairs
from exact import SIGMAS
from exact import one_thread as one_thread  # pyg-lib shares a generator among threads
from gttf_pyg import GTTFLinkLoader, GTTFLoader

COPIES = 1500  # of a small graph side by side: a batch is as many draws
SIZES = {"a": 7, "b": 6}
KINDS = {("a", "to", "b"): 16, ("b", "rev_to", "a"): 16, ("a", "likes", "a"): 14}


def spread(one, size, copies):
    """Ids of one small graph, and of its copies behind it."""
    return (one + size * torch.arange(copies)[:, None]).view(-1)


def homogeneous(copies=1):
    """A multigraph with self-loops and an isolated node; times without ties."""
    torch.manual_seed(1)
    one = torch.randint(10, (2, 44))
    ends = torch.stack([spread(side, 11, copies) for side in one])
    return Data(
        edge_index=ends,
        num_nodes=11 * copies,
        time=(torch.randperm(11) * 10).repeat(copies),
        edge_time=torch.randperm(44).repeat(copies),
        weight=(torch.rand(44) * 3 + 0.05).repeat(copies),
    )


def heterogeneous(copies=1):
    """Two node types and three relations."""
    torch.manual_seed(2)
    data = HeteroData()
    for name, size in SIZES.items():
        data[name].num_nodes = size * copies
        data[name].time = (torch.randperm(size) * 10).repeat(copies)
    for kind, count in KINDS.items():
        ends = [
            spread(torch.randint(SIZES[name], (count,)), SIZES[name], copies)
            for name in (kind[0], kind[2])
        ]
        data[kind].edge_index = torch.stack(ends)
    return data


MAKERS = pytest.mark.parametrize("make", [homogeneous, heterogeneous])
MODES = {
    "plain": {},
    "disjoint": {"disjoint": True},
    "time": {"time_attr": "time"},
    "last": {"time_attr": "time", "temporal_strategy": "last"},
}


def parts(batch):
    """The nodes and edges of every type of a batch: (n_id, tree) and (e_id, tree)."""
    if isinstance(batch, Data):
        tree = batch.get("batch", torch.zeros_like(batch.n_id))
        yield "", batch.n_id, tree, batch.e_id, tree[batch.edge_index[1]]
        return
    for kind in batch.edge_types:
        target = batch[kind[2]]
        tree = target.get("batch", torch.zeros_like(target.n_id))
        edge, to = batch[kind].e_id, tree[batch[kind].edge_index[1]]
        yield kind, target.n_id, tree, edge, to


def content(batch):
    """All of it, whatever the order."""
    return {
        kind: (
            sorted(zip(node.tolist(), tree.tolist(), strict=True)),
            sorted(zip(edge.tolist(), to.tolist(), strict=True)),
        )
        for kind, node, tree, edge, to in parts(batch)
    }


@all_pairs
@MAKERS
@pytest.mark.parametrize("fanout", [-1, 60])
@pytest.mark.parametrize("mode", MODES)
def test_full_neighbourhoods_are_those_of_pyg(make, fanout, mode):
    data = make()
    nodes = torch.tensor([0, 2, 5, 1, 3])
    seeds = ("a", nodes) if make is heterogeneous else nodes
    ours, theirs = (
        list(kind(data, [fanout, fanout], seeds, batch_size=3, **MODES[mode]))
        for kind in (GTTFLoader, NeighborLoader)
    )
    for mine, other in zip(ours, theirs, strict=True):
        assert content(mine) == content(other)
        if make is homogeneous:
            assert mine.num_sampled_nodes == other.num_sampled_nodes
            assert mine.num_sampled_edges == other.num_sampled_edges
        assert set(mine.to_dict()) == set(other.to_dict())


def chances(kind, data, nodes, **options):
    """Frequencies of every edge of one copy, per relation."""
    loader = kind(data, [2, 2], nodes, batch_size=10**9, **options)
    (batch,) = loader
    counts = KINDS if isinstance(data, HeteroData) else {"": 44}
    return {
        name: torch.bincount(edge % counts[name], minlength=counts[name]).double()
        / COPIES
        for name, _, _, edge, _ in parts(batch)
    }


@all_pairs
@MAKERS
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_edges_are_as_likely_as_with_pyg(make, replace, mode):
    data = make(COPIES)
    compare(data, mode, {**MODES[mode], "replace": replace})


@pytest.mark.parametrize("replace", [False, True])
def test_weighted_edges_are_as_likely_as_with_pyg(replace):
    compare(homogeneous(COPIES), "", {"weight_attr": "weight", "replace": replace})


def compare(data, mode, options):
    """The chances of all edges of two hops, by both loaders."""
    if isinstance(data, HeteroData):
        seeds = ("a", spread(torch.tensor([0, 3]), SIZES["a"], COPIES))
    else:
        seeds = spread(torch.tensor([0, 3]), 11, COPIES)
    torch.manual_seed(0)
    mine = chances(GTTFLoader, data, seeds, seed=1, **options)
    other = chances(NeighborLoader, data, seeds, **options)
    for name in other:
        # an edge can be drawn for both seeds, and several times with replacement
        error = ((mine[name] + other[name]) * 4 / COPIES).clamp(min=1 / COPIES**2)
        assert bool(((mine[name] - other[name]).abs() <= SIGMAS * error**0.5).all())
        assert torch.equal(mine[name] > 0, other[name] > 0)


@pytest.mark.parametrize("mode", [None, "binary", "triplet"])
def test_links_have_the_shape_of_pyg(mode):
    data = homogeneous()
    options = {"neg_sampling": mode, "batch_size": 8}
    ours, theirs = (
        list(kind(data, [-1], data.edge_index[:, :20], **options))
        for kind in (GTTFLinkLoader, LinkNeighborLoader)
    )
    for mine, other in zip(ours, theirs, strict=True):
        assert set(mine.to_dict()) == set(other.to_dict())
        for name in ("edge_label_index", "src_index", "dst_neg_index"):
            if name in other:
                assert mine[name].shape == other[name].shape
                assert mine[name].dtype == other[name].dtype
        if mode is None:
            assert content(mine) == content(other)
