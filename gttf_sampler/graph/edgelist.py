"""Edge lists in text files, and embeddings with the ids that were in them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check, _files
from gttf_sampler.graph import cells, text
from gttf_sampler.graph.cells import Array

TEXTS = (".txt", ".tsv", ".emb")
FORMATS = (".npy", ".npz", *TEXTS)
Reader = Callable[[Sequence[str]], Array]


class EdgeList(NamedTuple):
    """The edges of a file, with nodes numbered in the order of their ids.

    Attributes:
        edge_index: int64 [2, m].
        node_id: [n], the id in the file of every node: integers, or strings.
        weight: float64 [m], the third column, or None if there is none.
        time: [m], or None if there is none.
        columns: the names of source, target, weight and time in the heading that was
            read, or None if there was none.
    """

    edge_index: Tensor
    node_id: Array
    weight: Tensor | None = None
    time: Tensor | None = None
    columns: dict[str, str] | None = None

    @property
    def num_nodes(self) -> int:
        """How many different ids there are."""
        return len(self.node_id)


def read_edge_list(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    *,
    header: bool | None = None,
    separator: str | None = None,
    dates: str | None = None,
) -> EdgeList:
    """Reads lines `source target [weight]`, with spaces, tabs, commas or ; between.

    Lines that begin with # or % are comments, but for rows of csv such as `#cats,ann`
    below the first line; `.gz` files are unpacked. Ids are integers, or any words if
    one of them is not an integer; in .tsv files and between commas words may have
    spaces. A heading is recognised: known names such as source
    and target, words above numbers, and in csv a first line of words that do not come
    again. It says which columns are read: source and target, or the first two behind
    an index of pandas; weight or amount; time, timestamp or date. A third column of
    numbers without a name is taken for weights. Times are numbers or ISO dates, which
    become seconds since 1970.

    Args:
        path: the file.
        columns: names in the heading: source, target, and perhaps the weight and the
            time, "-" for none; numbers from "1" on where there is no heading.
        header: whether the first line is a heading; None to recognise one.
        separator: a character, or comma, semicolon, tab, pipe or space.
        dates: the format of times for `strptime`, if they are not numbers or ISO 8601.
    """
    asked = text.Asked(columns, header, separator, dates)
    return read_text(_check.path("path", path), asked)


def read_text(file: Path, asked: text.Asked, values: bool = True) -> EdgeList:
    """The edges of a text file; without weights and times if nobody wants them."""
    if not file.is_file():
        _check.fail("path", "must be a file with edges", str(file))
    layout = text.layout_of(file, asked)
    table = TextTable(file, layout, asked.dates, values)
    try:
        ends, read = table.all(cells.integers)
        node_id, number = np.unique(ends, return_inverse=True)
    except cells.OtherCellError:
        ends, read = table.all(table.words)
        node_id, number = table.numbered(ends)
    columns = table.columns()
    if columns and not layout.sure:
        names = np.array([columns["source"], columns["target"]])
        if np.isin(names, node_id).any():  # the first line was an edge
            return read_text(file, asked._replace(header=False), values)
    edge_index = torch.from_numpy(number.reshape(2, -1).astype(np.int64))
    return EdgeList(edge_index, node_id, read[0], read[1], columns)


class TextTable:
    """The columns of a text file, read block by block."""

    def __init__(
        self, file: Path, layout: text.Layout, dates: str | None, values: bool
    ) -> None:
        self.file, self.layout = file, layout
        roles = layout.roles
        places = {"weight": roles.weight, "time": roles.time}
        self.places = {name: at for name, at in places.items() if at is not None}
        self.wanted = list(self.places) if values else []
        self.readers: dict[str, Reader | None] = {"weight": cells.numbers, "time": None}
        if dates is not None:
            self.readers["time"] = lambda some: cells.moments(some, dates)

    def blocks(self, kind: Reader) -> Iterator[tuple[list[Array], dict[str, Array]]]:
        """Ids of one kind, sources and targets, and values beside them."""
        for block in text.blocks(self.file, self.layout):
            ends = [kind(text.column(block, at)) for at in self.layout.roles.ends]
            read = {
                name: self._read(name, text.column(block, self.places[name]))
                for name in list(self.wanted)
            }
            yield ends, {name: read[name] for name in self.wanted}

    def all(self, kind: Reader) -> tuple[Array, list[Tensor | None]]:
        """Ids [2, m] of one kind; weights and times, or None for those not there."""
        blocks = list(self.blocks(kind))
        ends = np.stack(
            [np.concatenate([e[side] for e, _ in blocks]) for side in (0, 1)]
        )
        values = [
            torch.from_numpy(np.concatenate([read[name] for _, read in blocks]))
            if name in self.wanted
            else None
            for name in ("weight", "time")
        ]
        return ends, values

    def words(self, some: Sequence[str]) -> Array:
        """Ids as words, none of them blank."""
        found = [cell.strip() for cell in some]
        if "" in found:
            self._missing(lambda cell: not cell)
        return np.array(found, dtype=np.str_)

    def numbered(self, ends: Array) -> tuple[Array, Array]:
        """The different ids, as integers if all of them are whole, and their places."""
        node_id, number = np.unique(ends, return_inverse=True)
        known = [word for word in node_id.tolist() if not cells.is_missing(word)]
        whole = cells.whole_numbers(known)
        if whole is None or not len(whole):
            return node_id, number
        if len(known) < len(node_id):
            self._missing(cells.is_missing)
        again, place = np.unique(whole, return_inverse=True)
        return again, place[number]

    def _missing(self, none: Callable[[str], bool]) -> None:
        """Refuses an id that stands for none."""
        places = self.layout.roles.ends

        def bad(row: list[str]) -> bool:
            return any(map(none, text.at(row, places)))

        line, row = text.find_line(self.file, self.layout, bad)
        rule, got = "must have two columns in every line", "fewer"
        if len(row) > max(places):
            rule, got = f"{rule}, none of them blank", f"{text.at(row, places)}"
        _check.fail("path", rule, f"{got} in line {line} of {self.file}")

    def _read(self, name: str, some: list[str]) -> Array:
        """A block of weights or times; a guessed column with words is given up."""
        reader = self.readers[name] or self._reader_of_times(some)
        self.readers[name] = reader
        try:
            found = reader(some)
        except ValueError as error:
            roles, other = self.layout.roles, isinstance(error, cells.OtherCellError)
            other = other or self.layout.names is not None
            if not (name == "weight" and roles.guessed and other):
                self._refuse(name, reader)
            self.wanted.remove(name)
            return np.empty(0)
        return found.astype(np.float64) if name == "weight" else found

    def _reader_of_times(self, some: list[str]) -> Reader:
        """Numbers or ISO dates, as the first block tells."""
        return cells.iso_seconds if cells.is_moment(some[0]) else cells.numbers

    def _refuse(self, name: str, reader: Reader) -> None:
        """Names the first cell that cannot be read."""
        place = self.places[name]

        def bad(row: list[str]) -> bool:
            try:
                reader(text.at(row, [place]))
            except ValueError:
                return True
            return False

        line, row = text.find_line(self.file, self.layout, bad)
        what = "a number" if name == "weight" else "a number or a date"
        rule = f"must have {what} in column {place + 1} of every line"
        rule += "" if self.layout.names is None else ", by its name"
        cure = "name other columns" + (
            "" if name == "weight" else ", or the format of dates"
        )
        got = f"{text.at(row, [place])[0]!r} in line {line} of {self.file}"
        _check.fail("path", rule, got, cure)

    def columns(self) -> dict[str, str] | None:
        """What the columns are called, if the file says it."""
        names, roles = self.layout.names, self.layout.roles
        if names is None:
            return None
        ends = zip(("source", "target"), roles.ends, strict=True)
        there = {**dict(ends), **self.places}
        if roles.guessed and "weight" not in self.wanted:
            there.pop("weight", None)
        return {
            role: text.at(names, [place])[0] or f"column {place + 1}"
            for role, place in there.items()
        }


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
