"""BidirectionalNeighborSampler: every hop goes along the edges and against them."""

from collections.abc import Mapping
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch_geometric.sampler import (
    EdgeSamplerInput,
    NegativeSampling,
    NodeSamplerInput,
    SamplerOutput,
)
from torch_geometric.sampler.base import SubgraphType
from torch_geometric.sampler.neighbor_sampler import edge_sample, node_sample

from gttf_pyg import _output
from gttf_pyg._compat import BOTH_WAYS
from gttf_pyg._keys import key_of
from gttf_pyg._rows import ONLY
from gttf_pyg._seeds import checked_edges, checked_nodes
from gttf_pyg.negatives import negatives_of
from gttf_pyg.sampler import GTTFSampler
from gttf_sampler import EdgeWeightBias, HeteroSubgraph, Subgraph
from gttf_sampler.rooted import RootedSampler

AGAINST, ALONG = ("", "against", ""), ("", "along", "")


class BidirectionalNeighborSampler(BOTH_WAYS):
    """PyG's `BidirectionalNeighborSampler` without pyg-lib or torch-sparse.

    >>> import torch
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.sampler import NodeSamplerInput
    >>> data = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4)
    >>> sampler = BidirectionalNeighborSampler(data, num_neighbors=[1])
    >>> out = sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor([1])))
    >>> out.node.tolist(), out.edge.tolist()
    ([1, 0, 2], [0, 1])

    In every hop each new node draws among the edges that lead to it, and then among
    those that leave it, independently; an edge that both find is in the sample once.
    Triplets and pairs may have negatives, which PyG refuses.

    Args:
        data: and all others: see PyG's class of this name. Types and times are refused,
            as PyG does.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        subgraph_type: SubgraphType | str = "directional",
        replace: bool = False,
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        is_sorted: bool = False,
        share_memory: bool = False,
        directed: bool = True,
    ) -> None:
        if isinstance(getattr(num_neighbors, "values", None), dict) or isinstance(
            num_neighbors, Mapping
        ):
            raise RuntimeError(
                "'num_neighbors' must be one list, not one per edge type, where "
                "sampling goes both ways (got a dict)"
            )
        if time_attr is not None:
            raise NotImplementedError(
                "'time_attr' must be None where sampling goes both ways (got "
                f"{time_attr!r})"
            )
        given = num_neighbors, subgraph_type, replace, disjoint, temporal_strategy
        rest = time_attr, weight_attr, is_sorted, share_memory, directed
        self.forward_sampler, self.backward_sampler = (
            GTTFSampler(data, *given, *rest, sample_direction=way)
            for way in ("forward", "backward")
        )
        if self.forward_sampler.is_hetero:
            raise NotImplementedError(
                "'data' must have one type of nodes where sampling goes both ways (got "
                f"{self.forward_sampler.node_types})"
            )
        self.data_type = self.forward_sampler.data_type
        self.num_nodes = self.forward_sampler.num_nodes
        self.node_time = self.edge_time = None
        self.replace = self.forward_sampler.replace
        self.keep_orig_edges = False

    @property
    def num_neighbors(self) -> Any:
        """Neighbours per hop and way, as given; it can be set."""
        return self.forward_sampler.num_neighbors

    @num_neighbors.setter
    def num_neighbors(self, num_neighbors: Any) -> None:
        self.forward_sampler.num_neighbors = num_neighbors
        self.backward_sampler.num_neighbors = num_neighbors

    @property
    def subgraph_type(self) -> SubgraphType:
        """The kind of edges that a sample has."""
        found: SubgraphType = self.forward_sampler.subgraph_type
        return found

    def sample_from_nodes(self, inputs: NodeSamplerInput) -> SamplerOutput:
        """The subgraph around some nodes."""
        sample = partial(self._sample, key=key_of(inputs))
        return self._finished(node_sample(checked_nodes(inputs), sample))

    def sample_from_edges(
        self,
        inputs: EdgeSamplerInput,
        neg_sampling: NegativeSampling | None = None,
    ) -> SamplerOutput:
        """The subgraph around both ends of some edges and of their negatives."""
        inputs, key = checked_edges(inputs, neg_sampling), key_of(inputs)
        if neg_sampling is not None:
            neg_sampling = negatives_of(neg_sampling, inputs, self.forward_sampler, key)
        how = self.num_nodes, self.disjoint, None, neg_sampling
        sample = partial(self._sample, key=key)
        return self._finished(edge_sample(inputs, sample, *how))

    def _sample(
        self, seed: Tensor, seed_time: Any = None, *, key: int
    ) -> SamplerOutput:
        """The subgraph around `seed`: two relations among the nodes of one type."""
        into = self.forward_sampler.adjs[ONLY]
        adjs = {AGAINST: into, ALONG: self.backward_sampler.adjs[ONLY]}
        rooted = RootedSampler(
            adjs,
            self.forward_sampler._fanouts[ONLY],
            replace=self.replace,
            disjoint=self.disjoint,
        )
        seeds = {"": seed.to(torch.int64)}
        bias = EdgeWeightBias() if into.edge_weight is not None else None
        found: Any = rooted(seeds, bias=bias, generator=key)
        node, tree = found.node[""], found.batch and found.batch[""]
        if self.subgraph_type == SubgraphType.induced:
            none = node.new_empty(0)
            every = Subgraph(node, none, none, none, tree).induced(into)
            one: Any = _output.from_subgraph(every, {ONLY: into}, backward=False)
            return one
        names = {
            kind: adjs[kind].original_edge(found.edge[kind]).long() for kind in adjs
        }
        return _merged(found, names, node, tree)

    def _finished(self, out: SamplerOutput) -> SamplerOutput:
        """`out` with the reverses of its edges, if they are wanted."""
        if self.subgraph_type == SubgraphType.bidirectional:
            both: SamplerOutput = _output.to_bidirectional(out, self.keep_orig_edges)
            return both
        return out


def _merged(
    found: HeteroSubgraph,
    names: Mapping[Any, Tensor],
    node: Tensor,
    tree: Tensor | None,
) -> SamplerOutput:
    """Both relations as one list of edges, hop by hop, each edge where it came first.

    Counts are those of PyG, whose hop is two samples: seeds and what is new, with no
    seeds but those of the first.
    """
    hops: Any = found.num_sampled_edges
    ends = {
        AGAINST: (found.row[AGAINST], found.col[AGAINST]),
        ALONG: (found.col[ALONG], found.row[ALONG]),  # walkers stand where edges begin
    }
    split = {
        kind: [part.split(hops[kind]) for part in (*ends[kind], names[kind])]
        for kind in ends
    }
    depth = len(hops[AGAINST])
    order = [(hop, kind) for hop in range(depth) for kind in (AGAINST, ALONG)]
    none = node.new_empty(0)
    row, col, edge = (
        torch.cat([none, *(split[kind][part][hop] for hop, kind in order)])
        for part in range(3)
    )
    sizes = torch.tensor([hops[kind][hop] for hop, kind in order], dtype=torch.int64)
    sample = torch.arange(len(order)).repeat_interleave(sizes).to(node.device)
    first = _first(edge, None if tree is None else tree[col])
    taken = torch.bincount(sample[first], minlength=len(order)).tolist()
    return SamplerOutput(
        node=node,
        row=row[first],
        col=col[first],
        edge=edge[first],
        batch=tree,
        num_sampled_nodes=_new_nodes(found, split),
        num_sampled_edges=taken,
    )


def _first(edge: Tensor, tree: Tensor | None) -> Tensor:
    """Positions, ascending, at which an edge of a tree occurs for the first time.

    With replacement, an edge that one draw has found twice counts once, too.
    """
    code = (
        edge
        if tree is None
        else tree * (int(edge.max()) + 1 if edge.numel() else 1) + edge
    )
    _, place = code.unique(return_inverse=True)
    first = torch.full((place.numel(),), place.numel(), device=edge.device)
    first.scatter_reduce_(
        0, place, torch.arange(place.numel(), device=edge.device), "amin"
    )
    return first[first < place.numel()].sort().values


def _new_nodes(found: HeteroSubgraph, split: Mapping[Any, Any]) -> list[int]:
    """Per hop: seeds and what was new against the edges, and the same along them."""
    counts: Any = found.num_sampled_nodes
    known = counts[""][0]
    pairs = []
    for hop, new in enumerate(counts[""][1:]):
        reached = split[AGAINST][0][hop]
        top = int(reached.max()) + 1 if reached.numel() else 0
        against = max(0, top - known)
        pairs.append([counts[""][0] if hop == 0 else 0, against, 0, new - against])
        known += new
    return list(chain(*pairs)) or [known]
