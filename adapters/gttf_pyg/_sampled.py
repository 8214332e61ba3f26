"""SampledEdgeIndex: the edges of a batch, with what is known of how they were drawn."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gttf_pyg._sample import Sample

# What gives the same edges, in other memory or on another device.
SAME = {
    Tensor.to,
    Tensor.cpu,
    Tensor.cuda,
    Tensor.clone,
    Tensor.detach,
    Tensor.contiguous,
    Tensor.pin_memory,
    Tensor.long,
    Tensor.int,
}


class SampledEdgeIndex(Tensor):
    """A tensor [2, e] whose `sample` says how its edges were drawn.

    Moving and copying keep the sample, and so does leaving out the last hops, as
    `trim_to_layer` does. Every other operation gives a plain tensor.
    """

    sample: Sample
    version: int | None

    @staticmethod
    def of(edge_index: Tensor, sample: Sample) -> SampledEdgeIndex:
        """These edges with their sample."""
        found = edge_index.as_subclass(SampledEdgeIndex)
        found.sample = sample
        found.version = None if found.is_inference() else found._version
        return found

    @property
    def as_drawn(self) -> bool:
        """Whether nobody has changed the edges in place, where torch counts that."""
        return self.version is None or self.version == self._version

    @property
    def plain(self) -> Tensor:
        """The same memory as an ordinary tensor."""
        with torch._C.DisableTorchFunctionSubclass():
            return self.as_subclass(Tensor)

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            found = func(*args, **(kwargs or {}))
        kind = type(found)
        if kind is Tensor or kind is SampledEdgeIndex:
            if not hasattr(found, "sample") and _keeps(func, args, kwargs or {}):
                return SampledEdgeIndex.of(found, args[0].sample)
            if kind is SampledEdgeIndex and not hasattr(found, "sample"):
                return found.plain
        return found

    def __deepcopy__(self, memo: dict[int, Any]) -> SampledEdgeIndex:
        if id(self) not in memo:
            memo[id(self)] = self.clone()
        found: SampledEdgeIndex = memo[id(self)]
        return found

    def __reduce_ex__(self, protocol: Any) -> Any:
        return SampledEdgeIndex.of, (self.plain, self.sample)


def _keeps(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether what `func` gives are still the edges that were drawn."""
    if not isinstance(args[0], SampledEdgeIndex):
        return False
    if func in SAME:
        return True
    if func is Tensor.narrow:
        named = dict(zip(("dim", "start"), args[1:], strict=False)) | kwargs
        return named["dim"] in (1, -1) and named["start"] == 0
    return False
