"""Features of a batch in memory that an earlier batch has given back.

PyG gathers with `torch.index_select`; inside `reused_memory` the engine's `gather_rows`
takes its place.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

from gttf_sampler import gather_rows

FEW_NODES = 1 << 12  # whose features are hardly ever large


class _ReusedMemory(TorchFunctionMode):
    """Lets `gather_rows` do what `torch.index_select` is asked for along rows."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        # By name, as PyG puts a function of its own in the place of torch's.
        chosen = func.__name__ == "index_select" and func is not Tensor.index_select
        plain = len(args) == 3 and type(args[0]) is Tensor and args[0].dim() > 0
        kwargs = kwargs or {}
        if chosen and plain and args[1] == 0 and kwargs.get("out") is None:
            return gather_rows(args[0], args[2])
        return func(*args, **kwargs)


def reused_memory(num_nodes: int) -> AbstractContextManager[Any]:
    """A context for the gathering of `num_nodes` nodes' features."""
    return _ReusedMemory() if num_nodes >= FEW_NODES else nullcontext()
