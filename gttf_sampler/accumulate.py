"""Accumulators, which plug into `traverse` and record each depth."""

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends.scratch import relabel
from gttf_sampler.forest import ForestAcc, WalkForest
from gttf_sampler.subgraph import Subgraph


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
                row, new = relabel(known, child[taken], table)
                col, _ = relabel(known, parent[taken], table)
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
        forest = _check.traversed(self._forest)
        node, weight = forest.nodes[self.k], forest.walk_weight(self.k)
        tree = torch.arange(node.shape[0], device=node.device)[:, None].expand_as(node)
        alive = node >= 0
        index = torch.stack([tree[alive], node[alive]])
        size = (node.shape[0], forest.adj.num_cols if self.k else forest.adj.num_rows)
        weight = weight[alive]
        return torch.sparse_coo_tensor(
            index, weight, size, check_invariants=False, device=index.device
        ).coalesce()
