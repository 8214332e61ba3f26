"""What processes of a world do in tests of blocks from partitioned graphs."""

import dgl
import torch

from gttf_dgl import GTTFSampler, PartitionedLoader
from gttf_dgl._source import Choice, Source
from gttf_sampler.distributed import PartitionedGraph


def blocks(rank, groups, path, edges, values, replace):
    """Batches of own nodes, beside the blocks of a sampler with the whole graph."""
    g = dgl.graph(tuple(edges), num_nodes=100)
    sampler, made = GTTFSampler([3, 2], replace=replace), 0
    source = Source.of(g, Choice("in", None, None, replace, None))
    with PartitionedGraph.open(path, timeout=120) as graph:
        loader = PartitionedLoader(graph, [3, 2], batch_size=16, replace=replace)
        for seeds in graph.own_nodes().split(16):
            nodes, out, mine = loader.sample(seeds, made)
            theirs = sampler._layered_blocks(source, {"_N": seeds}, [[2], [3]], made)
            assert out.equal(seeds)
            for left, right in zip(mine, theirs, strict=True):
                for ends in zip(left.edges(), right.edges(), strict=True):
                    assert ends[0].equal(ends[1])
                assert left.srcdata[dgl.NID].equal(right.srcdata[dgl.NID])
                assert left.edata[dgl.EID].equal(right.edata[dgl.EID])
            assert mine[0].srcdata["x"].equal(values[nodes])
            assert mine[-1].dstdata["x"].equal(values[seeds])
            made += 1
        torch.manual_seed(rank)
        every = [out for _, out, _ in PartitionedLoader(graph, [2], shuffle=True)]
        assert torch.cat(every).sort().values.equal(graph.own_nodes())
    return made
