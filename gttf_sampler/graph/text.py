"""Text files of edges: their lines, separators and headings."""

from __future__ import annotations

import contextlib
import csv
import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from gttf_sampler import _check
from gttf_sampler.graph.cells import is_value, is_word

COMMENTS = ("#", "%")
PAIRS = (
    *(("source", other) for other in ("target", "destination", "dest")),
    *(("src", other) for other in ("dst", "dest", "tgt")),
    ("from", "to"),
    *(("sender", other) for other in ("receiver", "recipient")),
)
TIMES = ("time", "timestamp", "datetime", "date", "ts")
WEIGHTS = ("weight", "weights", "amount")
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
SPACE = "space"  # any number of spaces and tabs
NONE = "-"  # in the place of a column that is not wanted
SAMPLE = 1000  # rows that a heading is compared with
BLOCK = 512  # rows at a time: Python looks for garbage among more of them


class Asked(NamedTuple):
    """What a caller says about a table.

    Attributes:
        columns: names of source, target, weight and time, or numbers from 1 on where
            there is no heading; None for those that can be recognised.
        header: whether the first line is a heading; None to recognise one.
        separator: a character, or one of comma, semicolon, tab, pipe, space; None to
            recognise it.
        dates: `strptime`'s format of times; None for numbers and ISO 8601.
    """

    columns: Sequence[str] | None = None
    header: bool | None = None
    separator: str | None = None
    dates: str | None = None


class Roles(NamedTuple):
    """The columns of a table that are read, by their places.

    Attributes:
        ends: sources and targets.
        weight: None if there is none.
        time: None if there is none.
        guessed: whether nothing names the column of weights.
    """

    ends: tuple[int, int]
    weight: int | None = None
    time: int | None = None
    guessed: bool = False


class Layout(NamedTuple):
    """The way in which the lines of a file are read.

    Attributes:
        separator: between columns; None for any space.
        names: of the columns, if the first line is a heading.
        roles: what the columns are for.
        sure: whether the first line is no edge, whatever follows.
    """

    separator: str | None
    names: list[str] | None
    roles: Roles
    sure: bool


class Rows:
    """The cells of every line of a file, without comments and blank lines.

    Below the first row, a line with a separator that begins as a comment is a row if it
    has as many cells: #cats,ann.

    Attributes:
        line: number of the line that was read last.
    """

    def __init__(self, file: Path, separator: str | None) -> None:
        self.file, self.separator, self.line = file, separator, 0

    def __iter__(self) -> Iterator[list[str]]:
        opened = gzip.open if self.file.suffix == ".gz" else open
        try:
            with opened(self.file, "rt", encoding="utf-8-sig") as lines:
                if self.separator is None:
                    yield from (line.split() for line in self._plain(lines))
                    return
                rows = csv.reader(
                    self._plain(lines), delimiter=self.separator, strict=True
                )
                yield from (row for row in rows if "".join(row).strip())
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            _check.fail("path", "must be a whole file", f"{self.file}: {error}")
        except UnicodeDecodeError:
            _check.fail("path", "must be a text file in UTF-8", str(self.file))
        except csv.Error as error:
            where = f"{error} in line {self.line} of {self.file}"
            _check.fail("path", "must have cells that are quoted as in csv", where)

    def _plain(self, lines: Iterable[str]) -> Iterator[str]:
        """The lines that hold cells; those in quotes are cells, whatever they hold."""
        quoted, width = False, 0
        for self.line, line in enumerate(lines, 1):
            text = line.strip()
            if not quoted:
                if not text:
                    continue
                if text.startswith(COMMENTS) and self._width(text) != width:
                    continue
            yield line
            if self.separator is not None:
                width = width or self._width(text)
                quoted ^= bool(text.count('"') % 2)

    def _width(self, line: str) -> int:
        """How many cells a line has: a comment with as many as the first is none."""
        if self.separator is None:
            return -1
        return len(next(csv.reader([line], delimiter=self.separator)))


def layout_of(file: Path, asked: Asked) -> Layout:
    """Recognises the separator, the heading and the columns of a file."""
    separator = _separator(file, asked.separator)
    sample = [
        [cell.strip() for cell in row]
        for row in islice(Rows(file, separator), SAMPLE + 1)
    ]
    if not sample:
        _check.fail("path", "must hold at least one edge", str(file))
    first, *rest = sample
    if asked.header is None:
        named = asked.columns is not None and not _are_numbers(asked.columns, first)
        headed, sure = (True, True) if named else _is_heading(first, rest, separator)
    else:
        headed = _check.yes_or_no("header", asked.header)
        sure = True
    if max(map(len, sample)) < 2:
        cure = f"name the separator: {', '.join((*SEPARATORS, SPACE))}"
        _check.fail("path", "must have two columns or three", f"1 in {file}", cure)
    if headed and not rest:
        cure = "" if sure else "say that it has no heading if this is an edge"
        got = f"a heading alone in {file}"
        _check.fail("path", "must hold at least one edge", got, cure)
    names = first if headed else [str(at + 1) for at in range(len(first))]
    roles = roles_of(names, asked.columns, headed)
    return Layout(separator, names if headed else None, roles, sure)


def blocks(file: Path, layout: Layout) -> Iterator[list[list[str]]]:
    """The rows below the heading, some at a time."""
    rows = iter(Rows(file, layout.separator))
    most = None
    if layout.names is not None:
        next(rows)
        most = len(layout.names)
    while block := list(islice(rows, BLOCK)):
        if most is not None and max(map(len, block)) > most:
            _check_width(file, layout, most)
        yield block


def column(block: list[list[str]], place: int) -> list[str]:
    """The cells of one column; blank where a row is too short."""
    try:
        return [row[place] for row in block]
    except IndexError:
        return [row[place] if len(row) > place else "" for row in block]


def at(row: list[str], places: Iterable[int]) -> list[str]:
    """Some cells of a row; blank where it is too short."""
    return [row[place].strip() if len(row) > place else "" for place in places]


def find_line(
    file: Path, layout: Layout, bad: Callable[[list[str]], bool]
) -> tuple[int, list[str]]:
    """The number and the cells of the first line below the heading that is bad."""
    rows = Rows(file, layout.separator)
    for number, row in enumerate(rows):
        if not (number == 0 and layout.names is not None) and bad(row):
            return rows.line, row
    raise LookupError(f"no line of {file} is bad")


def _check_width(file: Path, layout: Layout, most: int) -> None:
    """Refuses lines with more cells than the heading has names."""

    def bad(row: list[str]) -> bool:
        return any(cell.strip() for cell in row[most:])

    with contextlib.suppress(LookupError):  # all of them are blank
        line, row = find_line(file, layout, bad)
        rule = f"must have no more cells in a line than its heading has names, {most}"
        cure = "quote cells that hold the separator, or name all columns"
        _check.fail("path", rule, f"{len(row)} in line {line} of {file}", cure)


def _are_numbers(columns: Sequence[str], first: list[str]) -> bool:
    """Whether columns are asked for by their numbers, not by names in a heading."""
    wanted = [name for name in columns if name != NONE]
    return all(name.isdecimal() for name in wanted) and not set(wanted) <= set(first)


def roles_of(
    names: Sequence[str], columns: Sequence[str] | None, headed: bool
) -> Roles:
    """The columns to read: those that are asked for, or that their names tell.

    Args:
        names: of all columns.
        columns: what is asked for, see `Asked`.
        headed: whether the names are the file's own.
    """
    if columns is not None:
        return _asked_for(names, columns, headed)
    if not headed:
        third = 2 if len(names) > 2 else None
        return Roles((0, 1), third, guessed=third is not None)
    plain = [name.strip().lower() for name in names]
    ends = _pair(plain)
    if ends is None:
        first = int(len(plain) > 2 and _is_index(plain[0]))
        ends = first, first + 1
    time = _first_of(TIMES, plain, ends)
    weight = _first_of(WEIGHTS, plain, ends)
    third = max(ends) + 1
    guessed = weight is None and third < len(plain) and third != time
    return Roles(ends, third if guessed else weight, time, guessed)


def _asked_for(names: Sequence[str], columns: Sequence[str], headed: bool) -> Roles:
    """The places of columns that are named."""
    if isinstance(columns, str) or not all(isinstance(name, str) for name in columns):
        _check.mistyped("columns", "must be a list of names", _check.shown(columns))
    none = None if NONE in names else NONE
    optional = [None if name == none else name for name in columns]
    wanted = [name for name in optional if name is not None]
    if (
        len(columns) not in (2, 3, 4)
        or None in optional[:2]
        or any(name not in names for name in wanted)
    ):
        where = "names in the first line" if headed else "numbers of columns"
        rule = f"must be two to four of the {where}, {list(names)}"
        _check.fail("columns", rule, list(columns))
    twice = [name for name in wanted if list(names).count(name) > 1]
    if twice:
        rule = "must be names that the first line has once"
        _check.fail("columns", rule, twice, f"all are {list(names)}")
    at = [None if name is None else list(names).index(name) for name in optional]
    source, target, weight, time = (*at, None, None)[:4]
    return Roles((source or 0, target or 0), weight, time)


def _pair(names: list[str]) -> tuple[int, int] | None:
    """The columns whose names differ in source and target alone, or in such a pair."""
    parts = [tuple(re.split(r"[\W_]+", name)) for name in names]
    for source, target in PAIRS:
        for place, words in enumerate(parts):
            other = tuple(target if word == source else word for word in words)
            if other != words and other in parts:
                return place, parts.index(other)
    return None


def _is_index(name: str) -> bool:
    """Whether a column is the index of pandas, written along."""
    return not name or re.fullmatch(r"unnamed: \d+|index", name) is not None


def _first_of(
    known: Sequence[str], names: list[str], ends: tuple[int, int]
) -> int | None:
    """The place of the first known name, unless it is an end of edges."""
    places = (names.index(name) for name in known if name in names)
    return next((place for place in places if place not in ends), None)


def _is_heading(
    first: list[str], rest: list[list[str]], separator: str | None
) -> tuple[bool, bool]:
    """Whether the first line is a heading, and whether that is beyond doubt.

    pandas takes every first line for one. Here a line with a number is an edge, and so
    is a line of words that come again below; a file with any space between words needs
    a column that tells: known names, or a word above numbers or dates.
    """
    if _is_written_index(first, rest):
        return True, True
    if any(map(is_value, first)) or not all(map(is_word, first[:2])):
        return False, True
    if _pair([name.lower() for name in first]) is not None:
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


def _is_written_index(first: list[str], rest: list[list[str]]) -> bool:
    """Whether the first column is numbered, and has no name."""
    numbers = [row[0] for row in rest]
    return (
        len(first) > 2
        and _is_index(first[0].lower())
        and all(first[1:3])
        and bool(numbers)
        and (
            numbers == [str(number) for number in range(len(rest))]
            or not any(map(is_value, first))
        )
        and all(numbers)
    )


def _separator(file: Path, asked: str | None) -> str | None:
    """The character between cells, None for any space."""
    if asked is not None:
        found = SEPARATORS.get(asked, asked)
        if found == SPACE or (isinstance(found, str) and found == " "):
            return None
        if not isinstance(found, str) or len(found) != 1 or found in '"\r\n':
            rule = f"must be one character or one of {', '.join((*SEPARATORS, SPACE))}"
            _check.fail("separator", rule, _check.shown(asked))
        return found
    lines = list(islice((" ".join(row) for row in Rows(file, None)), 20))
    if not lines:
        return None
    with_tabs = ".tsv" in file.suffixes
    if with_tabs and _width(file, "\t")[1] > 1:
        return "\t"
    known = [","]
    if ".csv" in file.suffixes:
        known += [";", "|", "\t"]
    elif min(len(line.split()) for line in lines) < 2:
        known += [";", "|"]
    best = max(known, key=lambda each: _width(file, each))
    return best if _width(file, best)[1] > 1 else None


def _width(file: Path, separator: str) -> tuple[bool, int]:
    """Whether lines have equally many cells, and how many the first one has."""
    widths: list[int] = []
    try:
        widths.extend(len(row) for row in islice(Rows(file, separator), 20))
    except ValueError:  # quotes that are none, with this separator
        return False, max(widths, default=1)
    if not widths:  # blank cells alone
        return True, 2
    return min(widths) == max(widths) > 1, widths[0]
