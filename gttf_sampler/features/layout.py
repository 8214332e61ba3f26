"""How a feature file lies on disk: a .npy file, and behind its rows what we know of it.

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
from typing import NamedTuple, NoReturn

import numpy as np
import torch

from gttf_sampler import _check
from gttf_sampler._backends.torch.disk import read_at
from gttf_sampler.features.encoding import ENCODINGS, NAMES, row_dtype

FORMAT, VERSION = "gttf-features", 1
HEAD = 4096  # bytes in front of the rows, so that pages of rows are pages of the file
BLOCK = 1 << 24  # bytes of rows that share a checksum
MAGIC = b"GTTFROWS"
TAIL = struct.Struct("<QI4x8s")  # where the facts begin, their checksum, MAGIC


class Layout(NamedTuple):
    """What the rows of a file are.

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
        """How many numbers a row has."""
        return math.prod(self.shape)

    @property
    def stride(self) -> int:
        """How many bytes a row takes on disk."""
        return row_dtype(self.stored, self.dtype, self.shape).itemsize

    @property
    def nbytes(self) -> int:
        """How many bytes all rows take on disk."""
        return self.rows * self.stride

    @property
    def blocks(self) -> int:
        """How many checksums there are."""
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
    """What stands behind the rows."""
    facts = {
        "format": FORMAT,
        "version": VERSION,
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
    """Whether a file ends like one that we have written."""
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
        damaged(path, "must be a feature file", f"{size} bytes")
    begin, crc, magic = TAIL.unpack(_bytes_at(handle, size - TAIL.size, TAIL.size))
    if magic != MAGIC:
        damaged(path, "must end as a feature file does", "another end")
    length = size - TAIL.size - begin
    if begin < HEAD or length < 0:
        damaged(path, "must have its rows in front of their facts", f"{size} bytes")
    text = _bytes_at(handle, begin, length)
    if zlib.crc32(text) != crc:
        damaged(path, "must match the checksum of its facts", "other content")
    layout = _parsed(path, text)
    if begin != HEAD + layout.nbytes:
        wanted = f"must have {layout.nbytes} bytes of rows"
        damaged(path, wanted, f"{begin - HEAD} bytes")
    if _bytes_at(handle, 0, HEAD) != head(layout):
        damaged(path, "must begin with the header that was written", "another")
    return layout


def _parsed(path: str, text: bytes) -> Layout:
    """The facts, if they are what `foot` says."""
    try:
        facts = json.loads(text)
        found = facts["format"], facts["version"], facts["block"]
        if found != (FORMAT, VERSION, BLOCK):
            rule = f"must have format {FORMAT!r} version {VERSION}, blocks of {BLOCK}"
            damaged(path, rule, found)
        dtypes = {name: dtype for dtype, name in NAMES.items()}
        layout = Layout(
            int(facts["rows"]),
            tuple(int(size) for size in facts["shape"]),
            dtypes[facts["dtype"]],
            str(facts["stored"]),
            tuple(int(crc) for crc in facts["crc32"]),
        )
        sound = layout.stored in ("same", *ENCODINGS)
        sound &= layout.rows >= 0 and all(size >= 0 for size in layout.shape)
        if not sound or layout.blocks != len(layout.crcs):
            damaged(path, "must have sound facts", "others")
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        damaged(path, "must have sound facts", repr(error)[:80])
    return layout


def _bytes_at(handle: int, offset: int, length: int) -> bytes:
    """A piece of an open file, which is short if the file is."""
    buffer, got = bytearray(length), 0
    while got < length:
        more = read_at(handle, memoryview(buffer)[got:], offset + got)
        if more == 0:
            break
        got += more
    return bytes(buffer[:got])


def damaged(path: str, rule: str, got: object) -> NoReturn:
    """Raises the ValueError that names the damaged file."""
    _check.fail(path, rule, got, "write it again")


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
                damaged(path, f"{rule} {begin // layout.stride} to {last}", "others")
