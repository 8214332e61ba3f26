"""Names of torch that differ between versions, or that torch keeps private.

tests/core/test_compat.py fails where torch changes one, and says which.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._pytree import tree_leaves as tree_leaves
from torch.utils.data import dataloader
from torch.utils.data._utils.pin_memory import pin_memory as pin_memory

# torch 2.2 has it in another place; a compiler knows the function itself by either name
is_compiling: Callable[[], bool] = (
    torch.compiler.is_compiling
    if hasattr(torch.compiler, "is_compiling")
    else torch._utils.is_compiling
)

# What torch's DataLoader keeps private and our loaders need.
BaseIterator: Any = dataloader._BaseDataLoaderIter
PRIVATE_OF_LOADER = (
    *("_index_sampler", "_get_iterator", "_iterator"),
    *("_auto_collation", "_dataset_kind"),
)
PRIVATE_OF_ITERATOR = (
    *("_sampler_iter", "_next_data", "_num_workers", "_timeout"),
    *("_pin_memory", "_pin_memory_device", "_base_seed"),
)


HOOKS = (
    *("_forward_hooks", "_forward_pre_hooks"),
    *("_backward_hooks", "_backward_pre_hooks"),
)

T = TypeVar("T")


def assert_async(sound: Tensor, message: str) -> None:
    """Raises an error on the device unless `sound`, bool [], without waiting for it."""
    torch._assert_async(sound, message)


def version_of(tensor: Tensor) -> int | None:
    """The number of changes in place; None where torch does not count them."""
    return None if tensor.is_inference() else tensor._version


def default_store() -> Any:
    """The key-value store at which the processes of `torch.distributed` have met."""
    return dist.distributed_c10d._get_default_store()


def has_hooks(module: Any, owner: Any = None) -> bool:
    """True if code of anybody but the owner runs before or after a module's own."""
    every = [hook for name in HOOKS for hook in getattr(module, name).values()]
    return any(getattr(hook, "__self__", module) is not owner for hook in every)


def hook_of(module: Any, kind: type[T]) -> T | None:
    """The forward pre-hook of a module that is a `kind`, or the owner of one."""
    for hook in module._forward_pre_hooks.values():
        owner = getattr(hook, "__self__", hook)
        if isinstance(owner, kind):
            return owner
    return None


class Shadows:
    """Attributes of modules that hide their own for a while.

    They are set in the `__dict__` of an instance, which is looked up before methods of
    its class and before submodules, and where `state_dict` does not look.
    """

    def __init__(self) -> None:
        self._own: list[tuple[Any, str, Any]] = []

    def put(self, module: Any, name: str, value: Any) -> None:
        """Hides an attribute of a module until `restore`."""
        self._own.append((module, name, module.__dict__.get(name, self)))
        module.__dict__[name] = value

    def restore(self, count: int = 0) -> None:
        """Shows all attributes again but the first `count` that were hidden."""
        while len(self._own) > count:
            module, name, value = self._own.pop()
            module.__dict__.pop(name, None)
            if value is not self:
                module.__dict__[name] = value

    @staticmethod
    def seen(module: Any, name: str) -> Any:
        """The value that hides an attribute of a module now, or None."""
        return module.__dict__.get(name)

    def __len__(self) -> int:
        return len(self._own)


def fetcher_of(loader: Any) -> Callable[[Any], Any]:
    """Index → batch, as a worker of this DataLoader makes it."""
    how = loader._auto_collation, loader.collate_fn, loader.drop_last
    create: Any = dataloader._DatasetKind.create_fetcher
    fetcher = create(loader._dataset_kind, loader.dataset, *how)
    return fetcher.fetch  # type: ignore[no-any-return]


def onednn_linear() -> Callable[..., Tensor] | None:
    """Torch's product of float32 by oneDNN, which it keeps for compiled code; or None.

    It takes x, weight, bias, and the name, the numbers and the variant of a function
    that is applied to the result: "none", [], "".
    """
    return _onednn_linear() if getattr(torch.backends.mkldnn, "enabled", True) else None


@cache
def _onednn_linear() -> Callable[..., Tensor] | None:
    if not torch.backends.mkldnn.is_available():
        return None
    try:
        found: Callable[..., Tensor] = torch.ops.mkldnn._linear_pointwise.default
    except (AttributeError, RuntimeError):
        return None
    return found


def is_watched() -> bool:
    """True if operations on the CPU are cast, transformed or looked at on their way."""
    new = hasattr(torch, "get_autocast_dtype")  # from torch 2.4 on
    if torch.is_autocast_enabled("cpu") if new else torch.is_autocast_cpu_enabled():
        return True
    if torch._C._len_torch_dispatch_stack():
        return True
    return torch._C._functorch.peek_interpreter_stack() is not None
