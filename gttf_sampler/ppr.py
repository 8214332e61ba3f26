"""Neighbours by personalised PageRank: where walks that restart spend their time.

A walk that returns to its seed with probability α before every step is k steps away
with probability α (1 − α)ᵏ, so that personalised PageRank is Σ_k α (1 − α)ᵏ 𝒯ᵏ: a GTTF
specialisation whose BiasFn is that of a plain walk (uniform, by weight, of any kind),
and whose AccumulateFn weighs what it visits.
"""

from __future__ import annotations

from math import ceil, log

import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler.draw import BiasFn
from gttf_sampler.forest import ForestAcc
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.traverse import traverse

TREES = 1 << 10  # seeds that walk at a time
REST = 0.05  # probability that a walk is longer than those drawn


class PPRAcc(ForestAcc):
    """Estimates a row of personalised PageRank for every seed, [b, n].

    >>> from gttf_sampler import CompactAdj, PPRAcc, traverse
    >>> pair = CompactAdj.from_edge_index([[0, 1], [1, 0]])
    >>> rank = PPRAcc(restart=0.5)
    >>> forest = traverse(pair, [0], [1, 1], accumulate=rank)
    >>> rank.result().to_dense().tolist()  # ½, then ¼, and the rest where it ends
    [[0.75, 0.25]]

    A walker at depth k counts α (1 − α)ᵏ of its walk weight, at the last depth all that
    is left, (1 − α)ʰ, so that rows sum to one. Unbiased, but for that end, with draws
    with replacement: no coin is thrown, which would add variance.

    Args:
        restart: α, how likely a walk returns to its seed before each step.
    """

    def __init__(self, restart: float = 0.15) -> None:
        self.restart = _restart(restart)

    def result(self) -> Tensor:
        """A sparse [b, n] matrix whose rows sum to one unless walkers have stopped."""
        forest = _check.traversed(self._forest)
        _check.one_node_set("adj", forest.adj.num_rows, forest.adj.num_cols)
        index, value, left = [], [], 1.0
        levels = zip(forest.nodes, forest.walk_weights(), strict=True)
        for depth, (node, weight) in enumerate(levels):
            stops = left if depth == forest.depth else left * self.restart
            left *= 1 - self.restart
            tree = torch.arange(node.shape[0], device=node.device)[:, None]
            alive = node >= 0
            index.append(torch.stack([tree.expand_as(node)[alive], node[alive]]))
            value.append(stops * weight[alive])
        size = (forest.nodes[0].shape[0], forest.adj.num_cols)
        return torch.sparse_coo_tensor(
            *(torch.cat(index, dim=1), torch.cat(value), size),
            check_invariants=False,
            device=forest.adj.device,
        ).coalesce()


def ppr_neighbors(
    adj: CompactAdj,
    k: int,
    *,
    restart: float = 0.15,
    walks: int = 128,
    length: int | None = None,
    bias: BiasFn | None = None,
    generator: random.Randomness = None,
) -> CompactAdj:
    """The `k` nodes with the most personalised PageRank from each node, as a graph.

    >>> from gttf_sampler import CompactAdj, ppr_neighbors
    >>> ring = CompactAdj.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> near = ppr_neighbors(ring, k=1)
    >>> near.col.tolist(), near.edge_weight.shape  # walks go against the edges
    ([3, 0, 1, 2], torch.Size([4]))

    Estimated by walks (`PPRAcc`), so that only nodes that were visited are found. Row u
    has its neighbours from the largest share on, without u itself, and their shares as
    `edge_weight`: whatever takes a graph takes this one.

    Args:
        adj: the graph, of one set of nodes; walks take its rows.
        k: neighbours per node, at most.
        restart: how likely a walk returns before each step.
        walks: from every node; the error falls with their square root.
        length: of a walk, at most; by default so that one in twenty would be longer.
        bias: how a walk goes on; None draws uniformly.
        generator: see `traverse`.
    """
    _check.of_type("adj", adj, CompactAdj)
    _check.one_node_set("adj", adj.num_rows, adj.num_cols)
    k, walks = _check.count("k", k), _check.count("walks", walks)
    acc = PPRAcc(restart)
    if length is None:
        length = max(1, ceil(log(REST) / log(1 - acc.restart)))
    steps = [walks] + [1] * (_check.count("length", length) - 1)
    key = random.new_key(_check.randomness(generator), torch.device("cpu"), random.WALK)
    counts, cols, shares = [], [], []
    every = torch.arange(adj.num_rows, device=adj.device)
    for number, seeds in enumerate(every.split(TREES)):
        own = int(random.fold(key, number))
        traverse(adj, seeds, steps, bias, acc, generator=own)
        count, col, share = _largest(acc.result(), seeds, k)
        counts.append(count)
        cols.append(col)
        shares.append(share)
    none = every.new_zeros(1)
    return CompactAdj.from_csr(
        torch.cat([none, *counts]).cumsum(0),
        torch.cat([none[:0], *cols]),
        adj.num_cols,
        direction=adj.direction,
        edge_weight=torch.cat([torch.empty(0, device=adj.device), *shares]),
    )


def _largest(rank: Tensor, seeds: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Per row how many there are [b], the columns of the `k` largest, their values."""
    (row, col), value = rank.indices(), rank.values()
    other = col != seeds[row]
    row, col, value = row[other], col[other], value[other]
    order = value.argsort(descending=True, stable=True)
    order = order[row[order].argsort(stable=True)]
    row = row[order]
    count = torch.bincount(row, minlength=seeds.numel())
    place = torch.arange(row.numel(), device=row.device)
    first = place - (count.cumsum(0) - count)[row] < k
    return count.clamp(max=k), col[order][first], value[order][first]


def _restart(value: float) -> float:
    """A probability strictly between zero and one."""
    found = float(_check.finite("restart", value))
    if not 0 < found < 1:
        _check.fail("restart", "must be in (0, 1)", value)
    return found
