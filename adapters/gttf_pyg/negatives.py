"""NegativeSampling: negatives among given nodes, and never a true edge."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric import sampler as theirs
from torch_geometric.sampler import EdgeSamplerInput

from gttf_pyg._check import as_pairs, as_reals, ids
from gttf_pyg._compat import reverse_edge_type
from gttf_pyg._keys import CPU, KeyedNegatives, keyed, uniform_nodes
from gttf_pyg._rows import ONLY
from gttf_sampler import CompactAdj, EdgeWeightBias, random, traverse
from gttf_sampler._check import as_dense, fail, within

if TYPE_CHECKING:
    from gttf_pyg.sampler import GTTFSampler

ROUNDS = 16  # of rejection; who is left then is drawn among what is allowed


class NegativeSampling(theirs.NegativeSampling):
    """PyG's `NegativeSampling`, among given nodes and without true edges.

    >>> import torch
    >>> NegativeSampling("triplet", dst_nodes=torch.tensor([3, 4]), avoid_edges=True)
    NegativeSampling('triplet', 1)

    For `neg_sampling` of our loaders and samplers; PyG's issue 9152 asks for it. Of all
    that is allowed, every node, or pair of nodes, is as likely as its weights say.

    Args:
        mode: and everything up to `dst_weight`: see PyG's class of this name.
        src_nodes: which nodes may be sources of negatives, ids or a mask; None for all.
        dst_nodes: the same for their targets.
        avoid_edges: True draws no pair that is an edge of the graph, or a positive of
            the batch; pairs [2, k] are avoided as well.
    """

    def __init__(
        self,
        mode: Any,
        amount: float = 1,
        src_weight: Tensor | None = None,
        dst_weight: Tensor | None = None,
        *,
        src_nodes: Any = None,
        dst_nodes: Any = None,
        avoid_edges: Any = False,
    ) -> None:
        super().__init__(mode, amount, src_weight, dst_weight)
        self.src_nodes = _named("src_nodes", src_nodes)
        self.dst_nodes = _named("dst_nodes", dst_nodes)
        pairs = None
        if not isinstance(avoid_edges, bool):
            pairs = as_pairs("avoid_edges", as_dense("avoid_edges", avoid_edges)).long()
        self.avoid_edges, self.pairs = avoid_edges is not False, pairs
        if self.is_triplet() and self.src_nodes is not None:
            rule = "must be None for triplets, whose sources are the seeds'"
            fail("src_nodes", rule, f"{self.src_nodes.numel()} nodes")

    def __repr__(self) -> str:
        """The mode and the amount."""
        return f"NegativeSampling({self.mode.value!r}, {self.amount})"


def _named(name: str, nodes: Any) -> Tensor | None:
    """Nodes by their ids, from ids or a mask."""
    if nodes is None:
        return None
    found: Tensor = as_dense(name, nodes)
    if found.dtype == torch.bool and found.dim() == 1:
        found = found.nonzero().view(-1)
    found = ids(name, found).cpu().unique()
    if found.numel() == 0:
        fail(name, "must hold a node", "none")
    return found


class End(NamedTuple):
    """One end of negatives: which nodes [c] there are, and how likely each is."""

    node: Tensor
    weight: Tensor | None

    def draw(self, key: random.Key, count: int) -> Tensor:
        """Nodes [count], independently."""
        size = self.node.numel()
        if self.weight is None:
            return self.node[uniform_nodes(key, count, size)]
        every, mass = torch.arange(size), self.weight
        row = CompactAdj.from_csr([0, size], every, size, edge_weight=mass)
        drawn = traverse(row, [0], [count], EdgeWeightBias(), generator=int(key))
        return self.node[drawn.nodes[1].view(-1)]


class PlannedNegatives(KeyedNegatives):
    """Negatives of one batch that have been drawn already."""

    def __init__(self, given: NegativeSampling, key: int, drawn: Any) -> None:
        super().__init__(given, key)
        self.drawn: dict[str, Tensor] = drawn

    def sample(
        self, num_samples: int, endpoint: str, num_nodes: int | None = None
    ) -> Tensor:
        """The next of them."""
        found, rest = self.drawn[endpoint].tensor_split([num_samples])
        self.drawn[endpoint] = rest
        return found


def negatives_of(
    given: Any, inputs: EdgeSamplerInput, sampler: GTTFSampler, key: int
) -> Any:
    """The negatives of a batch, drawn by its key."""
    plain = not isinstance(given, NegativeSampling)
    if plain or not (
        given.avoid_edges or given.src_nodes is not None or given.dst_nodes is not None
    ):
        return keyed(given, key)
    return PlannedNegatives(given, key, _Plan(given, inputs, sampler, key).drawn())


class _Plan:
    """Draws the negatives of one batch: rejection, then among what is left."""

    def __init__(
        self,
        given: NegativeSampling,
        inputs: EdgeSamplerInput,
        sampler: GTTFSampler,
        key: int,
    ) -> None:
        self.given, self.inputs, self.sampler = given, inputs, sampler
        self.key = random.new_key(key, CPU, random.NEGATIVE)
        kind = inputs.input_type
        sizes: Any = sampler.num_nodes
        both = (sizes, sizes) if kind is None else (sizes[kind[0]], sizes[kind[-1]])
        self.src = _end("src", given.src_nodes, given.src_weight, both[0])
        self.dst = _end("dst", given.dst_nodes, given.dst_weight, both[1])
        self.width = both[1]
        times: Any = sampler.node_time
        self.dst_time = times if kind is None or times is None else times.get(kind[-1])
        self.src_time = times if kind is None or times is None else times.get(kind[0])
        seeds = torch.stack([inputs.row, inputs.col])
        known = seeds if given.pairs is None else torch.cat([seeds, given.pairs], dim=1)
        self.known = (known[0] * self.width + known[1]).unique()

    def drawn(self) -> dict[str, Tensor]:
        """Nodes per end, as many as PyG may ask for."""
        positives = self.inputs.row.numel()
        amount = math.ceil(self.given.amount)
        count = positives * amount
        number = torch.arange(count)
        # PyG reads triplets of disjoint trees seed by seed, and of others the other way
        turns = self.sampler.disjoint or not self.given.is_triplet()
        owner = number % max(positives, 1) if turns else number // amount
        limit = None if self.inputs.time is None else self.inputs.time[owner]
        triplets = self.given.is_triplet()
        src = self.inputs.row[owner]
        dst = torch.full_like(src, -1)
        left = number
        for turn in range(ROUNDS):
            if not left.numel():
                break
            ends = random.fold(self.key, 2 * turn), random.fold(self.key, 2 * turn + 1)
            if not triplets:
                src[left] = self.src.draw(ends[0], count)[left]
            dst[left] = self.dst.draw(ends[1], count)[left]
            when = None if limit is None else limit[left]
            left = left[~self._allowed(src[left], dst[left], when)]
        for place in left.tolist():
            when = None if limit is None else limit[place : place + 1]
            src[place], dst[place] = self._among_all(int(src[place]), place, when)
        return {"src": src, "dst": dst}

    def _allowed(self, src: Tensor, dst: Tensor, when: Tensor | None) -> Tensor:
        """Which pairs [k] may be negatives."""
        bad = torch.zeros(src.numel(), dtype=torch.bool)
        for time, node in ((self.src_time, src), (self.dst_time, dst)):
            ours = node is dst or not self.given.is_triplet()
            if when is not None and time is not None and ours:
                bad |= time.cpu()[node] > when
        if self.given.avoid_edges:
            bad |= torch.isin(src * self.width + dst, self.known)
            bad |= self._are_edges(src, dst)
        return ~bad

    def _are_edges(self, src: Tensor, dst: Tensor) -> Tensor:
        """Which pairs [k] are edges of the graph."""
        backward = self.sampler.sample_direction == "backward"
        kind: Any = self.inputs.input_type
        kind = ONLY if kind is None else tuple(kind)
        named = reverse_edge_type(kind) if backward and kind != ONLY else kind
        adj, found = self.sampler.adjs.get(named), torch.zeros_like(src).bool()
        if adj is not None:  # else the graph knows nothing of such pairs
            ends = (src, dst) if backward else (dst, src)
            device = adj.device
            found[adj.edges_between(*(x.to(device) for x in ends))[0].cpu()] = True
        return found

    def _among_all(self, src: int, place: int, when: Tensor | None) -> tuple[int, int]:
        """A pair drawn among all targets that are allowed, found one by one."""
        word = random.stream(random.fold(self.key, 2 * ROUNDS), torch.tensor([place]))
        sources = torch.tensor([src])
        if not self.given.is_triplet():  # that one, or any other
            others = self.src.node
            if self.src.weight is not None:
                others = others[self.src.weight > 0]
            turn = int(random.below_wide(word, torch.tensor([others.numel()])))
            sources = torch.cat([sources, others.roll(-turn)])
        for source in sources.tolist():
            target = self.dst.node
            here = torch.full_like(target, source)
            limit = None if when is None else when.expand(target.numel())
            allowed = self._allowed(here, target, limit)
            if self.dst.weight is not None:
                allowed &= self.dst.weight > 0
            if bool(allowed.any()):
                weight = self.dst.weight
                weight = None if weight is None else weight[allowed]
                end, key = End(target[allowed], weight), random.fold(int(word), 1)
                return source, int(end.draw(key, 1))
        rule = "must leave a node that a seed has no edge to, and that is not later"
        fail("neg_sampling", rule, f"none for node {src}", "allow more nodes")


def _end(name: str, nodes: Tensor | None, weight: Tensor | None, size: int) -> End:
    """One end of the negatives, checked."""
    every = torch.arange(size) if nodes is None else nodes
    within(f"{name}_nodes", every, size)
    if weight is None:
        return End(every, None)
    as_reals(f"{name}_weight", weight)
    if weight.numel() != size:
        rule = f"must have one entry per node, {size} in all"
        fail(f"{name}_weight", rule, weight.numel())
    own = weight.detach().cpu()[every]
    if not bool((own > 0).any()):
        fail(f"{name}_weight", "must have a positive entry", "zeros only")
    return End(every, own)
