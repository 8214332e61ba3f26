"""What our loaders beside the neighbour loaders have in common."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from gttf_pyg._keys import KeyedCollate
from gttf_sampler import CompactAdj
from gttf_sampler._loading.keyed import KeyedLoader
from gttf_sampler._loading.state import SPOT, described

DRAWN = (
    *("num_neighbors", "num_samples", "sizes", "depth", "replace", "disjoint"),
    *("subgraph_type", "temporal_strategy", "time_attr", "time_window", "weight_attr"),
    *("bias", "exclude_edges", "max_nodes", "max_edges", "max_neighbors", "layerwise"),
    *("neg_sampling", "node_idx", "adj"),
)


def settings_of(loader: Any) -> dict[str, Any]:
    """All that the batches of a loader depend on beside their keys, by name."""
    sampler = getattr(loader, "node_sampler", getattr(loader, "link_sampler", None))
    found: dict[str, Any] = {}
    for name in DRAWN:
        owner = loader if name in vars(loader) else sampler
        if hasattr(owner, name):
            found[name] = getattr(owner, name)
    adjs = getattr(sampler, "adjs", None) or {}
    found["graph"] = {k: a for k, a in adjs.items() if isinstance(a, CompactAdj)}
    seeds = vars(loader.input_data) if hasattr(loader, "input_data") else {}
    found["seeds"] = {n: v for n, v in seeds.items() if isinstance(v, dict | Tensor)}
    return {name: described(value, SPOT) for name, value in found.items()}


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

    def settings(self) -> dict[str, Any]:
        """What batches depend on beside their indices and keys, by name."""
        return settings_of(self)

    def runs_only_ours(self) -> bool:
        """Whether workers would run nothing but code that is safe in a thread."""
        start = getattr(self.worker_init_fn, "func", self.worker_init_fn)
        given = (self.transform, self.transform_sampler_output, start)
        own = type(self).__module__.split(".")[0] == __name__.split(".")[0]
        return own and all(function is None for function in given)
