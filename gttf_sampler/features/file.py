"""FeatureFile: rows of values on disk, read by id; RowSource, its protocol."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends import memory
from gttf_sampler.features.read import (
    SLOT,
    Handle,
    State,
    StaticCache,
    most_sampled,
    read_rows,
)
from gttf_sampler.features.write import NAMES, SAME, Report, chunks_of, decode, write

PROFILED = 20  # reads that choose the rows of a cache whose rows no call has named


@runtime_checkable
class RowSource(Protocol):
    """Values [n, ...] whose rows are fetched when a batch needs them.

    `FeatureFile` is one, and so is `PartitionedFeatures`; loaders take any.
    """

    @property
    def shape(self) -> torch.Size:
        """[n, ...]."""

    @property
    def dtype(self) -> torch.dtype:
        """Of the values."""

    def __len__(self) -> int:
        """The number of rows."""

    def rows(self, ids: Tensor, /) -> Tensor:
        """The rows [k, ...] of ids, int64 [k] on the CPU, which are all there."""


class FeatureFile:
    """Values [n, ...] in a file, of which `read` fetches the rows that are asked for.

    >>> import tempfile, torch
    >>> from gttf_sampler import FeatureFile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     x = FeatureFile.from_array(f"{folder}/x.npy", torch.eye(3))
    ...     x.read([2, 0]).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]

    Many reads are in flight at once, rows near each other come with one, and the
    memory that they go to was used before. The file is an .npy file with checksums
    behind its rows; `numpy.load` reads it. One that is truncated, altered or replaced
    while it is open gives an error, never other rows (docs/disk.md names the one
    moment in which the system ends the process instead).

    Where the file is larger than the memory that is left, reads go around the system's
    cache, which would keep a page of 4 kB for every row; `cache` keeps rows instead.
    `direct` decides otherwise.

    Args:
        path: of what `from_array`, `from_chunks` or `gttf features` has written.
        direct: whether to read around the system's cache.
        pin_memory: whether rows are to come in page-locked memory, for a GPU.

    Attributes:
        reads: how many there were so far.
        bytes_read: what they brought; rows copied from the page cache do not count.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        direct: bool | None = None,
        pin_memory: bool = False,
    ) -> None:
        self.path = os.path.abspath(_check.path("path", path))
        if direct is not None:
            direct = _check.yes_or_no("direct", direct)
        self.pin_memory = _check.yes_or_no("pin_memory", pin_memory)
        if self.pin_memory and not torch.cuda.is_available():
            _check.fail("pin_memory", "must be False where there is no GPU", True)
        self._direct = direct  # as it was asked for
        self._open: Handle | None = Handle(self.path, direct)
        self._layout, self._state = self._open.layout, self._open.state
        self.direct = self._open.align > 1
        self._kept: StaticCache | None = None
        self._profile: list[Tensor] | None = None  # ids of reads that choose a cache
        self._capacity = self.reads = self.bytes_read = 0

    @classmethod
    def from_array(
        cls,
        path: str | os.PathLike[str],
        values: Any,
        *,
        stored: Any = None,
        overwrite: bool = False,
        report: Report | None = None,
    ) -> FeatureFile:
        """Writes `values` [n, ...] and opens them; a memory-mapped array as a stream.

        Args:
            path: of the new file.
            values: a tensor or an array.
            stored: "float16", "bfloat16" or "int8" (with a scale per row) take less
                disk; rows are read in the dtype of `values` all the same.
            overwrite: whether to replace a file that is there.
            report: called with what is done and how many more bytes of it.
        """
        write(path, chunks_of(values), stored, overwrite, report)
        return cls(path)

    @classmethod
    def from_chunks(
        cls,
        path: str | os.PathLike[str],
        chunks: Iterable[Any],
        *,
        stored: Any = None,
        overwrite: bool = False,
        report: Report | None = None,
    ) -> FeatureFile:
        """Writes chunks [k, ...] of rows as they come, and opens them all.

        The file appears when it is whole; see `from_array` for the rest.
        """
        write(path, chunks, stored, overwrite, report)
        return cls(path)

    @property
    def shape(self) -> torch.Size:
        """[n, ...]."""
        return torch.Size([self._layout.rows, *self._layout.shape])

    @property
    def dtype(self) -> torch.dtype:
        """Of what is read."""
        return self._layout.dtype

    @property
    def stored(self) -> str:
        """The name of the dtype in which numbers are stored."""
        own = self._layout.stored
        return NAMES[self.dtype] if own == SAME else own

    @property
    def seal(self) -> int:
        """A checksum of all that the file is: of its rows' checksums, and its facts."""
        return self._layout.seal()

    @property
    def nbytes(self) -> int:
        """The bytes of all rows on disk."""
        return self._layout.nbytes

    @property
    def hit_rate(self) -> float:
        """The share of rows that were found in the cache; nan before the first one."""
        kept = self._kept
        asked = 0 if kept is None else kept.hits + kept.misses
        return math.nan if kept is None or not asked else kept.hits / asked

    @property
    def _cached(self) -> int:
        """The number of rows in the cache."""
        return 0 if self._kept is None else self._kept.size

    @property
    def _handle(self) -> Handle:
        """The open file."""
        if self._open is None:
            _check.fail(self.path, "must be open", "a closed file", "open it again")
        return self._open

    def __len__(self) -> int:
        """The number of rows."""
        return self._layout.rows

    def read(self, ids: Any, out: Tensor | None = None) -> Tensor:
        """The rows [k, ...] of ids [k], in their order; they may repeat.

        `out` [k, ...], contiguous and of the file's dtype, is written to if it is
        given, and returned.
        """
        wanted = _check.integers("ids", ids).to("cpu", torch.int64)
        _check.within("ids", wanted, len(self), "rows")
        return self.rows(wanted, out)

    def __getitem__(self, ids: Any) -> Tensor:
        """The rows of an id, of ids [k], of a slice, or of a mask [n]."""
        if isinstance(ids, slice):
            return self.rows(torch.arange(*ids.indices(len(self))))
        if isinstance(ids, Tensor) and ids.dtype == torch.bool:
            _check.length("ids", _check.tensor("ids", ids), len(self), "row")
            return self.rows(ids.cpu().nonzero().view(-1))
        if isinstance(ids, int) or (isinstance(ids, Tensor) and ids.dim() == 0):
            return self.read([int(ids)])[0]
        return self.read(ids)

    def rows(
        self, ids: Tensor, out: Tensor | None = None, place: Tensor | None = None
    ) -> Tensor:
        """The rows of ids, int64 [k] on the CPU, as `read` but without conversions.

        `place` int64 [k] are the rows of `out` that they become, each of them once; the
        first k if none.
        """
        ids = _index("ids", ids)
        place = None if place is None else _places(place, ids.numel(), out)
        shape, dtype = torch.Size([ids.numel(), *self._layout.shape]), self.dtype
        if out is None:
            _check.fits("ids", shape.numel() * dtype.itemsize)
            if self.pin_memory:  # torch keeps such memory by itself
                out = torch.empty(shape, dtype=dtype, device="cpu", pin_memory=True)
            else:
                out = memory.empty_rows(shape, dtype)
        else:
            of = shape if place is None else out.shape[:1] + shape[1:]
            _check_buffer(out, of, dtype)
        if ids.numel() and out.numel():
            self._write_to(out, ids, place)
        else:
            _check.within("ids", ids, len(self), "rows")
        return out

    def cache(self, nbytes: int, rows: Any = None) -> FeatureFile:
        """Keeps rows in memory, in no more than `nbytes`; returns itself.

        What is read stays the same, bit for bit. Rows are kept as they are stored, with
        4 bytes for every row of the file. `rows` [k] are the ids of those to keep, the
        most wanted first, as `most_reached` (of a graph) and `most_sampled` (of some
        batches) tell. Without them, those that the next 20 reads ask for most. 0 bytes
        end the cache. A copy in another process begins without.
        """
        nbytes = _check.size("nbytes", nbytes)
        if rows is not None:
            rows = _check.integers("rows", rows).to("cpu", torch.int64)
            _check.within("rows", rows, len(self), "rows")
        self._kept = self._profile = None
        if not nbytes:
            return self
        slots, stride = SLOT * len(self), self._layout.stride
        capacity = (nbytes - slots) // max(1, stride)  # after a slot for every row
        if capacity < 1:
            rule = f"must be at least {slots + stride}, {SLOT} bytes per row of the"
            _check.fail("nbytes", f"{rule} file and a row", nbytes)
        _check.fits("nbytes", nbytes)
        self._capacity = min(capacity, len(self))
        if rows is None:
            self._profile = []
        else:
            self._kept = self._cache_of(rows)
        return self

    def validate(self) -> FeatureFile:
        """Reads all rows and compares them with their checksums; returns self."""
        with self._handle.unchanged():
            self._layout.verify(self.path)
        return self

    def close(self) -> None:
        """Closes the file, as soon as reads that are under way are over."""
        self._open = None

    def _write_to(self, out: Tensor, ids: Tensor, place: Tensor | None) -> None:
        stored, stride = self._layout.stored, self._layout.stride
        if stored == SAME:
            self._fill(ids, place, out.view(len(out), -1).view(torch.uint8))
            return
        raw = memory.FEATURES.make(ids.numel() * stride).view(ids.numel(), stride)
        self._fill(ids, None, raw)
        if place is None:
            decode(raw, stored, out)
        else:
            rows = memory.empty_rows((ids.numel(), *out.shape[1:]), out.dtype)
            out[place] = decode(raw, stored, rows)

    def _fill(self, ids: Tensor, place: Tensor | None, raw: Tensor) -> None:
        """Writes the rows of ids [k] to rows `place` [k] of `raw`, uint8 [m, stride].

        Without places, row i of `raw` is that of ids[i].
        """
        kept, profile = self._kept, self._profile  # once: a thread may end them
        if kept is not None:
            self._handle.check()
            _check.within("ids", ids, len(self), "rows")
            kept.fill(ids, place, raw, self._read_rows)
            return
        self._read_rows(ids, place, raw)
        if profile is not None:
            profile.append(ids.clone())
            if len(profile) >= PROFILED:
                chosen = self._cache_of(most_sampled(profile, PROFILED))
                if self._profile is profile:
                    self._kept, self._profile = chosen, None

    def _cache_of(self, rows: Tensor) -> StaticCache:
        rows = rows[: self._capacity]
        return StaticCache(rows, len(self), self._layout.stride, self._read_rows)

    def _read_rows(self, ids: Tensor, place: Tensor | None, raw: Tensor) -> None:
        done = read_rows(self._handle, ids, place, raw)
        self.reads += done.reads
        self.bytes_read += done.nbytes

    def __enter__(self) -> FeatureFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the file itself; it must be the same one."""
        how = self._direct, self.pin_memory
        return _opened, (self.path, *how, self._state)

    def __repr__(self) -> str:
        """Shape, dtype, size on disk, and what was read so far."""
        own = f", stored as {self.stored}" if self._layout.stored != SAME else ""
        size = _check.readable(self.nbytes)
        about = f"{list(self.shape)}, {NAMES[self.dtype]}{own}, {size} on disk"
        if self._cached:
            about += f", {self._cached:,} rows in memory"
        if self.hit_rate == self.hit_rate:
            about += f" for {self.hit_rate:.1%} of those asked for"
        if self.reads:
            got = _check.readable(self.bytes_read)
            about += f"; read {got} with {self.reads:,} reads"
        return f"FeatureFile({about})"


def _opened(
    path: str, direct: bool | None, pin_memory: bool, state: State
) -> FeatureFile:
    """A file that another process has open, if it is still the same."""
    file = FeatureFile(path, direct=direct, pin_memory=pin_memory)
    if file._state != state:
        file._handle.changed("it was written to")
    return file


def _check_buffer(out: Any, shape: torch.Size, dtype: torch.dtype) -> None:
    """Refuses memory that rows cannot be written to as they are."""
    found = _check.dense("out", out)
    if found.dtype != dtype:
        _check.mistyped("out", f"must have dtype {dtype}", found.dtype)
    if found.shape != shape:
        _check.fail("out", f"must have shape {list(shape)}", list(found.shape))
    if found.device.type != "cpu" or not found.is_contiguous():
        _check.fail("out", "must be contiguous on the CPU", found.device)
    if found.requires_grad:
        _check.fail("out", "must not require a gradient", True)


def _index(name: str, value: Any) -> Tensor:
    """`value`, int64 [k] on the CPU, contiguous as kernels read it by its address."""
    found = _check.tensor(name, _check.dense(name, value))
    if found.dtype != torch.int64 or found.device.type != "cpu":
        got = f"{found.dtype} on {found.device}"
        _check.mistyped(name, "must have dtype int64, on the CPU", got)
    return found.contiguous()


def _places(place: Any, count: int, out: Any) -> Tensor:
    """`place` as rows of `out`, different ones, one for each of `count` ids."""
    if out is None:
        _check.fail("place", "must come with 'out', whose rows it names", "None")
    rows = _check.dense("out", out)
    size = rows.shape[0] if rows.dim() else 0
    found = _check.length("place", _index("place", place), count, "id")
    _check.within("place", found, size, "rows of 'out'")
    named = torch.zeros(size, dtype=torch.bool).index_fill_(0, found, True)
    if int(named.sum()) != count:
        _check.fail("place", "must name a row of 'out' once", "a repeated one")
    return found
