"""The time of every seed."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


def seed_times(
    seeds: Mapping[str, Tensor], given: Any, node_time: Any, edge_time: Any
) -> Tensor | None:
    """[b], in the order of `seeds` over all types; None where there are no times.

    Times that were given come first; without them, a seed has the time of its node.
    """
    if node_time is None and edge_time is None:
        return None
    if given is not None:
        given = given if isinstance(given, Mapping) else {"": given}
        return torch.cat([given[name] for name in seeds])
    if node_time is None:
        raise ValueError(
            "'input_time' must be given where the edges have times (got None)"
        )
    own = node_time if isinstance(node_time, Mapping) else {"": node_time}
    for name, ids in seeds.items():
        if name not in own and ids.numel():
            raise ValueError(
                f"'input_time' must be given for nodes without times (got None for "
                f"{name!r})"
            )
    parts = [_at(own[name], ids) for name, ids in seeds.items() if name in own]
    return torch.cat(parts)


def _at(time: Tensor, node: Tensor) -> Tensor:
    """The times of some nodes, on the device of the times."""
    if node.device.type == "cpu" and node.numel():
        low, high = (int(bound) for bound in node.aminmax())
        if low < 0 or high >= time.shape[0]:
            raise ValueError(
                f"'input_time' must be known for every node, [0, {time.shape[0]}) have "
                f"one (got {high if low >= 0 else low})"
            )
    return time[node.to(time.device)]
