"""Batches that are put together here are those that PyG puts together."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import LinkNeighborLoader, NeighborLoader
from torch_geometric.sampler import NegativeSampling

from gttf_pyg import GTTFLinkLoader, GTTFLoader
from gttf_pyg._batch import edge_index_of

N, M = 40, 200


def homogeneous():
    data = Data(
        x=torch.rand(N, 3),
        edge_index=torch.randint(N, (2, M)),
        edge_attr=torch.rand(M, 2),
        y=torch.arange(N),
        num_nodes=N,
    )
    data.words, data.number, data.whole = "a graph", 3.5, torch.rand(7)
    data.array, data.scalar = np.arange(N), torch.tensor(1.0)
    data.weight, data.time = torch.rand(M), torch.arange(N)
    return data


def with_names_of_batches(data):
    """Columns of the data that have the names of what a batch says of itself."""
    for store in data.node_stores:
        store.batch = torch.full((N,), 99)
        store.num_sampled_nodes = torch.arange(N)
    data.edge_stores[0].num_sampled_edges = torch.arange(M)
    return data


def heterogeneous():
    data = HeteroData()
    for kind in "abc":
        data[kind].x, data[kind].num_nodes = torch.rand(N, 2), N
    data["a"].y, data["b"].name = torch.arange(N), "b"
    for kind in (("a", "r", "b"), ("b", "rev_r", "a"), ("a", "s", "a")):
        data[kind].edge_index = torch.randint(N, (2, M))
        data[kind].edge_attr = torch.rand(M, 1)
    data.whole = "a graph"
    return data


def same(left, right):
    if isinstance(left, torch.Tensor):
        return left.dtype == right.dtype and torch.equal(left, right)
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[k], right[k]) for k in left)
    return type(left) is type(right) and left == right


def told(batch):
    stores = [store.to_dict() for store in batch.stores]
    return [dict(sorted(store.items())) for store in stores]


SETTINGS = [
    {},
    {"disjoint": True},
    {"subgraph_type": "bidirectional"},
    {"subgraph_type": "induced"},
    {"replace": True},
]


def compare(loader, theirs):
    """Our `filter_fn` and PyG's must agree on the same samples."""
    loader.transform = None
    outputs = []
    take, name = getattr(loader, "node_sampler", None), "sample_from_nodes"
    if take is None:
        take, name = loader.link_sampler, "sample_from_edges"
    sample = getattr(take, name)

    def noted(*args, **kwargs):
        out = sample(*args, **kwargs)
        outputs.append(out)
        return out

    setattr(take, name, noted)
    batches = list(loader)
    assert len(batches) == len(outputs) > 1
    for batch, out in zip(batches, outputs, strict=True):
        expected = theirs.filter_fn(loader, out)
        for found, wanted in zip(told(batch), told(expected), strict=True):
            assert same(found, wanted)


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("typed", [False, True])
def test_names_of_batches_are_those_of_pyg(disjoint, typed):
    data = with_names_of_batches(heterogeneous() if typed else homogeneous())
    nodes = ("a", torch.arange(12)) if typed else torch.arange(12)
    how = {"input_nodes": nodes, "batch_size": 5, "disjoint": disjoint}
    compare(GTTFLoader(data, [3, 2], **how), NeighborLoader)


@pytest.mark.parametrize("how", SETTINGS)
@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.filterwarnings("ignore:Cannot convert to bidirectional")
@pytest.mark.filterwarnings("ignore:.*to_bidirectional")
def test_node_batches_are_those_of_pyg(how, typed):
    data = heterogeneous() if typed else homogeneous()
    nodes = ("a", torch.arange(12)) if typed else torch.arange(12)
    loader = GTTFLoader(data, [3, 2], input_nodes=nodes, batch_size=5, **how)
    compare(loader, NeighborLoader)


@pytest.mark.parametrize("negatives", [None, "binary", NegativeSampling("triplet", 2)])
@pytest.mark.parametrize("typed", [False, True])
def test_link_batches_are_those_of_pyg(negatives, typed):
    data = heterogeneous() if typed else homogeneous()
    edges = (("a", "r", "b"), None) if typed else None
    loader = GTTFLinkLoader(
        data, [3], edge_label_index=edges, neg_sampling=negatives, batch_size=90
    )
    compare(loader, LinkNeighborLoader)


def test_edge_index_is_a_view_where_it_can_be():
    both = torch.arange(12)
    found = edge_index_of(both[2:6], both[6:10])
    assert found.tolist() == [[2, 3, 4, 5], [6, 7, 8, 9]]
    assert found.data_ptr() == both[2:].data_ptr()
    apart = edge_index_of(both[:3], both[6:9])
    assert apart.tolist() == [[0, 1, 2], [6, 7, 8]]
    apart[0, 0] = 77
    assert both[0] == 0
    large = torch.arange(20_000)
    assert edge_index_of(large, large.clone()).tolist() == [large.tolist()] * 2
    assert edge_index_of(both[:0], both[:0]).shape == (2, 0)
