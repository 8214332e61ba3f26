"""RootedSampler: what all batches have in common, settled once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
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
from gttf_sampler._backends.torch.hop import sample_hops, sample_padded
from gttf_sampler.bias.base import Bias, FunctionBias, as_bias
from gttf_sampler.draw import draw_hop
from gttf_sampler.graph import tables
from gttf_sampler.graph.compact import CompactAdj, RemoteRows
from gttf_sampler.subgraph import (
    EdgeType,
    HeteroSubgraph,
    PaddedHeteroSubgraph,
    PaddedSubgraph,
    Subgraph,
)

FIELDS = ("node", "row", "col", "edge", "root", "num_nodes", "num_edges")
OF_NODES = ("node", "root", "num_nodes")
ONLY = ("", "", "")  # the edge type of a graph without types
Sampled = Subgraph | HeteroSubgraph | PaddedSubgraph | PaddedHeteroSubgraph
CLASSES = {  # by whether there are types, and whether shapes are static
    (False, False): Subgraph,
    (True, False): HeteroSubgraph,
    (False, True): PaddedSubgraph,
    (True, True): PaddedHeteroSubgraph,
}


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
        node_types: the types of nodes, in the order of the seeds of a batch.
        edge_types: the types of edges, in the order of the laws of a batch.
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
            sizes, adjs = {"": adj.num_rows}, {ONLY: adj}
            hops = {ONLY: _check.fanouts(fanouts, allow_all=True)}
            if hops[ONLY]:
                _check.one_node_set("adj", adj.num_rows, adj.num_cols)
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
            seeds, bias = {"": seeds}, None if bias is None else {ONLY: bias}
        randomness = _check.randomness_on(generator, self.plan.device)
        key = random.new_key(randomness, self.plan.device, random.ROOTED)
        return self.drawn(self.batch_of(seeds, bias, key))  # type: ignore[no-any-return]

    def batch_of(self, seeds: Mapping[str, Any], bias: Any, key: random.Key) -> Batch:
        """The record of a batch, of seeds per node type, all of it checked."""
        starts, first_root = self.starts(seeds, checked=True)
        biases, disjoint, laws = self._draws_of(bias, seeds, starts)
        return Batch(starts, first_root, disjoint, laws, biases, key)

    def drawn(self, batch: Batch) -> Any:
        """A batch as a subgraph."""
        return self._named(self._draw(batch))

    def sample(
        self,
        seeds: Mapping[str, Any],
        bias: Mapping[EdgeType, Any],
        generator: random.Randomness,
        validated: bool = False,
    ) -> Subgraph | HeteroSubgraph:
        """A batch whose edges are named as by the caller of the graph.

        They are `adj.edge_id`, not positions in `adj.col`.

        Args:
            seeds: per node type, "" if there are no types; trees are in their order.
            bias: of the relations that are not drawn uniformly.
            generator: see `sample_rooted`.
            validated: whether the seeds are known to be int64 ids of nodes.
        """
        checked = not (validated or all(map(self._is_plain, seeds, seeds.values())))
        starts, first_root = self.starts(seeds, checked)
        key = random.new_key(generator, self.plan.device, random.ROOTED)
        biases, disjoint, laws = self._draws_of(bias, seeds, starts)
        batch = Batch(
            *(starts, first_root, disjoint, laws, biases, key),
            original_edge_ids=True,
            validated=validated or checked,
        )
        found: Subgraph | HeteroSubgraph = self._named(self._draw(batch))
        return found

    def _is_plain(self, name: str, ids: Any) -> bool:
        """True if ids need no check but that of their range."""
        return (
            self.plan.device.type == "cpu"  # elsewhere, a backend would have to wait
            and name in self.number
            and type(ids) is Tensor
            and ids.dtype == torch.int64
            and ids.dim() == 1
            and ids.device.type == "cpu"
            and ids.layout is torch.strided
            and not ids.is_neg()
        )

    def _named(self, found: Rooted | Padded) -> Any:
        """A batch as a subgraph, by the names of the types where there are types."""
        columns: list[Any] = []
        for field in FIELDS:
            arrays = getattr(found, field)
            if arrays is not None and self.typed:
                kinds: Any = self.node_types if field in OF_NODES else self.edge_types
                arrays = dict(zip(kinds, arrays, strict=True))
            elif arrays is not None:
                (arrays,) = arrays
            columns.append(arrays)
        return CLASSES[self.typed, self.padded](*columns)

    def _draw(self, batch: Batch) -> Rooted | Padded:
        """A batch whose laws are known to be sound."""
        plan, draw = self.plan, partial(draw_hop, self.plan, batch)
        if self.padded:
            return ops.rooted_padded(plan, batch) or sample_padded(plan, batch, draw)
        if self._remote is not None and not batch.validated:
            self._refuse_seeds(batch)
        try:
            if self._remote is not None:
                return self._remote.sample(plan, batch)
            return ops.rooted(plan, batch) or sample_hops(plan, batch, draw)
        except IndexError:
            self._refuse_seeds(batch)
            raise

    def _refuse_seeds(self, batch: Batch) -> None:
        """Raises the error of the first seed that is no node, if there is one."""
        for number, ids in enumerate(batch.seeds):
            self._checked_seeds(number, ids)

    def _draws_of(
        self, bias: Any, seeds: Mapping[str, Any], starts: list[Tensor]
    ) -> tuple[list[Bias | None], bool, list[Law | None]]:
        """The bias of every relation, whether trees are disjoint, and the laws."""
        if bias is None or (isinstance(bias, Mapping) and not bias):
            return self._unbiased, self.disjoint, self._uniform
        biases, trees = self._biases(bias), self._trees(seeds, starts)
        disjoint, remote = self.disjoint, self._remote is not None
        ours: dict[int, bool] = {}  # relations share biases, and are many
        laws: list[Law | None] = []
        for relation, part in zip(self.plan.relations, biases, strict=True):
            if part is None:
                laws.append(UNIFORM)
                continue
            adj: Any = relation.adj
            # it must refuse what has to see the rows before that begins
            law = adj.law_of(part, trees.numel()) if remote else None
            part.begin(adj, trees)
            disjoint = disjoint or part.separates_trees
            if not remote:
                law = part.law(adj)
            if law is not None:
                if id(part) not in ours:
                    ours[id(part)] = remote or _is_ours(part)
                if not ours[id(part)]:
                    _check_law(law, adj, trees.numel())
                disjoint = disjoint or law.time is not None  # times are those of trees
            elif self.padded:
                rule = "must be told by a law where samples are padded"
                _check.fail("bias", rule, part, "see 'Bias.law'")
            laws.append(law)
        return biases, disjoint, laws

    def _biases(self, bias: Any) -> list[Bias | None]:
        """A checked bias per relation, without what happens here in any case."""
        kinds = self.edge_types
        parts = bias if isinstance(bias, Mapping) else dict.fromkeys(kinds, bias)
        _check.known_types("bias", parts, kinds, "edge types")
        simplest: dict[int, Bias | None] = {id(None): None}
        for part in parts.values():
            if id(part) not in simplest:
                found = as_bias(part)
                own = None if found is None else found.in_rooted_sampling()
                if own is not None and own.looks_back and len(self.node_types) > 1:
                    rule = "must not ask for the last node where there are several"
                    _check.fail("bias", f"{rule} node types", bias)
                simplest[id(part)] = own
        return [simplest[id(parts.get(kind))] for kind in kinds]

    def starts(self, seeds: Any, checked: bool) -> tuple[list[Tensor], list[int]]:
        """The seeds of every node type, and the number of the first tree of each."""
        if checked:
            if not isinstance(seeds, Mapping):
                rule = "must map node types to ids, as there are several types"
                _check.mistyped("seeds", rule, type(seeds).__name__)
            _check.known_types("seeds", seeds, self.node_types, "node types")
        starts, first_root, trees = self._none.copy(), [0] * len(self._none), 0
        for name, ids in seeds.items():
            kind = self.number[name]
            starts[kind] = self._checked_seeds(kind, ids) if checked else ids
            first_root[kind] = trees
            trees += starts[kind].numel()
        return starts, first_root

    def _trees(self, seeds: Mapping[str, Any], starts: list[Tensor]) -> Tensor:
        """The seeds of all types, in the order in which trees are numbered."""
        parts = [starts[self.number[name]] for name in seeds]
        return parts[0] if len(parts) == 1 else torch.cat([*self._none, *parts])

    def _checked_seeds(self, number: int, ids: Any) -> Tensor:
        """The seeds of one node type."""
        named = f"seeds[{self.node_types[number]}]" if self.typed else "seeds"
        size, device = self.plan.sizes[number], self.plan.device
        found: Tensor = _check.seeds(ids, size, device, named, sound=not self.validate)
        return found


def _is_ours(bias: Bias) -> bool:
    """True if a bias is made of this package's own, whose laws fit once begun."""
    for factor in bias.factors:
        own = type(factor).__module__.startswith("gttf_sampler.bias.")
        if not own or isinstance(factor, FunctionBias) or "law" in vars(factor):
            return False
    return True


def _check_law(law: Law, adj: CompactAdj, trees: int) -> None:
    """Refuses a law that does not fit, or has masses that nobody has checked."""
    _check.law(law, adj.num_edges, trees)
    own, gaps = law.cumulative_weight is None, False
    if not own and adj.edge_weight is not None:
        own = law.cumulative_weight is tables.weight_table(adj)
        gaps = tables.has_gaps(adj)
    if not own or law.has_zero_weight != gaps:
        rule = "must be that of EdgeWeightBias().law(adj), or None"
        got = f"{law.cumulative_weight}, has_zero_weight={law.has_zero_weight}"
        _check.fail("law.cumulative_weight", rule, got)


def _useful(fanouts: list[int], adj: CompactAdj, replace: bool) -> list[int]:
    """The fanouts, none larger than the longest row if nothing is drawn twice."""
    if replace:
        if max(fanouts, default=0) > _check.MAX_DEGREE:
            rule = f"must not exceed {_check.MAX_DEGREE} with replacement"
            _check.fail("fanouts", rule, max(fanouts))
        return fanouts
    return [min(fanout, adj.max_degree) for fanout in fanouts]
