"""NegativeSampling: negatives among given nodes, and never a true edge."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor
from torch_geometric import sampler as theirs
from torch_geometric.sampler import EdgeSamplerInput

from gttf_pyg._check import as_pairs, as_reals, ids
from gttf_pyg._compat import row_type
from gttf_pyg._rows import ONLY
from gttf_pyg._seeds import CPU
from gttf_sampler import CompactAdj, EdgeWeightBias, random, traverse
from gttf_sampler._check import as_dense, fail, fits, within
from gttf_sampler.graph.tables import kept_of

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

    @property
    def restricted(self) -> bool:
        """True if some nodes or pairs are never negatives."""
        named = self.src_nodes is not None or self.dst_nodes is not None
        return self.avoid_edges or named

    def __repr__(self) -> str:
        return f"NegativeSampling({self.mode.value!r}, {self.amount})"


def _named(name: str, nodes: Any) -> Tensor | None:
    if nodes is None:
        return None
    found: Tensor = as_dense(name, nodes)
    if found.dtype == torch.bool and found.dim() == 1:
        found = found.nonzero().view(-1)
    found = ids(name, found).cpu().unique()
    if found.numel() == 0:
        fail(name, "must hold a node", "none")
    return found


def uniform_nodes(key: random.Key, count: int, num_nodes: int) -> Tensor:
    """int64 [count]: nodes drawn uniformly, with replacement."""
    fits("neg_sampling", 24 * count)
    word = random.stream(key, torch.arange(count))
    return random.below_wide(word, torch.full_like(word, num_nodes))


@dataclass(frozen=True, eq=False)
class End:
    """One end of negatives: which nodes [c] there are, and how likely each is."""

    node: Tensor
    weight: Tensor | None

    @cached_property
    def row(self) -> CompactAdj:
        """All of them as the neighbours of one node, by weight."""
        size = self.node.numel()
        every, mass = torch.arange(size), self.weight
        return CompactAdj.from_csr([0, size], every, size, edge_weight=mass)

    def draw(self, key: random.Key, count: int) -> Tensor:
        """Nodes [count], independently."""
        if self.weight is None:
            return self.node[uniform_nodes(key, count, self.node.numel())]
        drawn = traverse(self.row, [0], [count], EdgeWeightBias(), generator=int(key))
        return self.node[drawn.nodes[1].view(-1)]


def end_of(given: theirs.NegativeSampling, name: str, size: int) -> End:
    """One end, "src" or "dst", of negatives among `size` nodes; made once."""
    nodes = getattr(given, f"{name}_nodes", None)
    weight = getattr(given, f"{name}_weight")
    made_of = [x for x in (nodes, weight) if x is not None]
    make = partial(_end, name, nodes, weight, size)
    found: End = kept_of(given).get(("end", name, size), make, *made_of)
    return found


class KeyedNegatives(theirs.NegativeSampling):
    """A `NegativeSampling` that draws from the key of the batch.

    PyG's draws from torch's default generator, which is another one in every worker.
    """

    def __init__(self, negatives: theirs.NegativeSampling, key: int) -> None:
        weights = negatives.src_weight, negatives.dst_weight
        super().__init__(negatives.mode, negatives.amount, *weights)
        self.given = negatives
        self.key = random.new_key(key, CPU, random.NEGATIVE)
        self.calls = 0

    def sample(
        self, num_samples: int, endpoint: str, num_nodes: int | None = None
    ) -> Tensor:
        """Nodes [num_samples], by weight where there are weights."""
        if num_samples == 0:
            return torch.empty(0, dtype=torch.int64)
        self.calls += 1
        key = random.fold(self.key, self.calls)
        weight = self.src_weight if endpoint == "src" else self.dst_weight
        if weight is not None:
            size = as_reals(f"{endpoint}_weight", weight).numel()
            size = size if num_nodes is None else num_nodes
            return end_of(self.given, endpoint, size).draw(key, num_samples)
        if num_nodes is None:
            fail("num_nodes", "must be given without weights", None)
        return uniform_nodes(key, num_samples, num_nodes)


class TimedEnd(NamedTuple):
    """An end whose nodes come to exist: in order of time, with the mass up to each."""

    node: Tensor
    time: Tensor
    mass: Tensor | None

    @classmethod
    def of(cls, end: End, time: Tensor) -> TimedEnd:
        """The nodes of `end`, by the times of all nodes."""
        own, order = time.detach().cpu()[end.node].sort(stable=True)
        mass = None if end.weight is None else end.weight[order].double().cumsum(0)
        return cls(end.node[order], own, mass)

    def draw(self, key: random.Key, limit: Tensor) -> Tensor:
        """Nodes [k] that are not later than their limits [k], independently."""
        fits("neg_sampling", 64 * limit.numel())
        known = self.existing(limit)
        word = random.stream(key, torch.arange(limit.numel()))
        if self.mass is None:
            return self.node[random.below_wide(word, known)]
        total = self.mass[known - 1]
        # right: a node without weight adds nothing, and is never the first above
        share = random.fraction(word)
        place = torch.searchsorted(self.mass, share * total, right=True)
        return self.node[place.minimum(torch.searchsorted(self.mass, total))]

    def existing(self, limit: Tensor) -> Tensor:
        """int64 [k]: the number of nodes up to each limit; there must be one."""
        kind = torch.promote_types(self.time.dtype, limit.dtype)  # as PyG compares
        if kind in (torch.float16, torch.bfloat16):
            kind = torch.float32
        ends = self.time.to(kind), limit.to(kind)
        known = torch.searchsorted(ends[0], ends[1].contiguous(), right=True)
        none = known == 0
        if self.mass is not None:
            none |= self.mass[known - 1] <= 0
        if bool(none.any()):
            rule = "must leave a node that exists at the time of every seed"
            got = f"none at time {limit[none][0].item()}"
            fail("neg_sampling", rule, got, "leave out such seeds")
        return known


class PlannedNegatives(KeyedNegatives):
    """Negatives of one batch that have been drawn already."""

    def __init__(self, given: theirs.NegativeSampling, key: int, drawn: Any) -> None:
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
    if type(given).sample is not theirs.NegativeSampling.sample:
        return given  # a class of the user draws them
    timed = inputs.time is not None
    timed = timed and any(x is not None for x in _times(inputs, sampler))
    if not (timed or getattr(given, "restricted", False)):
        return KeyedNegatives(given, key)
    return PlannedNegatives(given, key, _Plan(given, inputs, sampler, key).drawn())


def _times(inputs: EdgeSamplerInput, sampler: Any) -> tuple[Any, Any]:
    """The times of all nodes at either end, if they have some."""
    kind, times = inputs.input_type, sampler.node_time
    if kind is None or times is None:
        return times, times
    return times.get(kind[0]), times.get(kind[-1])


class _Plan:
    """Draws the negatives of one batch: rejection, then among what is left."""

    def __init__(
        self,
        given: theirs.NegativeSampling,
        inputs: EdgeSamplerInput,
        sampler: Any,
        key: int,
    ) -> None:
        self.given, self.inputs, self.sampler = given, inputs, sampler
        self.key = random.new_key(key, CPU, random.NEGATIVE)
        kind = inputs.input_type
        sizes: Any = sampler.num_nodes
        both = (sizes, sizes) if kind is None else (sizes[kind[0]], sizes[kind[-1]])
        self.width, self.sizes = both[1], both
        self.src, self.dst = (
            end_of(given, "src", both[0]),
            end_of(given, "dst", both[1]),
        )
        self.avoids = getattr(given, "avoid_edges", False)
        self.sources: dict[Any, End] = {}  # by the time of a seed
        self.src_time, self.dst_time = _times(inputs, sampler)
        seeds = torch.stack([inputs.row, inputs.col])
        known = seeds
        pairs = getattr(given, "pairs", None)
        if pairs is not None:
            for pair, size in zip(pairs, both, strict=True):
                within("avoid_edges", pair, size)
            known = torch.cat([seeds, pairs.cpu()], dim=1)
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
                src[left] = self._draw("src", ends[0], count, limit)[left]
            dst[left] = self._draw("dst", ends[1], count, limit)[left]
            left = left[~self._allowed(src[left], dst[left])]
        for place in left.tolist():
            when = None if limit is None else limit[place : place + 1]
            src[place], dst[place] = self._among_all(int(src[place]), place, when)
        return {"src": src, "dst": dst}

    def _draw(
        self, name: str, key: random.Key, count: int, limit: Tensor | None
    ) -> Tensor:
        """Nodes [count] of one end, each among those that exist at its time."""
        end, time = getattr(self, name), getattr(self, f"{name}_time")
        if limit is None or time is None:
            drawn: Tensor = end.draw(key, count)
            return drawn
        place = "timed", name, self.inputs.input_type
        made_of = [x for x in (end.node, end.weight, time) if x is not None]
        make = partial(TimedEnd.of, end, time)
        timed: TimedEnd = kept_of(self.given).get(place, make, *made_of)
        return timed.draw(key, limit)

    def _allowed(self, src: Tensor, dst: Tensor) -> Tensor:
        """A mask [k] of the pairs that are not to be avoided."""
        if not self.avoids:
            return torch.ones_like(src, dtype=torch.bool)
        known = torch.isin(src * self.width + dst, self.known)
        return ~(known | self._are_edges(src, dst))

    def _rows(self) -> tuple[Any, bool]:
        """The relation that holds the edges, and whether its rows are the sources."""
        backward = self.sampler.sample_direction == "backward"
        return row_type(self.inputs.input_type or ONLY, backward), backward

    def _are_edges(self, src: Tensor, dst: Tensor) -> Tensor:
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
        target, weight = self.dst.node, self.dst.weight
        here = torch.full_like(target, src)
        allowed = self._allowed(here, target)
        if when is not None and self.dst_time is not None:
            allowed &= ~(self.dst_time.cpu()[target] > when)
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
            src = _mass(self.src, self.sizes[0], self.src_time, at)
            dst = _mass(self.dst, self.sizes[1], self.dst_time, at)
            left = torch.zeros((src.numel(), 2), dtype=torch.float64)
            left += torch.stack([dst.sum(), (dst > 0).sum()])
            if self.avoids:
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
    rule = "must leave a node that a seed has no edge to, and that is not later"
    fail("neg_sampling", rule, got, "allow more nodes")


def _end(name: str, nodes: Tensor | None, weight: Tensor | None, size: int) -> End:
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
