"""Names that DGL keeps private and this package needs; tests/dgl/test_compat.py.

That test fails where DGL changes one of them, and says which.
"""

from functools import cache
from typing import Any

from dgl import create_block
from dgl import graph_index as graph_index
from dgl import heterograph_index as heterograph_index
from dgl.dataloading.base import EdgePredictionSampler as EdgePredictionSampler
from dgl.dataloading.base import set_dst_lazy_features as set_dst_lazy_features
from dgl.dataloading.base import set_edge_lazy_features as set_edge_lazy_features
from dgl.dataloading.base import set_node_lazy_features as set_node_lazy_features
from dgl.dataloading.base import set_src_lazy_features as set_src_lazy_features
from dgl.dataloading.dataloader import CollateWrapper as CollateWrapper
from dgl.dataloading.dataloader import (
    DDPTensorizedDataset,
    TensorizedDataset,
    _TensorizedDatasetIter,
)
from dgl.dataloading.dataloader import WorkerInitWrapper as WorkerInitWrapper
from dgl.frame import LazyFeature as LazyFeature
from dgl.heterograph import DGLBlock as DGLBlock
from dgl.nn.pytorch.conv.pnaconv import AGGREGATORS as AGGREGATORS
from dgl.nn.pytorch.conv.pnaconv import PNAConvTower as PNAConvTower
from dgl.nn.pytorch.hetero import get_aggregate_fn
from dgl.utils import extract_edge_subframes as extract_edge_subframes
from dgl.utils import extract_node_subframes as extract_node_subframes
from dgl.utils import (
    extract_node_subframes_for_block as extract_node_subframes_for_block,
)
from dgl.utils import set_new_frames as set_new_frames
from dgl.utils import toindex as toindex
from torch import Tensor

DATASETS = (TensorizedDataset, DDPTensorizedDataset)

# Attributes that are read of objects of DGL.
OF_GRAPHS = ("_graph", "_node_frames", "_edge_frames")
OF_FRAMES = ("_columns",)
OF_DATASETS = (
    *("_id_tensor", "_indices", "_mapping_keys"),
    *("_shuffle", "batch_size", "drop_last"),
)

OF_LAYERS = {
    "EdgeWeightNorm": ("_norm",),
    "GATConv": ("_num_heads", "_out_feats"),
    "GATv2Conv": ("_num_heads", "_out_feats"),
    "GINConv": ("_aggregator_type",),
    "GMMConv": ("_reducer",),
    "GraphConv": (
        *("_norm", "_in_feats", "_out_feats", "_activation"),
        "_allow_zero_in_degree",
    ),
    "SAGEConv": ("_aggre_type", "_in_src_feats", "_out_feats"),
    "SGConv": ("_cached",),
}


def structure_of(graph: Any) -> Any:
    """DGL's index of a graph, another one once edges or nodes came or went."""
    return graph._graph


def seeds_of(dataset: Any) -> tuple[Tensor, list[str] | None, bool]:
    """Ids that a dataset goes through, their types if any, and whether it shuffles.

    The ids are [k], or [k, 2] of (number of a type, id).
    """
    ids = dataset._id_tensor[dataset._indices]
    return ids, dataset._mapping_keys, bool(dataset._shuffle)


def named_seeds(ids: Tensor, names: list[str] | None) -> Any:
    """Some of these ids as samplers get them: [k], or [k] per type where there are."""
    return next(_TensorizedDatasetIter(ids, max(1, len(ids)), False, names, False))


def rebuilt(kind: Any, graph: Any) -> Any:
    """A graph or block of class `kind` with the structure and the data of another."""
    names = (graph.srctypes, graph.dsttypes) if graph.is_block else graph.ntypes
    frames = {
        "node_frames": graph._node_frames,
        "edge_frames": graph._edge_frames,
    }
    return kind(graph._graph, names, graph.etypes, **frames)


def frames_of(graph: Any) -> tuple[list[Any], list[Any]]:
    """The frames of a graph's nodes and edges, which hold their data by type."""
    return graph._node_frames, graph._edge_frames


def columns_of(frame: Any) -> dict[str, Any]:
    """The columns of a frame, also those that are not fetched yet."""
    columns: dict[str, Any] = frame._columns
    return columns


def aggregator_of(layer: Any) -> str:
    """The name of a layer's aggregation."""
    for name in ("_aggre_type", "_aggregator_type", "_reducer", "reducer"):
        found = getattr(layer, name, None)
        if found is not None:
            return str(getattr(found, "__name__", found))
    raise AttributeError(f"{type(layer).__name__} has no aggregation")


def norm_of(layer: Any) -> str:
    """The degrees that GraphConv and EdgeWeightNorm divide by."""
    return str(layer._norm)


def heads_of(layer: Any) -> tuple[int, int]:
    """The number of heads, and the size of each."""
    return layer._num_heads, layer._out_feats


def sizes_of(layer: Any) -> tuple[int, int]:
    """The sizes of a layer's rows of senders, and of its output."""
    ins = getattr(layer, "_in_src_feats", None)
    return layer._in_feats if ins is None else ins, layer._out_feats


def activation_of(layer: Any) -> Any:
    """The activation behind a layer, or None."""
    return getattr(layer, "activation", None) or getattr(layer, "_activation", None)


def takes_zero_in_degree(layer: Any) -> bool:
    """True if a layer takes receivers without edges."""
    return bool(layer._allow_zero_in_degree)


def is_cached(layer: Any) -> bool:
    """True if a layer keeps the features of its first call."""
    return bool(getattr(layer, "_cached", False))


def reduction_of(layer: Any) -> str:
    """The reduction of HeteroGraphConv over relations; "" if not "sum" or "mean"."""
    for name in ("sum", "mean"):
        if getattr(layer.agg_fn, "keywords", None) == get_aggregate_fn(name).keywords:
            return name
    return ""


def layer_of(layer: Any, kind: tuple[str, str, str]) -> Any:
    """The layer that HeteroGraphConv has for an edge type."""
    return layer._get_module(kind)


@cache
def no_edges() -> Any:
    """A block of nothing; `edge_softmax` takes its index for that of a graph."""
    return create_block(([], []), 0, 0)
