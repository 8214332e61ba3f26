"""HeteroConv with one product per type of receivers, in place of two per relation.

Where the results of SAGEConvs are added up, Σᵣ (Aᵣ Wᵣ + x Vᵣ) is one product: all sums
side by side, [A₁ | A₂ | … | x], times the matrices one below the other, the last of
which is Σᵣ Vᵣ.
"""

from collections import Counter
from functools import reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch_geometric.nn import Linear, SAGEConv

from gttf_pyg._compat import plain, plain_but_for
from gttf_pyg._fuse import REDUCTIONS, Part, part_of
from gttf_pyg._lazy import Sums, first_rows, side_by_side
from gttf_pyg._sampled import SampledEdgeIndex
from gttf_sampler.linear import linear

GIVEN = ("x_dict", "edge_index_dict")


class FusedHetero:
    """The forward hooks of one HeteroConv, whose layers have a `FusedLayer` each.

    It gives the HeteroConv no edges, so that this calls none of its layers, and returns
    what they would have added up to. The first batch, from which a model learns which
    rows are read, goes through the layers.

    Args:
        fused_layer: finds the hooks of a layer; None where it has none.
        left: the reason why a layer is computed as ever on its edges, or None.
    """

    def __init__(self, fused_layer: Any, left: Any) -> None:
        self.fused_layer, self.left = fused_layer, left
        self.found: dict[str, Tensor] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "found": None}

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def before(self, layer: Any, args: Any, kwargs: Any) -> Any:
        """Computes the layer, and leaves it nothing to do; a forward pre-hook."""
        self.found = None  # of a call that was interrupted
        if not plain_but_for(layer, self):
            return None
        named = dict(zip(GIVEN, args, strict=False)) | kwargs
        if layer.aggr != "sum" or len(args) > 2 or named.keys() != {*GIVEN}:
            return None
        x, edges = (named[name] for name in GIVEN)
        if not isinstance(x, dict) or not isinstance(edges, dict):
            return None
        called = {kind: conv for kind, conv in layer.convs.items() if kind in edges}
        if not self._known(called, x, edges):
            return None
        terms = {
            kind: Term(conv, x[kind[0]], self._part(conv, x[kind[2]], edges[kind]))
            for kind, conv in called.items()
        }
        self.found = {
            kind: _added(
                [term for key, term in terms.items() if key[2] == kind], x[kind]
            )
            for kind in dict.fromkeys(key[2] for key in terms)
        }
        return (), {name: {} for name in GIVEN}

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def after(self, layer: Any, args: Any, out: Any) -> Any:
        """Returns what was computed; a forward hook, called after errors as well."""
        found, self.found = self.found, None
        return found

    def _known(self, called: dict[Any, Any], x: Any, edges: Any) -> bool:
        """True if all relations are sampled, and their layers are plain SAGEConvs."""
        to = Counter(kind[2] for kind in called)
        if max(to.values(), default=0) < 2:  # nothing to be added up
            return False
        return all(
            isinstance(edges[kind], SampledEdgeIndex)
            and isinstance(x.get(kind[0]), Tensor)
            and isinstance(x.get(kind[2]), Tensor)
            and x[kind[0]].dtype == x[kind[2]].dtype == conv.lin_l.weight.dtype
            and self._plain(conv, x[kind[0]], x[kind[2]], edges[kind])
            for kind, conv in called.items()
        )

    def _plain(self, conv: Any, source: Tensor, target: Tensor, edges: Any) -> bool:
        """True if a layer is its two products, with nobody who watches."""
        hooks, run = self.fused_layer(conv), edges.sample.run
        if type(conv) is not SAGEConv or hooks is None or not conv.root_weight:
            return False
        if not plain_but_for(conv, hooks) or conv.project or conv.normalize:
            return False
        if not all(
            type(part) is Linear and plain(part) and not is_lazy(part.weight)
            for part in (conv.lin_l, conv.lin_r)
        ):
            return False
        if run is not None and (run.plan is None or run.plan.padded):
            return False
        return self.left(conv, edges, {"x": (source, target)}) is None

    def _part(self, conv: Any, target: Tensor, edges: Any) -> Part:
        """The receivers that are computed, and the edges that lead there."""
        run = edges.sample.run
        hop = None if run is None else run.hop(self.fused_layer(conv))
        return part_of(edges, target.size(0), hop, 1)


class Term(NamedTuple):
    """A relation into a type of nodes: its SAGEConv, its senders' rows, its edges."""

    conv: Any
    x: Tensor
    part: Part

    @property
    def sums(self) -> Sums:
        """The sums or means per receiver."""
        part, how = self.part, REDUCTIONS[type(self.conv.aggr_module)]
        some = part.rows and part.num_edges
        return Sums(self.x, part.receivers(part.rows) if some else None, None, how)


def _added(terms: list[Term], target: Tensor) -> Tensor:
    """The sum of what several relations give the first rows of one type."""
    rows, sums = terms[0].part.rows, [term.sums for term in terms]
    near = [term.conv.lin_l for term in terms]
    own = reduce(torch.add, [term.conv.lin_r.weight for term in terms])
    biases = [part.bias for part in near if part.bias is not None]
    weight = torch.cat([*(part.weight for part in near), own], 1)
    bias = reduce(torch.add, biases) if biases else None
    tracked = target.requires_grad or any(part.x.requires_grad for part in sums)
    if target.device.type == "cpu" and not (tracked and torch.is_grad_enabled()):
        together = side_by_side(sums, target, rows)
    else:
        together = torch.cat(
            [*(part.tensor(rows) for part in sums), first_rows(target, rows)], 1
        )
    return linear(together, weight, bias)
