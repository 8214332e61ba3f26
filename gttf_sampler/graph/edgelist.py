"""Edge lists in text files, and embeddings with the ids that were in them."""

from __future__ import annotations

import contextlib
import csv
import gzip
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check, _files

COMMENTS = ("#", "%")
HEADINGS = (("source", "target"), ("src", "dst"), ("from", "to"))
TEXTS = (".txt", ".tsv", ".emb")
FORMATS = (".npy", ".npz", *TEXTS)
Array = np.ndarray[Any, Any]


class EdgeList(NamedTuple):
    """The edges of a file, with nodes numbered in the order of their ids.

    Attributes:
        edge_index: int64 [2, m].
        node_id: [n], the id in the file of every node: integers, or strings.
        weight: float64 [m], the third column, or None if there is none.
        time: [m], or None if there is none.
    """

    edge_index: Tensor
    node_id: Array
    weight: Tensor | None = None
    time: Tensor | None = None

    @property
    def num_nodes(self) -> int:
        """How many different ids there are."""
        return len(self.node_id)


def read_edge_list(
    path: str | os.PathLike[str], columns: Sequence[str] | None = None
) -> EdgeList:
    """Reads lines `source target [weight]`, with spaces, tabs or commas between.

    Lines that begin with # or % are comments; `.gz` files are unpacked. Ids are
    integers, or any words if one of them is not an integer; in .tsv files and between
    commas words may have spaces. A first line of words above integers is a heading, and
    so is one that begins with source and target, src and dst, or from and to. Columns
    behind the second are ignored, but for those that a heading calls weight and time,
    and for a third one of numbers without such a name: those are the weights.

    Args:
        path: the file.
        columns: names in a heading: source, target, and perhaps the weight and the
            time; if given, the first line is a heading.
    """
    file = _check.path("path", path)
    if not file.is_file():
        _check.fail("path", "must be a file with edges", str(file))
    lines = _lines(file)
    if not lines:
        _check.fail("path", "must hold at least one edge", str(file))
    layout = _layout(lines[0], ".tsv" in file.suffixes, columns)
    if layout.columns < 2:
        _check.fail("path", "must have two columns or three", f"1 in {file}")
    first, lines = lines[0], lines[layout.headed :]
    if not lines:
        _check.fail("path", "must hold at least one edge", f"a heading in {file}")
    try:
        ends, headings = _ends(lines, layout)
    except ValueError:
        rule = "must have two columns in every line"
        _check.fail("path", rule, f"fewer in a line of {file}")
    node_id, number = np.unique(ends, return_inverse=True)
    edge_index = torch.from_numpy(number.reshape(ends.shape).T.copy())
    if headings:
        layout = _layout(first, ".tsv" in file.suffixes, None, headed=True)
    values = [_values(lines[headings:], layout, at) for at in layout.values]
    return EdgeList(edge_index.to(torch.int64), node_id, *values)


class _Layout(NamedTuple):
    """How the lines of a file are to be read.

    Attributes:
        delimiter: between columns; None for any space.
        columns: how many there are.
        ends: which of them are sources and targets.
        values: which of them are weights and times, None if none is.
        guess: the one that is taken for weights though nothing names it, or None.
        headed: whether the first line names them.
    """

    delimiter: str | None
    columns: int
    ends: tuple[int, int]
    values: tuple[int | None, int | None]
    guess: int | None
    headed: bool


def _layout(
    line: str, tabs: bool, columns: Sequence[str] | None, headed: bool = False
) -> _Layout:
    """What the first line tells, which may be known as a heading."""
    delimiter = "," if "," in line else "\t" if tabs else None
    words = line.split()
    if delimiter is not None:
        words = [word.strip() for word in next(csv.reader([line], delimiter=delimiter))]
    third = 2 if len(words) > 2 else None
    if columns is not None:
        missing = [name for name in columns if name not in words]
        if missing or len(columns) not in (2, 3, 4):
            rule = f"must be two to four of the names in the first line, {words}"
            _check.fail("columns", rule, list(columns))
        at = [words.index(name) for name in columns]
        rest = *at[2:], None, None
        values = rest[0], rest[1]
        return _Layout(delimiter, len(words), (at[0], at[1]), values, None, True)
    named = [word.lower() for word in words]
    if not headed and tuple(named[:2]) not in HEADINGS:
        return _Layout(delimiter, len(words), (0, 1), (third, None), third, False)
    weight, time = (
        named.index(name) if name in named else None for name in ("weight", "time")
    )
    guess = third if weight is None and time != 2 else None
    values = weight if guess is None else guess, time
    return _Layout(delimiter, len(words), (0, 1), values, guess, True)


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


def _ends(lines: list[str], layout: _Layout) -> tuple[Array, int]:
    """The ids [m, 2], as integers if they are, and how many lines are headings."""
    for headings in (0, 1):
        if len(lines) > headings and not (headings and layout.headed):
            with contextlib.suppress(ValueError, OverflowError):
                table = _table(lines[headings:], layout, layout.ends, np.int64)
                return table, headings
    return np.char.strip(_table(lines, layout, layout.ends, np.str_)), 0


def _values(lines: list[str], layout: _Layout, place: int | None) -> Tensor | None:
    """A column of numbers; None if there is none, or not where one was guessed."""
    if place is None:
        return None
    try:
        column = _table(lines, layout, (place,), np.float64)
    except ValueError as error:
        if place == layout.guess:
            return None
        rule = f"must have a number in column {place + 1} of every line, by its name"
        _check.fail("path", rule, error)
    return torch.from_numpy(column[:, 0])


def _table(
    lines: list[str], layout: _Layout, columns: tuple[int, ...], dtype: Any
) -> Array:
    """Some columns of the lines."""
    return np.loadtxt(
        lines,
        dtype=dtype,
        comments=None,
        delimiter=layout.delimiter,
        usecols=columns,
        ndmin=2,
        quotechar=None if layout.delimiter is None else '"',
    )
