"""A stage for GraphBolt's pipelines: `datapipe.sample_gttf(graph, fanouts)`.

import gttf_dgl.graphbolt  # makes the stage known
"""

from __future__ import annotations

from typing import Any

import dgl
import torch
from torch import Tensor
from torch.utils.data import functional_datapipe

try:
    from dgl.graphbolt import FusedCSCSamplingGraph, SubgraphSampler
except (ImportError, OSError) as err:
    raise ImportError(
        "'gttf_dgl.graphbolt' needs dgl 2.1.0 with torch 2.2.0 or 2.2.1 "
        f"(got dgl {dgl.__version__}, torch {torch.__version__}); "
        "install them from a checkout with: pip install '.[graphbolt]'"
    ) from err

from gttf_dgl import _check, _fused
from gttf_dgl._fused import Layer
from gttf_dgl._source import named_edges
from gttf_sampler import BiasFn, EdgeWeightBias, random
from gttf_sampler._loading.keys import BatchKeys
from gttf_sampler.graph.weak_cache import kept_of
from gttf_sampler.rooted import RootedSampler, laws_of


@functional_datapipe("sample_gttf")
class GTTFNeighborSampler(SubgraphSampler):
    """Samples subgraphs in a GraphBolt pipeline, in place of `sample_neighbor`.

    Takes the arguments of `dgl.graphbolt.NeighborSampler` and gives what that gives, a
    fresh sample for every layer. Batches follow `torch.manual_seed`, and are the same
    for any number of threads and workers. Seeds with timestamps are refused, as the
    draws do not look at times.

    Args:
        datapipe: the stage before.
        graph: a FusedCSCSamplingGraph.
        fanouts: per layer, farthest first, the edges of a node, of all edge types
            together; or a tensor with a number per edge type. -1 takes all.
        replace: draw `fanout` edges independently.
        prob_name: an edge attribute to draw in proportion to; booleans are a mask.
        deduplicate: True; the nodes of a layer are distinct.
        bias: a BiasFn, on the ids that nodes have in `graph`.
        seed: an integer instead of torch's default generator.
    """

    def __init__(
        self,
        datapipe: Any,
        graph: FusedCSCSamplingGraph,
        fanouts: Any,
        replace: bool = False,
        prob_name: str | None = None,
        deduplicate: bool = True,
        *,
        bias: BiasFn | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(datapipe)
        if not isinstance(graph, FusedCSCSamplingGraph):
            rule = "must be a FusedCSCSamplingGraph"
            _check.mistyped("graph", rule, type(graph).__name__)
        if prob_name is not None and prob_name not in (graph.edge_attributes or {}):
            rule = "must name an edge attribute of the graph"
            _check.fail("prob_name", rule, repr(prob_name))
        _check.yes_or_no("replace", replace)
        if not deduplicate:
            rule = "must be True, as nodes of a layer are always distinct"
            _check.fail("deduplicate", rule, deduplicate)
        self.graph, self.prob_name, self.replace = graph, prob_name, bool(replace)
        self.fanouts = _fused.fanouts(graph, fanouts)
        self.bias = _check.bias(bias, False, prob_name)
        self._keys = BatchKeys(None, seed, None)

    def sample_subgraphs(
        self, seeds: Any, seeds_timestamp: Any = None
    ) -> tuple[Any, list[Any]]:
        """(input nodes, subgraphs), the subgraph of the seeds last."""
        if seeds_timestamp is not None:
            rule = "must be absent, as the draws do not look at times"
            _check.fail("timestamp", rule, "timestamps of the seeds")
        frontier = _fused.joined(self.graph, seeds)
        key = self._keys.next([frontier])
        root = random.new_key(key, frontier.device, random.BATCH)
        subgraphs: list[Any] = []
        for hop, fanouts in enumerate(reversed(self.fanouts)):
            layer = self._draw(frontier, fanouts, int(random.fold(root, hop)))
            subgraphs.insert(0, _fused.subgraph(self.graph, layer))
            frontier = layer.node
        return subgraphs[0].original_row_node_ids, subgraphs

    def _draw(self, frontier: Tensor, fanouts: tuple[int, ...], key: int) -> Layer:
        """One hop from some nodes."""
        rows = _fused.rows(self.graph, self.prob_name, apart=len(fanouts) > 1)
        kept = kept_of(rows)

        def make() -> RootedSampler:
            hops = {kind: [n] for kind, n in zip(rows, fanouts, strict=True)}
            return RootedSampler(rows, hops, replace=self.replace)

        rooted = kept.get(("rooted", self.replace, fanouts), make)
        laws = kept.get("laws", lambda: laws_of(rows, {}))
        if self.bias is None and laws is not None:
            batch = rooted.batch({"": frontier}, laws, False, key)
            found: Any = rooted.named(rooted.draw(batch))
            edges = found.edge
        else:
            bias: Any = self.bias
            if self.prob_name is not None:
                bias = EdgeWeightBias() if bias is None else EdgeWeightBias() * bias
            how = dict.fromkeys(rows, bias)
            found = rooted({"": frontier}, bias=how, generator=key)
            edges = named_edges(rows, found.edge)
        whole = (torch.cat([*part.values()]) for part in (found.row, found.col, edges))
        return Layer(len(frontier), found.node[""], *whole)
