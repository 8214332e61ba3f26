"""Tasks for the processes of a world in tests of PyG's loaders on parts."""

import pytest
import torch
from torch_geometric.data import Data, HeteroData

from gttf_pyg import GTTFLinkLoader, GTTFLoader
from gttf_sampler.cli.main import main
from gttf_sampler.distributed import PartitionedGraph

EDGE_ONLY = {"w", "num_nodes"}


def some_data():
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(0, 100, (2, 900), generator=generator)
    data = Data(edge_index=edges, x=torch.randn(100, 7, generator=generator))
    data.y, data.train_mask = torch.arange(100) % 3, torch.arange(100) < 50
    data.time = torch.randint(0, 9, (100,), generator=generator)
    data.w = torch.rand(900, generator=generator)
    return data


def typed_data():
    generator = torch.Generator().manual_seed(0)
    data, sizes = HeteroData(), {"author": 40, "paper": 70}
    for name, size in sizes.items():
        data[name].x = torch.randn(size, 4, generator=generator)
    data["paper"].y = torch.arange(70) % 5
    for kind in (("author", "wrote", "paper"), ("paper", "cites", "paper")):
        ends = [torch.randint(sizes[e], (300,), generator=generator) for e in kind[::2]]
        data[kind].edge_index = torch.stack(ends)
    data["paper", "cites", "paper"].w = torch.rand(300, generator=generator)
    return data


def cut(tmp_path, data, *more):
    """`gttf partition` of a file; the exit status."""
    torch.save(data, tmp_path / "data.pt")
    graph, out = str(tmp_path / "data.pt"), str(tmp_path / "out")
    return main(["partition", graph, out, "--parts", "2", "--method", "hash", *more])


def equal(left, right):
    """True if two batches are equal, bit for bit.

    PyG writes the number of nodes into batches from stores, and no edge attributes.
    """
    pairs = [(left, right)]
    if isinstance(left, HeteroData):
        kinds = [*right.node_types, *right.edge_types]
        assert [*left.node_types, *left.edge_types] == kinds
        pairs = [(left[kind], right[kind]) for kind in kinds]
    for mine, theirs in pairs:
        own, other = set(mine.keys()) - {"num_nodes"}, set(theirs.keys()) - EDGE_ONLY
        assert own == other, (own, other)
        assert all(same(mine[key], theirs[key]) for key in own)
    return True


def same(left, right):
    if isinstance(left, torch.Tensor):
        return left.dtype == right.dtype and left.equal(right)
    if isinstance(left, dict):
        return all(same(left[key], right[key]) for key in left)
    return left == right


def node_batches(rank, groups, path, data, name, options):
    """Batches of own nodes, beside those of a loader with the whole graph."""
    made = 0
    with PartitionedGraph.open(path, timeout=120, direct=rank == 0) as graph:
        own = graph.own_nodes(name or "")
        given = own if name is None else (name, own)
        if options.get("time_attr") == "w":
            options = {**options, "input_time": own.to(torch.int64) % 7}
        how = {"num_neighbors": [3, 2], "batch_size": 16, "seed": 5, **options}
        for prefetch in (0, 2):
            far = GTTFLoader(graph, input_nodes=name, prefetch=prefetch, **how)
            near = GTTFLoader(data, input_nodes=given, **how)
            for left, right in zip(far, near, strict=True):
                assert equal(left, right)
                made += 1
    return made


def link_batches(rank, groups, path, data, pairs, options):
    """Batches around pairs of nodes, with negatives and hidden edges."""
    made = 0
    with PartitionedGraph.open(path, timeout=120, direct=rank == 0) as graph:
        own = pairs[:, rank::2]
        how = {"num_neighbors": [3, 2], "batch_size": 16, "seed": 5, **options}
        far = GTTFLinkLoader(graph, edge_label_index=own, **how)
        near = GTTFLinkLoader(data, edge_label_index=own, **how)
        for left, right in zip(far, near, strict=True):
            assert equal(left, right)
            made += 1
    return made


def refused(rank, groups, path):
    """Everything that takes more than draws is refused in one sentence."""
    with PartitionedGraph.open(path, timeout=120, direct=rank == 0) as graph:
        for name, value, match in (
            ("subgraph_type", "induced", "needs the rows of the whole graph"),
            ("layerwise", True, "needs the rows of the whole graph"),
            ("bias", lambda path, node, hood: hood.edge, "needs the rows"),
            ("weight_attr", "w", "unless the graph was cut with it"),
            ("num_workers", 2, "must be 0 where the graph is partitioned"),
            ("normalize", "unbiased", "must be None"),
        ):
            with pytest.raises(ValueError, match=match):
                GTTFLoader(graph, [2], **{name: value})
        with pytest.raises(ValueError, match="must name pairs of nodes"):
            GTTFLinkLoader(graph, [2])
    return True
