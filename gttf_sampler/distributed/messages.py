"""Serialisation: a message is some arrays of numbers end to end, as one of bytes."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gttf_sampler._backends.memory import FEATURES

DTYPES = (
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.complex64, torch.complex128),
)
CODES = {dtype: code for code, dtype in enumerate(DTYPES)}
MOST_ARRAYS = 1 << 20  # in a message
ALIGNED = 8  # bytes; complex numbers are read as two of these


def narrow(ids: Tensor, upper: int) -> Tensor:
    """Ids below `upper`, in half of the bytes if they fit."""
    return ids.to(torch.int32) if upper < 1 << 31 else ids.to(torch.int64)


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
    """The arrays of a message, of which there must be `count`."""
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
