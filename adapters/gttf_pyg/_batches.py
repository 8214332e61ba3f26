"""What `GTTFLoader` and `GTTFLinkLoader` do alike: keys, memory and prefetching."""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import get_worker_info

from gttf_pyg._keys import KeyedLoader, draw_key, untagged, use_key
from gttf_pyg._prefetch import Ahead
from gttf_pyg._reuse import reused_memory


class Batches(KeyedLoader):
    """Mixed into a loader of PyG, in front of it."""

    prefetch: int

    def __iter__(self) -> Iterator[Any]:
        batches = super().__iter__()
        return Ahead(batches, self.prefetch) if self.prefetch else batches

    def collate_fn(self, index: Any) -> Any:
        """Samples the batch of some positions in the input."""
        index, key = untagged(index)
        with use_key(draw_key(self.generator) if key is None else key):
            return super().collate_fn(index)  # type: ignore[misc]

    def filter_fn(self, out: Any) -> Any:
        """Joins what was sampled with its features."""
        if get_worker_info() is not None:  # where PyG gathers into shared memory
            return super().filter_fn(out)  # type: ignore[misc]
        nodes = [out.node] if isinstance(out.node, torch.Tensor) else out.node.values()
        with reused_memory(sum(ids.numel() for ids in nodes)):
            return super().filter_fn(out)  # type: ignore[misc]
