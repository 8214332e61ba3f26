"""The kernels of one hop of rooted sampling, for all relations and laws at once.

    measure   which part of its row each walker may take, how many entries it will
    draw      the edges; the nodes they lead to are claimed by the smallest position
    take      the same where all of a row is taken, edge by edge
    mark      which edges have claimed a node that is new
    settle    the new nodes, in order of discovery

And those that bring the hops of a batch together:

    finish    nodes and edges of all hops, one type or relation after the other
    pad       what is left of arrays that have room for more

Programs have a block of walkers or edges and a relation; a relation with fewer of them
leaves the rest of its programs without work. Positions number all seeds and edges of a
batch through, in the order in which the reference discovers them. Where the edges of a
block go, and the numbers of its new nodes, every block adds up by itself, from counts
that the launch before has noted: see `triton.record.before_block`. `measure` is in
`triton.draw`, the last two are in `triton.relabel`.
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
    has_mass,
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
def arrive(own, taken, who, at, mask, out, HIDES, APART):
    """Notes edges at their places, and claims the nodes that they lead to.

    `who` are the local ids, roots, nodes and streams of walkers, `out` is what claims
    are made with and where to write.
    """
    words, types, slots, position, arrays = out
    edge, receiver, landed, reached = arrays
    local, root = who[0], who[1]
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
def take_positive(own, row, who, at, live, out, APART, F):
    """Every entry of the rows that has mass, in order."""
    start, count, _ = row
    table = longs(tl.load(own + tt.CUMULATIVE_WEIGHT))
    base = mass_before(table, _row_start(own, who[2], live), start, live)
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
def draw_edges_by_mass(own, row, fanout, who, at, live, out, REPLACE, APART, F):
    """Edges drawn by mass, from as much of each row as is admitted."""
    start, count, size = row
    _, _, node, stream = who
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
def draw_edges(own, row, fanout, who, at, live, out, REPLACE, HIDES, APART, F):
    """Edges drawn uniformly; whole rows where nothing is drawn twice."""
    start, count, size = row
    stream, draws = who[3], tl.arange(0, F)
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
            edge = out[4][0]
            draw_distinct_wide(stream, count, fanout, edge, at, long, F)
            for j in range(0, fanout, F):
                now = j + draws
                mask = long[:, None] & (now < fanout)[None, :]
                place = at[:, None] + now[None, :]
                taken = tl.load(edge + place, mask=mask, other=0) + start[:, None]
                arrive(own, taken, who, place, mask, out, HIDES, APART)


@triton.jit
def _begin_edges(after, shape, relation, begin, out, position):
    """Notes where the edges of a relation begin, and where those of the hop are."""
    tl.store(tt.edge_start(after, shape) + relation, begin)
    if relation == 0:
        at = tt.addresses(after, shape)
        edge, receiver, _, reached = out
        tl.store(at + tt.EDGE, edge.to(tl.int64))
        tl.store(at + tt.RECEIVER, receiver.to(tl.int64))
        tl.store(at + tt.REACHED, reached.to(tl.int64))
        tl.store(at + tt.POSITION, position)


@triton.jit(do_not_specialize=["shape", "key", "stride", "position", "slots"])
def draw(
    words,
    levels,
    shape,
    key,
    rows,
    sums,
    stride,
    out,
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
    block, relation, own, level, after = tt.program(words, levels, shape)
    to = tl.load(own + tt.DST_TYPE)
    fanout = tl.load(own + tt.FANOUTS + tt.hop_of(shape))
    width = tl.load(level + to)
    types, blocks = tt.types_of(shape), tl.num_programs(0)
    work = (fanout != 0) & (block * B < width)
    begin = tl.full((), 0, tl.int64)
    if work | (block == 0):
        own_sums = sums + relation * blocks
        parts = tt.taken_parts(after, relation, shape)
        earlier = tt.before_block(own_sums, parts, block, blocks)
        begin = tl.sum(earlier + tt.before(after + types, relation), 0)
    if block == 0:
        _begin_edges(after, shape, relation, begin, out, position)
    if work:
        walker = block * B + tl.arange(0, B).to(tl.int64)
        live = walker < width
        cell = relation * stride + walker
        start_of, count_of, size_of = rows
        start = tl.load(start_of + cell, mask=live, other=0)
        count = tl.load(count_of + cell, mask=live, other=0)
        size = tl.load(size_of + cell, mask=live, other=0)
        row = (start, count, size)
        at = begin + tl.cumsum(size, 0) - size
        first = tt.node_start(level, shape) + to
        place = tl.load(first) + walker
        node = tl.load(tt.array(level, tt.IDS, shape) + place, mask=live, other=0)
        name, root = node, tl.zeros_like(node)
        if APART:
            roots = tt.array(level, tt.ROOTS, shape)
            root = tl.load(roots + place, mask=live, other=0)
            name += root * tl.load(words + to * tt.TYPE_COLUMNS + tt.SIZE)
        local = tl.load(first + types) + walker
        stream = streams(fold(fold(as_key(key), tt.hop_of(shape)), relation), name)
        who = (local[:, None], root[:, None], node, stream)
        made = (words, types, slots.to(tl.int64), position, out)
        mass = tl.load(own + tt.CUMULATIVE_WEIGHT)
        if fanout < 0:
            if tl.load(own + tt.HAS_ZERO_WEIGHT) == 0:
                tl.store(size_of + cell, at + size, mask=live)
            elif MASS:
                take_positive(own, row, who, at, live, made, APART, F)
        elif mass == 0:
            draw_edges(own, row, fanout, who, at, live, made, REPLACE, HIDES, APART, F)
        elif MASS:
            draw_edges_by_mass(own, row, fanout, who, at, live, made, REPLACE, APART, F)


@triton.jit(do_not_specialize=["shape", "stride", "position", "slots"])
def take(
    words,
    levels,
    shape,
    rows,
    stride,
    out,
    position,
    slots,
    HIDES: tl.constexpr,
    APART: tl.constexpr,
    B: tl.constexpr,
):
    """All edges of the walkers of relations that take them all: a lane per edge."""
    block, relation, own, level, after = tt.program(words, levels, shape)
    types = tt.types_of(shape)
    taken = tl.load(after + types + relation)
    all_ = tl.load(own + tt.FANOUTS + tt.hop_of(shape)) < 0
    all_ = all_ & (tl.load(own + tt.HAS_ZERO_WEIGHT) == 0)
    if all_ & (block * B < taken):
        here = block * B + tl.arange(0, B).to(tl.int64)
        live = here < taken
        to = tl.load(own + tt.DST_TYPE)
        zero = tl.zeros_like(here)
        ends = rows[2] + relation * stride
        high = tl.where(live, zero + tl.load(level + to), 0)
        begin = tl.load(tt.edge_start(after, shape) + relation)
        at = begin + here
        walker = bisect(ends, zero, high, at)
        before = tl.load(ends + walker - 1, mask=live & (walker > 0), other=0)
        before = tl.where(walker > 0, before, begin)
        start = tl.load(rows[0] + relation * stride + walker, mask=live, other=0)
        first = tt.node_start(level, shape) + to
        root = zero
        if APART:
            roots = tt.array(level, tt.ROOTS, shape)
            root = tl.load(roots + tl.load(first) + walker, mask=live, other=0)
        who = (tl.load(first + types) + walker, root)
        made = (words, types, slots.to(tl.int64), position, out)
        arrive(own, start + at - before, who, at, live, made, HIDES, APART)


@triton.jit
def _names(words, levels, shape, by, position, mask):
    """The local ids of what has been claimed by positions."""
    found = position - tl.load(words + by * tt.TYPE_COLUMNS + tt.FIRST_SEED)
    last = tt.relations_of(shape) - 1
    for hop in range(tt.depth_of(shape)):
        level = tt.level_row(levels, hop + 1, shape)
        begin = tl.load(tt.addresses(level, shape) + tt.POSITION)
        # positions of later hops are beyond the end of this one
        count = tl.load(tt.edge_start(level, shape) + last)
        count += tl.load(level + tt.types_of(shape) + last)
        here = mask & (position >= begin) & (position < begin + count)
        local = tt.array(level, tt.LOCAL, shape)
        name = tl.load(local + position - begin, mask=here, other=0)
        found = tl.where(here, name, found)
    return found


@triton.jit
def _copy(level, which, at, to, mask, shape):
    """Copies a part of one of a level's arrays to where it belongs."""
    found = tl.load(tt.array(level, which, shape) + at, mask=mask, other=0)
    tl.store(to, found, mask=mask)


@triton.jit(do_not_specialize=["shape"])
def finish(words, levels, shape, arrays, APART: tl.constexpr, B: tl.constexpr):
    """Edges of every relation and nodes of every type, hop after hop."""
    row, col, edge, node, root = arrays
    part, types = tl.program_id(1), tt.types_of(shape)
    depth, relations = tt.depth_of(shape), tt.relations_of(shape)
    here = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    if part < relations * depth:
        relation, hop = part // depth, part % depth
        level = tt.level_row(levels, hop + 1, shape)
        count = tl.load(level + types + relation)
        if tl.program_id(0).to(tl.int64) * B < count:
            own = tt.relation_row(words, relation, shape)
            to = tl.load(tt.edge_place(words, shape) + relation) + here
            for past in range(hop):
                other = tt.level_row(levels, past + 1, shape)
                to += tl.load(other + types + relation)
            mask = here < count
            at = tl.load(tt.edge_start(level, shape) + relation) + here
            taken = tl.load(tt.array(level, tt.EDGE, shape) + at, mask=mask, other=0)
            names = tl.load(own + tt.EDGE_ID)
            if names != 0:
                taken = read_ids(names, tl.load(own + tt.WIDE_EDGE_ID), taken, mask)
            tl.store(edge + to, taken, mask=mask)
            _copy(level, tt.RECEIVER, at, col + to, mask, shape)
            reached = tt.array(level, tt.REACHED, shape)
            position = tl.load(reached + at, mask=mask, other=0)
            by = tl.load(own + tt.SRC_TYPE)
            name = _names(words, levels, shape, by, position, mask)
            tl.store(row + to, name, mask=mask)
    else:
        rest = part - relations * depth
        kind, hop = rest // (depth + 1), rest % (depth + 1)
        level = tt.level_row(levels, hop, shape)
        count = tl.load(level + kind)
        if tl.program_id(0).to(tl.int64) * B < count:
            first = tt.node_start(level, shape) + kind
            at = tl.load(first) + here
            to = tl.load(tt.node_place(words, shape) + kind)
            to += tl.load(first + types) + here
            mask = here < count
            _copy(level, tt.IDS, at, node + to, mask, shape)
            if APART:
                _copy(level, tt.ROOTS, at, root + to, mask, shape)


@triton.jit(do_not_specialize=["shape"])
def pad(words, levels, shape, arrays, APART: tl.constexpr, B: tl.constexpr):
    """Fills what is left of arrays of static shape.

    The last node of each type is a dummy, from which and to which edges lead.
    """
    row, col, edge, node, root = arrays
    part, relations = tl.program_id(1), tt.relations_of(shape)
    types, depth = tt.types_of(shape), tt.depth_of(shape)
    here = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    nodes = tt.node_place(words, shape)
    rooms = nodes + relations + types
    total, zero = tl.full((), 0, tl.int64), tl.zeros_like(here)
    if part < relations:
        own = tt.relation_row(words, part, shape)
        places = tt.edge_place(words, shape) + part
        for hop in range(depth):
            total += tl.load(tt.level_row(levels, hop + 1, shape) + types + part)
        mask = (here >= total) & (here < tl.load(places + relations + types))
        to = tl.load(places) + here
        by, receiver = tl.load(own + tt.SRC_TYPE), tl.load(own + tt.DST_TYPE)
        tl.store(row + to, zero + tl.load(rooms + by) - 1, mask=mask)
        tl.store(col + to, zero + tl.load(rooms + receiver) - 1, mask=mask)
        tl.store(edge + to, zero, mask=mask)
    else:
        kind = part - relations
        for hop in range(depth + 1):
            total += tl.load(tt.level_row(levels, hop, shape) + kind)
        to = tl.load(nodes + kind) + here
        mask = (here >= total) & (here < tl.load(rooms + kind))
        tl.store(node + to, zero, mask=mask)
        if APART:
            tl.store(root + to, zero, mask=mask)
