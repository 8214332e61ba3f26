"""Global ids to local ones, in the order of first occurrence."""

from __future__ import annotations

import numpy as np
import torch
from numba import int64, uint64
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends.memory import NodeTable
from gttf_sampler._backends.numba.rng import AHEAD, GOLDEN, ONE, compiled, prefetch
from gttf_sampler._backends.numba.rows import ints, longs
from gttf_sampler._backends.torch import relabel as reference

_TREES_AHEAD = np.uint64(16)  # how many slots ahead memory is asked for those of trees


@compiled
def relabel_edges(lo, hi, table, slots, base, known, end, to, by):
    """Gives what walkers lo to hi have reached local ids, in `by`; counts in `known`.

    With `slots`, nodes are looked up in that hash table, (tree, node) pairs where nodes
    have roots, as trees are disjoint; else in a table with a cell per node.
    """
    relations, segments, nodes = table
    for s in range(segments.shape[0]):
        first, stop = max(lo, segments[s].first), min(hi, segments[s].stop)
        if first >= stop:
            continue
        own = relations[segments[s].relation]
        head, tail = end[first - 1] if first else 0, end[stop - 1]
        kind = own.src_type
        there, ids = nodes[kind], longs(nodes[kind].ids)
        new = by[head:tail]
        if slots.size:
            trees = longs(nodes[own.dst_type].roots), longs(there.roots)
            code = there.roots != 0, there.size, nodes.shape[0], kind
            known[kind] = _number_hashed(
                new, to[head:tail], ids, trees, code, slots, base, known[kind]
            )
        elif there.wide_cell:
            cells = longs(there.cell)
            known[kind] = _number_nodes(new, cells, there, known[kind], ids)
        else:
            narrow = ints(there.cell)
            known[kind] = _number_nodes(new, narrow, there, known[kind], ids)


@compiled
def _number_nodes(ids, cell, own, known, nodes):
    """Replaces ids by local ones in place, appends new nodes; returns their number.

    A cell holds `floor` + local id if it is below `limit`, else something old. There is
    no branch on whether a node is new, which nobody could predict.
    """
    floor, limit = own.floor, own.limit
    count, last = int64(known), uint64(ids.size - 1)
    for e in range(uint64(ids.size)):
        prefetch(cell, uint64(ids[min(e + AHEAD, last)]))
        cell_of = uint64(ids[e])
        value = int64(cell[cell_of])
        new = int64(value >= limit)
        value += (floor + count - value) * new
        cell[cell_of] = value
        nodes[uint64(count)] = int64(cell_of)
        count += new
        ids[e] = value - floor
    return count


@compiled
def _slot_of(code, slots):
    """The first slot of a code: slots are pairs, a power of two in all."""
    spread = code * GOLDEN
    return ((spread ^ (spread >> uint64(32))) << ONE) & uint64(slots.size - 1)


@compiled
def _enter(code, value, slots, base):
    """The value of a code in an open-addressing table; `value` if it is new there.

    Values below `base` are of earlier batches and count as empty.
    """
    at, last = _slot_of(code, slots), uint64(slots.size - 1)
    while slots[at + ONE] >= base:
        if uint64(slots[at]) == code:
            return slots[at + ONE]
        at = (at + uint64(2)) & last
    slots[at], slots[at + ONE] = int64(code), value
    return value


@compiled
def _number_hashed(ids, to, nodes, trees, code, slots, base, known):
    """`_number_nodes` with a hash table for the nodes of all types.

    `code` says whether a node is another one in every tree, how many nodes there are,
    and which of so many types they are of.
    """
    root_of, roots = trees
    disjoint, size, kinds, kind = code
    count, last, root = int64(known), uint64(ids.size - 1), int64(0)
    for e in range(uint64(ids.size)):
        soon = min(e + _TREES_AHEAD, last)
        ahead, id_ = ids[soon], ids[e]
        if disjoint:
            root = root_of[uint64(to[e])]
            roots[uint64(count)] = root
            ahead += root_of[uint64(to[soon])] * size
        prefetch(slots, _slot_of(uint64(ahead) * uint64(kinds) + uint64(kind), slots))
        own = uint64(root * size + id_) * uint64(kinds) + uint64(kind)
        value = _enter(own, base + count, slots, base) - base
        nodes[uint64(count)] = id_
        count += int64(value == count)
        ids[e] = value
    return count


@compiled
def insert_nodes(nodes, known, slots, base):
    """Enters all nodes that are known into their tables; of equal ones the first."""
    kinds = nodes.shape[0]
    for kind in range(kinds):
        own, ids = nodes[kind], longs(nodes[kind].ids)
        if slots.size:
            roots = longs(own.roots)
            for i in range(known[kind]):
                code = uint64(ids[i])
                if own.roots:
                    code += uint64(roots[i] * own.size)
                code = code * uint64(kinds) + uint64(kind)
                _enter(code, base + i, slots, base)
        elif own.wide_cell:
            _mark_nodes(ids, longs(own.cell), own.floor, known[kind])
        else:
            _mark_nodes(ids, ints(own.cell), own.floor, known[kind])


@compiled
def _mark_nodes(ids, cell, floor, known):
    """Writes the local id of every node to its cell; of equal ones the first."""
    for i in range(known - 1, -1, -1):
        cell[uint64(ids[i])] = floor + i


@compiled
def relabel_kernel(known, ids, cell, floor, local, new):
    """See `torch.relabel`; False if an id has no cell; the last cell is for none."""
    limit, size = floor + known.size + ids.size, uint64(cell.size - 1)
    for i in range(known.size - 1, -1, -1):
        at = uint64(known[i])
        if at < size:
            cell[at] = floor + i
        elif known[i] >= 0:
            return False
    count, last = int64(known.size), uint64(ids.size - 1)
    for e in range(uint64(ids.size)):
        prefetch(cell, min(uint64(ids[min(e + AHEAD, last)]), size))
        at, local[e], new[e] = uint64(ids[e]), -1, False
        if at < size:
            value = int64(cell[at])
            new[e] = value >= limit
            if new[e]:
                value = floor + count
                cell[at] = value
                count += 1
            local[e] = value - floor
        elif ids[e] >= 0:
            return False
    return True


def relabel(
    known: Tensor,
    ids: Tensor,
    table: NodeTable | None,
    count: int | Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Local ids [e], and which of them are new; see `torch.relabel`."""
    if table is None:
        return reference.relabel(known, ids, table, count)
    local = torch.empty(ids.numel(), dtype=torch.int64, device="cpu")
    new = torch.empty(ids.numel(), dtype=torch.bool, device="cpu")
    nodes = known.contiguous().numpy(), ids.contiguous().numpy(), table.cell.numpy()
    floor = table.reserve(known.numel() + ids.numel())
    if not relabel_kernel(*nodes, floor, local.numpy(), new.numpy()):
        _check.changed()
    return local, new
