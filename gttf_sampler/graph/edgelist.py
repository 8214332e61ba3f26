"""Edge lists in text files: ids, weights and times by column, errors by line."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler.graph import cells
from gttf_sampler.graph.cells import Array
from gttf_sampler.graph.headings import TableOptions, layout_of

BLOCK = 512  # rows at a time: Python looks for garbage among more of them
Parser = Callable[[Sequence[str]], Array]


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
        """The number of different ids."""
        return len(self.node_id)


def read_text(file: Path, options: TableOptions, values: bool = True) -> EdgeList:
    """Reads the edges of a text file; without weights and times if not `values`."""
    if not file.is_file():
        _check.fail("path", "must be a file with edges", str(file))
    table = TextTable(file, options, values=values)
    try:
        ends, read = table.read(cells.integers)
        node_id, number = np.unique(ends, return_inverse=True)
    except cells.OtherCellError:
        ends, read = table.read(table.words)
        node_id, number = table.number_words(ends)
    columns = table.names()
    if columns and not table.layout.sure:
        names = np.array([columns["source"], columns["target"]])
        if np.isin(names, node_id).any():  # the first line was an edge
            return read_text(file, options._replace(header=False), values)
    edge_index = torch.from_numpy(number.reshape(2, -1).astype(np.int64))
    return EdgeList(edge_index, node_id, read.get("weight"), read.get("time"), columns)


class TextTable:
    """A text file whose columns are parsed some rows at a time.

    Without `values`, weights and times are left; without `guess`, a third column that
    nothing names.
    """

    def __init__(
        self, file: Path, options: TableOptions, values: bool = True, guess: bool = True
    ) -> None:
        self.file, self.layout = file, layout_of(file, options)
        if not guess:
            columns = self.layout.columns.without_guess()
            self.layout = self.layout._replace(columns=columns)
        places = self.layout.columns.places
        roles = ("weight", "time") if values else ()
        self.wanted = {role: places[role] for role in roles if role in places}
        self.parsers: dict[str, Parser] = {"weight": cells.numbers}
        if options.dates is not None:
            self.parsers["time"] = partial(cells.dates, form=options.dates)

    def blocks(self, parse: Parser) -> Iterator[tuple[list[Array], dict[str, Array]]]:
        """Yields sources and targets as `parse` reads them, and values beside them."""
        names = self.layout.names
        rows = self._rows()
        while block := [row for _, row in islice(rows, BLOCK)]:
            if names is not None and max(map(len, block)) > len(names):
                self._check_width(len(names))
            ends = [parse(_column(block, at)) for at in self.layout.columns.ends]
            read = {
                role: self._values(role, _column(block, at))
                for role, at in list(self.wanted.items())
            }
            yield ends, {role: read[role] for role in self.wanted}

    def read(self, parse: Parser) -> tuple[Array, dict[str, Tensor]]:
        """Reads all ids [2, m] as `parse` does; weights and times that are there."""
        blocks = list(self.blocks(parse))
        ends = [np.concatenate([ends[side] for ends, _ in blocks]) for side in (0, 1)]
        values = {
            role: torch.from_numpy(np.concatenate([read[role] for _, read in blocks]))
            for role in self.wanted
        }
        return np.stack(ends), values

    def words(self, column: Sequence[str]) -> Array:
        """Parses ids as words, none of them blank."""
        found = [cell.strip() for cell in column]
        if "" in found:
            self._refuse_missing(lambda cell: not cell)
        return np.array(found, dtype=np.str_)

    def number_words(self, ends: Array) -> tuple[Array, Array]:
        """Numbers the different ids, which become integers if all of them are whole."""
        node_id, number = np.unique(ends, return_inverse=True)
        known = [word for word in node_id.tolist() if not cells.is_missing(word)]
        whole = cells.whole_numbers(known)
        if whole is None or not len(whole):
            return node_id, number
        if len(known) < len(node_id):
            self._refuse_missing(cells.is_missing)
        again, place = np.unique(whole, return_inverse=True)
        return again, place[number]

    def names(self) -> dict[str, str] | None:
        """Returns the names of the columns by role, if the file has a heading."""
        columns = self.layout.columns
        if self.layout.names is None:
            return None
        if columns.guessed and "weight" not in self.wanted:
            columns = columns.without_guess()
        return columns.named(self.layout.names)

    def find_line(self, bad: Callable[[list[str]], bool]) -> tuple[int, list[str]]:
        """Returns number and cells of the first line below the heading that is bad."""
        return next((line, row) for line, row in self._rows() if bad(row))

    def refuse_ids(self, parse: Parser, name: str, rule: str, cure: str) -> NoReturn:
        """Names the first line whose ids cannot be parsed."""
        ends = self.layout.columns.ends
        line, row = self.find_line(lambda row: not _parses(parse, _pick(row, ends)))
        got = f"{_pick(row, ends)} in line {line} of {self.file}"
        _check.fail(name, rule, got, cure)

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yields line number and cells of every row below the heading."""
        rows = cells.rows_of(self.file, self.layout.separator)
        return islice(rows, int(self.layout.names is not None), None)

    def _values(self, role: str, column: list[str]) -> Array:
        """Parses weights or times of a block; gives up a guessed column with words."""
        if role not in self.parsers:  # as the first block tells
            dated = cells.DATE.fullmatch(column[0].strip())
            self.parsers[role] = cells.dates if dated else cells.numbers
        try:
            found = self.parsers[role](column)
        except ValueError as error:
            other = isinstance(error, cells.OtherCellError)
            other = other or self.layout.names is not None
            if not (role == "weight" and self.layout.columns.guessed and other):
                self._refuse_value(role)
            del self.wanted[role]
            return np.empty(0)
        return found.astype(np.float64) if role == "weight" else found

    def _refuse_value(self, role: str) -> NoReturn:
        """Names the first cell of a column that cannot be parsed."""
        place, parse = self.wanted[role], self.parsers[role]
        line, row = self.find_line(lambda row: not _parses(parse, _pick(row, [place])))
        what = "a number" if role == "weight" else "a number or a date"
        rule = f"must have {what} in column {place + 1} of every line"
        rule += "" if self.layout.names is None else ", by its name"
        cure = "name other columns"
        cure += "" if role == "weight" else ", or the format of dates"
        got = f"{_pick(row, [place])[0]!r} in line {line} of {self.file}"
        _check.fail("path", rule, got, cure)

    def _refuse_missing(self, missing: Callable[[str], bool]) -> NoReturn:
        """Names the first line with an id that stands for none."""
        ends = self.layout.columns.ends
        line, row = self.find_line(lambda row: any(map(missing, _pick(row, ends))))
        rule, got = "must have two columns in every line", "fewer"
        if len(row) > max(ends):
            rule, got = f"{rule}, none of them blank", f"{_pick(row, ends)}"
        _check.fail("path", rule, f"{got} in line {line} of {self.file}")

    def _check_width(self, most: int) -> None:
        """Refuses lines with more cells than the heading has names; blank ones pass."""
        with contextlib.suppress(StopIteration):
            line, row = self.find_line(lambda row: any(map(str.strip, row[most:])))
            rule = "must have no more cells in a line than its heading has names"
            cure = "quote cells that hold the separator, or name all columns"
            got = f"{len(row)} in line {line} of {self.file}"
            _check.fail("path", f"{rule}, {most}", got, cure)


def _column(block: list[list[str]], place: int) -> list[str]:
    """Returns the cells of one column; blank where a row is too short."""
    try:
        return [row[place] for row in block]
    except IndexError:
        return [row[place] if len(row) > place else "" for row in block]


def _pick(row: list[str], places: Iterable[int]) -> list[str]:
    """Returns some cells of a row, stripped; blank where it is too short."""
    return [row[place].strip() if len(row) > place else "" for place in places]


def _parses(parse: Parser, some: list[str]) -> bool:
    try:
        parse(some)
    except ValueError:
        return False
    return True
