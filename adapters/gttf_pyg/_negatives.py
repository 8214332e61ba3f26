"""PyG's negative sampling with random numbers of its own."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.sampler import NegativeSampling


def keyed(negatives: NegativeSampling, key: int) -> NegativeSampling:
    """The same negatives, drawn from `key`, unless a class of the user draws them."""
    if type(negatives).sample is not NegativeSampling.sample:
        return negatives
    return KeyedNegatives(negatives, key)


class KeyedNegatives(NegativeSampling):
    """The same `NegativeSampling`, drawn from the key of the batch.

    PyG's draws from torch's default generator, which is another one in every worker.
    """

    def __init__(self, negatives: NegativeSampling, key: int) -> None:
        self.__dict__.update(negatives.__dict__)
        self.generator = torch.Generator().manual_seed(key)

    def sample(
        self, num_samples: int, endpoint: str, num_nodes: int | None = None
    ) -> Tensor:
        """Nodes [num_samples], by weight where there are weights."""
        weight = self.src_weight if endpoint == "src" else self.dst_weight
        how: dict[str, Any] = {"generator": self.generator}
        if weight is None:
            if num_nodes is None:
                raise ValueError("'num_nodes' must be given without weights (got None)")
            return torch.randint(num_nodes, (num_samples,), **how)
        if num_nodes is not None and weight.numel() != num_nodes:
            raise ValueError(
                f"'{endpoint}_weight' must have one entry per node, {num_nodes} in all "
                f"(got {weight.numel()})"
            )
        return torch.multinomial(weight.cpu(), num_samples, replacement=True, **how)
