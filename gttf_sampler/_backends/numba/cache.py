"""Numba's files of machine code, with checksums: a damaged one counts as missing.

Numba itself raises whatever reading such a file ends in, at every start. The names that
start with `_` are numba's own; a test notices when they change.

Whoever writes such a file has his code run here. They are therefore in a folder of the
user's own, mode 0700; one that others can write to, or have made, is not read.
"""

import pickle
import zlib
from pathlib import Path
from typing import Any, ClassVar

from numba.core import caching
from numba.core.caching import IndexDataCacheFile

from gttf_sampler._backends.compiling import is_private, kernel_folder

CHECKSUM = 4  # bytes, behind what numba writes


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


class _Locator(caching._SourceFileBackedLocatorMixin, caching._CacheLocator):
    """Has numba keep a function in `kernel_folder`, wherever the package is."""

    def __init__(self, py_func: Any, py_file: str, folder: Path) -> None:
        self._py_file, self._lineno = py_file, py_func.__code__.co_firstlineno
        self._path = str(folder)

    def get_cache_path(self) -> str:
        """The directory of the files."""
        return self._path

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        """A locator; None if there is no private folder."""
        folder = kernel_folder()
        return None if folder is None else cls(py_func, py_file, folder)


class _Files(caching.CompileResultCacheImpl):
    _locator_classes: ClassVar[list[Any]] = [_Locator]


class _Cache(caching.FunctionCache):
    """The files of one function, checked.

    Numba compiles anew when the file of a kernel has changed; here, whenever `stamp`
    has, as what a kernel calls may be in another file.
    """

    _impl_class = _Files

    def __init__(self, py_func: Any, stamp: str) -> None:
        super().__init__(py_func)
        base = self._impl.filename_base
        self._cache_file = CheckedCacheFile(self._cache_path, base, stamp)


def guard(kernel: Any, stamp: str) -> Any:
    """`kernel`, a function of numba, kept on disk in checked files of the user's own.

    RuntimeError if there is no folder to keep it in.
    """
    kernel._cache = _Cache(kernel.py_func, stamp)
    return kernel


def _checked(data: bytes) -> bytes:
    """The bytes in front of their checksum, if that is right."""
    data, found = data[:-CHECKSUM], data[-CHECKSUM:]
    if zlib.crc32(data).to_bytes(CHECKSUM, "little") != found:
        raise ValueError("a damaged file of machine code")
    return data
