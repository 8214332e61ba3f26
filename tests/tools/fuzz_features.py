"""The fuzzer's calls of what stands between rows on disk and a device.

A feature file is written at random, of every dtype and encoding, and read in many ways,
also around the system's cache (`O_DIRECT`); all of them must give the same rows. Pinned
buffers are lent to threads by a device whose copies end when they like.
"""

import random
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from fuzz_checks import hold
from gttf_sampler import FeatureFile
from gttf_sampler._loading.streams import PinnedBuffers

FLOATS = ("float16", "bfloat16", "float32", "float64")
DTYPES = (*FLOATS, "bool", "uint8", "int8", "int16", "int32", "int64", "complex64")
SHAPES = ((), (1,), (3,), (2, 5), (0,), (64,), (1000,), (4097,))
ERRORS = {"float16": 2**-11, "bfloat16": 2**-8, "int8": 1 / 254}


def feature_file(**how: Any) -> FeatureFile:
    """Ten rows of three numbers, opened anew."""
    from fuzz_calls import folder

    path = folder("x.npy")
    FeatureFile.from_array(path, torch.arange(30.0).view(10, 3)).close()
    return FeatureFile(path, **how)


def values_of(draw: random.Random) -> Tensor:
    """Rows of any dtype and shape."""
    shape = draw.choice([0, 1, 2, 7, 60, 500]), *draw.choice(SHAPES)
    dtype = getattr(torch, draw.choice(DTYPES))
    generator = torch.Generator().manual_seed(draw.randrange(2**40))
    rows = torch.randn(shape, generator=generator, dtype=torch.float64)
    rows *= 10.0 ** draw.choice([-6, 0, 0, 0, 4])
    if not dtype.is_floating_point:
        rows = rows.clamp(-100, 100)
    rows = rows.clamp(0, None) if dtype == torch.uint8 else rows
    return rows.to(dtype)


def close_to(found: Tensor, values: Tensor, stored: str | None) -> bool:
    """True if rows are those stored, within the promise of the encoding."""
    if stored is None or stored == str(values.dtype).removeprefix("torch."):
        return torch.equal(found, values)
    if not values.numel():
        return found.shape == values.shape
    size = values.double().abs().reshape(len(values), -1)
    most = size.amax(1, keepdim=True) if stored == "int8" else size
    own = torch.finfo(values.dtype).eps * most + 2**-24  # of the dtype, and near zero
    off = (found.double() - values.double()).abs().reshape(len(values), -1)
    return bool((off <= most * ERRORS[stored] + own).all())


def featured(number: Any) -> FeatureFile:
    """A file that is read in any way gives the same rows."""
    from fuzz_calls import folder

    draw, path = random.Random(repr(number)), folder("x.npy")
    values = values_of(draw)
    floats = values.is_floating_point()
    stored = draw.choice([None, *ERRORS]) if floats else None
    made = FeatureFile.from_array
    chunks: Any = values
    if draw.random() < 0.3:
        made = FeatureFile.from_chunks
        chunks = values.split(draw.choice([1, 5, 100])) if len(values) else [values]
    made(path, chunks, stored=stored).close()
    file = FeatureFile(path, direct=draw.choice([None, False, True]))
    hold(file.shape == values.shape and file.dtype == values.dtype, "another shape")
    everything = FeatureFile(path, direct=False).validate()[:]
    hold(close_to(everything, values, stored), f"other rows than {stored} may be")

    def reads(own: random.Random) -> None:
        for _ in range(own.choice([1, 6])):
            if own.random() < 0.4:
                _cache(file, own)  # also while others read
            _read(file, everything, own)

    at_once(reads, draw, draw.choice([1, 1, 4]))
    return file


def at_once(work: Callable[[random.Random], None], draw: random.Random, n: int) -> None:
    """Does some work in n threads; raises what one of them has raised."""
    told: list[BaseException] = []

    def run(own: random.Random) -> None:
        try:
            work(own)
        except BaseException as error:
            told.append(error)

    seeds = [random.Random(draw.random()) for _ in range(n)]
    threads = [threading.Thread(target=run, args=(seed,)) for seed in seeds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in told:
        raise error


def _cache(file: FeatureFile, draw: random.Random) -> None:
    """Another cache, or none; one too small for a row is refused."""
    kept = [draw.randrange(len(file)) for _ in range(5)] if len(file) else []
    size = draw.choice([0, 100, 5000, file.nbytes // 3 + 4 * len(file), 10**7])
    with suppress(ValueError):
        file.cache(size, draw.choice([None, kept]))


def _read(file: FeatureFile, rows: Tensor, draw: random.Random) -> None:
    """One read: new memory, or rows of memory that is there, of which others stay."""
    count = draw.choice([0, 1, 3, 200]) if len(rows) else 0
    ids = torch.tensor([draw.randrange(len(rows)) for _ in range(count)]).long()
    if draw.random() < 0.5:
        hold(torch.equal(file.read(ids), rows[ids]), "other rows")
        return
    out = torch.zeros(count + 4, *rows.shape[1:], dtype=rows.dtype)
    place = torch.tensor(draw.sample(range(count + 4), count)).long()
    expected = out.clone()
    expected[place] = rows[ids]
    hold(torch.equal(file.rows(ids, out, place), expected), "other rows at places")


class Copies:
    """A device whose copies are done when chance says so."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw

    def event(self, stream: Any) -> list[bool]:
        return [False]

    def done(self, event: list[bool]) -> bool:
        event[0] |= self.draw.random() < 0.3
        return event[0]

    def finish(self, event: list[bool]) -> None:
        event[0] = True

    def pinned(self, size: int) -> Tensor:
        return torch.empty(size, dtype=torch.uint8)


def pinned(number: Any) -> None:
    """Threads that borrow buffers at once: nobody gets what another one has."""
    draw = random.Random(repr(number))
    buffers, lent = PinnedBuffers(Copies(draw)), set()  # type: ignore[arg-type,var-annotated]

    def borrow(own: random.Random) -> None:
        mark = own.randrange(256)
        for _ in range(20):
            size = own.choice([0, 1, 300, 4000, 10**5])
            with buffers.lent(size, None) as memory:
                hold(memory.numel() >= size, "too small")
                hold(memory.data_ptr() not in lent, "another one has it")
                lent.update([memory.data_ptr()] if memory.numel() else [])
                memory.fill_(mark)
                hold(bool((memory == mark).all()), "another one writes there")
                lent.discard(memory.data_ptr())

    at_once(borrow, draw, draw.choice([1, 2, 8]))
