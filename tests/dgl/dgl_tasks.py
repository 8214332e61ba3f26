"""Tasks for the processes of a world in tests of blocks from partitioned graphs."""

import dgl
import torch

from gttf_dgl import DataLoader, GTTFSampler, PartitionedLoader
from gttf_sampler.distributed import PartitionedGraph


def plain_graph():
    """A graph without types, with features and weights."""
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(0, 100, (2, 900), generator=generator)
    g = dgl.graph(tuple(ends), num_nodes=100)
    g.ndata["x"] = torch.randn(100, 7, generator=generator)
    g.ndata["y"] = torch.arange(100) % 3
    g.edata["w"] = torch.rand(900, generator=generator).masked_fill_(ends[0] < 5, 0)
    return g


def typed_graph():
    """Authors and papers; one relation has weights, not all nodes have features."""
    generator = torch.Generator().manual_seed(0)
    sizes, edges = {"author": 40, "paper": 70}, {}
    for kind in (
        ("author", "wrote", "paper"),
        ("paper", "cites", "paper"),
        ("paper", "by", "author"),
    ):
        ends = [torch.randint(sizes[e], (300,), generator=generator) for e in kind[::2]]
        edges[kind] = tuple(ends)
    g = dgl.heterograph(edges, sizes)
    g.nodes["paper"].data["x"] = torch.randn(70, 4, generator=generator)
    g.edges["cites"].data["w"] = torch.rand(300, generator=generator)
    return g


def blocks(rank, groups, path, make, seeds, options):
    """Epochs beside those of a loader with the whole graph, from the same generators.

    `seeds` says which own nodes: None, a node type, or several.
    """
    g, made = make(), 0
    fanouts = options.pop("fanouts", [3, 2])
    how = {"batch_size": 16, "shuffle": True}
    with PartitionedGraph.open(path, timeout=120, direct=rank == 0) as graph:
        types = [seeds] if isinstance(seeds, str) else seeds
        own = graph.own_nodes() if seeds is None else dict.fromkeys(types)
        for name in types or ():
            own[name] = graph.own_nodes(name)
        given = own if isinstance(seeds, list) else seeds
        for prefetch in (0, 2):
            far = PartitionedLoader(
                graph, fanouts, given, prefetch=prefetch, **options, **how
            )
            near = DataLoader(g, own, GTTFSampler(fanouts, **options), **how)
            assert len(far) == len(near)
            for _ in range(2):
                epochs = []
                for loader in (far, near):
                    torch.manual_seed(rank)
                    epochs.append(list(loader))
                for left, right in zip(*epochs, strict=True):
                    same_batch(g, left, right)
                    made += 1
    return made


def same_batch(g, left, right):
    """Ids, edges and their types are equal; features are those of the whole graph."""
    for mine, theirs in zip(left[:2], right[:2], strict=True):
        assert same(mine, theirs)
    for mine, theirs in zip(left[2], right[2], strict=True):
        assert mine.canonical_etypes == theirs.canonical_etypes
        for kind in mine.canonical_etypes:
            ends = mine.edges(etype=kind), theirs.edges(etype=kind)
            assert all(a.equal(b) for a, b in zip(*ends, strict=True))
            ids = (side.edges[kind].data[dgl.EID] for side in (mine, theirs))
            assert same(*ids)
        for name in g.ntypes:
            pair = [side.srcnodes[name].data[dgl.NID] for side in (mine, theirs)]
            assert same(*pair)
            pair = [side.dstnodes[name].data[dgl.NID] for side in (mine, theirs)]
            assert same(*pair)
    _, _, mine = left
    for name in g.ntypes:
        for nodes in (mine[0].srcnodes[name], mine[-1].dstnodes[name]):
            for column, values in g.nodes[name].data.items():
                assert nodes.data[column].equal(values[nodes.data[dgl.NID]])


def same(left, right):
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[k], right[k]) for k in left)
    return left.dtype == right.dtype and left.equal(right)


def resumed(rank, groups, path):
    """A loader that continues where another one was has the batches that were left."""
    with PartitionedGraph.open(path, timeout=120, direct=rank == 0) as graph:
        how = {"batch_size": 7, "shuffle": True}
        torch.manual_seed(rank)
        loader = PartitionedLoader(graph, [3, 2], prefetch=2, **how)
        batches = iter(loader)
        for _ in range(3):
            next(batches)
        state, rest = loader.state_dict(), list(batches)
        torch.manual_seed(7)
        again = PartitionedLoader(graph, [3, 2], **how)
        again.load_state_dict(state)
        for left, right in zip(again, rest, strict=True):
            same_batch(plain_graph(), left, right)
    return len(rest)
