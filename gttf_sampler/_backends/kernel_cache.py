"""Numba's files of machine code, with checksums: a damaged one counts as missing.

Numba itself raises whatever reading such a file ends in, at every start. The names that
start with `_` are numba's own; a test notices when they change.
"""

import pickle
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from numba.core.caching import IndexDataCacheFile

CHECKSUM = 4  # bytes, behind what numba writes


class CheckedCacheFile(IndexDataCacheFile):
    """An index and its data files, which are compiled anew if they are damaged."""

    def load(self, key: Any) -> Any:
        """What was compiled for `key`; None if that cannot be read."""
        try:
            return super().load(key)
        except Exception:  # pickle raises nearly everything
            return None

    def _load_index(self) -> Any:
        try:
            with open(self._index_path, "rb") as file:
                pickle.load(file)  # the version
                _checked(file.read())
            return super()._load_index()
        except Exception:
            return {}

    def _load_data(self, name: str) -> Any:
        with open(self._data_path(name), "rb") as file:
            return pickle.loads(_checked(file.read()))

    def _dump(self, obj: Any) -> bytes:
        data: bytes = super()._dump(obj)
        return data + zlib.crc32(data).to_bytes(CHECKSUM, "little")


def guard(kernel: Any, stamp: str) -> Any:
    """`kernel`, a function of numba that is kept on disk, with checked files.

    Numba compiles anew when the file of the kernel has changed; here, whenever `stamp`
    has, as what a kernel calls may be in another file.
    """
    kernel._cache._cache_file.__class__ = CheckedCacheFile
    kernel._cache._cache_file._source_stamp = stamp
    return kernel


def stamp_of(files: Iterable[Path]) -> str:
    """What changes with any of the files."""
    total = zlib.crc32(b"")
    for file in sorted(files):
        total = zlib.crc32(file.read_bytes(), total)
    return f"{total:08x}"


def _checked(data: bytes) -> bytes:
    """The bytes in front of their checksum, if that is right."""
    data, found = data[:-CHECKSUM], data[-CHECKSUM:]
    if zlib.crc32(data).to_bytes(CHECKSUM, "little") != found:
        raise ValueError("a damaged file of machine code")
    return data
