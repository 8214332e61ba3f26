"""Labor: draws that the nodes of a batch share, and batches with each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from gttf_pyg._check import first_used
from gttf_pyg._compat import row_type
from gttf_sampler import LABORBias
from gttf_sampler._check import fail, integer, mistyped, shown, yes_or_no
from gttf_sampler._loading.seeded import BatchKey
from gttf_sampler.bias import Variates


class Labor(NamedTuple):
    """Options of `GTTFLoader(labor=...)`: neighbours that the nodes of a batch share.

    >>> from torch_geometric.datasets import KarateClub
    >>> from gttf_pyg import Labor, NeighborLoader
    >>> labor = Labor(layer_dependency=True, batch_dependency=16)
    >>> loader = NeighborLoader(KarateClub()[0], [5, 5], batch_size=8, labor=labor)
    >>> batch = next(iter(loader))
    >>> batch.edge_factor.shape == batch.e_id.shape  # how many edges each stands for
    True

    Every node has one random number per layer, for all edge types, and a neighbour is
    taken where that is small enough (Balin and Çatalyürek, 2023; `LABORBias`). Batches
    reach fewer nodes for the same variance. A node takes `num_neighbors` in the mean,
    not exactly; by `weight_attr` or a bias, fewer for the variance of so many draws.
    Sums of messages times `batch.edge_factor` are unbiased, and a model that `unbiased`
    was given multiplies by itself.

    Attributes:
        importance: rounds that favour neighbours of many nodes; negative ones go on
            while they help.
        layer_dependency: whether all layers use the same numbers.
        batch_dependency: over how many batches of an epoch the numbers change into
            others, so that batches share nodes, for caches; 0 keeps them all epoch.
    """

    importance: int = 0
    layer_dependency: bool = False
    batch_dependency: int = 1

    @classmethod
    def checked(cls, given: Any, sampler: Any) -> Labor | None:
        """The options of a sampler that can share its draws; None if it is not to."""
        if given is False or given is None:
            return None
        options = cls() if given is True else given
        if not isinstance(options, cls):
            mistyped("labor", "must be a bool or a gttf_pyg.Labor", shown(given))
        integer("importance", options.importance)
        yes_or_no("layer_dependency", options.layer_dependency)
        if integer("batch_dependency", options.batch_dependency) < 0:
            rule, cure = "must not be negative", "0 keeps the numbers for an epoch"
            fail("batch_dependency", rule, options.batch_dependency, cure)
        names = ("subgraph_type", "max_nodes", "max_edges")
        other = first_used(sampler, *names) or ("replace" if sampler.replace else None)
        if sampler.shares:
            other = "fractions of the degree"
        if sampler.is_temporal and sampler.temporal_strategy == "last":
            other = "temporal_strategy"
        if other is not None:
            fail("labor", f"must be False together with {other!r}", shown(given))
        return options

    def variates(self, key: int) -> Variates:
        """The numbers of a batch; one without an epoch has its own."""
        if self.batch_dependency == 1 or not isinstance(key, BatchKey):
            return Variates.of(key)
        if self.batch_dependency == 0:
            return Variates.of(key.epoch)
        return Variates.of_run(key.epoch, key.number, self.batch_dependency)

    def by_relation(
        self,
        inner: Mapping[Any, Any],
        fanouts: Mapping[Any, Sequence[int]],
        number: Mapping[str, int],
        key: int,
    ) -> dict[Any, LABORBias]:
        """A bias per relation; those with senders of one type share its numbers.

        Args:
            inner: what the sample stands for, where draws are not uniform.
            fanouts: per relation and hop.
            number: the places of the node types.
            key: of the batch.
        """
        root = self.variates(key)
        return {
            kind: LABORBias(
                hops,
                inner.get(kind),
                importance=self.importance,
                variate=[
                    root.part(0 if self.layer_dependency else hop)
                    .part(number[kind[0]])
                    .numbers
                    for hop in range(len(hops))
                ],
            )
            for kind, hops in fanouts.items()
        }

    def by_layer(self, inner: Any, fanouts: Sequence[int], key: int) -> list[Any]:
        """A bias per layer, each of which draws for all nodes that it needs."""
        root, how = self.variates(key), {"importance": self.importance}
        shared = self.layer_dependency
        parts = [root.part(0 if shared else i).part(0) for i in range(len(fanouts))]
        return [
            LABORBias(fanout, inner, variate=part.numbers, **how)
            for fanout, part in zip(fanouts, parts, strict=True)
        ]


def whole_rows(fanouts: Sequence[int]) -> list[int]:
    """The fanouts of walkers that look at all neighbours, where they take any."""
    return [-1 if fanout else 0 for fanout in fanouts]


def with_factors(out: Any, drawn: Mapping[Any, Sequence[LABORBias]], back: bool) -> Any:
    """A sample that tells, per edge, how many edges it stands for: `edge_factor`."""
    found = {}
    for kind, biases in drawn.items():
        device = out.node.device if torch.is_tensor(out.node) else None
        device = device or out.edge[row_type(kind, back)].device
        parts = [bias.factors_drawn(device) for bias in biases]
        found[row_type(kind, back)] = torch.cat(parts).float()
    one = torch.is_tensor(out.node)
    out.edge_factor = next(iter(found.values())) if one else found
    return out
