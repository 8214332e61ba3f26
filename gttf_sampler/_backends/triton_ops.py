"""The backend for GPUs: the functions of `torch_ops` as fused Triton kernels.

Same names, same arguments, same bits. What is missing here is left to `torch_ops`, and
so is what a function returns None for. Nothing waits for the device but `rooted`, once
per hop, and once more in front where the first hop takes all.
"""

import math
import struct
from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from gttf_sampler._backends import torch_ops
from gttf_sampler._backends import triton_launch as how
from gttf_sampler._backends.triton_arguments import send_words
from gttf_sampler._backends.triton_forest import forest
from gttf_sampler._backends.triton_launch import blocks, bucket, key_of, launch
from gttf_sampler._backends.triton_rooted import rooted as rooted
from gttf_sampler._backends.triton_rooted import rooted_padded as rooted_padded
from gttf_sampler._backends.triton_rows import COLUMNS, gather_rows
from gttf_sampler._backends.triton_walks import node2vec, walk
from gttf_sampler._backends.types import Moves, SecondOrder
from gttf_sampler.random import Key

Levels = list[tuple[Tensor, Tensor]]


def forest_uniform(
    rowptr: Tensor,
    col: Tensor,
    seeds: Tensor,
    fanouts: Sequence[int],
    replace: bool,
    key: Key,
    stays: bool,
) -> Levels:
    """(edges, nodes) of every depth; see `torch_ops`."""
    return _forest(rowptr, col, None, seeds, fanouts, replace, key, stays)


def forest_by_mass(
    rowptr: Tensor,
    col: Tensor,
    mass: Tensor,
    seeds: Tensor,
    fanouts: Sequence[int],
    replace: bool,
    key: Key,
    stays: bool,
) -> Levels | None:
    """(edges, nodes) of every depth, drawn by mass; see `torch_ops`."""
    if not replace and max(fanouts, default=0) > how.WIDEST:
        return None
    return _forest(rowptr, col, mass, seeds, fanouts, replace, key, stays)


def _forest(
    rowptr: Tensor,
    col: Tensor,
    mass: Tensor | None,
    seeds: Tensor,
    fanouts: Sequence[int],
    replace: bool,
    key: Key,
    stays: bool,
) -> Levels:
    """All depths of a forest, by mass if there is one."""
    batch, table = seeds.numel(), rowptr if mass is None else mass
    widths = list(accumulate(fanouts, int.__mul__, initial=batch))[1:]
    nodes, edges = _room(sum(widths), seeds), _room(sum(widths), seeds)
    arrays = rowptr, col, table, key_of(key)
    rest = batch, int(stays), seeds.contiguous(), nodes, edges
    if batch and set(fanouts) == {1}:  # with or without replacement comes to the same
        launch(
            walk,
            (blocks(batch, how.WALKERS),),
            *(*arrays, batch, len(fanouts), *rest[1:]),
            MASS=mass is not None,
            B=how.WALKERS,
        )
    elif batch and fanouts:
        words, room = _room(len(fanouts), seeds), bucket(max(fanouts))
        send_words(words, 0, list(fanouts))
        launch(
            forest,
            (blocks(batch, how.SEEDS),),
            *(*arrays, words, len(fanouts), *rest),
            REPLACE=replace,
            MASS=mass is not None,
            SEEDS=how.SEEDS,
            B=max(1, how.LANES // room),
            F=room,
        )
    return _levels(edges, nodes, widths, fanouts)


def walk_node2vec(
    graph: SecondOrder, seeds: Tensor, length: int, key: Key, stays: bool
) -> Levels | None:
    """(edges, nodes) of every step; see `torch_ops`."""
    batch, order = seeds.numel(), graph.order()
    nodes, edges = _room(batch * length, seeds), _room(batch * length, seeds)
    back, near, away, unit, extra, copies = graph.envelope
    reverse = graph.reverse or (graph.rowptr, graph.col)
    launch(
        node2vec,
        (blocks(batch, how.WALKERS) if length else 0,),
        *(graph.rowptr, graph.col, graph.sorted_col),
        *(graph.col if order is None else order, *reverse),
        graph.col if graph.table is None else graph.table,
        *(graph.col if graph.weight is None else graph.weight, key_of(key)),
        (back, near, away, unit, max(extra, 1), extra * copies),
        *(_shares(graph.alpha), _words_of(graph.alpha), graph.rounds),
        *(batch, length, int(stays)),
        *(seeds.contiguous(), nodes, edges),
        ORDERED=order is None,
        REVERSED=graph.reverse is not None,
        MASS=graph.table is not None,
        B=how.WALKERS,
    )
    return _levels(edges, nodes, [batch] * length, [1] * length)


def gather(moves: Moves) -> list[Tensor]:
    """Rows of all columns in one launch; see `torch_ops`.

    An index that is out of range stops the device, as torch's own kernels do.
    """
    words, longest = [], 0
    for move in moves.columns:
        if len(move.values) != 1 or move.row is None or not move.plain:
            torch_ops.gather(Moves(moves.device, [move]))
            continue
        (values,), index, out = move.values, move.row, move.out
        if not out.numel():
            continue
        if moves.device.type == "cpu":  # the interpreter has no way to stop
            low, high = index.aminmax()
            if low < 0 or high >= values.shape[0]:
                raise IndexError("an index is out of range")  # `gather_rows` words it
        size = values.nbytes // values.shape[0]  # of a row
        places = values.data_ptr() | out.data_ptr() | size
        unit = next(unit for unit in (8, 4, 2, 1) if places % unit == 0)
        ends = index.data_ptr(), index.numel(), out.data_ptr()
        words += [values.data_ptr(), values.shape[0], size // unit, unit, *ends]
        longest = max(longest, out.nbytes // unit)
    if words:
        columns = torch.empty(len(words), dtype=torch.int64, device=moves.device)
        send_words(columns, 0, words)
        grid = blocks(longest, how.UNITS), len(words) // COLUMNS.value
        launch(
            gather_rows, grid, columns, B=how.UNITS, debug=True, sanitize_overflow=False
        )
    return [move.out for move in moves.columns]


def _room(size: int, like: Tensor) -> Tensor:
    """Room for ids."""
    return torch.empty(size, dtype=torch.int64, device=like.device)


def _levels(
    edges: Tensor, nodes: Tensor, widths: list[int], fanouts: Sequence[int]
) -> Levels:
    """Arrays of all levels end to end as a list of levels."""
    ends = pairwise(accumulate(widths, initial=0))
    return [
        (edges[lo:hi].view(-1, fanout), nodes[lo:hi].view(-1, fanout))
        for (lo, hi), fanout in zip(ends, fanouts, strict=True)
    ]


def _shares(alpha: tuple[float, float, float]) -> tuple[int, ...]:
    """Ranks of three kinds by weight, and what each weighs in units of each.

    A share is a double of at most 1, as its significand and exponent: m · 2⁻ᵉ. Where it
    would be more the kind is not there, and what it weighs does not matter.
    """
    order = sorted(range(3), key=lambda kind: alpha[kind])
    ranks = [2 + order.index(kind) for kind in range(3)]
    parts = [math.frexp(min(own / top, 1.0)) for own in alpha for top in alpha]
    significands = [int(fraction * 2**53) for fraction, _ in parts]
    return (*ranks, *significands, *(53 - exponent for _, exponent in parts))


def _words_of(doubles: tuple[float, ...]) -> tuple[int, ...]:
    """The bits of doubles: one that goes to a kernel as such loses half of them."""
    return struct.unpack(f"{len(doubles)}q", struct.pack(f"{len(doubles)}d", *doubles))
