"""A feature file on disk: an .npy file, and behind its rows a header of our own.

    .npy header, padded to 4096 bytes | rows, end to end | facts as JSON | tail

The facts have a checksum for every block of the rows. The tail says where the facts
begin, with a checksum of theirs. Whatever reads .npy files reads the rows, and takes no
notice of what is behind them.
"""

from __future__ import annotations

import json
import math
import os
import struct
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from gttf_sampler import _check
from gttf_sampler._arrays import Format, are_counts, is_count
from gttf_sampler._backends.torch.disk import read_at
from gttf_sampler.features.encoding import ENCODINGS, NAMES, SAME, row_dtype

HEAD = 4096  # bytes in front of the rows, so that pages of rows are pages of the file
BLOCK = 1 << 24  # bytes of rows that share a checksum
MAGIC = b"GTTFROWS"
TAIL = struct.Struct("<QI4x8s")  # where the facts begin, their checksum, MAGIC


class Layout(NamedTuple):
    """The rows of a file: how many, of what shape, dtype and encoding.

    Attributes:
        rows: how many there are.
        shape: of one row, as it is read.
        dtype: of what is read.
        stored: how numbers are stored: "same", or one of `ENCODINGS`.
        crcs: a checksum for every block of the rows.
    """

    rows: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    stored: str
    crcs: tuple[int, ...] = ()

    @property
    def numbers(self) -> int:
        """The numbers of a row."""
        return math.prod(self.shape)

    @property
    def stride(self) -> int:
        """The bytes of a row on disk."""
        return row_dtype(self.stored, self.dtype, self.shape).itemsize

    @property
    def nbytes(self) -> int:
        """The bytes of all rows on disk."""
        return self.rows * self.stride

    @property
    def blocks(self) -> int:
        """The number of checksums."""
        return -(-self.nbytes // BLOCK)


def head(layout: Layout) -> bytes:
    """The .npy header."""
    kind = row_dtype(layout.stored, layout.dtype, layout.shape)
    shape: tuple[int, ...] = (layout.rows,)
    if kind.subdtype is not None:
        kind, own = kind.subdtype
        shape += own
    descr = np.lib.format.dtype_to_descr(kind)
    said = {"descr": descr, "fortran_order": False, "shape": shape}
    text = repr(said).encode("latin1")
    magic = np.lib.format.magic(1, 0)
    room = HEAD - len(magic) - 2 - 1
    if len(text) > room:
        _check.fail("values", "must have fewer dimensions", len(layout.shape) + 1)
    return magic + struct.pack("<H", room + 1) + text.ljust(room) + b"\n"


def foot(layout: Layout) -> bytes:
    """The facts and the tail, which stand behind the rows."""
    facts = {
        "format": FILE.name,
        "version": FILE.version,
        "rows": layout.rows,
        "shape": list(layout.shape),
        "dtype": NAMES[layout.dtype],
        "stored": layout.stored,
        "head_crc32": zlib.crc32(head(layout)),
        "block": BLOCK,
        "crc32": list(layout.crcs),
    }
    text = json.dumps(facts).encode()
    return text + TAIL.pack(HEAD + layout.nbytes, zlib.crc32(text), MAGIC)


def seal(layout: Layout) -> int:
    """A checksum of the facts, and by theirs of the rows."""
    return zlib.crc32(foot(layout))


def is_features(path: str | os.PathLike[str]) -> bool:
    """True if a file ends like one that we have written."""
    file = Path(path)
    if not file.is_file() or file.stat().st_size < HEAD + TAIL.size:
        return False
    with open(file, "rb") as opened:
        opened.seek(-len(MAGIC), os.SEEK_END)
        return opened.read() == MAGIC


def read_layout(handle: int, path: str) -> Layout:
    """The layout of an open file, after checks of all but its rows."""
    size = os.fstat(handle).st_size
    if size < HEAD + TAIL.size:
        FILE.refuse(path, "must be a feature file", f"{size} bytes")
    begin, crc, magic = TAIL.unpack(_bytes_at(handle, size - TAIL.size, TAIL.size))
    if magic != MAGIC:
        FILE.refuse(path, "must end as a feature file does", "another end")
    length = size - TAIL.size - begin
    if begin < HEAD or length < 0:
        FILE.refuse(path, "must have its rows in front of their facts", f"{size} bytes")
    text = _bytes_at(handle, begin, length)
    if zlib.crc32(text) != crc:
        FILE.refuse(path, "must match the checksum of its facts", "other content")
    layout = _layout_of(FILE.parse(path, text))
    if begin != HEAD + layout.nbytes:
        wanted = f"must have {layout.nbytes} bytes of rows"
        FILE.refuse(path, wanted, f"{begin - HEAD} bytes")
    if _bytes_at(handle, 0, HEAD) != head(layout):
        FILE.refuse(path, "must begin with the header that was written", "another")
    return layout


def _layout_of(facts: dict[str, Any]) -> Layout:
    """The layout that facts describe."""
    dtypes = {name: dtype for dtype, name in NAMES.items()}
    shape, crcs = tuple(facts["shape"]), tuple(facts["crc32"])
    dtype = dtypes[facts["dtype"]]
    return Layout(facts["rows"], shape, dtype, facts["stored"], crcs)


def _odd(facts: dict[str, Any]) -> str:
    """Names something in facts that `foot` never writes; "" if nothing."""
    if facts["block"] != BLOCK:
        return f"blocks of {facts['block']}"
    if not (is_count(facts["rows"]) and are_counts(facts["shape"])):
        return f"{facts['rows']!r} rows of shape {facts['shape']!r}"
    if facts["stored"] not in (SAME, *ENCODINGS):
        return f"stored {facts['stored']!r}"
    sound = are_counts(facts["crc32"])
    sound &= _layout_of(facts).blocks == len(facts["crc32"])
    return "" if sound else "other checksums than of its blocks"


FILE = Format(
    name="gttf-features",
    version=1,
    holds="a feature file",
    content="the rows that were written",
    cure="write it again",
    odd=_odd,
    sealed=False,  # the tail has the checksum
)


def _bytes_at(handle: int, offset: int, length: int) -> bytes:
    """A piece of an open file, which is short if the file is."""
    buffer, got = bytearray(length), 0
    while got < length:
        more = read_at(handle, memoryview(buffer)[got:], offset + got)
        if more == 0:
            break
        got += more
    return bytes(buffer[:got])


def verify(path: str, layout: Layout) -> None:
    """Compares all rows with their checksums."""
    with open(path, "rb") as file:
        for number, crc in enumerate(layout.crcs):
            begin = number * BLOCK
            length = min(BLOCK, layout.nbytes - begin)
            part = _bytes_at(file.fileno(), HEAD + begin, length)
            if len(part) < length or zlib.crc32(part) != crc:
                last = (begin + length - 1) // layout.stride
                rule = "must match the checksum of its rows"
                FILE.refuse(
                    path, f"{rule} {begin // layout.stride} to {last}", "others"
                )
