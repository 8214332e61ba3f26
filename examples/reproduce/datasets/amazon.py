"""AmazonProducts of GraphSAINT: a node may belong to several of its classes.

Differs from the paper, whose Amazon has 2.6 million nodes, 48 million edges and 31
classes, and was announced but not released: this one has 1.6 million nodes, 132 million
edges and 107 classes. Scores of the two do not compare.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from examples.reproduce.data import Dataset
from examples.reproduce.features import DenseFeatures

ENTRY = re.compile(r'"(\d+)":\s*(\[[^\]]*\]|\d+)')
BLOCK = 1 << 24  # characters that are read at a time


def read(name: str, files: list[Path]) -> Dataset:
    """The graph, with labels [n, classes] of zeros and ones."""
    adj, feats, classes, roles = files
    x = torch.from_numpy(np.load(feats).astype(np.float32, copy=False))
    with np.load(adj) as file:  # rows in scipy's manner, without weights
        degree = torch.from_numpy(np.diff(file["indptr"]).astype(np.int64))
        edge_index = torch.empty(2, file["indices"].size, dtype=torch.int64)
        edge_index[1] = torch.from_numpy(file["indices"])
    edge_index[0] = torch.arange(degree.numel()).repeat_interleave(degree)
    role = json.loads(roles.read_text("utf-8"))
    split = (torch.tensor(role[part]) for part in ("tr", "va", "te"))
    return Dataset(name, edge_index, DenseFeatures(x), labels(classes, len(x)), *split)


def labels(path: Path, nodes: int) -> torch.Tensor:
    """uint8 [n, classes], or int64 [n] if every node has one class; a block at a time.

    All of the file at once would be 1.6 million lists of 107 numbers.
    """
    y = None
    for node, value in _entries(path):
        if y is None:
            several = isinstance(value, list)
            y = torch.zeros(nodes, len(value), dtype=torch.uint8) if several else None
            y = torch.zeros(nodes, dtype=torch.int64) if y is None else y
        y[node] = torch.tensor(value, dtype=y.dtype)
    if y is None:
        raise ValueError(f"{path} must map nodes to classes")
    return y


def _entries(path: Path) -> Iterator[tuple[int, int | list[int]]]:
    """The nodes of a JSON object, and what they are mapped to."""
    rest = ""
    with path.open(encoding="utf-8") as file:
        while block := file.read(BLOCK):
            rest, end = rest + block, 0
            last = len(rest) if rest.rstrip().endswith("}") else rest.rfind(",")
            for found in ENTRY.finditer(rest, 0, last):
                yield int(found[1]), json.loads(found[2])
                end = found.end()
            rest = rest[end:]
