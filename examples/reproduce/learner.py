"""Learner: what a host hands to the training loop."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor, nn

from examples.reproduce.config import Method
from examples.reproduce.data import Dataset


class Step(NamedTuple):
    """One batch of training, computed by the model.

    Attributes:
        logits: [b, classes] of the seeds.
        seeds: [b], node ids.
        nodes: how many nodes the layers saw.
    """

    logits: Tensor
    seeds: Tensor
    nodes: int


@dataclass(frozen=True)
class Learner:
    """A model of a host on a graph, and one way to train it.

    Attributes:
        model: made of the host's own layers.
        steps: one epoch of training batches.
        logits: [n, classes] of all nodes, from their full neighbourhoods.
    """

    model: nn.Module
    steps: Callable[[], Iterable[Step]]
    logits: Callable[[], Tensor]

    def penalty(self) -> Tensor | float:
        """The model's own term of the loss; 0 for nearly all."""
        penalty = getattr(self.model, "penalty", None)
        return 0.0 if penalty is None else penalty()


def batches_of(method: Method, data: Dataset) -> dict[str, Any]:
    """Arguments of a host's loader: so many seeds at a time, or all of them."""
    size = method.options.get("batch")
    if size is None:
        return {"batch_size": data.train.numel()}
    return {"batch_size": int(size), "shuffle": True}
