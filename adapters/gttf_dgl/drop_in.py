"""What existing scripts import from DGL, under the same names.

from gttf_dgl import NeighborSampler  # was: dgl.dataloading
from gttf_dgl import sample_neighbors  # was: dgl.sampling
"""

from collections.abc import Mapping
from typing import Any

from dgl import DGLGraph

from gttf_dgl import _check
from gttf_dgl._blocks import frontier_of
from gttf_dgl._source import Choice, Source
from gttf_dgl.sampler import GTTFSampler
from gttf_sampler import BiasFn, random


class NeighborSampler(GTTFSampler):
    """DGL's `NeighborSampler` on the engine of this package: `GTTFSampler`.

    >>> import dgl, torch
    >>> sampler = NeighborSampler([5, 10])
    >>> isinstance(sampler, dgl.dataloading.BlockSampler)
    True
    """


class MultiLayerNeighborSampler(NeighborSampler):
    """DGL's older name for `NeighborSampler`."""


class MultiLayerFullNeighborSampler(NeighborSampler):
    """Samples all neighbours in each of `num_layers` layers.

    >>> MultiLayerFullNeighborSampler(2).fanouts
    [-1, -1]

    Args:
        num_layers: how many layers the model has.
        **kwargs: of `GTTFSampler`.
    """

    def __init__(self, num_layers: int, **kwargs: Any) -> None:
        super().__init__([-1] * _check.length("num_layers", num_layers), **kwargs)


def sample_neighbors(
    g: DGLGraph,
    nodes: Any,
    fanout: Any,
    edge_dir: str = "in",
    prob: str | None = None,
    replace: bool = False,
    copy_ndata: bool = True,
    copy_edata: bool = True,
    _dist_training: bool = False,  # of DGL's own, without effect
    exclude_edges: Any = None,
    output_device: Any = None,
    *,
    bias: BiasFn | Mapping[Any, BiasFn] | None = None,
    generator: random.Randomness = None,
) -> DGLGraph:
    """Samples edges of some nodes, as `dgl.sampling.sample_neighbors` does.

    The result is a graph of all nodes of `g` with the sampled edges.

    >>> import dgl
    >>> g = dgl.graph(([1, 2, 3, 4], [0, 0, 0, 2]))
    >>> sample_neighbors(g, [2, 0], 2).in_degrees().tolist()
    [2, 0, 1, 0, 0]

    A node that is named twice draws the same edges twice.

    Args:
        g: the graph.
        nodes: ids, or one lone id; per node type if there are types.
        fanout: edges per node and edge type, -1 for all; or one per edge type.
        edge_dir: "in" samples edges that arrive at the nodes, "out" those that leave.
        prob: name of edge data to draw in proportion to; booleans are a mask.
        replace: draw `fanout` edges independently.
        copy_ndata: whether the graph has the node data of `g`.
        copy_edata: whether it has the edge data of its edges, beside their ids.
        exclude_edges: ids of edges that are as if they were not there.
        output_device: where the graph goes; by default it stays with `g`.
        bias: any BiasFn of `gttf_sampler`, or one per edge type.
        generator: a torch.Generator, an integer, or None for torch's default generator.
    """
    choice = Choice.checked(edge_dir, prob, None, replace, bias, rooted=False)
    source = Source.of(g, choice, exclude_edges, "exclude_edges")
    for name, value in (("copy_ndata", copy_ndata), ("copy_edata", copy_edata)):
        _check.yes_or_no(name, value)
    device = _check.device_or_none("output_device", output_device)
    seeds = _check.several_of_each(nodes)
    (fanouts,) = _check.fanouts([fanout], "fanout")
    hops = [_check.layer_fanouts(g, fanouts, "fanout")]
    randomness = _check.randomness(generator)
    drawn = source.draw(_check.seeds(g, seeds, "nodes"), hops, randomness)
    frontier = frontier_of(source, drawn, bool(copy_ndata), bool(copy_edata))
    return frontier if device is None else frontier.to(device)
