"""A sampled graph that answers as the whole graph would, for layers that ask it."""

import copy
from functools import cache
from typing import Any

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
        """As ever; sums are scaled."""
        super().update_all(message_func, reduce_func, *args, **kwargs)  # type: ignore[misc]
        if getattr(reduce_func, "name", None) != "sum":
            return
        out = self.dstdata[reduce_func.out_field]
        total = self.dstdata[column(DRAWABLE, self.canonical_etypes[0])]
        each = share(total.to(out.dtype), self.edges()[1])
        scaled = out * each.view(-1, *[1] * (out.dim() - 1))
        self.dstdata[reduce_func.out_field] = scaled


@cache
def _class_of(kind: Any) -> Any:
    """The overrides, on top of DGL's class of graphs or of blocks."""
    return type(f"Estimated{kind.__name__}", (Estimated, kind), {})


def view(graph: Any) -> Any:
    """`graph` as the layers of an unbiased model see it; nothing is copied."""
    found = copy.copy(graph)
    found.__class__ = _class_of(graph.__class__)
    return found
