"""Negatives of one batch among given nodes, drawn before PyG asks for them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor
from torch_geometric.sampler import EdgeSamplerInput

from gttf_pyg._check import as_reals
from gttf_pyg._compat import reverse_edge_type
from gttf_pyg._keys import CPU, KeyedNegatives, keyed, uniform_nodes
from gttf_pyg._rows import ONLY
from gttf_pyg.negatives import NegativeSampling
from gttf_sampler import CompactAdj, EdgeWeightBias, random, traverse
from gttf_sampler._check import fail, within

ROUNDS = 16  # of rejection; who is left then is drawn among what is allowed


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


def negatives_of(given: Any, inputs: EdgeSamplerInput, sampler: Any, key: int) -> Any:
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
        sampler: Any,
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
        self.sizes = both
        self.sources: dict[Any, End] = {}  # by the time of a seed
        times: Any = sampler.node_time
        self.dst_time = times if kind is None or times is None else times.get(kind[-1])
        self.src_time = times if kind is None or times is None else times.get(kind[0])
        seeds = torch.stack([inputs.row, inputs.col])
        known = seeds
        if given.pairs is not None:
            for pair, size in zip(given.pairs, both, strict=True):
                within("avoid_edges", pair, size)
            known = torch.cat([seeds, given.pairs.cpu()], dim=1)
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

    def _rows(self) -> tuple[Any, bool]:
        """Which rows hold the edges, and whether they are those of the sources."""
        backward = self.sampler.sample_direction == "backward"
        kind: Any = self.inputs.input_type
        kind = ONLY if kind is None else tuple(kind)
        return (
            reverse_edge_type(kind) if backward and kind != ONLY else kind
        ), backward

    def _are_edges(self, src: Tensor, dst: Tensor) -> Tensor:
        """Which pairs [k] are edges of the graph."""
        kind, backward = self._rows()
        adj, found = self.sampler.adjs.get(kind), torch.zeros_like(src).bool()
        if adj is not None:  # else the graph knows nothing of such pairs
            ends = (src, dst) if backward else (dst, src)
            device = adj.device
            found[adj.edges_between(*(x.to(device) for x in ends))[0].cpu()] = True
        return found

    def _among_all(self, src: int, place: int, when: Tensor | None) -> tuple[int, int]:
        """A pair drawn among all that are allowed, its source first."""
        word = random.stream(random.fold(self.key, 2 * ROUNDS), torch.tensor([place]))
        if not self.given.is_triplet():
            sources = self._sources(when)
            if sources.node.numel() == 0:
                _none_left("none")
            src = int(sources.draw(random.fold(int(word), 2), 1))
        target, weight = self.dst
        here = torch.full_like(target, src)
        limit = None if when is None else when.expand(target.numel())
        allowed = self._allowed(here, target, limit)
        if weight is not None:
            allowed &= weight > 0
        if not bool(allowed.any()):
            _none_left(f"none for node {src}")
        end = End(target[allowed], None if weight is None else weight[allowed])
        return src, int(end.draw(random.fold(int(word), 1), 1))

    def _sources(self, when: Tensor | None) -> End:
        """Sources of pairs, each by the mass of the targets that it is allowed."""
        at = None if when is None else when.item()
        if at not in self.sources:
            src, dst = (
                _mass(end, size, time, at)
                for end, size, time in zip(
                    (self.src, self.dst),
                    self.sizes,
                    (self.src_time, self.dst_time),
                    strict=True,
                )
            )
            left = torch.zeros((src.numel(), 2), dtype=torch.float64)
            left += torch.stack([dst.sum(), (dst > 0).sum()])
            if self.given.avoid_edges:
                by, to = self._avoided()
                lost = torch.stack([dst[to], (dst[to] > 0).double()], dim=1)
                left.index_add_(0, by, -lost)
            # counts are exact, and tell where a sum of weights is but rounded to zero
            node = ((src > 0) & (left[:, 1] > 0)).nonzero().view(-1)
            least = dst.where(dst > 0, torch.inf).min()
            self.sources[at] = End(node, src[node] * left[node, 0].clamp(min=least))
        return self.sources[at]

    def _avoided(self) -> Tensor:
        """All pairs [2, k] that are no negatives, each once."""
        kind, backward = self._rows()
        adj = self.sampler.adjs.get(kind)
        codes = [self.known]
        if isinstance(adj, CompactAdj):
            row = torch.arange(adj.num_rows).repeat_interleave(adj.degree.cpu().long())
            ends = row, adj.col.cpu().long()
            src, dst = ends if backward else ends[::-1]
            codes.append(src * self.width + dst)
        elif adj is not None:  # rows of other processes, which are asked
            for node in self.src.node.tolist():
                here = torch.full_like(self.dst.node, node)
                hit = self._are_edges(here, self.dst.node)
                codes.append((here * self.width + self.dst.node)[hit])
        code = torch.cat(codes).unique()
        return torch.stack([code // self.width, code % self.width])


def _mass(end: End, size: int, time: Any, at: Any) -> Tensor:
    """float64 per node: how likely it is, if it is allowed and not later than `at`."""
    mass = torch.zeros(size, dtype=torch.float64)
    mass[end.node] = 1 if end.weight is None else end.weight.double()
    if at is not None and time is not None:
        mass[time.cpu() > at] = 0
    return mass


def _none_left(got: str) -> NoReturn:
    """Says that there is nothing to draw."""
    rule = "must leave a node that a seed has no edge to, and that is not later"
    fail("neg_sampling", rule, got, "allow more nodes")


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
