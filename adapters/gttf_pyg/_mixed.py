"""Seeds of several node types in one batch."""

from __future__ import annotations

from typing import Any

import torch
from torch_geometric.sampler import NodeSamplerInput

from gttf_pyg._keys import key_of, with_key


class MixedNodes(NodeSamplerInput):
    """Seeds of several node types; positions run through one type after another.

    Attributes:
        parts: the seeds of every type, in the order of the data's types.
    """

    def __init__(self, parts: dict[str, NodeSamplerInput]) -> None:
        every = torch.cat([part.node for part in parts.values()])
        super().__init__(None, every)
        self.parts = parts

    def __getitem__(self, index: Any) -> MixedNodes:
        """Some of them, by their positions."""
        at = torch.as_tensor(index, dtype=torch.int64).view(-1)
        found, first = {}, 0
        for name, part in self.parts.items():
            size = part.node.numel()
            own = at[(at >= first) & (at < first + size)] - first
            found[name] = part[own]
            first += size
        picked: MixedNodes = with_key(MixedNodes(found), key_of(self))
        return picked


def sample_mixed(inputs: MixedNodes, sample: Any) -> Any:
    """What a sampler gives for seeds of several types."""
    seeds = {name: part.node for name, part in inputs.parts.items()}
    times = {name: part.time for name, part in inputs.parts.items()}
    none = any(time is None for time in times.values())
    out = sample(seeds, None if none else times)
    out.metadata = {
        name: (part.input_id, part.time) for name, part in inputs.parts.items()
    }
    return out
