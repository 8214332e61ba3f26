"""Reddit, from the two .npz files that DGL publishes and PyG reads."""

from pathlib import Path

import numpy as np
import torch

from examples.reproduce.data import Dataset
from examples.reproduce.features import DenseFeatures

PARTS = (1, 2, 3)  # what "node_types" calls training, validation and test


def read(name: str, files: list[Path]) -> Dataset:
    """The graph; 114,615,892 edges take 1.8 GB, features 0.6 GB."""
    with np.load(files[0]) as file:
        x = torch.from_numpy(file["feature"].astype(np.float32, copy=False))
        y = torch.from_numpy(file["label"].astype(np.int64))
        part = torch.from_numpy(file["node_types"])
    with np.load(files[1]) as file:  # scipy's, without weights
        edge_index = torch.empty(2, file["row"].size, dtype=torch.int64)
        for place, key in enumerate(("row", "col")):
            edge_index[place] = torch.from_numpy(file[key])
    split = ((part == kind).nonzero().view(-1) for kind in PARTS)
    return Dataset(name, edge_index, DenseFeatures(x), y, *split)
