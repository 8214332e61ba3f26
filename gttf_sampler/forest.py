"""WalkForest, one [batch, width] tensor of nodes per depth, and its accumulators."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends import ops
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.subgraph import Subgraph


@dataclass(frozen=True, eq=False, repr=False)
class WalkForest:
    """Random walks from a batch of seeds, one tree of walkers per seed; the paper's Ω.

    `nodes[k][u, i]` is Ω(u, k, i): walker i at depth k in the tree of seed number u.
    Its parent is walker i // fanouts[k - 1] at depth k - 1. -1: it has stopped.

    Attributes:
        adj: the graph walked on.
        fanouts: f₁ … f_h; the width at depth k is f₁ ⋯ f_k.
        nodes: per depth 0 … h, int64 [b, width].
        edges: per depth, int64 [b, width]: the position in `adj.col` of the edge that
            led there; -1 at the seeds, where a walker has stopped, and where it stayed
            because its node has no neighbour.
    """

    adj: CompactAdj
    fanouts: tuple[int, ...]
    nodes: list[Tensor] = field(default_factory=list)
    edges: list[Tensor] = field(default_factory=list)

    @property
    def depth(self) -> int:
        """The number of steps taken, h when the traversal is over."""
        return len(self.nodes) - 1

    def begin(self, seeds: Tensor, out: WalkForest | None = None) -> None:
        """Appends the seeds [b], written to the tensors of `out` if there is one."""
        node = seeds[:, None]
        self._append(torch.full_like(node, -1), node, out)

    def add(self, edge: Tensor, node: Tensor, out: WalkForest | None = None) -> None:
        """Appends one depth: the edges taken and where they led, [b · width, f]."""
        trees = self.nodes[0].shape[0]
        width = self.nodes[-1].shape[1] * self.fanouts[self.depth]
        self._append(edge.view(trees, width), node.view(trees, width), out)

    def _append(self, edge: Tensor, node: Tensor, out: WalkForest | None) -> None:
        """Appends tensors [b, width], or what is in `out` for them."""
        if out is not None:
            depth = len(self.nodes)
            edge = out.edges[depth].copy_(edge)
            node = out.nodes[depth].copy_(node)
        self.edges.append(edge)
        self.nodes.append(node)

    def ensure_room(
        self, adj: CompactAdj, trees: int, fanouts: tuple[int, ...]
    ) -> None:
        """Refuses to be written to unless it is of that graph and those sizes."""
        if self.adj is not adj or self.fanouts != fanouts:
            rule = f"must be a forest of the same graph and the fanouts {list(fanouts)}"
            _check.fail("out", rule, f"{self!r} with {list(self.fanouts)}")
        shapes, width = [], 1
        for fanout in (1, *fanouts):
            width *= fanout
            shapes.append((trees, width))
        for levels in (self.nodes, self.edges):
            fits = [tuple(x.shape) for x in levels] == shapes
            plain = [x.dtype == torch.int64 and x.is_contiguous() for x in levels]
            if not fits or not all(plain):
                rule = f"must hold contiguous int64 tensors of the shapes {shapes}"
                _check.fail("out", rule, [list(level.shape) for level in levels])

    def path(self, k: int) -> Tensor:
        """[b · width, k + 1]: the nodes of each walker at depth k, seed first."""
        k = self._checked(k)
        width = self.nodes[k].shape[1]
        levels = [
            level.repeat_interleave(width // level.shape[1], dim=1).reshape(-1)
            for level in self.nodes[: k + 1]
        ]
        return torch.stack(levels, dim=1)

    def walk_weight(self, k: int) -> Tensor:
        """η [b, width]: what each walker at depth k counts; 0 where it has stopped.

        1 / (f₁ ⋯ f_k) as long as every walker draws f children. Where a row is shorter
        than the fanout (`replace=False`) its children share the weight of their parent.
        """
        return self._weights(self._checked(k))[-1]

    def walk_weights(self) -> list[Tensor]:
        """η [b, width] of every depth 0 … h; see `walk_weight`."""
        return self._weights(self.depth)

    def _weights(self, last: int) -> list[Tensor]:
        """η of the depths up to a given one."""
        batch = self.nodes[0].shape[0]
        weights = [torch.ones(batch, 1, device=self.adj.device)]
        for depth in range(1, last + 1):
            alive = self.nodes[depth] >= 0
            weight, fanout = weights[-1], self.fanouts[depth - 1]
            family = alive.view(batch, weight.shape[1], fanout)
            share = weight / family.sum(-1).clamp(min=1)
            weights.append(share[:, :, None].mul(family).view(alive.shape))
        return weights

    def edge_index(self) -> Tensor:
        """int64 [2, e]: the edges walked along, (from, to), depth by depth."""
        pairs = []
        for depth in range(1, self.depth + 1):
            taken = self.edges[depth] >= 0
            before = self.nodes[depth - 1].repeat_interleave(
                self.fanouts[depth - 1], dim=1
            )
            pairs.append(torch.stack([before[taken], self.nodes[depth][taken]]))
        if not pairs:
            return self.nodes[0].new_empty(2, 0)
        return torch.cat(pairs, dim=1)

    def to(self, device: torch.device | str) -> WalkForest:
        """A copy of the forest, and of its graph, on another device."""
        device = _check.device("device", device)
        nodes = [level.to(device) for level in self.nodes]
        edges = [level.to(device) for level in self.edges]
        return WalkForest(self.adj.to(device), self.fanouts, nodes, edges)

    def draw(self, tree: int | None = None) -> Any:
        """A picture: a matplotlib figure if that is installed, else text.

        `tree` picks the tree of one seed; by default all of them are drawn.
        """
        from gttf_sampler.plot import forest

        return forest.draw(self, tree)

    def text(self, tree: int | None = None) -> str:
        """The trees as indented lines of text."""
        from gttf_sampler.plot import forest

        return forest.text(self, tree)

    def __repr__(self) -> str:
        widths = " → ".join(str(level.shape[1]) for level in self.nodes[:6])
        if self.depth >= 6:
            widths += f" → … (depth {self.depth})"
        trees = self.nodes[0].shape[0] if self.nodes else 0
        return f"WalkForest({trees} trees, width {widths} on {self.adj.device})"

    def _checked(self, k: int) -> int:
        """`k` as a depth, which the forest must have."""
        depth = _check.integer("k", k)
        if not 0 <= depth <= self.depth:
            _check.fail("k", f"must be a depth from 0 to {self.depth}", depth)
        return depth


class ForestAcc:
    """An accumulator that needs nothing but the forest at the end."""

    watches = False
    _forest: WalkForest | None = None

    def __init_subclass__(cls) -> None:
        """A subclass with a `__call__` of its own is called at every depth."""
        super().__init_subclass__()
        cls.watches = cls.watches or "__call__" in vars(cls)

    def begin(self, forest: WalkForest) -> None:
        """Starts over, with the forest of the traversal that begins."""
        self._forest = forest

    def __call__(self, path: Tensor, node: Tensor, fanout: int) -> None:
        """Nothing to do on the way: the forest remembers all."""


class RootedAdjAcc:
    """Records every edge walked on: the rooted adjacency Ã of the batch.

    >>> from gttf_sampler import CompactAdj, NoRevisitBias, traverse
    >>> star = CompactAdj.from_edge_index([[1, 2, 3], [0, 0, 0]])
    >>> rooted = RootedAdjAcc()
    >>> forest = traverse(star, [0], [3], NoRevisitBias(), rooted, replace=False)
    >>> rooted.result().edge_index.tolist()
    [[1, 2, 3], [0, 0, 0]]

    `sample_rooted` gives the same distribution in one fused pass, except that there
    each copy of a repeated seed is expanded, and here the first one only.

    Differs from the paper: the row is the parent, which receives; as printed, the
    child's row would be set and `NoRevisitBias` stop every child.
    """

    _forest: WalkForest | None = None

    def begin(self, forest: WalkForest) -> None:
        """Starts over."""
        _check.one_node_set("adj", forest.adj.num_rows, forest.adj.num_cols)
        self._forest = forest
        self._parent: list[Tensor] = []
        self._child: list[Tensor] = []

    def __call__(self, path: Tensor, node: Tensor, fanout: int) -> None:
        """Ã[parent, child] ← 1 for every walker that took an edge."""
        self._parent.append(path[:, -1])
        self._child.append(node)

    def result(self) -> Subgraph:
        """The rooted adjacency of the last traversal."""
        forest = _check.traversed(self._forest)
        adj, levels = forest.adj, forest.edges[1:]
        known = forest.nodes[0].view(-1)
        nodes, edges = [known], []
        with adj.borrow_table(adj.num_rows) as table:
            for parent, child, edge in zip(
                self._parent, self._child, levels, strict=True
            ):
                taken = (edge.reshape(-1) >= 0).nonzero().view(-1)
                row, new = ops.relabel(known, child[taken], table)
                col, _ = ops.relabel(known, parent[taken], table)
                edges.append((row, col, edge.reshape(-1)[taken]))
                nodes.append(child[taken][new])
                known = torch.cat([known, nodes[-1]])
        empty = known.new_empty(0)
        columns = zip(*edges, strict=True) if edges else [(empty,)] * 3
        row, col, edge = (torch.cat(parts) for parts in columns)
        return Subgraph(
            known,
            row,
            col,
            edge,
            num_sampled_nodes=[level.numel() for level in nodes],
            num_sampled_edges=[level[0].numel() for level in edges],
        )


class TransitionAcc(ForestAcc):
    """Estimates row u of 𝒯ᵏ, the k-step transition matrix, for every seed u; eq. (5).

    Entry (u, v) is the weight of the walkers from seed number u that stand at v after k
    steps: unbiased for draws with replacement (Proposition 1), and for uniform draws
    without. Siblings share their parent, so the variance bound 1 / (4 fᵏ) of
    Proposition 2 holds for k = 1 or f = 1; with replacement 1 / (4 f₁) always does.
    """

    def __init__(self, k: int) -> None:
        self.k = _check.size("k", k)

    def begin(self, forest: WalkForest) -> None:
        """Starts over, in a traversal that must have k fanouts at least."""
        if self.k > len(forest.fanouts):
            rule = f"must not exceed the number of fanouts {len(forest.fanouts)}"
            _check.fail("k", rule, self.k)
        super().begin(forest)

    def result(self) -> Tensor:
        """A sparse [b, n] matrix whose rows sum to one unless walkers have stopped."""
        return transitions(_check.traversed(self._forest), self.k).coalesce()


def transitions(forest: WalkForest, k: int) -> Tensor:
    """𝒯̂ᵏ as a sparse [b, n] matrix, in which entries may repeat."""
    node, weight = forest.nodes[k], forest.walk_weight(k)
    tree = torch.arange(node.shape[0], device=node.device)[:, None].expand_as(node)
    alive = node >= 0
    index = torch.stack([tree[alive], node[alive]])
    size = (node.shape[0], forest.adj.num_cols if k else forest.adj.num_rows)
    return torch.sparse_coo_tensor(
        index, weight[alive], size, check_invariants=False, device=index.device
    )
