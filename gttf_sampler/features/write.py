"""Feature files, written in a stream: no more than a piece of the rows is in memory."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np
from torch import Tensor

from gttf_sampler import _check, _files
from gttf_sampler.features.encoding import as_rows, check_stored, encode
from gttf_sampler.features.layout import BLOCK, HEAD, Layout, foot, head

PIECE = 1 << 24  # bytes of values that are written at a time

Array = np.ndarray[Any, Any]
Report = Callable[[str, int], None]  # told what is done, and how many bytes more


def write(
    path: str | os.PathLike[str],
    chunks: Iterable[Any],
    stored: Any = None,
    overwrite: bool = False,
    report: Report | None = None,
) -> Layout:
    """Writes rows that come in chunks [k, ...] of one dtype and one shape of rows.

    The file appears when it is whole. Whatever goes wrong before, a full disk or an
    interrupt, leaves what was there.
    """
    file = _check.path("path", path)
    force, cure = _check.yes_or_no("overwrite", overwrite), "pass overwrite=True"
    _files.check_free("path", file, force, cure=cure)
    pieces = _pieces(chunks)
    first = next(pieces, None)
    if first is None:
        _check.fail("chunks", "must hold at least one", "none")
    stored = check_stored(stored, first.dtype)
    rows, sums = 0, _Checksums()
    with _files.replacing(file) as (out,):
        out.write(bytes(HEAD))
        for piece in chain([first], pieces):
            for part in _parts(piece):
                data = memoryview(encode(part, stored).data)
                out.write(data)
                sums.add(data)
                if report is not None:
                    report("writing rows", part.numel() * part.element_size())
            rows += piece.shape[0]
        shape = tuple(first.shape[1:])
        layout = Layout(rows, shape, first.dtype, stored, sums.found())
        out.write(foot(layout))
        out.seek(0)
        out.write(head(layout))
    return layout


class _Checksums:
    """Checksums of blocks, whatever pieces their bytes come in."""

    def __init__(self) -> None:
        self._done: list[int] = []
        self._crc, self._size = 0, 0

    def add(self, data: memoryview) -> None:
        """Takes note of the next bytes."""
        while data.nbytes:
            some = data[: BLOCK - self._size]
            self._crc = zlib.crc32(some, self._crc)
            self._size += some.nbytes
            data = data[some.nbytes :]
            if self._size == BLOCK:
                self._end()

    def _end(self) -> None:
        self._done.append(self._crc)
        self._crc, self._size = 0, 0

    def found(self) -> tuple[int, ...]:
        """A checksum for every block, of which the last may be shorter."""
        if self._size:
            self._end()
        return tuple(self._done)


def _pieces(chunks: Iterable[Any]) -> Iterator[Tensor]:
    """The chunks as tensors that fit to the first one."""
    if isinstance(chunks, Tensor | np.ndarray | str | bytes) or not hasattr(
        chunks, "__iter__"
    ):
        cure = "pass one array to from_array"
        got = _check.kind_of(chunks)
        _check.mistyped("chunks", "must be an iterable of arrays", got, cure)
    first = None
    for chunk in chunks:
        rows = as_rows("chunks", chunk)
        first = rows[:0] if first is None else first
        if (first.dtype, first.shape[1:]) != (rows.dtype, rows.shape[1:]):
            rule = f"must all hold rows of {first.dtype}, {list(first.shape[1:])}"
            _check.fail("chunks", rule, f"{rows.dtype}, {list(rows.shape[1:])}")
        yield rows


def _parts(rows: Tensor) -> Iterator[Tensor]:
    """Some rows at a time."""
    size = max(1, rows[:1].numel() * rows.element_size())
    yield from rows.split(max(1, PIECE // size))


def chunks_of(values: Any) -> Iterator[Any]:
    """An array in pieces; one that is memory-mapped is read piece by piece."""
    if not isinstance(values, np.ndarray):
        yield values
        return
    if values.ndim == 0:
        _check.fail("values", "must have rows", "shape []")
    size = max(1, values[:1].nbytes)
    step = max(1, PIECE // size)
    for start in range(0, max(1, len(values)), step):
        # a copy: torch takes no array that may not be written
        yield np.array(values[start : start + step])
