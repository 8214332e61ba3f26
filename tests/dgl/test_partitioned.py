"""Blocks of a partitioned graph are those of the whole one."""

import pytest
import torch

from dgl_tasks import blocks
from gttf_dgl import PartitionedLoader
from gttf_sampler import CompactAdj
from gttf_sampler.distributed import PartitionedGraph, partition
from worlds import World


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    found = World(2, tmp_path_factory.mktemp("world"))
    yield found
    found.close()


def some_graph():
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(0, 100, (2, 900), generator=generator)
    return edges, torch.randn(100, 7, generator=generator)


@pytest.mark.parametrize("replace", [False, True])
def test_blocks(world, tmp_path, replace):
    edges, values = some_graph()
    adj = CompactAdj.from_edge_index(edges, 100)
    partition(adj, tmp_path, 2, method="hash", features={"x": values})
    assert sum(world.run(blocks, tmp_path, edges, values, replace)) >= 7


def test_validate(tmp_path):
    edges, _ = some_graph()
    with pytest.raises(TypeError, match="'graph' must be a PartitionedGraph"):
        PartitionedLoader(edges, [2])
    partition(CompactAdj.from_edge_index(edges, 100), tmp_path, 1)
    graph = PartitionedGraph.open(tmp_path)
    with pytest.raises(ValueError, match="'nodes' must hold ids below"):
        PartitionedLoader(graph, [2], [100])
    with pytest.raises(ValueError, match="'batch_size' must be"):
        PartitionedLoader(graph, [2], batch_size=0)
    loader = PartitionedLoader(graph, [2], range(10), batch_size=4, drop_last=True)
    assert [out.numel() for _, out, _ in loader] == [4, 4]
    assert len(loader) == 2
