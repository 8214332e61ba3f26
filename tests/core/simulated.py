"""An accelerator made of CPU values: finds device mixing, counts syncs and launches.

Inside `with Accelerator() as gpu:` every torch call made from Python is seen. A tensor
made on, or moved to, "cuda" is a CPU tensor in disguise that says it is on cuda:0. An
operation that sees a disguised tensor and a plain one of more than zero dimensions
raises `DeviceMixError`, as a real device would, and every call that would make the host
wait for a real device is noted in `gpu.syncs`. Inside `with gpu.counting():`, what
would be a kernel there is noted in `gpu.launches`: every ATen operation below that is
neither a view nor an allocation. A kernel that is launched by other means is for its
test to note.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

CUDA = torch.device("cuda", 0)

WAITS = {
    *(Tensor.item, Tensor.tolist, Tensor.numpy, Tensor.cpu, Tensor.__bool__),
    *(Tensor.__int__, Tensor.__float__, Tensor.__index__, Tensor.__array__),
    *(Tensor.nonzero, torch.nonzero, torch.argwhere, Tensor.argwhere),
    *(Tensor.unique, torch.unique, Tensor.bincount, torch.bincount),
    *(torch.unique_consecutive, Tensor.unique_consecutive),
    *(Tensor.masked_select, torch.masked_select, Tensor.equal, torch.equal),
    *(torch.allclose, Tensor.allclose, torch.multinomial, Tensor.multinomial),
    *(torch.isin, Tensor.coalesce, Tensor.new_tensor),
}
MASKS = (torch.bool, torch.uint8)


NO_KERNEL = {  # beside views
    *("empty", "empty_like", "empty_strided", "new_empty", "detach", "alias"),
    *("_unsafe_view", "lift_fresh", "_local_scalar_dense", "resolve_neg"),
    *("resolve_conj", "set_", "resize_"),
}


class DeviceMixError(RuntimeError):
    """A tensor on the accelerator met one that is not."""


class _Disguised(Tensor):
    """A CPU tensor that passes for one on the accelerator."""

    __torch_function__ = torch._C._disabled_torch_function_impl


def _dress(value: Any) -> Any:
    """`value` in disguise; sparse tensors have no storage to hide and stay plain."""
    dense = isinstance(value, Tensor) and value.layout is torch.strided
    if dense and not isinstance(value, _Disguised):
        return value.as_subclass(_Disguised)
    return value


def _undress(value: Any) -> Any:
    return value.as_subclass(Tensor) if isinstance(value, _Disguised) else value


def _map(change: Any, value: Any) -> Any:
    """tree_map that also looks into slices."""
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(_map(change, part) for part in value)
    if isinstance(value, slice):
        parts = (value.start, value.stop, value.step)
        return slice(*(_map(change, part) for part in parts))
    return tree_map(change, value)


def _tensors(value: Any) -> list[Tensor]:
    found = []
    for leaf in tree_leaves(value):
        if isinstance(leaf, slice):
            found += _tensors([leaf.start, leaf.stop, leaf.step])
        elif isinstance(leaf, Tensor):
            found.append(leaf)
    return found


def _is_cuda(device: Any) -> bool:
    return device is not None and torch.device(device).type == "cuda"


class _Launches(TorchDispatchMode):
    """Notes every operation that a device would run a kernel for."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names = names

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if not func.is_view and name not in NO_KERNEL:
            self.names.append(name)
        return func(*args, **(kwargs or {}))


class Accelerator(TorchFunctionMode):
    """The simulation.

    Attributes:
        syncs: what the host had to wait for.
        launches: the kernels of what it has seen since `counting` was entered.
    """

    def __init__(self) -> None:
        super().__init__()
        self.syncs: list[str] = []
        self.launches: list[str] = []

    @contextmanager
    def counting(self) -> Iterator["Accelerator"]:
        """Starts both lists anew, and notes launches for the length of the block."""
        self.syncs.clear()
        self.launches.clear()
        with _Launches(self.launches):
            yield self

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        disguised = bool(args) and isinstance(args[0], _Disguised)
        if func == Tensor.device.__get__:
            return CUDA if disguised else func(*args)
        if func == Tensor.is_cuda.__get__:
            return disguised or func(*args)
        if func is Tensor.to:
            return self._move(args, kwargs)
        if func is Tensor.cpu and disguised:
            self.syncs.append("cpu")
            return _undress(args[0]).clone()
        if func is torch._has_compatible_shallow_copy_type:  # asked to move a module
            return disguised == isinstance(args[1], _Disguised) and func(*args)
        if func is torch._assert_async:
            return func(*_map(_undress, args), **kwargs)
        if kwargs.get("device") is not None:
            return self._make(func, args, kwargs)
        tensors = _tensors((args, kwargs))
        if not any(isinstance(t, _Disguised) for t in tensors):
            return func(*args, **kwargs)
        plain = [t for t in tensors if not isinstance(t, _Disguised) and t.dim()]
        if plain:
            shape = tuple(plain[0].shape)
            raise DeviceMixError(f"{func.__name__}: met a CPU tensor of shape {shape}")
        self._note_sync(func, args, kwargs, tensors)
        result = func(*_map(_undress, args), **_map(_undress, kwargs))
        in_place = func.__name__.endswith("_") and not func.__name__.endswith("__")
        return args[0] if in_place and disguised else tree_map(_dress, result)

    def _move(self, args, kwargs):
        """Tensor.to: between the host and the accelerator it waits."""
        source, was_cuda = args[0], isinstance(args[0], _Disguised)
        if len(args) > 1 and isinstance(args[1], Tensor):  # where that one is
            there = args[1]
            place = CUDA if isinstance(there, _Disguised) else torch.device("cpu")
            args = source, place, there.dtype, *args[2:]
        named = [a for a in args[1:] if isinstance(a, str | torch.device)]
        named += [kwargs.pop("device")] if kwargs.get("device") is not None else []
        cuda = _is_cuda(named[0]) if named else was_cuda
        rest = [a for a in args[1:] if not isinstance(a, str | torch.device)]
        if named and rest:  # what follows a device
            order = ("dtype", "non_blocking", "copy")
            kwargs.update(zip(order, rest, strict=False))
            rest = []
        moved = Tensor.to(_undress(source), *rest, **kwargs)
        if cuda != was_cuda:
            self.syncs.append("to")
            moved = moved.clone()
        return _dress(moved) if cuda else moved

    def _make(self, func, args, kwargs):
        """A factory with a device: from a Python list it is a copy, which waits."""
        cuda = _is_cuda(kwargs["device"])
        kwargs["device"] = "cpu"
        if cuda and func in (torch.tensor, torch.as_tensor):
            self.syncs.append(func.__name__)
        result = func(*_map(_undress, args), **_map(_undress, kwargs))
        return tree_map(_dress, result) if cuda else result

    def _note_sync(self, func, args, kwargs, tensors):
        """Notes the calls whose result or shape the host must wait for."""
        name = func.__name__
        if func in WAITS:
            self.syncs.append(name)
        elif func in (Tensor.__getitem__, Tensor.__setitem__):
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            if any(isinstance(i, slice) and _tensors([i]) for i in index):
                self.syncs.append(f"{name} by a slice of tensors")
            for part in index:
                if isinstance(part, Tensor) and part.dtype in MASKS:
                    self.syncs.append(f"{name} by mask")
                elif isinstance(part, Tensor) and part.dim() == 0:
                    self.syncs.append(f"{name} by number")
        elif name == "repeat_interleave":
            counts = len(tensors) > 1 and kwargs.get("output_size") is None
            if counts:
                self.syncs.append(name)
        elif name == "where" and len(args) == 1:
            self.syncs.append(name)
