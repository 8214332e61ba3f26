"""GraphSAINT's draws: ids in proportion to weights, and starts of walks."""

from typing import Any

import torch
from torch import Tensor

from gttf_sampler import random
from gttf_sampler.bias.simple import EdgeWeightBias
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.rooted.sampler import RootedSampler

LOT = ("drawn", "from", "lot")


class WeightedDraw:
    """Draws ids with replacement, in proportion to their weights.

    One row that leads to every id, and rooted sampling from it.

    Args:
        weight: [n], of every id.
        count: how many are drawn.
    """

    def __init__(self, weight: Tensor, count: int) -> None:
        ends = torch.tensor([0, len(weight)], device=weight.device)
        every = torch.arange(len(weight), device=weight.device)
        adj = CompactAdj.from_csr(ends, every, len(every), edge_weight=weight)
        self._draw = RootedSampler({LOT: adj}, [count], replace=True)
        self._seeds = {"lot": torch.zeros_like(ends[:1])}

    def __call__(self, key: int) -> Tensor:
        """The ids that were drawn, each once and ascending."""
        drawn: Any = self._draw(
            self._seeds, bias={LOT: EdgeWeightBias()}, generator=key
        )
        found: Tensor = drawn.node["drawn"].sort().values
        return found


def draw_ids(count: int, upper: int, key: random.Key, device: torch.device) -> Tensor:
    """`count` ids below `upper`, each uniform and independent of the others."""
    place = torch.arange(count, device=device)
    word = random.bits(random.stream(key, place), 0)
    return random.below_wide(word, torch.full_like(place, upper))
