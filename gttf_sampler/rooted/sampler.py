"""RootedSampler: what all batches have in common, settled once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler._backends import ops
from gttf_sampler._backends.record import (
    UNIFORM,
    Batch,
    Law,
    Padded,
    Plan,
    Relation,
    Rooted,
)
from gttf_sampler.bias.base import Bias, FunctionBias, as_bias
from gttf_sampler.graph import tables
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.graph.remote import RemoteRows
from gttf_sampler.padded import PaddedHeteroSubgraph, PaddedSubgraph
from gttf_sampler.rooted.hops import sample_hops, sample_padded
from gttf_sampler.subgraph import EdgeType, HeteroSubgraph, Subgraph

FIELDS = ("node", "row", "col", "edge", "root", "num_nodes", "num_edges")
Sampled = Subgraph | HeteroSubgraph | PaddedSubgraph | PaddedHeteroSubgraph


class RootedSampler:
    """Rooted adjacencies of many batches; `sample_rooted` is for one.

    >>> from gttf_sampler import CompactAdj
    >>> from gttf_sampler.rooted import RootedSampler
    >>> star = CompactAdj.from_edge_index([[1, 2, 3, 4], [0, 0, 0, 2]])
    >>> sampler = RootedSampler(star, fanouts=[-1, -1])
    >>> sampler([0]), sampler([2])
    (Subgraph(5 nodes, hops 1 + 3 + 1, 4 edges on cpu),
     Subgraph(2 nodes, hops 1 + 1 + 0, 1 edges on cpu))

    Args:
        adj: see `sample_rooted`; so are the others.
        fanouts: neighbours per hop.
        replace: whether a neighbour can be drawn twice.
        disjoint: whether every seed has a tree of its own.
        padded: whether shapes are static.
        validate: whether seeds on an accelerator are checked.

    Attributes:
        node_types: the types of nodes, in the order in which `draw` takes seeds.
        edge_types: the types of edges, in the order in which `draw` takes laws.
        number: the place of every node type among them.
        plan: what a backend is given.
    """

    def __init__(
        self,
        adj: Any,
        fanouts: Any,
        *,
        replace: bool = False,
        disjoint: bool = False,
        padded: bool = False,
        validate: bool = True,
    ) -> None:
        replace = _check.yes_or_no("replace", replace)
        self.disjoint = _check.yes_or_no("disjoint", disjoint)
        self.padded = _check.yes_or_no("padded", padded)
        self.validate = _check.yes_or_no("validate", validate)
        self.typed = isinstance(adj, Mapping)
        if self.typed:
            sizes = _check.node_types(adj)
            hops = _check.typed_fanouts(fanouts, list(adj))
            adjs: dict[Any, CompactAdj] = dict(adj)
        else:
            if not isinstance(adj, RemoteRows):
                _check.of_type("adj", adj, CompactAdj)
            adj.ensure_sound()
            sizes, only = {"": adj.num_rows}, ("", "", "")
            hops = {only: _check.fanouts(fanouts, allow_all=True)}
            if hops[only]:
                _check.one_node_set("adj", adj.num_rows, adj.num_cols)
            adjs = {only: adj}
        self.node_types: list[str] = list(sizes)
        self.edge_types: list[EdgeType] = list(adjs)
        self.number = number = {name: i for i, name in enumerate(sizes)}
        relations = tuple(
            Relation(
                adj=each,
                dst_type=number[dst],
                src_type=number[src],
                fanouts=_useful(hops[src, name, dst], each, replace),
            )
            for (src, name, dst), each in adjs.items()
        )
        owners = [
            next(r.adj for r in relations if i in (r.dst_type, r.src_type))
            for i in range(len(sizes))
        ]
        self.plan = Plan(
            relations=relations,
            sizes=tuple(sizes.values()),
            pools=tuple(owner.scratch for owner in owners),
            depth=len(next(iter(hops.values()))),
            replace=replace,
            device=owners[0].device,
        )
        none = torch.empty(0, dtype=torch.int64, device=self.plan.device)
        self._none = [none] * len(sizes)  # seeds
        self._unbiased: list[Bias | None] = [None] * len(relations)
        self._uniform: list[Law | None] = [UNIFORM] * len(relations)
        remote = (r.adj for r in relations if isinstance(r.adj, RemoteRows))
        self._remote: RemoteRows | None = next(remote, None)
        if self.padded:
            self._ensure_bounded(fanouts)

    def _ensure_bounded(self, fanouts: Any) -> None:
        """Refuses what has no bound that is known beforehand."""
        if any(min(r.fanouts, default=0) < 0 for r in self.plan.relations):
            rule = "must not hold -1 where samples are padded"
            cure = "adj.max_degree neighbours, without replacement, are all of them"
            _check.fail("fanouts", rule, fanouts, cure)
        if self._remote is not None:
            rule = "must be False where rows are in other processes, which are asked"
            _check.fail("padded", rule, True)

    def __call__(
        self, seeds: Any, *, bias: Any = None, generator: random.Randomness = None
    ) -> Sampled:
        """The batch of some seeds; see `sample_rooted`."""
        if not self.typed:
            return self._of_one_type(seeds, bias, generator)
        starts, order = self._typed_seeds(seeds)
        biases = self._biases(bias)
        randomness = _check.randomness_on(generator, self.plan.device)
        every = torch.cat([starts[number] for number in order])
        first = _first_roots(starts, order)
        batch = self._asked(starts, first, biases, every, randomness)
        if self.padded:
            return PaddedHeteroSubgraph(*self._by_name(self.draw_padded(batch)))
        return self.named(self.draw(batch))

    def named(self, found: Rooted) -> HeteroSubgraph:
        """A batch as a HeteroSubgraph, by the names of the types."""
        return HeteroSubgraph(*self._by_name(found))

    def _by_name(self, found: Rooted | Padded) -> Iterator[Any]:
        """The fields of a subgraph, by the names of the types."""
        for field in FIELDS:
            arrays = getattr(found, field)
            of_nodes = field in ("node", "root", "num_nodes")
            names: list[Any] = self.node_types if of_nodes else self.edge_types
            yield None if arrays is None else dict(zip(names, arrays, strict=True))

    def batch(
        self,
        seeds: Mapping[str, Any],
        laws: Sequence[Law | None],
        apart: bool,
        key: random.Randomness,
    ) -> Batch:
        """A batch to `draw` by laws, with edges named as by the caller of the graph.

        Args:
            seeds: per node type, "" if there are no types; trees are in their order.
            laws: per relation; they are taken as sound.
            apart: whether trees are disjoint.
            key: from which the key of the batch is made.
        """
        starts, first, tree = self._none.copy(), [0] * len(self.node_types), 0
        for name, ids in seeds.items():
            kind = self.number.get(name)
            if kind is None or not self._is_plain(ids):
                return self._checked_batch(seeds, laws, apart, key)
            starts[kind], first[kind] = ids, tree
            tree += ids.numel()
        own = random.new_key(key, self.plan.device, random.ROOTED)
        rest = apart, laws, self._unbiased, own
        return Batch(starts, first, *rest, original_edge_ids=True, validated=False)

    def _is_plain(self, ids: Any) -> bool:
        """True if ids need no check but that of their range."""
        plain = type(ids) is Tensor and ids.dtype == torch.int64 and ids.dim() == 1
        here = self.plan.device.type == "cpu"  # elsewhere, a backend would have to wait
        return plain and here and ids.device.type == "cpu" and not _is_odd(ids)

    def _checked_batch(
        self,
        seeds: Mapping[str, Any],
        laws: Sequence[Law | None],
        apart: bool,
        key: random.Randomness,
    ) -> Batch:
        """`batch` of seeds that may be anything."""
        starts, order = self._typed_seeds(seeds)
        own = random.new_key(key, self.plan.device, random.ROOTED)
        rest = apart, laws, self._unbiased, own
        return Batch(starts, _first_roots(starts, order), *rest, original_edge_ids=True)

    def sample(
        self,
        seeds: Mapping[str, Any],
        bias: Mapping[EdgeType, Any],
        generator: random.Randomness,
    ) -> Subgraph | HeteroSubgraph:
        """A batch whose edges are named as by the caller of the graph.

        They are `adj.edge_id`, not positions in `adj.col`.

        Args:
            seeds: per node type, "" if there are no types; trees are in their order.
            bias: of the relations that are not drawn uniformly.
            generator: see `sample_rooted`.
        """
        batch = self.batch(seeds, self._uniform, self.disjoint, generator)
        if bias:
            biases = self._biases(bias)
            order = [batch.seeds[self.number[name]] for name in seeds]
            every = order[0] if len(order) == 1 else torch.cat([*self._none, *order])
            apart, laws = self._laws(biases, every)
            batch = batch._replace(disjoint=apart, laws=laws, biases=biases)
        found = self.draw(batch)
        return self.named(found) if self.typed else Subgraph(*_of_one(found))

    def draw(self, batch: Batch) -> Rooted:
        """A batch whose laws are known to be sound."""
        plan = self.plan
        if self._remote is not None:
            if not batch.validated:
                for number, ids in enumerate(batch.seeds):
                    self._checked_seeds(number, ids)
            return self._remote.sample(plan, batch)
        try:
            found = ops.rooted(plan, batch)
            return sample_hops(plan, batch) if found is None else found
        except IndexError:
            for number, ids in enumerate(batch.seeds):
                self._checked_seeds(number, ids)
            raise

    def draw_padded(self, batch: Batch) -> Padded:
        """A batch of static shapes, whose laws and seeds are known to be sound."""
        found = ops.rooted_padded(self.plan, batch)
        return sample_padded(self.plan, batch) if found is None else found

    def _of_one_type(
        self, seeds: Any, bias: Any, generator: random.Randomness
    ) -> Subgraph | PaddedSubgraph:
        """The batch of a homogeneous graph."""
        start = self._checked_seeds(0, seeds)
        biases = [_simplest(bias)]
        randomness = _check.randomness_on(generator, self.plan.device)
        batch = self._asked([start], [0], biases, start, randomness)
        if self.padded:
            return PaddedSubgraph(*_of_one(self.draw_padded(batch)))
        return Subgraph(*_of_one(self.draw(batch)))

    def _asked(
        self,
        starts: list[Tensor],
        first_root: list[int],
        biases: list[Bias | None],
        every: Tensor,
        randomness: random.Randomness,
    ) -> Batch:
        """The batch by the laws of the biases."""
        apart, laws = self._laws(biases, every)
        key = random.new_key(randomness, self.plan.device, random.ROOTED)
        return Batch(starts, first_root, apart, laws, biases, key)

    def _laws(
        self, biases: list[Bias | None], every: Tensor
    ) -> tuple[bool, list[Law | None]]:
        """True if trees are disjoint, and the law of each relation's bias, if any."""
        apart = self.disjoint
        # relations share biases, and are many
        shared = {id(bias): bias for bias in biases if bias is not None}
        ours = {key for key, bias in shared.items() if _is_ours(bias)}
        laws: list[Law | None] = []
        for relation, bias in zip(self.plan.relations, biases, strict=True):
            if bias is None:
                laws.append(UNIFORM)
                continue
            adj: Any = relation.adj
            remote = isinstance(adj, RemoteRows)
            # it must refuse what has to see the rows before that begins
            told = adj.told_as_data(bias, every.numel()) if remote else None
            bias.begin(adj, every)
            apart = apart or bias.separates_trees
            law = told if remote else bias.law(adj)
            if law is not None:
                if not (remote or id(bias) in ours):
                    _check_law(law, adj, every.numel())
                apart = apart or law.time is not None  # times are those of trees
            elif self.padded:
                rule = "must be told by a law where samples are padded"
                _check.fail("bias", rule, bias, "see 'Bias.law'")
            laws.append(law)
        return apart, laws

    def _biases(self, bias: Any) -> list[Bias | None]:
        """A checked bias per relation."""
        kinds = self.edge_types
        parts = bias if isinstance(bias, Mapping) else dict.fromkeys(kinds, bias)
        _check.known_types("bias", parts, kinds, "edge types")
        found = [_simplest(parts.get(kind)) for kind in kinds]
        asks = any(part is not None and part.looks_back for part in found)
        if len(self.node_types) > 1 and asks:
            rule = "must not ask for the last node where there are several node types"
            _check.fail("bias", rule, bias)
        return found

    def _typed_seeds(self, seeds: Any) -> tuple[list[Tensor], Sequence[int]]:
        """The seeds of every node type, and the order in which trees are numbered."""
        if not isinstance(seeds, Mapping):
            rule = "must map node types to ids, as there are several types"
            _check.mistyped("seeds", rule, type(seeds).__name__)
        _check.known_types("seeds", seeds, self.node_types, "node types")
        starts, order = self._none.copy(), [self.number[name] for name in seeds]
        for number, ids in zip(order, seeds.values(), strict=True):
            starts[number] = self._checked_seeds(number, ids)
        return starts, order or range(len(starts))

    def _checked_seeds(self, number: int, ids: Any) -> Tensor:
        """The seeds of one node type."""
        named = f"seeds[{self.node_types[number]}]" if self.typed else "seeds"
        size = self.plan.sizes[number]
        where, known = self.plan.device, not self.validate
        found: Tensor = _check.seeds(ids, size, where, named, sound=known)
        return found


def _is_ours(bias: Bias) -> bool:
    """True if a bias is made of this package's own, whose laws fit once begun."""
    return all(
        type(factor).__module__.startswith("gttf_sampler.bias.")
        and not isinstance(factor, FunctionBias)
        and "law" not in vars(factor)
        for factor in bias.factors
    )


def _check_law(law: Law, adj: CompactAdj, trees: int) -> None:
    """Refuses a law that does not fit, or has masses that nobody has checked."""
    _check.law(law, adj.num_edges, trees)
    own, gaps = law.cumulative_weight is None, False
    if law.cumulative_weight is not None and adj.edge_weight is not None:
        own, gaps = (
            law.cumulative_weight is tables.weight_table(adj),
            tables.has_gaps(adj),
        )
    if not own or law.has_zero_weight != gaps:
        rule = "must be that of EdgeWeightBias().law(adj), or None"
        got = f"{law.cumulative_weight}, has_zero_weight={law.has_zero_weight}"
        _check.fail("law.cumulative_weight", rule, got)


def _of_one(found: Rooted | Padded) -> Iterator[Any]:
    """The fields of a subgraph of one type."""
    for field in FIELDS:
        arrays = getattr(found, field)
        yield None if arrays is None else arrays[0]


def _is_odd(ids: Tensor) -> bool:
    """True if numbers are not simply where their address says."""
    return ids.layout is not torch.strided or ids.is_neg()


def _first_roots(starts: Sequence[Tensor], order: Sequence[int]) -> list[int]:
    """Per type, the number of the first tree; they are numbered in the given order."""
    first, root = [0] * len(starts), 0
    for number in order:
        first[number] = root
        root += starts[number].numel()
    return first


def _useful(fanouts: list[int], adj: CompactAdj, replace: bool) -> list[int]:
    """The fanouts, none larger than the longest row if nothing is drawn twice."""
    if replace:
        if max(fanouts, default=0) > _check.MAX_DEGREE:
            rule = f"must not exceed {_check.MAX_DEGREE} with replacement"
            _check.fail("fanouts", rule, max(fanouts))
        return fanouts
    return [min(fanout, adj.max_degree) for fanout in fanouts]


def _simplest(bias: Any) -> Bias | None:
    """A checked bias, without what happens here in any case."""
    found = as_bias(bias)
    return None if found is None else found.in_rooted_sampling()
