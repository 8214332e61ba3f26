"""Says so, once per loader, when a layer divides by the degrees of a sample."""

import warnings
from typing import Any

from torch import Tensor
from torch_geometric.nn import MessagePassing

from gttf_pyg._layers import cure_of, divides_by_degree
from gttf_pyg._sampled import SampledEdgeIndex
from gttf_sampler._loading.watch import Watch
from gttf_sampler.estimate import SampledDegreeWarning


def watch(batch: Any) -> None:
    """Watches the modules that are called while this batch is out."""
    edges = [store.get("edge_index") for store in batch.edge_stores]
    shapes = {part.shape for part in edges if isinstance(part, Tensor)}
    if not shapes:
        return

    def look(module: Any, args: tuple[Any, ...]) -> bool:
        if not isinstance(module, MessagePassing) or cure_of(module) is not None:
            return False
        kind = type(module).__name__
        for value in args:
            # a batch may have been moved, and is another tensor then
            if not isinstance(value, Tensor) or value.shape not in shapes:
                continue
            if isinstance(value, SampledEdgeIndex) and value.sample.hops is not None:
                warnings.warn(
                    f"{kind} has taken the samples of all layers for one; call "
                    "'model = gttf_pyg.unbiased(model)' before training with "
                    "layerwise=True",
                    SampledDegreeWarning,
                    stacklevel=4,
                )
                return True
            if divides_by_degree(module) and not value.is_floating_point():
                warnings.warn(
                    f"{kind} has divided by the degrees of a sampled batch, which are "
                    "not those of the graph; call 'model = gttf_pyg.unbiased(model)' "
                    "before training",
                    SampledDegreeWarning,
                    stacklevel=4,
                )
                return True
        return False

    Watch(look, batch)
