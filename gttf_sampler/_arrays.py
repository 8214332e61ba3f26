"""Arrays on disk: files of plain numbers, declared by a JSON header with checksums.

Graphs, partitioned graphs and their parts are directories of this kind. An array is a
file of its numbers end to end, little-endian. The header names it with its dtype, its
length and its checksum, and is put in place last, by one rename: whatever has a header
is whole. Nothing is pickled, and nothing outside of the directory is read.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check, _files

HEADER = "header.json"
CHUNK = 1 << 26  # bytes that are written or verified at a time
IDS = ("<i4", "<i8")
NUMBERS = (*IDS, "|i1", "|u1", "<i2", "<f2", "<f4", "<f8")

Array = np.ndarray[Any, Any]
Entry = dict[str, Any]  # an array in a header: its file, dtype, length and crc32
Rules = Iterator[tuple[bool, str]]  # (whether one holds, a name for what breaks it)


class Pieces(NamedTuple):
    """An array of `size` numbers that is made while it is written, piece by piece."""

    dtype: np.dtype[Any]
    size: int
    pieces: Iterable[Array]


class GoneError(ValueError):
    """A file that a header names is not there."""


class ArrayWriter:
    """Writes one array to a new file, and waits at the end until it is on disk."""

    def __init__(self, file: Path, dtype: np.dtype[Any]) -> None:
        self._name, self._dtype = file.name, dtype.newbyteorder("<")
        self._crc = self._length = 0
        self._out = open(file, "wb")  # noqa: SIM115 - until `__exit__`

    def add(self, values: Array) -> None:
        """Appends numbers [k]."""
        data = np.ascontiguousarray(values, self._dtype).view(np.uint8).data
        self._crc = zlib.crc32(data, self._crc)
        self._length += values.size
        self._out.write(data)

    def __enter__(self) -> ArrayWriter:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        with self._out:
            if error is None:
                self._out.flush()
                os.fsync(self._out.fileno())

    def entry(self) -> Entry:
        """The array as a header declares it."""
        about = {"file": self._name, "dtype": self._dtype.str, "length": self._length}
        return {**about, "crc32": self._crc}


def write_array(file: Path, array: Array | Pieces) -> Entry:
    """Writes one array; returns its entry in the header."""
    pieces = array.pieces if isinstance(array, Pieces) else chunks(array)
    with ArrayWriter(file, array.dtype) as out:
        for piece in pieces:
            out.add(piece)
    entry = out.entry()
    if entry["length"] != array.size:
        rule = f"must hold {array.size} numbers in all"
        _check.fail("pieces", rule, entry["length"])
    return entry


def chunks(array: Array) -> Iterator[Array]:
    """The rows of `array`, a bounded piece at a time."""
    step = max(1, CHUNK // max(1, array[:1].nbytes))
    return (array[start : start + step] for start in range(0, len(array), step))


def as_numpy(name: str, array: Tensor) -> Array:
    """The array in memory as numpy sees it, not copied."""
    try:
        plain: Array = array.detach().cpu().numpy()
    except TypeError:
        rule, cure = "must have a dtype that numpy knows", "convert it to float32"
        _check.mistyped(name, rule, array.dtype, cure)
    return plain


def checksum(header: dict[str, Any]) -> int:
    """A checksum of everything a header says but for the checksum."""
    said = {key: value for key, value in header.items() if key != "crc32"}
    return zlib.crc32(json.dumps(said, sort_keys=True).encode())


class Format(NamedTuple):
    """One kind of directory: its header, its checks, and the cure for damage."""

    name: str  # as headers say it
    version: int
    holds: str  # what such a header is of: "a saved CompactAdj"
    content: str  # what it declares: "the arrays that 'save' wrote"
    cure: str  # what to do about a damaged one
    rules: Callable[[dict[str, Any]], Rules]  # what is true of a header
    readable: tuple[int, ...] = ()  # older versions that can be read
    sealed: bool = True  # whether the header has its own checksum in it

    def refuse(self, file: Path | str, rule: str, got: object) -> NoReturn:
        """Raises the ValueError that names the damaged file."""
        _check.fail(str(file), rule, got, self.cure)

    def seal(self, facts: dict[str, Any]) -> dict[str, Any]:
        """The header that says these facts."""
        header = {"format": self.name, "version": self.version, **facts}
        return {**header, "crc32": checksum(header)}

    def write_header(self, folder: Path, facts: dict[str, Any]) -> int:
        """Puts a header in place, in one step; returns its checksum."""
        header = self.seal(facts)
        with _files.replacing(folder / HEADER) as (out,):
            out.write(json.dumps(header, indent=1).encode())
        _files.sync_folder(folder)
        return int(header["crc32"])

    def read_header(self, folder: Path) -> dict[str, Any]:
        """The header of a directory, after checks of everything readers rely on."""
        file = folder / HEADER
        if not file.is_file():
            self.refuse(file, f"must be the header of {self.holds}", "no such file")
        return self.parse(file, file.read_bytes())

    def parse(self, file: Path | str, text: bytes) -> dict[str, Any]:
        """The header that a text is, after the same checks."""
        try:
            header: dict[str, Any] = json.loads(text.decode("utf-8"))
            found = header["format"], header["version"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            self.refuse(file, f"must describe {self.content}", repr(error)[:80])
        versions = self.version, *self.readable
        if found[0] != self.name or found[1] not in versions:
            rule = f"must have format {self.name!r} version {self.version}"
            self.refuse(file, rule, found)
        if self.sealed and header.get("crc32") != checksum(header):
            self.refuse(file, "must match its own checksum", "other content")
        try:
            odd = next((what for holds, what in self.rules(header) if not holds), "")
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            odd = repr(error)[:80]
        if odd:
            self.refuse(file, f"must describe {self.content}", odd)
        return header

    def sound_header(self, folder: Path) -> dict[str, Any] | None:
        """The header of a directory; None if there is none that can be read."""
        try:
            return self.read_header(folder)
        except (ValueError, OSError):
            return None

    def is_in(self, folder: Path) -> bool:
        """True if a directory has a header of this format, of any version."""
        try:
            said = json.loads((folder / HEADER).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return False
        return isinstance(said, dict) and said.get("format") == self.name

    def numpy(
        self, folder: Path, entry: Entry, verify: bool, mmap: bool = True
    ) -> Array:
        """An array that a header declares, after checks of its size and checksum."""
        file, dtype = folder / entry["file"], np.dtype(entry["dtype"])
        expected = entry["length"] * dtype.itemsize
        try:
            size = file.stat().st_size
            if size != expected:
                self.refuse(file, f"must have {expected} bytes", f"{size} bytes")
            if size == 0:
                found: Array = np.empty(0, dtype)
            elif mmap:  # mode "c" keeps the file as it is, whatever the tensor becomes
                found = np.memmap(file, dtype, mode="c")
            else:
                found = np.fromfile(file, dtype)
        except FileNotFoundError:
            self.missing(file)
        if verify:
            crc = 0
            for chunk in chunks(found):
                crc = zlib.crc32(chunk.view(np.uint8).data, crc)
            if crc != entry["crc32"]:
                rule = "must match the checksum in the header"
                self.refuse(file, rule, "other content")
        return found.astype(dtype.newbyteorder("="), copy=False)

    def array(self, folder: Path, entry: Entry, verify: bool) -> Tensor:
        """An array that a header declares, as a tensor."""
        return torch.from_numpy(self.numpy(folder, entry, verify))

    def ids(
        self, folder: Path, entry: Entry, upper: int, of: str, verify: bool
    ) -> Tensor:
        """An array that a header declares, of ids below the number `upper`."""
        found = self.array(folder, entry, verify)
        if verify:
            try:
                _check.within(str(folder / entry["file"]), found, upper, of)
            except ValueError as error:
                raise ValueError(f"{error}; {self.cure}") from None
        return found

    def missing(self, file: Path) -> NoReturn:
        """Raises the GoneError for a file that a header names."""
        try:
            self.refuse(file, "must be there, the header names it", "no such file")
        except ValueError as error:
            raise GoneError(*error.args) from None


def entry_rules(
    entry: Entry,
    file: str,
    dtypes: tuple[str, ...],
    fits: Callable[[int], bool] = lambda length: True,
) -> Rules:
    """Rules for the entry of an array in a header.

    `file` is a pattern of its name; `fits` tells if it may have so many numbers.
    """
    name, dtype, length = entry["file"], entry["dtype"], entry["length"]
    yield type(name) is str and bool(re.fullmatch(file, name)), f"the file {name!r}"
    yield dtype in dtypes, f"the dtype {dtype!r} of {name!r}"
    sound = are_counts([length, entry["crc32"]]) and fits(length)
    yield sound, f"the length {length!r} of {name!r}"


def is_count(value: Any) -> bool:
    """True for an integer that is not negative."""
    return type(value) is int and 0 <= value < 1 << 63


def are_counts(values: Any) -> bool:
    """True for a list of such integers."""
    return type(values) is list and all(map(is_count, values))
