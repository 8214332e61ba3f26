"""Recognises the layout of a table: its separator, heading and columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from gttf_sampler import _check
from gttf_sampler.graph.cells import (
    SEPARATORS,
    SPACE,
    is_value,
    is_word,
    rows_of,
    separator_of,
)

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
    separator = separator_of(file, options.separator)
    sample = [
        [cell.strip() for cell in row]
        for _, row in islice(rows_of(file, separator), SAMPLE + 1)
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
        cure = f"name the separator: {', '.join((*SEPARATORS, SPACE))}"
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
    if any(map(is_value, first)) or not all(map(is_word, first[:2])):
        return False, True
    if _ends_by_name([name.lower() for name in first]) is not None:
        return True, True
    columns = [[row[at] for row in rest if len(row) > at] for at in range(len(first))]
    above = [
        is_word(name) and any(map(is_value, cells)) and not any(map(is_word, cells))
        for name, cells in zip(first, columns, strict=True)
    ]
    if all(above[:2]):
        return True, True
    again = {cell for cells in columns[:2] for cell in cells} & set(first[:2])
    plain = separator is not None and first[:1] != first[1:2]
    return not again and (any(above) or plain), False


def _has_written_index(first: list[str], rest: list[list[str]]) -> bool:
    """True if the first column is numbered, and has no name."""
    if len(first) < 3 or not _is_index(first[0].lower()) or not all(first[1:3]):
        return False
    index = [row[0] for row in rest]
    counted = index == [str(number) for number in range(len(rest))]
    return bool(index) and all(index) and (counted or not any(map(is_value, first)))
