"""PyG's loaders on a partitioned graph yield the batches of the whole one."""

import pytest
import torch
from torch_geometric.data import Data, HeteroData

from gttf_sampler import CompactAdj
from gttf_sampler.distributed import partition
from pyg_tasks import link_batches, node_batches, refused
from worlds import World


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    found = World(2, tmp_path_factory.mktemp("world"))
    yield found
    found.close()


def some_data():
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(0, 100, (2, 900), generator=generator)
    data = Data(edge_index=edges, x=torch.randn(100, 7, generator=generator))
    data.y = torch.arange(100) % 3
    return data


@pytest.mark.parametrize(
    "options",
    [{}, {"replace": True}, {"disjoint": True}, {"subgraph_type": "bidirectional"}],
)
def test_batches_of_nodes(world, tmp_path, options):
    data = some_data()
    adj = CompactAdj.from_edge_index(data.edge_index, 100)
    partition(adj, tmp_path, 2, method="hash", features={"x": data.x, "y": data.y})
    assert sum(world.run(node_batches, tmp_path, data, None, options)) >= 14


@pytest.mark.parametrize("extra", ["weight_attr", "time_attr"])
def test_batches_by_weight_and_time(world, tmp_path, extra):
    data = some_data()
    values = torch.arange(900) % 7
    data.w = values.float() if extra == "weight_attr" else values
    named = {"weight_attr": "edge_weight", "time_attr": "edge_time"}[extra]
    adj = CompactAdj.from_edge_index(data.edge_index, 100, **{named: data.w})
    partition(adj, tmp_path, 2, features={"x": data.x, "y": data.y})
    whole = Data(edge_index=data.edge_index, x=data.x, y=data.y, w=data.w)
    made = world.run(node_batches, tmp_path, whole, None, {extra: "w"})
    assert sum(made) >= 14


def test_batches_of_typed_nodes(world, tmp_path):
    generator = torch.Generator().manual_seed(0)
    data, sizes = HeteroData(), {"author": 40, "paper": 70}
    for name, size in sizes.items():
        data[name].x = torch.randn(size, 4, generator=generator)
    kinds = [("author", "wrote", "paper"), ("paper", "cites", "paper")]
    adjs = {}
    for kind in kinds:
        ends = [
            torch.randint(sizes[end], (300,), generator=generator) for end in kind[::2]
        ]
        data[kind].edge_index = torch.stack(ends)
        shape = sizes[kind[0]], sizes[kind[2]]
        adjs[kind] = CompactAdj.from_edge_index(data[kind].edge_index, shape)
    features = {(name, "x"): data[name].x for name in sizes}
    partition(adjs, tmp_path, 2, method="hash", features=features)
    assert sum(world.run(node_batches, tmp_path, data, "paper", {})) >= 8


@pytest.mark.parametrize(
    "options", [{"exclude_edges": True}, {"neg_sampling": "binary"}]
)
def test_batches_of_links(world, tmp_path, options):
    data = some_data()
    adj = CompactAdj.from_edge_index(data.edge_index, 100)
    partition(adj, tmp_path, 2, features={"x": data.x, "y": data.y})
    pairs = data.edge_index[:, :100]
    assert sum(world.run(link_batches, tmp_path, data, pairs, options)) >= 8


def test_validate(world, tmp_path):
    adj = CompactAdj.from_edge_index(some_data().edge_index, 100)
    partition(adj, tmp_path, 2)
    assert world.run(refused, tmp_path) == [True, True]
