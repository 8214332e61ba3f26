"""What processes of a world do in tests of PyG's loaders on partitioned graphs."""

import pytest
import torch
from torch_geometric.data import HeteroData

from gttf_pyg import GTTFLinkLoader, GTTFLoader
from gttf_sampler.distributed import PartitionedGraph


def equal(left, right):
    """Whether two batches say the same, bit for bit.

    PyG writes the number of nodes into batches from stores, and no edge attributes.
    """
    pairs = [(left, right)]
    if isinstance(left, HeteroData):
        kinds = [*right.node_types, *right.edge_types]
        assert [*left.node_types, *left.edge_types] == kinds
        pairs = [(left[kind], right[kind]) for kind in kinds]
    for mine, theirs in pairs:
        own, other = set(mine.keys()) - {"num_nodes"}, set(theirs.keys()) - {"w"}
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
    with PartitionedGraph.open(path, timeout=120) as graph:
        own = graph.own_nodes(name or "")
        given = own if name is None else (name, own)
        if "time_attr" in options:
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
    with PartitionedGraph.open(path, timeout=120) as graph:
        own = pairs[:, rank::2]
        how = {"num_neighbors": [3, 2], "batch_size": 16, "seed": 5, **options}
        far = GTTFLinkLoader(graph, edge_label_index=own, **how)
        near = GTTFLinkLoader(data, edge_label_index=own, **how)
        for left, right in zip(far, near, strict=True):
            assert equal(left, right)
            made += 1
    return made


def refused(rank, groups, path):
    """What takes more than draws is refused in one sentence."""
    with PartitionedGraph.open(path, timeout=120) as graph:
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
