"""mapped(): memory of the host that kernels of a CUDA device read in its place.

Unified virtual addressing gives locked memory of the host an address that the device
can use as well. Torch locks memory (`cudaHostRegister`), and takes tensors from whoever
has a `__cuda_array_interface__`; together they make a tensor of the device that nobody
has copied. Every row that a kernel reads then comes over the bus, and no other.
"""

import weakref
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import _check

PORTABLE = 1  # cudaHostRegisterPortable: locked for all devices


def mapped(values: Tensor, device: torch.device) -> Tensor:
    """`values` of the host as a tensor on `device`, in the same memory.

    Args:
        values: contiguous; its memory is locked as long as it lives.
        device: a CUDA device.
    """
    if not values.is_contiguous():
        _check.fail("uva", "needs features that are contiguous", "others")
    if values.numel() == 0:
        return values.to(device)
    with torch.cuda.device(device):  # whose address torch is to find
        if not values.is_pinned():
            _lock(values)
        found: Tensor = torch.as_tensor(_Bytes(values), device=device)
    return found.view(values.dtype).view(values.shape)


class _Bytes:
    """Bytes of a tensor, as CUDA libraries describe theirs; it keeps them alive."""

    def __init__(self, values: Tensor) -> None:
        self.values = values

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "shape": (self.values.nbytes,),
            "typestr": "|u1",
            "data": (self.values.data_ptr(), False),
            "strides": None,
        }


def _lock(values: Tensor) -> None:
    """Locks the memory of a tensor in its place until its storage goes."""
    runtime: Any = torch.cuda.cudart()
    place = values.data_ptr()
    code = runtime.cudaHostRegister(place, values.nbytes, PORTABLE)
    if int(code):
        got = f"CUDA error {int(code)}, {runtime.cudaGetErrorString(code)}"
        cure = "a memory map, or memory that is locked already, cannot be"
        _check.fail("uva", "needs features whose memory can be locked", got, cure)
    weakref.finalize(values.untyped_storage(), runtime.cudaHostUnregister, place)
