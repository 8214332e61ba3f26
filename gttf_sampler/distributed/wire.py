"""Messages: some arrays of numbers end to end, as one array of bytes."""

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
    """The arrays of a message, without copies."""
    count = int(message[:8].view(torch.int64))
    head = 8 * (1 + 2 * count)
    said = message[8:head].view(torch.int64).tolist()
    pairs = zip(said[::2], said[1::2], strict=True)
    return _views(message, head, [(DTYPES[code], length) for code, length in pairs])


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
