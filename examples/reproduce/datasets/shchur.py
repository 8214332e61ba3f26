"""Amazon Computers and Coauthor Physics, from the .npz files of Shchur et al.

The features of Physics stay sparse: they are 18 MB so, and 1.2 GB otherwise. A third of
those of Computers are ones.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from examples.reproduce.data import Dataset
from examples.reproduce.features import DenseFeatures, Features

Array = np.ndarray[Any, Any]
DENSE = 0.1  # share of ones from which dense rows are quicker
TRAIN, VAL = 20, 30  # nodes per class; the others are for the test


def read(name: str, files: list[Path], split: int = 0) -> Dataset:
    """The graph, undirected and without loops, with a one for every word of a node.

    Args:
        name: of the dataset.
        files: its file.
        split: the number of the random split.
    """
    with np.load(files[0]) as file:
        y = torch.from_numpy(file["labels"].astype(np.int64))
        ends = _ends(file["adj_indptr"], file["adj_indices"])
        counts = torch.from_numpy(np.diff(file["attr_indptr"]).astype(np.int64))
        words = torch.from_numpy(file["attr_indices"].astype(np.int64))
        width = int(file["attr_shape"][1])
    ends = ends[:, ends[0] != ends[1]]
    n = y.numel()
    code = torch.cat([ends[0] * n + ends[1], ends[1] * n + ends[0]]).unique()
    features = Features.of_rows(words, torch.ones(words.numel()), counts, width)
    if words.numel() > DENSE * n * width:
        features = DenseFeatures(features.rows().to_dense())
    edge_index = torch.stack([code // n, code % n])
    return Dataset(name, edge_index, features, y, *draw_split(y, split))


def draw_split(y: Tensor, number: int) -> tuple[Tensor, Tensor, Tensor]:
    """TRAIN and VAL nodes of every class, at random, and all others."""
    generator = torch.Generator().manual_seed(number)
    order = torch.randperm(y.numel(), generator=generator)
    place = torch.empty_like(order)  # of a node among those of its class
    for kind in y.unique():
        own = (y[order] == kind).nonzero().view(-1)
        place[own] = torch.arange(own.numel())
    train, val = place < TRAIN, (place >= TRAIN) & (place < TRAIN + VAL)
    return order[train], order[val], order[~(train | val)]


def _ends(start: Array, col: Array) -> Tensor:
    """Edges [2, m] of rows."""
    row = np.repeat(np.arange(start.size - 1), np.diff(start))
    return torch.from_numpy(np.stack([row, col.astype(np.int64)]))
