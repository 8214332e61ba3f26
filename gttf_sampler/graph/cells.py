"""Cells of text: numbers, ISO dates, ids of nodes, and what stands for none."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

MISSING = frozenset(
    ("", "nan", "na", "n/a", "#n/a", "<na>", "none", "null", "nat", "-", "?")
)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf(inity)?", re.I | re.A)
MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?))?"
    r" ?(Z|UTC|[+-]\d\d(?::?\d\d)?)?",
    re.A | re.I,
)
EXACT = 2**53  # below which every integer is a float


class OtherCellError(ValueError):
    """A cell of another kind is among those that are read."""


def is_missing(cell: str) -> bool:
    """Whether a cell stands for no value, as pandas understands it."""
    return cell.lower() in MISSING


def is_value(cell: str) -> bool:
    """Whether a cell is a number or an ISO date."""
    return bool(NUMBER.fullmatch(cell) or MOMENT.fullmatch(cell))


def is_moment(cell: str) -> bool:
    """Whether a cell is an ISO date, with or without time and zone."""
    return MOMENT.fullmatch(cell.strip()) is not None


def is_word(cell: str) -> bool:
    """Whether a cell is neither a number nor a date, and not missing."""
    return not is_missing(cell) and not is_value(cell)


def integers(some: Sequence[str]) -> Array:
    """Integers of 64 bits."""
    _only_ascii(some)
    try:
        return np.array(list(map(int, some)), dtype=np.int64)
    except (OverflowError, ValueError) as error:
        raise OtherCellError(*error.args) from error


def numbers(some: Sequence[str]) -> Array:
    """Integers, or finite floats."""
    try:
        return integers(some)
    except OtherCellError:
        _only_ascii(some)
    try:
        found = np.array(list(map(float, some)), dtype=np.float64)
    except ValueError as error:
        raise OtherCellError(*error.args) from error
    if not np.isfinite(found).all():
        raise ValueError("not finite")
    return found


def moments(some: Sequence[str], dates: str) -> Array:
    """Dates in `strptime`'s format as seconds since 1970; without a zone in UTC."""
    return seconds_of(
        [datetime.datetime.strptime(cell.strip(), dates) for cell in some]
    )


def iso_seconds(some: Sequence[str]) -> Array:
    """ISO 8601 dates as seconds since 1970; those without a zone are in UTC."""
    plain, zones = [], []
    for cell in some:
        match = MOMENT.fullmatch(cell.strip())
        if match is None:
            raise ValueError(cell)
        day, time, zone = match.groups()
        time = (time or "00:00").replace(",", ".")[:15]  # of which floats know µs
        plain.append(f"{day}T{time}")
        zones.append(_offset(zone))
    return seconds_of(np.array(plain, dtype="datetime64[us]"), np.array(zones))


def seconds_of(moments: Any, offset: Any = 0) -> Array:
    """Moments as seconds since 1970: integers, or floats if they have fractions.

    Args:
        moments: anything that numpy takes for datetime64, or dates of Python.
        offset: seconds to subtract from each.
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
    """Seconds that a zone is ahead of UTC."""
    if zone is None or zone.upper() in ("Z", "UTC"):
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    ahead = 3600 * int(digits[:2]) + 60 * int(digits[2:])
    return -ahead if zone[0] == "-" else ahead


def _naive(moment: Any) -> Any:
    """A moment of Python in UTC, without its zone."""
    if getattr(moment, "tzinfo", None) is None:
        return moment
    return moment.astimezone(datetime.timezone.utc).replace(tzinfo=None)


def whole_numbers(words: Sequence[str]) -> Array | None:
    """Ids as integers if all of them are, also 1.0 and 1e5; None otherwise."""
    if any(NUMBER.fullmatch(word) is None for word in words):
        return None
    try:
        return integers(words)
    except OtherCellError:
        found = np.array(list(map(float, words)))
    if not (np.isfinite(found) & (found == np.floor(found))).all():
        return None
    if (np.abs(found) >= EXACT).any():
        return None
    return found.astype(np.int64)


def _only_ascii(some: Sequence[str]) -> None:
    """Refuses digits of other scripts and underscores, which Python reads."""
    text = " ".join(some)
    if not text.isascii() or "_" in text:
        raise OtherCellError("not plain digits")
