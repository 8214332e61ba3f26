"""What `GTTFLoader` and `GTTFLinkLoader` do alike: keys, memory and prefetching."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import get_worker_info

from gttf_pyg._keys import KeyedCollate, KeyedLoader
from gttf_pyg._prefetch import Ahead
from gttf_pyg._reuse import reused_memory


class Batches(KeyedLoader):
    """Mixed into a loader of PyG, in front of it."""

    prefetch: int
    collate_fn: Callable[[Any], Any]

    def use_keys(self) -> None:
        """Has every batch drawn with its key; for the end of a constructor."""
        self.collate_fn = KeyedCollate(self)

    def __iter__(self) -> Iterator[Any]:
        batches = super().__iter__()
        return Ahead(batches, self.prefetch) if self.prefetch else batches

    def filter_fn(self, out: Any) -> Any:
        """Joins what was sampled with its features."""
        if get_worker_info() is not None:  # where PyG gathers into shared memory
            return super().filter_fn(out)  # type: ignore[misc]
        nodes = [out.node] if isinstance(out.node, torch.Tensor) else out.node.values()
        with reused_memory(sum(ids.numel() for ids in nodes)):
            return super().filter_fn(out)  # type: ignore[misc]
