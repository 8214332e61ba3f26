"""Messages between processes: records and arrays as bytes, without pickle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from types import NoneType
from typing import Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from gttf_sampler._backends.memory import FEATURES
from gttf_sampler.random import signed

DTYPES = (
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.complex64, torch.complex128),
)
CODES = {dtype: code for code, dtype in enumerate(DTYPES)}
MOST_ARRAYS = 1 << 20  # in a message
ALIGNED = 8  # bytes; complex numbers are read as two of these
NONE = 0  # stands for the place of a tensor that there is none of

T = TypeVar("T")


def encode(record: Any) -> list[Tensor]:
    """A record as arrays: its numbers in the order of its fields, then its tensors.

    A record is a NamedTuple or dataclass of integers, tensors, lists and records.
    Integers [k] take half of the bytes where they fit, and come back as int64.
    """
    facts: list[int] = []
    arrays: list[Tensor] = []
    places: dict[int, int] = {}

    def add(value: Any) -> None:
        if value is None:
            facts.append(NONE)
        elif isinstance(value, Tensor):
            if id(value) not in places:  # relations share times
                arrays.append(narrow(value))
                places[id(value)] = len(arrays)
            facts.append(places[id(value)])
        elif isinstance(value, int):
            facts.append(signed(value))
        elif isinstance(value, list):
            facts.append(len(value))
            for each in value:
                add(each)
        else:
            kind: Any = type(value)
            for name in _fields(kind):
                add(getattr(value, name))

    add(record)
    return [torch.tensor(facts), *arrays]


def decode(kind: type[T], arrays: Sequence[Tensor]) -> T:
    """The record of a declared kind that arrays are; refuses what `encode` never makes.

    Its fields have the declared types; what is in them is for the reader to check.
    """
    try:
        if arrays[0].dtype != torch.int64:
            raise TypeError(arrays[0].dtype)
        wide = [x.to(torch.int64) if x.dtype == torch.int32 else x for x in arrays]
        found: T = _decoded(kind, iter(wide[0].tolist()), wide)
    except (StopIteration, IndexError, TypeError) as error:
        raise ValueError(f"a request that breaks off: {error!r}") from None
    return found


def _decoded(kind: Any, facts: Iterator[int], arrays: Sequence[Tensor]) -> Any:
    """A value of a declared type, from the next numbers."""
    if kind in (int, bool):
        return kind(next(facts))
    if get_origin(kind) is list:
        (inner,) = get_args(kind)
        return [_decoded(inner, facts, arrays) for _ in range(next(facts))]
    if kind is Tensor or Tensor in get_args(kind):
        place = next(facts)
        if place == NONE and NoneType in get_args(kind):
            return None
        if not 0 < place < len(arrays):
            raise IndexError(place)
        return arrays[place]
    own = _fields(kind).items()
    return kind(**{name: _decoded(field, facts, arrays) for name, field in own})


@cache
def _fields(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind).items()
    return {name: hint for name, hint in hints if get_origin(hint) is not ClassVar}


def narrow(array: Tensor) -> Tensor:
    """Integers in half of the bytes if they fit; other arrays as they are."""
    if array.dtype == torch.int64 and array.numel():
        least, most = array.aminmax()
        if int(least) >= -(1 << 31) and int(most) < 1 << 31:
            return array.to(torch.int32)
    return array


def pack(arrays: Sequence[Tensor]) -> Tensor:
    """uint8 [b]: how many arrays, the type and length of each, and their bytes."""
    message, views = blank([(array.dtype, array.numel()) for array in arrays])
    for view, array in zip(views, arrays, strict=True):
        view.copy_(array.reshape(-1))
    return message


def blank(about: Sequence[tuple[torch.dtype, int]]) -> tuple[Tensor, list[Tensor]]:
    """A message of arrays with these types and lengths, and where to write them."""
    head = [len(about)]
    for dtype, length in about:
        head += [CODES[dtype], length]
    used = [8 * len(head), *(length * dtype.itemsize for dtype, length in about)]
    message = FEATURES.make(sum(map(_padded, used)))
    message[: used[0]].view(torch.int64).copy_(torch.tensor(head))
    return message, _views(message, used[0], about)


def unpack(message: Tensor) -> list[Tensor]:
    """The arrays of a message, without copies; refuses one that `pack` did not make."""
    size = message.numel()
    count = int(message[:8].view(torch.int64)) if size >= 8 else -1
    head = 8 * (1 + 2 * count)
    if not 0 <= count <= MOST_ARRAYS or head > size:
        raise ValueError(f"a message of {size} bytes that names {count} arrays")
    said = message[8:head].view(torch.int64).tolist()
    about = []
    for code, length in zip(said[::2], said[1::2], strict=True):
        if not (0 <= code < len(DTYPES) and 0 <= length <= size):
            raise ValueError(f"an array of type {code} and length {length}")
        about.append((DTYPES[code], length))
    used = head + sum(_padded(length * dtype.itemsize) for dtype, length in about)
    if used != size:
        raise ValueError(f"a message of {size} bytes for arrays of {used}")
    return _views(message, head, about)


def need(arrays: Sequence[Tensor], count: int) -> Sequence[Tensor]:
    """Returns the arrays of a message if there are `count` of them, else refuses it."""
    if len(arrays) != count:
        raise ValueError(f"{len(arrays)} arrays where there must be {count}")
    return arrays


def need_ids(what: str, ids: Tensor, low: int, upper: int, size: int) -> Tensor:
    """Ids [size] from another process, which must lie in [low, upper); as int64."""
    if ids.dtype not in (torch.int32, torch.int64) or ids.numel() != size:
        got = f"{ids.numel()} of {ids.dtype}"
        raise ValueError(f"{what} must be {size} integers (got {got})")
    if size:
        least, most = (int(bound) for bound in ids.aminmax())
        if least < low or most >= upper:
            got = f"{least} to {most}"
            raise ValueError(f"{what} must lie in [{low}, {upper}) (got {got})")
    return ids.to(torch.int64)


def _views(
    message: Tensor, first: int, about: Sequence[tuple[torch.dtype, int]]
) -> list[Tensor]:
    """The arrays inside a message, from byte `first` on."""
    arrays = []
    for dtype, length in about:
        used = length * dtype.itemsize
        arrays.append(message[first : first + used].view(dtype))
        first += _padded(used)
    return arrays


def _padded(size: int) -> int:
    """The next size at which another array may begin."""
    return -(-size // ALIGNED) * ALIGNED
