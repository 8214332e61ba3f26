"""A sampled graph that answers as the whole graph would, for layers that ask it."""

import copy
from functools import cache, partial
from typing import Any

import torch
from dgl.nn.pytorch.conv.pnaconv import AGGREGATORS, PNAConvTower
from torch import Tensor

from gttf_dgl._degrees import ARRIVE, DRAWABLE, LEAVE, column
from gttf_sampler.estimate import share


class Estimated:
    """Overrides of a DGLGraph: degrees of the whole graph, sums that estimate its sums.

    DGL's layers divide by `in_degrees` and `out_degrees`, and add up messages in
    `update_all`. Of δ messages |S| are there, drawn uniformly: their sum times δ / |S|
    has the expectation of the sum of all.
    """

    def in_degrees(self: Any, *args: Any, **kwargs: Any) -> Tensor:
        """How many edges arrive at each node of the whole graph."""
        found: Tensor = self.dstdata[column(ARRIVE, self.canonical_etypes[0])]
        return found

    def out_degrees(self: Any, *args: Any, **kwargs: Any) -> Tensor:
        """How many edges leave each node of the whole graph."""
        found: Tensor = self.srcdata[column(LEAVE, self.canonical_etypes[0])]
        return found

    def update_all(
        self: Any, message_func: Any, reduce_func: Any, *args: Any, **kwargs: Any
    ) -> None:
        """As ever; sums are scaled, and towers of PNAConv read these degrees."""
        name = getattr(reduce_func, "name", None)  # of DGL's own functions
        if name is None:
            # DGL sorts nodes by the number of their messages, not by these degrees
            plain = copy.copy(self)
            plain.__class__ = type(self).__mro__[2]
            reduce_func = self._reducer(reduce_func)
            plain.update_all(message_func, reduce_func, *args, **kwargs)
            return
        super().update_all(message_func, reduce_func, *args, **kwargs)  # type: ignore[misc]
        if name != "sum":
            return
        out = self.dstdata[reduce_func.out_field]
        total = self.dstdata[column(DRAWABLE, self.canonical_etypes[0])]
        each = share(total.to(out.dtype), self.edges()[1])
        scaled = out * each.view(-1, *[1] * (out.dim() - 1))
        self.dstdata[reduce_func.out_field] = scaled

    def _reducer(self: Any, own: Any) -> Any:
        """What takes the place of a function that is not one of DGL's."""
        kind = self.canonical_etypes[0]
        tower = getattr(own, "__self__", None)
        if isinstance(tower, PNAConvTower):
            return partial(_reduce_tower, tower, column(ARRIVE, kind))
        return partial(_reduce_sum, own, column(DRAWABLE, kind))


def _reduce_sum(own: Any, drawable: str, nodes: Any) -> dict[str, Tensor]:
    """What a function of a layer adds up, scaled."""
    found = own(nodes)
    draws = next(iter(nodes.mailbox.values())).size(1)
    each = nodes.data[drawable] / draws
    return {k: x * each.view(-1, *[1] * (x.dim() - 1)).to(x) for k, x in found.items()}


def _reduce_tower(tower: Any, arrive: str, nodes: Any) -> dict[str, Tensor]:
    """What a tower of PNAConv makes of its messages, with degrees of the graph.

    Sums are scaled; other aggregators are those of the sample.
    """
    messages = nodes.mailbox["msg"]  # [n, draws, d]
    degree = nodes.data[arrive].to(messages.dtype).clamp(min=1).view(-1, 1)
    parts = []
    for name in tower.aggregators:
        part = AGGREGATORS[name](messages)
        parts.append(part * degree / messages.size(1) if name == "sum" else part)
    found = torch.cat(parts, dim=1)
    log = (degree + 1).log() / tower.delta
    by = {
        "identity": torch.ones_like(log),
        "amplification": log,
        "attenuation": 1 / log,
    }
    return {"h_neigh": torch.cat([found * by[name] for name in tower.scalers], dim=1)}


@cache
def _class_of(kind: Any) -> Any:
    """The overrides, on top of DGL's class of graphs or of blocks."""
    return type(f"Estimated{kind.__name__}", (Estimated, kind), {})


def view(graph: Any) -> Any:
    """`graph` as the layers of an unbiased model see it; nothing is copied."""
    found = copy.copy(graph)
    found.__class__ = _class_of(graph.__class__)
    return found
