"""LoaderOptions: the arguments that node and link loaders share, and their checks."""

import inspect
from dataclasses import dataclass, fields
from typing import Any

import torch

from gttf_pyg._batch import Finish, gcn_weights
from gttf_pyg._partitioned import one_process
from gttf_pyg.sampler import GTTFSampler
from gttf_sampler._check import (
    INTEGERS,
    device_or_none,
    fail,
    integer,
    mistyped,
    shown,
    size,
    yes_or_no,
)

# The arguments of a sampler beside its data, by name.
SAMPLING = {
    name: parameter
    for name, parameter in inspect.signature(GTTFSampler).parameters.items()
    if name != "data"
}


@dataclass(frozen=True)
class LoaderOptions:
    """The arguments of a loader beside its data and seeds; see `GTTFLoader`.

    Attributes:
        rest: the arguments of PyG's own loader and of torch's DataLoader.
    """

    num_neighbors: Any
    replace: bool
    subgraph_type: Any
    disjoint: bool
    temporal_strategy: str
    time_attr: str | None
    weight_attr: Any
    is_sorted: bool
    directed: bool
    exclude_edges: Any
    bias: Any
    time_window: float | None
    layerwise: bool
    max_nodes: int | None
    max_edges: int | None
    neighbor_sampler: Any
    transform: Any
    transform_sampler_output: Any
    filter_per_worker: bool | None
    seed: int | None
    device: Any
    prefetch: int
    uva: bool
    index_dtype: torch.dtype | None
    thread_workers: bool | None
    normalize: str | None
    rest: dict[str, Any]

    def __post_init__(self) -> None:
        prefetch = size("prefetch", self.prefetch)
        if prefetch and self.num_workers:
            rule = "must be 0 beside workers, which work ahead by themselves"
            fail("prefetch", rule, prefetch, "set 'prefetch_factor'")
        device = device_or_none("device", self.device)
        if yes_or_no("uva", self.uva) and (device is None or device.type != "cuda"):
            rule = "must be False unless 'device' is a CUDA device"
            fail("uva", rule, f"True with {self.device!r}")

    @property
    def num_workers(self) -> Any:
        """The number of worker processes."""
        return self.rest.get("num_workers", 0)

    def sampler(self, data: Any) -> Any:
        """The sampler that was given, or a new one.

        What PyG's samplers do not know cannot be had from one that was given.
        """
        given = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name in SAMPLING
        }
        if self.neighbor_sampler is None:
            return GTTFSampler(data, **given)
        for name, value in given.items():
            ours = SAMPLING[name].kind is inspect.Parameter.KEYWORD_ONLY
            if ours and value is not None and value is not False:
                rule = "must be told to the 'neighbor_sampler' that is given"
                fail(name, rule, repr(value))
        return self.neighbor_sampler

    def of_host(self, data: Any, sampler: Any) -> dict[str, Any]:
        """The arguments of PyG's constructor of a loader beside data and seeds."""
        if self.index_dtype is not None and self.index_dtype not in INTEGERS:
            rule = "must be torch.int32, torch.int64 or None"
            fail("index_dtype", rule, shown(self.index_dtype))
        _prepare_workers(sampler, self.num_workers)
        return {
            "time_attr": self.time_attr,
            "transform_sampler_output": self.transform_sampler_output,
            "filter_per_worker": self.filter_per_worker,
            "thread_workers": self.thread_workers,
            "transform": self._transform(data, sampler),
            "neighbor_sampler": sampler,
            **seeded(self.rest, self.seed),
        }

    def _transform(self, data: Any, sampler: Any) -> Any:
        """The transform of a loader; the user's own if there is nothing else to do."""
        ours = (self.normalize, self.device, self.index_dtype)
        if all(option is None for option in ours):
            return self.transform
        weights = None
        if self.normalize is not None:
            weights = gcn_weights(data, sampler, self.normalize)
        return Finish(weights, self.device, self.transform, self.index_dtype)


def _prepare_workers(sampler: Any, num_workers: int) -> None:
    """Makes what workers can share; refuses them where they cannot use the device."""
    if num_workers == 0 or not isinstance(sampler, GTTFSampler):
        return
    one_process(sampler, num_workers)
    devices = {adj.device for adj in sampler.adjs.values()} - {torch.device("cpu")}
    if devices:
        rule = f"must be 0 where the graph is on {devices.pop()}"
        fail("num_workers", rule, num_workers, "use 'prefetch'")
    sampler.rows_travel = False  # our loaders leave them out of batches
    sampler.prepare()


def seeded(kwargs: dict[str, Any], seed: Any) -> dict[str, Any]:
    """The arguments of torch's DataLoader, with a generator made from `seed`.

    Without those that Lightning hands back and PyG's loaders make by themselves.
    """
    own = ("dataset", "collate_fn")
    kwargs = {name: value for name, value in kwargs.items() if name not in own}
    generator = kwargs.get("generator")
    if generator is not None and not isinstance(generator, torch.Generator):
        rule = "must be a torch.Generator"
        mistyped("generator", rule, shown(generator), "a number is a 'seed'")
    if seed is None:
        return kwargs
    if generator is not None:
        fail("seed", "must be None beside a 'generator'", shown(seed))
    number = integer("seed", seed)
    if not -(1 << 63) <= number < 1 << 64:
        fail("seed", "must have at most 64 bits", number)
    return {**kwargs, "generator": torch.Generator().manual_seed(number)}
