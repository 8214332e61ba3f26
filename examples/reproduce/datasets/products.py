"""OGB's ogbn-products, from the folder that it unpacks to, without its package."""

from pathlib import Path

import numpy as np
import torch

from examples.reproduce.data import Dataset
from examples.reproduce.datasets import text
from examples.reproduce.features import DenseFeatures


def read(name: str, files: list[Path]) -> Dataset:
    """The graph, with every edge in both directions; 124 million take 2 GB."""
    edges, feats, label, count, *split = files
    nodes = int(text.table(count, np.int64)[0, 0])
    parts = [part.astype(np.int32) for part in text.pieces(edges, np.int64, ",")]
    once = np.concatenate(parts) if parts else np.empty((0, 2), np.int32)
    del parts
    edge_index = torch.empty(2, 2 * len(once), dtype=torch.int64)
    edge_index[:, : len(once)] = torch.from_numpy(once.T)
    edge_index[:, len(once) :] = torch.from_numpy(once.T[::-1].copy())
    x, filled = None, 0
    for part in text.pieces(feats, np.float32, ","):
        x = torch.empty(nodes, part.shape[1]) if x is None else x
        x[filled : filled + len(part)] = torch.from_numpy(part)
        filled += len(part)
    if x is None or filled != nodes:
        raise ValueError(f"{feats} must have a line per node, {nodes} (got {filled})")
    y = torch.from_numpy(text.table(label, np.int64)[:, 0])
    ids = (torch.from_numpy(text.table(part, np.int64)[:, 0]) for part in split)
    return Dataset(name, edge_index, DenseFeatures(x), y, *ids)
