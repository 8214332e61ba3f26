"""Edge lists in text files, and embeddings with the ids that were in them."""

from __future__ import annotations

import contextlib
import gzip
import os
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check, _files

COMMENTS = ("#", "%")
TEXTS = (".txt", ".tsv", ".emb")
FORMATS = (".npy", ".npz", *TEXTS)
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
    integers, or any words if one of them is not an integer; a first line of words above
    integers is a heading. Columns behind the second are ignored, unless all of the
    third are numbers: those are the weights.
    """
    file = _check.path("path", path)
    if not file.is_file():
        _check.fail("path", "must be a file with edges", str(file))
    lines = _lines(file)
    if not lines:
        _check.fail("path", "must hold at least one edge", str(file))
    delimiter = "," if "," in lines[0] else None
    columns = len(lines[0].split(delimiter))
    if columns < 2:
        _check.fail("path", "must have two columns or three", f"1 in {file}")
    try:
        ends, headings = _ends(lines, delimiter)
    except ValueError:
        rule = "must have two columns in every line"
        _check.fail("path", rule, f"fewer in a line of {file}")
    node_id, number = np.unique(ends, return_inverse=True)
    edge_index = torch.from_numpy(number.reshape(ends.shape).T.copy())
    weight = None
    if columns > 2:
        with contextlib.suppress(ValueError):  # something else, not weights
            column = _table(lines[headings:], delimiter, (2,), np.float64)
            weight = torch.from_numpy(column[:, 0])
    return EdgeList(edge_index.to(torch.int64), node_id, weight)


def embedding_files(path: str | os.PathLike[str]) -> list[Path]:
    """The files that `write_embeddings` writes for a name, whose end must say how."""
    file = _check.path("path", path)
    if file.suffix not in FORMATS:
        _check.fail("path", f"must end in one of {', '.join(FORMATS)}", repr(file.name))
    if not file.absolute().parent.is_dir():
        _check.fail("path", "must be in a directory that is there", str(file))
    return [file, file.with_suffix(".ids.txt")] if file.suffix == ".npy" else [file]


def write_embeddings(
    path: str | os.PathLike[str], embedding: Tensor, node_id: Array
) -> list[Path]:
    """Writes vectors [n, d] with the ids [n] of their nodes; returns the files.

    The end of the name says how: `.npy` is the matrix alone, with the ids in a file
    `.ids.txt` beside it, line by line; `.npz` holds the arrays `embedding` and
    `node_id`; `.txt`, `.tsv` and `.emb` are word2vec's text, a line `n d` and then
    `id x₁ … x_d` per node. What was there before stays until the new file is whole.
    """
    files = embedding_files(path)
    file = files[0]
    vectors = _matrix(embedding)
    if not isinstance(node_id, np.ndarray | list | tuple | range):
        rule = "must be an array or a list of ids"
        _check.mistyped("node_id", rule, _check.kind_of(node_id))
    if np.ndim(node_id) != 1 or len(node_id) != len(vectors):
        rule = f"must have one entry per row, {len(vectors)}"
        _check.fail("node_id", rule, f"shape {list(np.shape(node_id))}")
    if not np.isfinite(vectors).all():
        cure = "learn with a smaller rate"
        _check.fail("embedding", "must hold finite numbers", "others, too", cure)
    if file.suffix in TEXTS and any(len(str(name).split()) != 1 for name in node_id):
        rule = f"must be words without spaces in {file.suffix}"
        _check.fail("node_id", rule, "others, too", "write .npz or .npy")
    with _files.replacing(*files) as (out, *beside):
        if file.suffix == ".npy":
            np.save(out, vectors)
            beside[0].write("".join(f"{name}\n" for name in node_id).encode())
        elif file.suffix == ".npz":
            np.savez(out, embedding=vectors, node_id=node_id)
        else:
            out.write(f"{vectors.shape[0]} {vectors.shape[1]}\n".encode())
            for name, vector in zip(node_id, vectors, strict=True):
                line = f"{name} {' '.join(f'{x:.6g}' for x in vector)}\n"
                out.write(line.encode())
    return files


def _matrix(embedding: Tensor) -> Array:
    """The vectors [n, d] as numpy has them."""
    _check.real("embedding", _check.dense("embedding", embedding))
    vectors = _check.tensor("embedding", embedding, rank=2).cpu()
    if vectors.dtype == torch.bfloat16:  # which numpy lacks
        vectors = vectors.float()
    found: Array = vectors.numpy()
    return found


def _lines(file: Path) -> list[str]:
    """The lines that are not empty and no comments."""
    opened = gzip.open if file.suffix == ".gz" else open
    try:
        with opened(file, "rt", encoding="utf-8-sig") as lines:
            stripped = (line.strip() for line in lines)
            return [text for text in stripped if text and not text.startswith(COMMENTS)]
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        _check.fail("path", "must be a whole file", f"{file}: {error}")
    except UnicodeDecodeError:
        _check.fail("path", "must be a text file in UTF-8", str(file))


def _ends(lines: list[str], delimiter: str | None) -> tuple[Array, int]:
    """The ids [m, 2], as integers if they are, and how many lines are headings."""
    for headings in (0, 1):
        if len(lines) > headings:
            with contextlib.suppress(ValueError, OverflowError):
                table = _table(lines[headings:], delimiter, (0, 1), np.int64)
                return table, headings
    return np.char.strip(_table(lines, delimiter, (0, 1), np.str_)), 0


def _table(
    lines: list[str], delimiter: str | None, columns: tuple[int, ...], dtype: Any
) -> Array:
    """Some columns of the lines."""
    return np.loadtxt(
        lines,
        dtype=dtype,
        comments=None,
        delimiter=delimiter,
        usecols=columns,
        ndmin=2,
    )
