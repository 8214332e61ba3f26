"""Edge lists in text files: their layout is recognised, errors name the line."""

from __future__ import annotations

import contextlib
import re
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

ROLES = ("source", "target", "weight", "time")
PAIRS = (
    *(("source", other) for other in ("target", "destination", "dest")),
    *(("src", other) for other in ("dst", "dest", "tgt")),
    ("from", "to"),
    *(("sender", other) for other in ("receiver", "recipient")),
)
KNOWN = {
    "time": ("time", "timestamp", "datetime", "date", "ts"),
    "weight": ("weight", "weights", "amount"),
}
NONE = "-"  # in the place of a column that is not wanted
SAMPLE = 1000  # rows that a heading is compared with


class TableOptions(NamedTuple):
    """Options of `read_edges`; None for what is to be recognised."""

    columns: Sequence[str] | None = None  # names, or numbers from 1 on without heading
    header: bool | None = None  # whether the first line is a heading
    separator: str | None = None  # a character, or a word of SEPARATORS or SPACE
    dates: str | None = None  # `strptime`'s format; None for numbers and ISO 8601


class Columns(NamedTuple):
    """The columns of a table that are read."""

    places: dict[str, int]  # by role: source, target, and perhaps weight and time
    guessed: bool = False  # nothing names the column of weights

    @property
    def ends(self) -> tuple[int, int]:
        """Positions of sources and targets."""
        return self.places["source"], self.places["target"]

    def without_guess(self) -> Columns:
        """Leaves out weights that nothing names."""
        if not self.guessed:
            return self
        places = {role: at for role, at in self.places.items() if role != "weight"}
        return Columns(places)

    def named(self, names: Sequence[str]) -> dict[str, str]:
        """Returns the name of the column of each role."""
        known = {at: name.strip() for at, name in enumerate(names)}
        return {
            role: known.get(at) or f"column {at + 1}"
            for role, at in self.places.items()
        }


class Layout(NamedTuple):
    """The format of the lines of a file."""

    separator: str | None  # None for any space
    names: list[str] | None  # of the columns, if the first line is a heading
    columns: Columns
    sure: bool  # False if the first line would be an edge, should its words come again


def layout_of(file: Path, options: TableOptions) -> Layout:
    """Recognises the separator, the heading and the columns of a file."""
    separator = cells.separator_of(file, options.separator)
    sample = [
        [cell.strip() for cell in row]
        for _, row in islice(cells.rows_of(file, separator), SAMPLE + 1)
    ]
    if not sample:
        _check.fail("path", "must hold at least one edge", str(file))
    first, *rest = sample
    asked = options.columns
    named = [n for n in asked or () if isinstance(n, str) and n != NONE]
    by_number = all(map(str.isdecimal, named)) and not set(named) <= set(first)
    if options.header is not None:
        headed, sure = _check.yes_or_no("header", options.header), True
    elif asked is not None and not by_number:
        headed, sure = True, True
    else:
        headed, sure = _is_heading(first, rest, separator)
    if max(map(len, sample)) < 2:
        cure = f"name the separator: {', '.join((*cells.SEPARATORS, cells.SPACE))}"
        _check.fail("path", "must have two columns or three", f"1 in {file}", cure)
    if headed and not rest:
        cure = "" if sure else "say that it has no heading if this is an edge"
        got = f"a heading alone in {file}"
        _check.fail("path", "must hold at least one edge", got, cure)
    names = first if headed else [str(at + 1) for at in range(len(first))]
    columns = choose_columns(names, asked, headed)
    return Layout(separator, names if headed else None, columns, sure)


def choose_columns(
    names: Sequence[str], asked: Sequence[str] | None, headed: bool
) -> Columns:
    """Finds the columns to read: those that are asked for, or that their names tell.

    `headed` is True if the names are the table's own, not numbers.
    """
    if asked is not None:
        return _asked_columns(names, asked, headed)
    if not headed:
        places = dict(zip(ROLES, range(max(2, min(3, len(names)))), strict=False))
        return Columns(places, guessed="weight" in places)
    plain = [name.strip().lower() for name in names]
    ends = _ends_by_name(plain)
    if ends is None:
        first = int(len(plain) > 2 and _is_index(plain[0]))
        ends = first, first + 1
    places = dict(zip(ROLES, ends, strict=False))
    for role in ("weight", "time"):
        found = (plain.index(name) for name in KNOWN[role] if name in plain)
        place = next((at for at in found if at not in ends), None)
        if place is not None:
            places[role] = place
    third = max(ends) + 1
    if "weight" in places or third >= len(plain) or third == places.get("time"):
        return Columns(places)
    return Columns({**places, "weight": third}, guessed=True)


def _asked_columns(names: Sequence[str], asked: Sequence[str], headed: bool) -> Columns:
    if isinstance(asked, str) or not all(isinstance(name, str) for name in asked):
        _check.mistyped("columns", "must be a list of names", _check.shown(asked))
    none = None if NONE in names else NONE
    wanted = {
        role: name for role, name in zip(ROLES, asked, strict=False) if name != none
    }
    if (
        len(asked) not in (2, 3, 4)
        or not {"source", "target"} <= wanted.keys()
        or any(name not in names for name in wanted.values())
    ):
        where = "names of columns" if headed else "numbers of columns"
        rule = f"must be two to four of the {where}, {list(names)}"
        _check.fail("columns", rule, list(asked))
    twice = [name for name in wanted.values() if list(names).count(name) > 1]
    if twice:
        rule = "must be names that one column has alone"
        _check.fail("columns", rule, twice, f"all are {list(names)}")
    return Columns({role: list(names).index(name) for role, name in wanted.items()})


def _ends_by_name(names: list[str]) -> tuple[int, int] | None:
    """Finds the columns whose names differ in source and target alone, or in a pair."""
    parts = [tuple(re.split(r"[\W_]+", name)) for name in names]
    for source, target in PAIRS:
        for place, words in enumerate(parts):
            other = tuple(target if word == source else word for word in words)
            if other != words and other in parts:
                return place, parts.index(other)
    return None


def _is_index(name: str) -> bool:
    """True for the name that pandas gives the index it writes along."""
    return not name or re.fullmatch(r"unnamed: \d+|index", name) is not None


def _is_heading(
    first: list[str], rest: list[list[str]], separator: str | None
) -> tuple[bool, bool]:
    """Tells whether the first line is a heading, and whether that is beyond doubt.

    pandas takes every first line for one. Here a line with a number is an edge, and so
    is a line of words that come again below; a file with any space between words needs
    a column that tells: known names, or a word above numbers or dates.
    """
    if _has_written_index(first, rest):
        return True, True
    if any(map(cells.is_value, first)) or not all(map(cells.is_word, first[:2])):
        return False, True
    if _ends_by_name([name.lower() for name in first]) is not None:
        return True, True
    columns = [[row[at] for row in rest if len(row) > at] for at in range(len(first))]
    above = [
        cells.is_word(name)
        and any(map(cells.is_value, column))
        and not any(map(cells.is_word, column))
        for name, column in zip(first, columns, strict=True)
    ]
    if all(above[:2]):
        return True, True
    again = {cell for column in columns[:2] for cell in column} & set(first[:2])
    plain = separator is not None and first[:1] != first[1:2]
    return not again and (any(above) or plain), False


def _has_written_index(first: list[str], rest: list[list[str]]) -> bool:
    """True if the first column is numbered, and has no name."""
    if len(first) < 3 or not _is_index(first[0].lower()) or not all(first[1:3]):
        return False
    index = [row[0] for row in rest]
    counted = index == [str(number) for number in range(len(rest))]
    return (
        bool(index) and all(index) and (counted or not any(map(cells.is_value, first)))
    )


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
        ends, read = next(table.pieces(cells.integers))
        node_id, number = np.unique(ends, return_inverse=True)
    except cells.OtherCellError:
        ends, read = next(table.pieces(table.words))
        node_id, number = table.number_words(ends)
    columns = table.names()
    if columns and not table.layout.sure:
        names = np.array([columns["source"], columns["target"]])
        if np.isin(names, node_id).any():  # the first line was an edge
            return read_text(file, options._replace(header=False), values)
    edge_index = torch.from_numpy(number.reshape(2, -1).astype(np.int64))
    found = {role: torch.from_numpy(values) for role, values in read.items()}
    return EdgeList(edge_index, node_id, **found, columns=columns)


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

    def pieces(
        self, parse: Parser, most: int | None = None
    ) -> Iterator[tuple[Array, dict[str, Array]]]:
        """Yields ids [2, k] as `parse` reads them, weights and times that are there.

        Of all edges at once, or of some blocks that have about `most` of them.
        """
        blocks = self._blocks(parse)
        while some := list(islice(blocks, most and most // BLOCK)):
            ends = [np.concatenate([ends[side] for ends, _ in some]) for side in (0, 1)]
            values = {
                role: np.concatenate([read[role] for _, read in some])
                for role in self.wanted
            }
            yield np.stack(ends), values

    def _blocks(self, parse: Parser) -> Iterator[tuple[list[Array], dict[str, Array]]]:
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
