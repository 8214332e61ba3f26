"""FeatureFile: rows of values on disk, read by id; RowSource, its protocol."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler.features import layout as layouts
from gttf_sampler.features.encoding import NAMES, SAME
from gttf_sampler.features.handle import Handle, State
from gttf_sampler.features.rows import RowReader
from gttf_sampler.features.write import Report, chunks_of, write


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
        self._rows = RowReader(Handle(self.path, direct))
        handle = self._rows.handle
        self._layout, self._state = handle.layout, handle.state
        self.direct = handle.align > 1

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
        return layouts.seal(self._layout)

    @property
    def nbytes(self) -> int:
        """The bytes of all rows on disk."""
        return self._layout.nbytes

    @property
    def reads(self) -> int:
        """The number of reads so far."""
        return self._rows.reads

    @property
    def bytes_read(self) -> int:
        """The bytes of these reads; rows copied from the page cache do not count."""
        return self._rows.bytes_read

    @property
    def hit_rate(self) -> float:
        """The share of rows that were found in the cache; nan before the first one."""
        return self._rows.hit_rate

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
        return self._rows.read(ids, out, place, self.pin_memory)

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
        self._rows.keep(nbytes, rows)
        return self

    def validate(self) -> FeatureFile:
        """Reads all rows and compares them with their checksums; returns self."""
        with self._rows.handle.unchanged():
            layouts.verify(self.path, self._layout)
        return self

    def close(self) -> None:
        """Closes the file, as soon as reads that are under way are over."""
        self._rows.close()

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
        if self._rows.cached:
            about += f", {self._rows.cached:,} rows in memory"
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
        file._rows.handle.changed("it was written to")
    return file
