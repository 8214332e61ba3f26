"""Edge lists in text files, and embeddings with the ids that were in them."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check

COMMENTS = ("#", "%")
FORMATS = (".npy", ".npz", ".txt", ".tsv", ".emb")
Array = np.ndarray[Any, Any]


class EdgeList(NamedTuple):
    """The edges of a file, with nodes numbered in the order of their ids.

    Attributes:
        edge_index: int64 [2, m].
        node_id: [n], the id in the file of every node: integers, or strings.
        weight: float64 [m], the third column, or None if there is none.
    """

    edge_index: Tensor
    node_id: Array
    weight: Tensor | None

    @property
    def num_nodes(self) -> int:
        """How many different ids there are."""
        return len(self.node_id)


def read_edge_list(path: str | os.PathLike[str]) -> EdgeList:
    """Reads lines `source target [weight]`, with spaces, tabs or commas between.

    Lines that begin with # or % are comments; `.gz` files are unpacked. Ids are
    integers, or any words if one of them is not an integer.
    """
    file = Path(path)
    if not file.is_file():
        _check.fail("path", "must be a file with edges", str(file))
    columns, delimiter = _layout(file)
    if columns == 0:
        _check.fail("path", "must hold at least one edge", str(file))
    if columns < 2:
        _check.fail("path", "must have two columns or three", f"1 in {file}")
    ends = _load(file, delimiter, (0, 1))
    node_id, number = np.unique(ends, return_inverse=True)
    edge_index = torch.from_numpy(number.reshape(ends.shape).T.copy())
    weight = None
    if columns > 2:
        try:
            column = _table(file, delimiter, (2,), np.float64)[:, 0]
        except ValueError:
            rule = "must have numbers in its third column, the weights"
            _check.fail("path", rule, str(file))
        weight = torch.from_numpy(column)
    return EdgeList(edge_index.to(torch.int64), node_id, weight)


def check_format(path: str | os.PathLike[str]) -> Path:
    """`path`, whose end must say how to write embeddings."""
    file = Path(path)
    if file.suffix not in FORMATS:
        _check.fail("path", f"must end in one of {', '.join(FORMATS)}", repr(file.name))
    return file


def write_embeddings(
    path: str | os.PathLike[str], embedding: Tensor, node_id: Array
) -> list[Path]:
    """Writes vectors [n, d] with the ids [n] of their nodes; returns the files.

    The end of the name says how: `.npy` is the matrix alone, with the ids in a file
    `.ids.txt` beside it, line by line; `.npz` holds the arrays `embedding` and
    `node_id`; `.txt`, `.tsv` and `.emb` are word2vec's text, a line `n d` and then
    `id x₁ … x_d` per node.
    """
    file = check_format(path)
    if len(node_id) != len(embedding):
        rule = f"must have one entry per row, {len(embedding)}"
        _check.fail("node_id", rule, len(node_id))
    vectors = embedding.detach().cpu().numpy()
    if file.suffix == ".npy":
        names = file.with_suffix(".ids.txt")
        np.save(file, vectors)
        names.write_text("".join(f"{name}\n" for name in node_id), encoding="utf-8")
        return [file, names]
    if file.suffix == ".npz":
        np.savez(file, embedding=vectors, node_id=node_id)
        return [file]
    with file.open("w", encoding="utf-8") as out:
        out.write(f"{vectors.shape[0]} {vectors.shape[1]}\n")
        for name, vector in zip(node_id, vectors, strict=True):
            out.write(f"{name} {' '.join(f'{x:.6g}' for x in vector)}\n")
    return [file]


def _layout(file: Path) -> tuple[int, str | None]:
    """How many columns the first edge has, 0 if there is none, and what separates."""
    opened = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            text = line.strip()
            if text and not text.startswith(COMMENTS):
                delimiter = "," if "," in text else None
                return len(text.split(delimiter)), delimiter
    return 0, None


def _load(file: Path, delimiter: str | None, columns: tuple[int, ...]) -> Array:
    """The ids [m, 2], as integers if they are."""
    try:
        return _table(file, delimiter, columns, np.int64)
    except ValueError:
        return np.char.strip(_table(file, delimiter, columns, np.str_))


def _table(
    file: Path, delimiter: str | None, columns: tuple[int, ...], dtype: Any
) -> Array:
    """Some columns of the file."""
    return np.loadtxt(
        file,
        dtype=dtype,
        comments=COMMENTS,
        delimiter=delimiter,
        usecols=columns,
        ndmin=2,
        encoding="utf-8",
    )
