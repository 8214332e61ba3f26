"""Messages: some arrays of numbers end to end, as one array of bytes."""

from collections.abc import Sequence

import torch
from torch import Tensor

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
    about = [len(arrays)]
    for array in arrays:
        about += [CODES[array.dtype], array.numel()]
    parts = [torch.tensor(about), *(array.reshape(-1) for array in arrays)]
    sizes = [_padded(part.numel() * part.element_size()) for part in parts]
    message = torch.empty(sum(sizes), dtype=torch.uint8)
    first = 0
    for part, size in zip(parts, sizes, strict=True):
        used = part.numel() * part.element_size()
        if used:
            message[first : first + used].view(part.dtype).copy_(part)
        first += size
    return message


def unpack(message: Tensor) -> list[Tensor]:
    """The arrays of a message, without copies."""
    count = int(message[:8].view(torch.int64))
    head = 8 * (1 + 2 * count)
    about = message[8:head].view(torch.int64).tolist()
    arrays, first = [], head
    for code, length in zip(about[::2], about[1::2], strict=True):
        dtype = DTYPES[code]
        used = length * dtype.itemsize
        arrays.append(message[first : first + used].view(dtype))
        first += _padded(used)
    return arrays


def _padded(size: int) -> int:
    """The next size at which another array may begin."""
    return -(-size // ALIGNED) * ALIGNED
