"""Pairs of nodes whose vectors are multiplied, their loss terms and gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

# columns of `Pairs.blocks`
SOURCE, SOURCE_STEP, TARGET, TARGET_STEP, SHARE, ROWS, WIDTH, SCORE = range(8)

# A pair with score s and weight w adds w · φ(s); φ is, by kind:
LINEAR = 0  # s
LIKE = 1  # −log σ(s)
UNLIKE = 2  # −log σ(−s)
LIKE_EPS = 3  # −log(σ(s) + eps)
UNLIKE_EPS = 4  # −log(1 − σ(s) + eps)
PARTITION = 5  # log mean exp s, of all pairs of a source and once for them

# columns of `Terms.blocks`
KIND, WEIGHT, ROW_STEP, PAIR_STEP = range(4)

RULES = ("sgd", "adagrad", "adam")


class Rule(NamedTuple):
    """The rule by which an optimizer changes a row z by its gradient g.

    g is what the loss owes, times `scale`, and decay · z.

    - "sgd": z −= rate · g
    - "adagrad": s += g²; z −= rate · g / (√s + eps)
    - "adam": m and s become moving averages of g and g², of a row only when it is
      touched; z −= rate · m / (√s + eps)

    Attributes:
        kind: one of `RULES`.
        rate: of learning, corrections of the bias of averages included.
        beta1: what is kept of m.
        beta2: what is kept of s.
        eps: added to roots.
        scale: what gradients are multiplied by first.
        key: of the random numbers by which bfloat16 is rounded.
        decay: how much of the row its gradient gets.
    """

    kind: str
    rate: float
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    key: int = 0
    scale: float = 1.0
    decay: float = 0.0


class Pairs(NamedTuple):
    """The pairs of a batch of trees: sources, and targets of each.

    A block is a rectangle of pairs: row r has the source at SOURCE + r · SOURCE_STEP of
    `nodes` and the WIDTH targets from TARGET + (r // SHARE) · TARGET_STEP on. Its
    scores begin at SCORE, row by row. All trees have ROWS rows of it, in their order,
    so that a tree can be worked on as long as its vectors are in the cache.

    Attributes:
        nodes: int64 [*], in any order.
        blocks: int64 [blocks, 8], a column for each of the above.
        trees: how many there are.
        scores: how many pairs there are in all.
        looked_up: int64 [parts, 2], where the sources and targets of a tree are, all of
            them: where the first tree begins, and how many nodes each of them has.
    """

    nodes: Tensor
    blocks: Tensor
    trees: int
    scores: int
    looked_up: Tensor

    @property
    def device(self) -> torch.device:
        """The device of the nodes."""
        return self.nodes.device

    def rows(self, block: int) -> int:
        """The number of rows of a block."""
        return int(self.blocks[block, ROWS]) * self.trees

    def ends(self, block: int) -> tuple[Tensor, Tensor]:
        """The sources [rows] and the targets [rows, width] of a block."""
        place = self.blocks[block].tolist()
        rows = place[ROWS] * self.trees
        source = self.nodes.as_strided((rows,), (place[SOURCE_STEP],), place[SOURCE])
        shape, step = (rows // place[SHARE], place[WIDTH]), (place[TARGET_STEP], 1)
        target = self.nodes.as_strided(shape, step, place[TARGET])
        return source, target.repeat_interleave(place[SHARE], dim=0)


def of_levels(
    levels: Sequence[Tensor],
    chosen: Sequence[tuple[int, int]],
    common: int | None = None,
) -> Pairs:
    """Pairs of every walker [b, width] of a level [b, ...] and its part of a wider one.

    `chosen` are the numbers of two levels, of sources and of targets, per block. All
    nodes of the level `common` are targets of all walkers of their tree.
    """
    trees = levels[0].shape[0]
    widths = [math.prod(level.shape[1:]) for level in levels]
    starts, blocks, scores = [0], list[list[int]](), 0
    for width in widths:
        starts.append(starts[-1] + width * trees)
    for source, target in chosen:
        rows, width, share = widths[source], widths[target], 1
        if target == common:
            share = rows
        else:
            width //= rows
        ends = starts[source], 1, starts[target], width
        blocks.append([*ends, share, rows, width, scores])
        scores += trees * rows * width
    nodes = torch.cat([level.reshape(-1) for level in levels])
    used = sorted({level for pair in chosen for level in pair})
    looked_up = [(starts[level], widths[level]) for level in used]
    return _made(nodes, blocks, trees, scores, looked_up)


def of_paths(
    nodes: Sequence[Tensor],
    others: Sequence[Tensor],
    window: int,
    chosen: Sequence[tuple[int, int]],
) -> Pairs:
    """Pairs of every node [b, 1] of a plain walk and up to `window` nodes after it.

    `chosen` are depths, each with the number of those `others` [b, ...] that it is a
    source of. Pairs of one depth come after each other, walk by walk: [b, up to
    window]. With all targets of a source in one row, its gradient stays in registers.
    """
    trees, length = nodes[0].shape[0], len(nodes)
    walks = torch.cat(list(nodes), dim=1)
    blocks, scores, starts = list[list[int]](), 0, [walks.numel()]
    for i in range(length - 1):
        width = min(window, length - 1 - i)
        blocks.append([i, length, i + 1, length, 1, 1, width, scores])
        scores += trees * width
    widths = [math.prod(level.shape[1:]) for level in others]
    for width in widths:
        starts.append(starts[-1] + trees * width)
    for i, number in chosen:
        begin, width = starts[number], widths[number]
        blocks.append([i, length, begin, width, 1, 1, width, scores])
        scores += trees * width
    flat = torch.cat([walks.view(-1), *(level.reshape(-1) for level in others)])
    looked_up = [(0, length), *zip(starts, widths, strict=False)]
    return _made(flat, blocks, trees, scores, looked_up)


def of_windows(windows: Sequence[Tensor], per_walk: int) -> Pairs:
    """Pairs of the first node of every window [w, size] and each other one.

    The first windows of all walks come first, then the second ones, `per_walk` in all,
    as PyG puts them. If they are in another order, all that is lost is speed.
    """
    walks = windows[0].shape[0]
    if any(part.shape[0] % per_walk for part in windows):
        per_walk = 1
    trees = math.gcd(*(part.shape[0] // per_walk for part in windows)) or walks
    start, scores = 0, 0
    blocks, looked_up = list[list[int]](), list[tuple[int, int]]()
    for part in windows:
        size = part.shape[1]
        rows = part.shape[0] // per_walk // max(1, trees)  # of a tree in a block
        for turn in range(per_walk):
            begin = start + turn * rows * trees * size
            blocks.append([begin, size, begin + 1, size, 1, rows, size - 1, scores])
            scores += rows * trees * (size - 1)
            looked_up.append((begin, rows * size))
        start += part.numel()
    nodes = torch.cat([part.reshape(-1) for part in windows])
    return _made(nodes, blocks, trees, scores, looked_up)


def of_walks(walks: Sequence[Tensor], context: int) -> Pairs:
    """Pairs of every node of a walk [w, length] and the `context` − 1 nodes after it.

    Those that have as many; these are the pairs of `of_windows`, in the same order.
    """
    trees = math.gcd(*(part.shape[0] for part in walks))
    start, scores = 0, 0
    blocks, looked_up = list[list[int]](), list[tuple[int, int]]()
    for part in walks:
        length, rows = part.shape[1], part.shape[0] // max(1, trees)
        for turn in range(length - context + 1):
            begin, width = start + turn, context - 1
            blocks.append([begin, length, begin + 1, length, 1, rows, width, scores])
            scores += part.shape[0] * width
        looked_up.append((start, rows * length))
        start += part.numel()
    nodes = torch.cat([part.reshape(-1) for part in walks])
    return _made(nodes, blocks, trees, scores, looked_up)


def _made(
    nodes: Tensor,
    blocks: list[list[int]],
    trees: int,
    scores: int,
    looked_up: list[tuple[int, int]],
) -> Pairs:
    """The record, with its tables as tensors."""
    table = torch.tensor(blocks, dtype=torch.int64).view(-1, 8)
    parts = torch.tensor(looked_up, dtype=torch.int64).view(-1, 2)
    return Pairs(nodes.to(torch.int64), table, trees, scores, parts)


class Terms(NamedTuple):
    """The loss terms of pairs, block by block.

    Pair i of row r of a block counts weight[WEIGHT + r · ROW_STEP + i · PAIR_STEP]:
    weights may belong to pairs, to sources, or to a block as a whole.

    Attributes:
        blocks: int64 [blocks, 4], a column for each of the above, the kind of φ first.
        eps: of the kinds that have one.
        symmetric: a score is ½ (⟨L_u, R_v⟩ + ⟨R_u, L_v⟩) instead of ⟨L_u, R_v⟩.
    """

    blocks: Tensor
    eps: float = 0.0
    symmetric: bool = False


class RowGradients(NamedTuple):
    """Gradients of some rows of a table, none of them twice.

    Attributes:
        row: int64 [r], which rows, in any order.
        at: int64 [r], where in `total` the gradient of each is.
        total: [*, d].
    """

    row: Tensor
    at: Tensor
    total: Tensor

    @property
    def device(self) -> torch.device:
        """The device of the rows."""
        return self.total.device


class Passed(NamedTuple):
    """The output of one pass over pairs.

    Attributes:
        value: [], the loss.
        unit: [weights], φ summed per weight, which is the gradient in the weights; zero
            for those of whole blocks, which are constants; None if nobody asked.
        gradients: of the left and the right table, of one if they are the same; empty
            if nobody asked.
    """

    value: Tensor
    unit: Tensor | None
    gradients: list[RowGradients]


def terms(
    pairs: Pairs, kinds: Sequence[int], weights: Sequence[str], **how: float | bool
) -> Terms:
    """Terms with one of `kinds` of φ per block, and one sort of weights.

    What has a weight of its own is a "pair", a "source" or a "block"; all blocks of one
    kind for which "block" is said share one. Blocks of one sort come after each other.
    """
    table, start, shared = list[list[int]](), 0, dict[int, int]()
    for block, (kind, sort) in enumerate(zip(kinds, weights, strict=True)):
        width = int(pairs.blocks[block, WIDTH])
        rows = pairs.rows(block)
        if sort == "block":
            if kind not in shared:
                shared[kind] = start
                start += 1
            table.append([kind, shared[kind], 0, 0])
        elif sort == "source":
            table.append([kind, start, 1, 0])
            start += rows
        else:
            table.append([kind, start, width, 1])
            start += rows * width
    made = torch.tensor(table, dtype=torch.int64).view(-1, 4)
    return Terms(made, **how)  # type: ignore[arg-type]


def scored(pairs: Pairs) -> Terms:
    """φ(s) = s, a weight per pair in the order of the scores."""
    count = len(pairs.blocks)
    kind = torch.full((count,), LINEAR)
    columns = [kind, pairs.blocks[:, SCORE], pairs.blocks[:, WIDTH]]
    return Terms(torch.stack([*columns, torch.ones_like(kind)], dim=1))
