"""Random words, memory asked ahead, and how kernels are compiled: what all others use.

Every kernel works on the range [lo, hi) of its outermost dimension, so that threads can
share it, releases the GIL, and computes what the function of the same purpose in the
reference computes, bit for bit (these: `gttf_sampler.random`). Indices are unsigned:
numba then leaves out the test for negative ones, and the loops over random words become
vector instructions.

Machine code is kept in numba's files, with checksums: a damaged one counts as missing.
Numba itself raises whatever reading such a file ends in, at every start. Whoever writes
one has his code run here: `cache` says from whom files are read. The names that start
with `_` are numba's own; a test notices when they change.
"""

import os
import pickle
import zlib
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import caching
from numba.core.caching import IndexDataCacheFile
from numba.extending import intrinsic

from gttf_sampler import random
from gttf_sampler._backends.cache import (
    is_private,
    is_safe,
    kernel_folders,
    only_ours,
    source_stamp,
)
from gttf_sampler._backends.compiling import CompileError

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
        if not is_safe(Path(self._cache_path).parent):  # also before it writes
            return {}
        try:
            with open(self._index_path, "rb") as file:
                self._trust(file.fileno())
                pickle.load(file)  # the version
                _checked(file.read())
            return super()._load_index()
        except Exception:
            return {}

    def _load_data(self, name: str) -> Any:
        with open(self._data_path(name), "rb") as file:
            self._trust(file.fileno())
            return pickle.loads(_checked(file.read()))

    def _trust(self, file: int) -> None:
        """Refuses a file that others may have written; there, they have no access."""
        there = is_private(Path(self._cache_path).parent)
        if not there and not only_ours(os.fstat(file)):
            raise PermissionError("a file of machine code that others can write to")

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
        """A locator; None if there is no folder that can be trusted."""
        folders = kernel_folders()
        return cls(py_func, py_file, folders[0]) if folders else None


class _Files(caching.CompileResultCacheImpl):
    _locator_classes: ClassVar[list[Any]] = [_Locator]


class _Cache(caching.FunctionCache):
    """The files of one function, checked: those of its own, and others to read.

    Numba compiles anew when the file of a kernel has changed; here, whenever `stamp`
    has, as what a kernel calls may be in another file.
    """

    _impl_class = _Files

    def __init__(self, py_func: Any, stamp: str) -> None:
        super().__init__(py_func)
        self._all = [
            CheckedCacheFile(str(folder), self._impl.filename_base, stamp)
            for folder in kernel_folders()
        ]

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        found = None
        for file in self._all:
            if found is None:
                self._cache_file = file
                found = super()._load_overload(sig, target_context)
        self._cache_file = self._all[0]
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keeps a kernel, unless the disk is full or not to be written."""
        with suppress(OSError):
            super().save_overload(sig, data)


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


GOLDEN = np.uint64(random.GOLDEN & random.WORD)
ONE, HALF = np.uint64(1), np.uint64(32)
AHEAD = np.uint64(48)  # how many entries ahead memory is asked for what it holds
_FIRST, _SECOND = (np.uint64(each & random.WORD) for each in random.MULTIPLIERS)
_LOW32 = np.uint64(random.LOW32)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)


def compiled(function, **how):
    """The function as machine code, kept on disk where there is a place to keep it."""
    kernel = numba.njit(nogil=True, **how)(function)
    with suppress(RuntimeError):  # no folder of the user's own: compile every time
        guard(kernel, source_stamp())
    kernel._compile_for_args = partial(_compile, kernel._compile_for_args)
    return kernel


def _compile(compile_for, *args):
    """Compiles for some arguments; one error says that this cannot be done here."""
    try:
        return compile_for(*args)
    except Exception as error:  # of numba, of LLVM or of the system
        first = next(iter(str(error).splitlines()), "no reason")
        raise CompileError(f"{type(error).__name__}: {first}") from error


def _ask(context, builder, where):
    """Emits the instruction that asks memory for what a pointer to bytes points to."""
    byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
    call = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
    builder.call(call, [where, number(0), number(3), number(1)])
    return context.get_dummy_value()


@intrinsic
def prefetch(_, array, index):
    """Asks memory for array[index], which is read soon, and does not wait for it."""

    def emit(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        place = builder.gep(data, [args[1]])
        byte = ir.IntType(8).as_pointer()
        return _ask(context, builder, builder.bitcast(place, byte))

    return types.void(array, index), emit


@intrinsic
def prefetch_address(_, address):
    """Asks memory for what is at an address, and does not wait for it."""

    def emit(context, builder, signature, args):
        byte = ir.IntType(8).as_pointer()
        return _ask(context, builder, builder.inttoptr(args[0], byte))

    return types.void(address), emit


@compiled
def mix(word):
    word = (word ^ (word >> _30)) * _FIRST
    word = (word ^ (word >> _27)) * _SECOND
    return word ^ (word >> _31)


@compiled
def bits(stream, draw):
    return mix(stream + (draw + ONE) * GOLDEN)


@compiled
def below(word, bound):
    return (((word & _LOW32) * bound >> HALF) + (word >> HALF) * bound) >> HALF


@intrinsic
def below_wide(_, word, bound):
    """⌊word · bound / 2⁶⁴⌋ of unsigned numbers: the upper half of one product."""

    def emit(context, builder, signature, args):
        wide = ir.IntType(128)
        left, right = (builder.zext(arg, wide) for arg in args)
        upper = builder.lshr(builder.mul(left, right), wide(64))
        return builder.trunc(upper, ir.IntType(64))

    return types.uint64(word, bound), emit


def word(key: random.Key) -> Any:
    """A key as the unsigned number that kernels take."""
    return np.uint64(int(key) & random.WORD)


def words(key: random.Key, count: int) -> Any:
    """The keys of so many sub-tasks, uint64 [count]."""
    return np.array(
        [int(own) & random.WORD for own in random.folds(key, count)], np.uint64
    )
