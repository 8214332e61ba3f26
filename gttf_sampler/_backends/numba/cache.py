"""Numba's files of machine code, with checksums: a damaged one counts as missing.

Numba itself raises whatever reading such a file ends in, at every start. The names that
start with `_` are numba's own; a test notices when they change.

Whoever writes such a file has his code run here. They are therefore in a folder of the
user's own, mode 0700; one that others can write to, or have made, is not read.
"""

import os
import pickle
import stat
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from numba import config
from numba.core import caching
from numba.core.caching import IndexDataCacheFile

CHECKSUM = 4  # bytes, behind what numba writes
OTHERS = stat.S_IRWXG | stat.S_IRWXO


class CheckedCacheFile(IndexDataCacheFile):
    """An index and its data files, which are compiled anew if they are damaged."""

    def load(self, key: Any) -> Any:
        """Loads the code of `key`; None if that cannot be read, or trusted."""
        try:
            return super().load(key)
        except Exception:  # pickle raises nearly everything
            return None

    def _load_index(self) -> Any:
        if not is_private(Path(self._cache_path).parent):  # also before it writes
            return {}
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


def is_private(folder: Path) -> bool:
    """True for a folder, no link to one, that the user alone has access to."""
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    if not stat.S_ISDIR(found.st_mode):
        return False
    if not hasattr(os, "geteuid"):  # on Windows, folders of a user are his own
        return True
    return found.st_uid == os.geteuid() and not found.st_mode & OTHERS


def private_folder(home: Path) -> Path | None:
    """The user's own folder in `home`, made if need be; None if there can be none.

    Nor where others could put another one in its place: they may write to `home`, and
    it has no sticky bit.
    """
    folder = home / f"gttf-{os.geteuid() if hasattr(os, 'geteuid') else 'user'}"
    try:
        home.mkdir(parents=True, exist_ok=True)
        mode = os.stat(home).st_mode
        open_to_all = mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX
        if open_to_all and os.name == "posix":
            return None
        folder.mkdir(mode=stat.S_IRWXU, exist_ok=True)
    except OSError:
        return None
    return folder if is_private(folder) and os.access(folder, os.W_OK) else None


class _Locator(caching._SourceFileBackedLocatorMixin, caching._CacheLocator):
    """Has numba keep a function in a private folder.

    The one in NUMBA_CACHE_DIR, if that is set; else beside the code, or where the user
    has his caches.
    """

    def __init__(self, py_func: Any, py_file: str, folder: Path) -> None:
        self._py_file, self._lineno = py_file, py_func.__code__.co_firstlineno
        self._path = str(folder / self.get_suitable_cache_subpath(py_file))

    def get_cache_path(self) -> str:
        """The directory of the files."""
        return self._path

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        """A locator; None if there is no private folder."""
        homes = [Path(py_file).parent / "__pycache__", Path(_user_cache())]
        homes = [Path(config.CACHE_DIR)] if config.CACHE_DIR else homes
        found = (private_folder(home) for home in homes)
        folder = next((folder for folder in found if folder is not None), None)
        if folder is None:
            return None
        made = cls(py_func, py_file, folder)
        try:
            made.ensure_cache_path()
        except OSError:
            return None
        return made


def _user_cache() -> str:
    found: str = caching.AppDirs(appname="numba", appauthor=False).user_cache_dir
    return found


class _Files(caching.CompileResultCacheImpl):
    _locator_classes: ClassVar[list[Any]] = [_Locator]


class _Cache(caching.FunctionCache):
    _impl_class = _Files


def guard(kernel: Any, stamp: str) -> Any:
    """`kernel`, a function of numba, kept on disk in checked files of the user's own.

    Numba compiles anew when the file of the kernel has changed; here, whenever `stamp`
    has, as what a kernel calls may be in another file. RuntimeError without a folder.
    """
    kernel._cache = _Cache(kernel.py_func)
    kernel._cache._cache_file.__class__ = CheckedCacheFile
    kernel._cache._cache_file._source_stamp = stamp
    return kernel


def stamp_of(files: Iterable[Path]) -> str:
    """A checksum of all files."""
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
