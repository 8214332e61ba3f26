"""What our loaders beside the neighbour loaders have in common."""

from collections.abc import Callable
from typing import Any

from gttf_pyg._keys import KeyedCollate
from gttf_sampler._loading.keyed import KeyedLoader


class SeededLoader(KeyedLoader):
    """A DataLoader whose batches are drawn by keys, the same for any number of workers.

    The class before it gives `collate_fn(index)`, the batch of some positions among its
    seeds, and calls `use_keys` at the end of its constructor.
    """

    collate_fn: Callable[[Any], Any]
    transform: Any = None
    transform_sampler_output: Any = None

    def use_keys(self) -> None:
        """Has every batch drawn with its key."""
        self.collate_fn = KeyedCollate(self)

    def runs_only_ours(self) -> bool:
        """Whether workers would run nothing but code that is safe in a thread."""
        start = getattr(self.worker_init_fn, "func", self.worker_init_fn)
        given = (self.transform, self.transform_sampler_output, start)
        own = type(self).__module__.split(".")[0] == __name__.split(".")[0]
        return own and all(function is None for function in given)
