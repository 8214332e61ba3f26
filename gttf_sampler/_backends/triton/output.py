"""The kernels that bring the hops of a batch together.

finish    nodes and edges of all hops, one type or relation after the other
pad       what is left of arrays that have room for more
"""

import triton
import triton.language as tl

from gttf_sampler._backends.triton import record as tt
from gttf_sampler._backends.triton.relabel import release
from gttf_sampler._backends.triton.rng import longs, read_ids


@triton.jit
def _names(words, levels, types, relations, depth, by, position, mask):
    """The local ids of what has been claimed by positions."""
    first = tl.load(words + by * tt.TYPE_COLUMNS + tt.FIRST_SEED)
    found = position - first
    for hop in range(depth):
        level = tt.level_row(levels, hop + 1, types, relations)
        begin = tl.load(tt.address(level, types, relations, tt.POSITION))
        local = longs(tl.load(tt.address(level, types, relations, tt.LOCAL)))
        later = mask & (position >= begin)
        # positions of later hops are beyond the end of this one
        count = tl.load(tt.edge_start(level, types, relations) + relations - 1)
        count += tl.load(level + types + relations - 1)
        here = later & (position < begin + count)
        name = tl.load(local + position - begin, mask=here, other=0)
        found = tl.where(here, name, found)
    return found


@triton.jit(do_not_specialize=["types", "relations", "depth"])
def finish(
    words,
    levels,
    types,
    relations,
    depth,
    row,
    col,
    edge,
    node,
    root,
    APART: tl.constexpr,
    B: tl.constexpr,
):
    """Edges of every relation and nodes of every type, hop after hop."""
    part = tl.program_id(1)
    here = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    if part < relations * depth:
        relation, hop = part // depth, part % depth
        level = tt.level_row(levels, hop + 1, types, relations)
        count = tl.load(level + types + relation)
        if tl.program_id(0).to(tl.int64) * B < count:
            own = tt.relation_row(words, relation, types, depth)
            places = tt.edge_place(words, types, relations, depth)
            to = tl.load(places + relation) + here
            for past in range(hop):
                other = tt.level_row(levels, past + 1, types, relations)
                to += tl.load(other + types + relation)
            mask = here < count
            at = tl.load(tt.edge_start(level, types, relations) + relation) + here
            place = tt.address(level, types, relations, 0)
            taken = tl.load(longs(tl.load(place + tt.EDGE)) + at, mask=mask, other=0)
            names = tl.load(own + tt.EDGE_ID)
            if names != 0:
                taken = read_ids(names, tl.load(own + tt.WIDE_EDGE_ID), taken, mask)
            tl.store(edge + to, taken, mask=mask)
            local = tl.load(
                longs(tl.load(place + tt.RECEIVER)) + at, mask=mask, other=0
            )
            tl.store(col + to, local, mask=mask)
            position = tl.load(
                longs(tl.load(place + tt.REACHED)) + at, mask=mask, other=0
            )
            by = tl.load(own + tt.SRC_TYPE)
            name = _names(words, levels, types, relations, depth, by, position, mask)
            tl.store(row + to, name, mask=mask)
    else:
        kind = (part - relations * depth) // (depth + 1)
        level = tt.level_row(
            levels, (part - relations * depth) % (depth + 1), types, relations
        )
        count = tl.load(level + kind)
        if tl.program_id(0).to(tl.int64) * B < count:
            first = tt.node_start(level, types, relations) + kind
            at = tl.load(first) + here
            places = tt.node_place(words, types, relations, depth)
            to = tl.load(places + kind) + tl.load(first + types) + here
            place = tt.address(level, types, relations, 0)
            mask = here < count
            found = tl.load(longs(tl.load(place + tt.IDS)) + at, mask=mask, other=0)
            tl.store(node + to, found, mask=mask)
            if APART:
                roots = longs(tl.load(place + tt.ROOTS))
                tl.store(root + to, tl.load(roots + at, mask=mask), mask=mask)


@triton.jit(do_not_specialize=["types", "relations", "depth"])
def pad(
    words,
    levels,
    types,
    relations,
    depth,
    row,
    col,
    edge,
    node,
    root,
    APART: tl.constexpr,
    B: tl.constexpr,
):
    """Fills what is left of arrays of static shape, and clears the cells of all nodes.

    The last node of each type is a dummy, from which and to which edges lead.
    """
    part = tl.program_id(1)
    here = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    nodes = tt.node_place(words, types, relations, depth)
    rooms = nodes + relations + types
    total = tl.full((), 0, tl.int64)
    if part < relations:
        own = tt.relation_row(words, part, types, depth)
        places = tt.edge_place(words, types, relations, depth) + part
        for hop in range(depth):
            level = tt.level_row(levels, hop + 1, types, relations)
            total += tl.load(level + types + part)
        mask = (here >= total) & (here < tl.load(places + relations + types))
        to = tl.load(places) + here
        zero = tl.zeros_like(here)
        by, receiver = tl.load(own + tt.SRC_TYPE), tl.load(own + tt.DST_TYPE)
        tl.store(row + to, zero + tl.load(rooms + by) - 1, mask=mask)
        tl.store(col + to, zero + tl.load(rooms + receiver) - 1, mask=mask)
        tl.store(edge + to, zero, mask=mask)
    else:
        kind = part - relations
        for hop in range(depth + 1):
            total += tl.load(tt.level_row(levels, hop, types, relations) + kind)
        to = tl.load(nodes + kind) + here
        mask = (here >= total) & (here < tl.load(rooms + kind))
        zero = tl.zeros_like(here)
        tl.store(node + to, zero, mask=mask)
        if APART:
            tl.store(root + to, zero, mask=mask)
        else:
            mask = here < total
            place = tl.load(node + to, mask=mask, other=0)
            release(words + kind * tt.TYPE_COLUMNS, place, mask)
