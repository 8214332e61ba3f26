"""Names that DGL keeps private and this package needs; tests/dgl/test_compat.py.

That test fails where DGL changes one of them, and says which.
"""

from typing import Any

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
