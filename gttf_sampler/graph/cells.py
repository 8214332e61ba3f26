"""Splits text files into rows of cells, and parses numbers, dates and ids in them.

Python's csv module splits the lines. pandas would need its own copy of all that comes
before and after (comments, headings, the line of a bad cell), and be one more library
to install.
"""

from __future__ import annotations

import csv
import datetime
import gzip
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from gttf_sampler import _check

Array = np.ndarray[Any, Any]

COMMENTS = ("#", "%")
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
SPACE = "space"  # any number of spaces and tabs
MISSING = frozenset(
    ("", "nan", "na", "n/a", "#n/a", "<na>", "none", "null", "nat", "-", "?")
)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf(inity)?", re.I | re.A)
DATE = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?))?"
    r" ?(Z|UTC|[+-]\d\d(?::?\d\d)?)?",
    re.A | re.I,
)
EXACT = 2**53  # below which every integer is a float


class OtherCellError(ValueError):
    """Raised for a cell that is no number at all, unlike nan or inf."""


def rows_of(file: Path, separator: str | None) -> Iterator[tuple[int, list[str]]]:
    """Yields line number and cells of every line that is no comment and not blank.

    Below the first row, a line with a separator that begins as a comment is a row if it
    has as many cells: #cats,ann.
    """
    line = 0

    def content(lines: Iterable[str]) -> Iterator[str]:
        nonlocal line
        quoted, width = False, 0
        for text in lines:
            line += 1
            plain = text.strip()
            if not quoted:  # in quotes all lines are cells, whatever they hold
                if not plain:
                    continue
                if plain.startswith(COMMENTS) and _width(plain, separator) != width:
                    continue
            yield text
            if separator is not None:
                width = width or _width(plain, separator)
                quoted ^= bool(plain.count('"') % 2)

    opened = gzip.open if file.suffix == ".gz" else open
    try:
        with opened(file, "rt", encoding="utf-8-sig") as lines:
            if separator is None:
                yield from ((line, text.split()) for text in content(lines))
                return
            for row in csv.reader(content(lines), delimiter=separator, strict=True):
                if "".join(row).strip():
                    yield line, row
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        _check.fail("path", "must be a whole file", f"{file}: {error}")
    except UnicodeDecodeError:
        _check.fail("path", "must be a text file in UTF-8", str(file))
    except csv.Error as error:
        where = f"{error} in line {line} of {file}"
        _check.fail("path", "must have cells that are quoted as in csv", where)


def _width(line: str, separator: str | None) -> int:
    """Counts the cells of a line; -1 where any space separates them."""
    if separator is None:
        return -1
    return len(next(csv.reader([line], delimiter=separator)))


def separator_of(file: Path, asked: str | None) -> str | None:
    """Returns the character between cells, None for any space."""
    if asked is not None:
        found = SEPARATORS.get(asked, asked)
        if found == SPACE or (isinstance(found, str) and found == " "):
            return None
        if not isinstance(found, str) or len(found) != 1 or found in '"\r\n':
            rule = f"must be one character or one of {', '.join((*SEPARATORS, SPACE))}"
            _check.fail("separator", rule, _check.shown(asked))
        return found
    words = [len(row) for _, row in islice(rows_of(file, None), 20)]
    if not words:
        return None
    if ".tsv" in file.suffixes and _widths(file, "\t")[1] > 1:
        return "\t"
    known = [","]
    if ".csv" in file.suffixes:
        known += [";", "|", "\t"]
    elif min(words) < 2:
        known += [";", "|"]
    best = max(known, key=lambda each: _widths(file, each))
    return best if _widths(file, best)[1] > 1 else None


def _widths(file: Path, separator: str) -> tuple[bool, int]:
    """Tells whether lines have equally many cells, and how many the first one has."""
    widths: list[int] = []
    try:
        widths.extend(len(row) for _, row in islice(rows_of(file, separator), 20))
    except ValueError:  # quotes that are none, with this separator
        return False, max(widths, default=1)
    if not widths:  # blank cells alone
        return True, 2
    return min(widths) == max(widths) > 1, widths[0]


def is_missing(cell: str) -> bool:
    """True if a cell stands for no value, as pandas understands it."""
    return cell.lower() in MISSING


def is_value(cell: str) -> bool:
    """True for a number or an ISO 8601 date."""
    return bool(NUMBER.fullmatch(cell) or DATE.fullmatch(cell))


def is_word(cell: str) -> bool:
    """True for a cell that is neither a number nor a date, and not missing."""
    return not is_missing(cell) and not is_value(cell)


def integers(cells: Sequence[str]) -> Array:
    """Parses integers of 64 bits."""
    _refuse_other_digits(cells)
    try:
        return np.array(list(map(int, cells)), dtype=np.int64)
    except (OverflowError, ValueError) as error:
        raise OtherCellError(*error.args) from error


def numbers(cells: Sequence[str]) -> Array:
    """Parses integers, or finite floats if one of them is no integer."""
    try:
        return integers(cells)
    except OtherCellError:
        _refuse_other_digits(cells)
    try:
        found = np.array(list(map(float, cells)), dtype=np.float64)
    except ValueError as error:
        raise OtherCellError(*error.args) from error
    if not np.isfinite(found).all():
        raise ValueError("not finite")
    return found


def whole_numbers(cells: Sequence[str]) -> Array | None:
    """Parses ids as integers if all of them are, also 1.0 and 1e5; None otherwise."""
    if any(NUMBER.fullmatch(cell) is None for cell in cells):
        return None
    try:
        return integers(cells)
    except OtherCellError:
        found = np.array(list(map(float, cells)))
    exact = np.isfinite(found) & (found == np.floor(found)) & (np.abs(found) < EXACT)
    return found.astype(np.int64) if exact.all() else None


def dates(cells: Sequence[str], form: str | None = None) -> Array:
    """Parses dates, ISO 8601 or of a `strptime` format: seconds since 1970 in UTC."""
    if form is not None:
        parse = datetime.datetime.strptime
        return seconds_of([parse(cell.strip(), form) for cell in cells])
    plain, zones = [], []
    for cell in cells:
        match = DATE.fullmatch(cell.strip())
        if match is None:
            raise ValueError(cell)
        day, time, zone = match.groups()
        time = (time or "00:00").replace(",", ".")[:15]  # of which floats know µs
        plain.append(f"{day}T{time}")
        zones.append(_offset(zone))
    return seconds_of(np.array(plain, dtype="datetime64[us]"), np.array(zones))


def seconds_of(moments: Any, offset: Any = 0) -> Array:
    """Converts dates to seconds since 1970: integers, or floats if there are fractions.

    They are of numpy or of Python; `offset` seconds are subtracted from each.
    """
    found = np.asarray(moments)
    if found.dtype.kind != "M":
        found = np.array([_naive(moment) for moment in moments], dtype="datetime64[us]")
    whole = found.astype("datetime64[s]")
    since: Array = whole.astype(np.int64) - offset
    if bool((whole == found).all()):
        return since
    ticks = (found - whole).astype("timedelta64[ns]").astype(np.int64)
    fractions: Array = since + ticks / 1e9
    return fractions


def _offset(zone: str | None) -> int:
    """Returns the seconds that a zone is ahead of UTC."""
    if zone is None or zone.upper() in ("Z", "UTC"):
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    ahead = 3600 * int(digits[:2]) + 60 * int(digits[2:])
    return -ahead if zone[0] == "-" else ahead


def _naive(moment: Any) -> Any:
    """Converts a date of Python to UTC, without its zone."""
    if getattr(moment, "tzinfo", None) is None:
        return moment
    return moment.astimezone(datetime.timezone.utc).replace(tzinfo=None)


def _refuse_other_digits(cells: Sequence[str]) -> None:
    """Refuses digits of other scripts and underscores, which Python reads."""
    text = " ".join(cells)
    if not text.isascii() or "_" in text:
        raise OtherCellError("not plain digits")
