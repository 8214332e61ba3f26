"""The kernels of one hop of rooted sampling, for all relations and laws at once.

    measure   which part of its row each walker may take, how many entries it will
    scan      where the edges of each block of walkers go
    draw      the edges; the nodes they lead to are claimed by the smallest position
    take      the same where all of a row is taken, edge by edge
    mark      which edges have claimed a node that is new
    number    how many are new before each block, per node type
    settle    the new nodes, in order of discovery

Programs have a block of walkers or edges and a relation; a relation with fewer of them
leaves the rest of its programs without work. Positions number all seeds and edges of a
batch through, in the order in which the reference discovers them. `measure` is in
`triton.rows`, the last three are in `triton.relabel`.
"""

import triton
import triton.language as tl

from gttf_sampler._backends.triton import record as tt
from gttf_sampler._backends.triton.draw import (
    draw_again,
    draw_by_mass,
    draw_by_mass_distinct,
    draw_distinct,
    draw_distinct_wide,
    mass_before,
    mass_within,
)
from gttf_sampler._backends.triton.relabel import claim
from gttf_sampler._backends.triton.rng import (
    any_of,
    as_key,
    bisect,
    fold,
    longs,
    read_ids,
    streams,
)
from gttf_sampler._backends.triton.rows import has_mass


@triton.jit
def _step_over(own, edge, mask):
    """Positions among all edges, of positions among those that are not hidden."""
    hidden, hides = longs(tl.load(own + tt.EXCLUDED)), tl.load(own + tt.NUM_EXCLUDED)
    low = tl.zeros_like(edge)
    size = tl.where(mask, low + hides, 0)
    while any_of(size > 0):
        half = size >> 1
        middle = low + half
        value = tl.load(hidden + middle, mask=size > 0, other=0) - middle
        above = (size > 0) & (value <= edge)
        low = tl.where(above, middle + 1, low)
        size = tl.where(above, size - half - 1, half)
    return edge + low


@triton.jit
def arrive(own, taken, who, at, mask, out, HIDES: tl.constexpr, APART: tl.constexpr):
    """Notes edges at their places, and claims the nodes that they lead to.

    `who` are the local ids and the roots of walkers, `out` is where to write and what
    claims are made with.
    """
    words, types, slots, position, edge, receiver, landed, reached = out
    local, root = who
    if HIDES:
        if tl.load(own + tt.NUM_EXCLUDED) != 0:
            taken = _step_over(own, taken, mask)
    node = read_ids(tl.load(own + tt.COL), tl.load(own + tt.WIDE_COL), taken, mask)
    by = tl.load(own + tt.SRC_TYPE)
    kind = words + by * tt.TYPE_COLUMNS
    code = node
    if APART:
        code = (root * tl.load(kind + tt.SIZE) + node) * types + by
        tl.store(landed + at, node, mask=mask)
    place = claim(kind, node, code, position + at, mask, slots, APART)
    tl.store(edge + at, taken, mask=mask)
    tl.store(receiver + at, local + tl.zeros_like(at), mask=mask)
    tl.store(reached + at, place, mask=mask)


@triton.jit
def _row_start(own, node, live):
    """Offsets of the rows of nodes."""
    return tl.load(longs(tl.load(own + tt.ROWPTR)) + node, mask=live, other=0)


@triton.jit
def take_positive(
    own, node, start, count, who, at, live, out, APART: tl.constexpr, F: tl.constexpr
):
    """Every entry of the rows that has mass, in order."""
    table = longs(tl.load(own + tt.CUMULATIVE_WEIGHT))
    base = mass_before(table, _row_start(own, node, live), start, live)
    done = tl.zeros_like(start)
    while any_of(live & (done < count)):
        offset = done[:, None] + tl.arange(0, F)[None, :]
        mask = live[:, None] & (offset < count[:, None])
        some = has_mass(table, start, base, offset, mask).to(tl.int64)
        place = at[:, None] + tl.cumsum(some, 1) - some
        taken = start[:, None] + offset
        arrive(own, taken, who, place, some > 0, out, False, APART)
        at += tl.sum(some, 1)
        done += F


@triton.jit
def draw_edges_by_mass(
    own,
    node,
    start,
    count,
    size,
    fanout,
    stream,
    who,
    at,
    live,
    out,
    REPLACE: tl.constexpr,
    APART: tl.constexpr,
    F: tl.constexpr,
):
    """Edges drawn by mass, from as much of each row as is admitted."""
    table = longs(tl.load(own + tt.CUMULATIVE_WEIGHT))
    base = mass_before(table, _row_start(own, node, live), start, live)
    total = mass_within(table, start, count, base, live)
    draws = tl.arange(0, F)
    if REPLACE:
        for j in range(0, fanout, F):
            now = j + draws
            mask = live[:, None] & (now[None, :] < size[:, None])
            taken = draw_by_mass(stream, table, start, count, base, total, now)
            place = at[:, None] + now[None, :]
            arrive(own, taken, who, place, mask, out, False, APART)
    else:
        whole = live & (count <= fanout) & (tl.load(own + tt.HAS_ZERO_WEIGHT) == 0)
        left = tl.where(whole, 0, total)
        taken, rank = draw_by_mass_distinct(
            stream, table, start, count, base, left, fanout, draws
        )
        every = tl.zeros_like(taken) + draws[None, :]
        taken = tl.where(whole[:, None], start[:, None] + every, taken)
        rank = tl.where(whole[:, None], every, rank)
        mask = live[:, None] & (rank >= 0) & (rank < size[:, None])
        arrive(own, taken, who, at[:, None] + rank, mask, out, False, APART)


@triton.jit
def draw_edges(
    own,
    start,
    count,
    size,
    fanout,
    stream,
    who,
    at,
    live,
    out,
    REPLACE: tl.constexpr,
    HIDES: tl.constexpr,
    APART: tl.constexpr,
    F: tl.constexpr,
):
    """Edges drawn uniformly; whole rows where nothing is drawn twice."""
    draws = tl.arange(0, F)
    for j in range(0, fanout, F):
        now = j + draws
        mask = live[:, None] & (now[None, :] < size[:, None])
        if REPLACE:
            offset = draw_again(stream, count, now)
        else:
            offset = tl.zeros_like(count)[:, None] + now[None, :]
            if fanout <= F:
                offset = draw_distinct(stream, count, fanout, now)
            else:
                mask = mask & (count <= fanout)[:, None]
        place = at[:, None] + now[None, :]
        arrive(own, start[:, None] + offset, who, place, mask, out, HIDES, APART)
    if not REPLACE:
        long = live & (count > fanout)
        if (fanout > F) & any_of(long):
            edge = out[4]
            draw_distinct_wide(stream, count, fanout, edge, at, long, F)
            for j in range(0, fanout, F):
                now = j + draws
                mask = long[:, None] & (now < fanout)[None, :]
                place = at[:, None] + now[None, :]
                taken = tl.load(edge + place, mask=mask, other=0) + start[:, None]
                arrive(own, taken, who, place, mask, out, HIDES, APART)


@triton.jit(do_not_specialize=["hop", "types", "relations", "blocks", "position"])
def scan(
    levels,
    hop,
    types,
    relations,
    sums,
    blocks,
    edge,
    receiver,
    reached,
    position,
    S: tl.constexpr,
):
    """Scans the counts of edges: starts of blocks of walkers, and totals."""
    level = tt.level_row(levels, hop + 1, types, relations)
    total = tl.full((), 0, tl.int64)
    for relation in range(relations):
        begin = total
        tl.store(tt.edge_start(level, types, relations) + relation, begin)
        for first in range(0, blocks, S):
            at = first + tl.arange(0, S).to(tl.int64)
            cell = sums + tl.cast(relation, tl.int64) * blocks + at
            size = tl.load(cell, mask=at < blocks, other=0)
            tl.store(cell, total + tl.cumsum(size, 0) - size, mask=at < blocks)
            total += tl.sum(size, 0)
        tl.store(level + types + relation, total - begin)
    at = tt.address(level, types, relations, 0)
    tl.store(at + tt.EDGE, edge.to(tl.int64))
    tl.store(at + tt.RECEIVER, receiver.to(tl.int64))
    tl.store(at + tt.REACHED, reached.to(tl.int64))
    tl.store(at + tt.POSITION, position)


@triton.jit(
    do_not_specialize=[
        *("hop", "types", "relations", "depth", "key", "stride", "position", "slots")
    ]
)
def draw(
    words,
    levels,
    hop,
    types,
    relations,
    depth,
    key,
    start_of,
    count_of,
    size_of,
    sums,
    stride,
    edge,
    receiver,
    landed,
    reached,
    position,
    slots,
    REPLACE: tl.constexpr,
    MASS: tl.constexpr,
    HIDES: tl.constexpr,
    APART: tl.constexpr,
    B: tl.constexpr,
    F: tl.constexpr,
):
    """The edges that walkers take, and claims on the nodes that they lead to.

    Where all of a row is taken, only where the edges of every walker end: for `take`.
    """
    block, relation = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    own = tt.relation_row(words, relation, types, depth)
    level = tt.level_row(levels, hop, types, relations)
    to, fanout = tl.load(own + tt.DST_TYPE), tl.load(own + tt.FANOUTS + hop)
    width = tl.load(level + to)
    if (fanout != 0) & (block * B < width):
        walker = block * B + tl.arange(0, B).to(tl.int64)
        live = walker < width
        cell = relation * stride + walker
        start = tl.load(start_of + cell, mask=live, other=0)
        count = tl.load(count_of + cell, mask=live, other=0)
        size = tl.load(size_of + cell, mask=live, other=0)
        at = tl.load(sums + relation * tl.num_programs(0) + block)
        at += tl.cumsum(size, 0) - size
        first = tt.node_start(level, types, relations) + to
        place = tl.load(first) + walker
        ids = longs(tl.load(tt.address(level, types, relations, tt.IDS)))
        node = tl.load(ids + place, mask=live, other=0)
        name, root = node, tl.zeros_like(node)
        if APART:
            roots = longs(tl.load(tt.address(level, types, relations, tt.ROOTS)))
            root = tl.load(roots + place, mask=live, other=0)
            name += root * tl.load(words + to * tt.TYPE_COLUMNS + tt.SIZE)
        local = tl.load(first + types) + walker
        who = (local[:, None], root[:, None])
        top = fold(as_key(key), hop.to(tl.int64))
        stream = streams(fold(top, relation), name)
        slot = slots.to(tl.int64)
        out = (words, types, slot, position, edge, receiver, landed, reached)
        mass, gaps = (
            tl.load(own + tt.CUMULATIVE_WEIGHT),
            tl.load(own + tt.HAS_ZERO_WEIGHT),
        )
        if fanout < 0:
            if gaps == 0:
                after = tt.level_row(levels, hop + 1, types, relations)
                begin = tl.load(tt.edge_start(after, types, relations) + relation)
                tl.store(size_of + cell, at + size - begin, mask=live)
            elif MASS:
                take_positive(own, node, start, count, who, at, live, out, APART, F)
        elif mass == 0:
            draw_edges(
                own,
                start,
                count,
                size,
                fanout,
                stream,
                who,
                at,
                live,
                out,
                REPLACE,
                HIDES,
                APART,
                F,
            )
        elif MASS:
            draw_edges_by_mass(
                own,
                node,
                start,
                count,
                size,
                fanout,
                stream,
                who,
                at,
                live,
                out,
                REPLACE,
                APART,
                F,
            )


@triton.jit(
    do_not_specialize=[
        *("hop", "types", "relations", "depth", "stride", "position", "slots")
    ]
)
def take(
    words,
    levels,
    hop,
    types,
    relations,
    depth,
    start_of,
    end_of,
    stride,
    edge,
    receiver,
    landed,
    reached,
    position,
    slots,
    HIDES: tl.constexpr,
    APART: tl.constexpr,
    B: tl.constexpr,
):
    """All edges of the walkers of relations that take them all: a lane per edge."""
    block, relation = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    own = tt.relation_row(words, relation, types, depth)
    level = tt.level_row(levels, hop, types, relations)
    after = tt.level_row(levels, hop + 1, types, relations)
    taken = tl.load(after + types + relation)
    all_ = (tl.load(own + tt.FANOUTS + hop) < 0) & (
        tl.load(own + tt.HAS_ZERO_WEIGHT) == 0
    )
    if all_ & (block * B < taken):
        here = block * B + tl.arange(0, B).to(tl.int64)
        live = here < taken
        to = tl.load(own + tt.DST_TYPE)
        zero = tl.zeros_like(here)
        ends = end_of + relation * stride
        high = tl.where(live, zero + tl.load(level + to), 0)
        walker = bisect(ends, zero, high, here)
        before = tl.load(ends + walker - 1, mask=live & (walker > 0), other=0)
        start = tl.load(start_of + relation * stride + walker, mask=live, other=0)
        first = tt.node_start(level, types, relations) + to
        root = zero
        if APART:
            roots = longs(tl.load(tt.address(level, types, relations, tt.ROOTS)))
            root = tl.load(roots + tl.load(first) + walker, mask=live, other=0)
        who = (tl.load(first + types) + walker, root)
        at = tl.load(tt.edge_start(after, types, relations) + relation) + here
        slot = slots.to(tl.int64)
        out = (words, types, slot, position, edge, receiver, landed, reached)
        arrive(own, start + here - before, who, at, live, out, HIDES, APART)
