"""The format of a feature file, and its writer, which streams pieces of the rows.

    .npy header, padded to 4096 bytes | rows, end to end | facts as JSON | tail

The facts have a checksum for every block of the rows. The tail says where the facts
begin, with a checksum of theirs. Whatever reads .npy files reads the rows, and takes no
notice of what is behind them. Rows may take fewer bytes than they are read as:

| stored | bytes per number | error of a number x |
|---|---|---|
| float16 | 2 | at most 2⁻¹¹ · abs(x), and 2⁻²⁵ below 6.1e-5; up to 65,504 |
| bfloat16 | 2 | at most 2⁻⁸ · abs(x) |
| int8 | 1, and 4 per row | at most m / 254, where m is the largest abs(x) of its row |
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check, _files
from gttf_sampler._arrays import Array, Format, Rules, are_counts, is_count
from gttf_sampler._backends.torch.gather import read_at

NUMPY = {  # by name: torch 2.2 lacks some
    getattr(torch, name): kind
    for name, kind in (
        *(("bool", "|b1"), ("uint8", "|u1"), ("int8", "|i1")),
        *(("uint16", "<u2"), ("int16", "<i2"), ("uint32", "<u4"), ("int32", "<i4")),
        *(("uint64", "<u8"), ("int64", "<i8"), ("float16", "<f2")),
        ("bfloat16", "<u2"),  # numpy has no such numbers; their bits, it has
        *(("float32", "<f4"), ("float64", "<f8")),
        *(("complex64", "<c8"), ("complex128", "<c16")),
    )
    if hasattr(torch, name)
}
NAMES = {dtype: str(dtype).removeprefix("torch.") for dtype in NUMPY}
SAME = "same"
ENCODINGS = ("float16", "bfloat16", "int8")
SCALE, LARGEST = 4, 127  # bytes in front of a row of int8; its largest number
HEAD = 4096  # bytes in front of the rows, so that pages of rows are pages of the file
BLOCK = 1 << 24  # bytes of rows that share a checksum
PIECE = 1 << 24  # bytes of values that are written at a time
MAGIC = b"GTTFROWS"
TAIL = struct.Struct("<QI4x8s")  # where the facts begin, their checksum, MAGIC

Report = Callable[[str, int], None]  # called with what is done, and how many bytes more


class Layout(NamedTuple):
    """The rows of a file: how many, of what shape, dtype and encoding."""

    rows: int
    shape: tuple[int, ...]  # of one row, as it is read
    dtype: torch.dtype  # of what is read
    stored: str  # SAME, or one of ENCODINGS
    crcs: tuple[int, ...] = ()  # one per block of the rows

    @property
    def row_dtype(self) -> np.dtype[Any]:
        """The numpy dtype of a row on disk."""
        if self.stored == "int8":
            return np.dtype([("scale", "<f4"), ("values", "|i1", self.shape)])
        kind = self.dtype if self.stored == SAME else getattr(torch, self.stored)
        return np.dtype((NUMPY[kind], self.shape))

    @property
    def stride(self) -> int:
        """The bytes of a row on disk."""
        return self.row_dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The bytes of all rows on disk."""
        return self.rows * self.stride

    def head(self) -> bytes:
        """The .npy header."""
        kind = self.row_dtype
        shape: tuple[int, ...] = (self.rows,)
        if kind.subdtype is not None:
            kind, own = kind.subdtype
            shape += own
        descr = np.lib.format.dtype_to_descr(kind)
        said = {"descr": descr, "fortran_order": False, "shape": shape}
        text = repr(said).encode("latin1")
        magic = np.lib.format.magic(1, 0)
        room = HEAD - len(magic) - 2 - 1
        if len(text) > room:
            _check.fail("values", "must have fewer dimensions", len(self.shape) + 1)
        return magic + struct.pack("<H", room + 1) + text.ljust(room) + b"\n"

    def foot(self) -> bytes:
        """The facts and the tail, which stand behind the rows."""
        facts = {
            "format": FILE.name,
            "version": FILE.version,
            "rows": self.rows,
            "shape": list(self.shape),
            "dtype": NAMES[self.dtype],
            "stored": self.stored,
            "head_crc32": zlib.crc32(self.head()),
            "block": BLOCK,
            "crc32": list(self.crcs),
        }
        text = json.dumps(facts).encode()
        return text + TAIL.pack(HEAD + self.nbytes, zlib.crc32(text), MAGIC)

    def seal(self) -> int:
        """A checksum of the facts, and by theirs of the rows."""
        return zlib.crc32(self.foot())

    def verify(self, path: str) -> None:
        """Compares all rows of a file with their checksums."""
        with open(path, "rb") as file:
            for number, crc in enumerate(self.crcs):
                begin = number * BLOCK
                length = min(BLOCK, self.nbytes - begin)
                part = _bytes_at(file.fileno(), HEAD + begin, length)
                if len(part) < length or zlib.crc32(part) != crc:
                    last = (begin + length - 1) // self.stride
                    rule = "must match the checksum of its rows"
                    rows = f"{begin // self.stride} to {last}"
                    FILE.refuse(path, f"{rule} {rows}", "others")


def _layout_of(facts: dict[str, Any]) -> Layout:
    dtypes = {name: dtype for dtype, name in NAMES.items()}
    shape, crcs = tuple(facts["shape"]), tuple(facts["crc32"])
    dtype = dtypes[facts["dtype"]]
    return Layout(facts["rows"], shape, dtype, facts["stored"], crcs)


def _rules(facts: dict[str, Any]) -> Rules:
    """Rules for all facts that are written."""
    rows, shape, stored = facts["rows"], facts["shape"], facts["stored"]
    yield facts["block"] == BLOCK, f"blocks of {facts['block']}"
    yield is_count(rows) and are_counts(shape), f"{rows!r} rows of shape {shape!r}"
    yield stored in (SAME, *ENCODINGS), f"stored {stored!r}"
    blocks = -(-_layout_of(facts).nbytes // BLOCK)
    sound = are_counts(facts["crc32"]) and blocks == len(facts["crc32"])
    yield sound, "other checksums than of its blocks"


FILE = Format(
    name="gttf-features",
    version=1,
    holds="a feature file",
    content="the rows that were written",
    cure="write it again",
    rules=_rules,
    sealed=False,  # the tail has the checksum
)


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
        rule = f"must have {layout.nbytes} bytes of rows"
        FILE.refuse(path, rule, f"{begin - HEAD} bytes")
    if _bytes_at(handle, 0, HEAD) != layout.head():
        FILE.refuse(path, "must begin with the header that was written", "another")
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


def check_stored(stored: Any, dtype: torch.dtype) -> str:
    """`stored`, which must be a way to store numbers of `dtype`."""
    if isinstance(stored, torch.dtype):
        stored = NAMES.get(stored, str(stored))
    if stored is None or stored == NAMES[dtype]:
        return SAME
    _check.one_of("stored", stored, ENCODINGS)
    if not dtype.is_floating_point:
        _check.fail("stored", "must be None unless values are floats", NAMES[dtype])
    return str(stored)


def encode(values: Tensor, stored: str) -> Array:
    """The bytes of rows [k, ...], end to end."""
    if stored == "int8":
        return _to_int8(values)
    if stored != SAME:
        short = values.to(getattr(torch, stored))
        if not torch.equal(short.isfinite(), values.isfinite()):
            rule = f"must be stored as a dtype that reaches {float(values.abs().max())}"
            _check.fail("stored", rule, repr(stored), "take 'bfloat16' or 'int8'")
        values = short
    flat = values.contiguous().view(-1)
    flat = flat.as_strided(flat.shape, (1,))  # one number may have any stride
    found: Array = flat.view(torch.uint8).numpy()
    return found


def _to_int8(values: Tensor) -> Array:
    """Rows as their scale, and numbers that are multiples of it."""
    count = values.shape[0]
    flat = values.reshape(count, values.shape[1:].numel()).to(torch.float64)
    if not bool(flat.isfinite().all()):
        _check.fail("values", "must be finite to be stored as 'int8'", "others, too")
    top = flat.abs().amax(1) if flat.shape[1] else flat.new_zeros(count)
    scale = (top / LARGEST).to(torch.float32)
    if not bool(scale.isfinite().all()):
        rule = "must be below 4e40 to be stored as 'int8'"
        _check.fail("values", rule, float(top.max()))
    step = scale.double()[:, None]
    whole = (flat / step.where(step > 0, 1)).round().clamp(-LARGEST, LARGEST)
    found = np.empty((count, SCALE + flat.shape[1]), np.uint8)
    found[:, :SCALE] = scale.numpy().astype("<f4").view(np.uint8).reshape(count, SCALE)
    found[:, SCALE:] = whole.to(torch.int8).numpy().view(np.uint8)
    return found.reshape(-1)


def decode(raw: Tensor, stored: str, out: Tensor) -> Tensor:
    """Bytes [k, stride] as rows, written to `out` [k, ...]."""
    flat = out.view(out.shape[0], -1)
    if stored == "int8":
        scale = raw[:, :SCALE].flatten().view(torch.float32)[:, None]
        if flat.dtype == torch.float64:  # whose numbers may be too large for float32
            scale = scale.double()
        torch.mul(raw[:, SCALE:].view(torch.int8), scale, out=flat)
    else:
        flat.copy_(raw.view(getattr(torch, stored)))
    return out


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
    step = _rows_at_a_time(first.shape[1:].numel() * first.element_size())
    rows, crcs, filled = 0, list[int](), 0
    with _files.replacing(file) as (out,):
        out.write(bytes(HEAD))
        for part in (part for p in chain([first], pieces) for part in p.split(step)):
            data = memoryview(encode(part, stored).data)
            out.write(data)
            while data.nbytes:  # checksums of blocks, whatever pieces these come in
                some = data[: BLOCK - filled]
                if filled == 0:
                    crcs.append(0)
                crcs[-1] = zlib.crc32(some, crcs[-1])
                filled = (filled + some.nbytes) % BLOCK
                data = data[some.nbytes :]
            if report is not None:
                report("writing rows", part.numel() * part.element_size())
            rows += part.shape[0]
        shape = tuple(first.shape[1:])
        layout = Layout(rows, shape, first.dtype, stored, tuple(crcs))
        out.write(layout.foot())
        out.seek(0)
        out.write(layout.head())
    return layout


def _rows_at_a_time(nbytes: int) -> int:
    return max(1, PIECE // max(1, nbytes))


def _pieces(chunks: Iterable[Any]) -> Iterator[Tensor]:
    """The chunks as tensors of a dtype that files can hold, all like the first one."""
    if isinstance(chunks, Tensor | np.ndarray | str | bytes) or not hasattr(
        chunks, "__iter__"
    ):
        cure = "pass one array to from_array"
        got = _check.kind_of(chunks)
        _check.mistyped("chunks", "must be an iterable of arrays", got, cure)
    first = None
    for chunk in chunks:
        rows = _check.as_dense("chunks", chunk)
        if rows.dim() == 0:
            _check.fail("chunks", "must have rows", "shape []")
        if rows.dtype not in NUMPY:
            _check.mistyped(
                "chunks", "must have a dtype that files can hold", rows.dtype
            )
        first = rows[:0] if first is None else first
        if (first.dtype, first.shape[1:]) != (rows.dtype, rows.shape[1:]):
            rule = f"must all hold rows of {first.dtype}, {list(first.shape[1:])}"
            _check.fail("chunks", rule, f"{rows.dtype}, {list(rows.shape[1:])}")
        yield rows.cpu()


def chunks_of(values: Any) -> Iterator[Any]:
    """An array in pieces; one that is memory-mapped is read piece by piece."""
    if not isinstance(values, np.ndarray):
        yield values
        return
    if values.ndim == 0:
        _check.fail("values", "must have rows", "shape []")
    step = _rows_at_a_time(values[:1].nbytes)
    for start in range(0, max(1, len(values)), step):
        # a copy: torch takes no array that may not be written
        yield np.array(values[start : start + step])
