"""The kernels that give nodes their numbers, and bring the hops of a batch together.

    enter     the seeds are level 0, and claim their nodes
    mark      which edges of a hop have claimed a node that is new
    number    how many are new before each block, per node type
    settle    the new nodes, in order of discovery
    finish    nodes and edges of all hops, one type or relation after the other
    pad       what is left of arrays that have room for more

See `triton_hops`.
"""

import triton
import triton.language as tl

from gttf_sampler._backends import triton_table as tt
from gttf_sampler._backends.triton_claims import claim, claimed, release
from gttf_sampler._backends.triton_words import longs, read_ids


@triton.jit
def _look_ahead(words, row, hop, types, relations, depth, by, node, new):
    """Adds up the edges in front of new nodes, for relations that will take them all."""
    if hop < depth:
        for relation in range(relations):
            own = tt.relation_row(words, relation, types, depth)
            fanout = tl.load(own + tt.FANOUTS + hop)
            if (tl.load(own + tt.TO) == by) & (fanout < 0):
                rowptr = longs(tl.load(own + tt.ROWPTR))
                begin = tl.load(rowptr + node, mask=new, other=0)
                count = tl.load(rowptr + node + 1, mask=new, other=0) - begin
                tl.atomic_add(row + types + relations + relation, tl.sum(count, 0))


@triton.jit(do_not_specialize=["types", "relations", "depth", "slots"])
def enter(
    words,
    levels,
    types,
    relations,
    depth,
    seeds,
    roots,
    slots,
    APART: tl.constexpr,
    B: tl.constexpr,
):
    """Level 0: the seeds of every type; of equal ones the first claims the node."""
    kind = words + tl.program_id(1) * tt.TYPE_COLUMNS
    here = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    count, first = tl.load(kind + tt.SEEDS), tl.load(kind + tt.FIRST_SEED)
    level = tt.level_row(levels, 0, types, relations)
    if tl.program_id(0) == 0:
        by = tl.program_id(1)
        start = tt.node_start(level, types, relations) + by
        tl.store(level + by, count)
        tl.store(start, first)
        tl.store(start + types, tl.zeros_like(first))
        place = tt.address(level, types, relations, 0)
        tl.store(place + tt.IDS, seeds.to(tl.int64))
        tl.store(place + tt.ROOTS, roots.to(tl.int64))
    mask = here < count
    node = tl.load(seeds + first + here, mask=mask, other=0)
    code = node
    if APART:
        root = tl.load(kind + tt.FIRST_ROOT) + here
        tl.store(roots + first + here, root, mask=mask)
        code = (root * tl.load(kind + tt.SIZE) + node) * types + tl.program_id(1)
    claim(kind, node, code, first + here, mask, slots.to(tl.int64), APART)
    by = tl.program_id(1)
    _look_ahead(words, level, 0, types, relations, depth, by, node, mask)


@triton.jit
def _hop_edges(level, types, relations, relation, block, B: tl.constexpr):
    """The edges of a block of a relation: places in the hop, and which are there."""
    here = block * B + tl.arange(0, B).to(tl.int64)
    mask = here < tl.load(level + types + relation)
    return tl.load(tt.edge_start(level, types, relations) + relation) + here, mask


@triton.jit(
    do_not_specialize=["hop", "types", "relations", "depth", "position", "slots"]
)
def mark(
    words,
    levels,
    hop,
    types,
    relations,
    depth,
    reached,
    position,
    slots,
    sums,
    APART: tl.constexpr,
    B: tl.constexpr,
):
    """How many edges of every block have claimed a node that is new."""
    block, relation = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    level = tt.level_row(levels, hop + 1, types, relations)
    at, mask = _hop_edges(level, types, relations, relation, block, B)
    by = tl.load(tt.relation_row(words, relation, types, depth) + tt.BY)
    kind = words + by * tt.TYPE_COLUMNS
    place = tl.load(reached + at, mask=mask, other=0)
    found = claimed(kind, place, mask, slots.to(tl.int64), APART)
    new = mask & (found == position + at)
    tl.store(sums + relation * tl.num_programs(0) + block, tl.sum(new.to(tl.int64), 0))


@triton.jit(do_not_specialize=["hop", "types", "relations", "depth", "blocks"])
def number(
    words,
    levels,
    hop,
    types,
    relations,
    depth,
    sums,
    blocks,
    ids,
    roots,
    local,
    S: tl.constexpr,
):
    """Where the new nodes of every block start, and how many there are of each type."""
    before = tt.level_row(levels, hop, types, relations)
    level = tt.level_row(levels, hop + 1, types, relations)
    total = tl.full((), 0, tl.int64)
    for by in range(types):
        begin = total
        first = tt.node_start(level, types, relations) + by
        old = tt.node_start(before, types, relations) + types + by
        tl.store(first, begin)
        tl.store(first + types, tl.load(old) + tl.load(before + by))
        for relation in range(relations):
            own = tt.relation_row(words, relation, types, depth)
            if tl.load(own + tt.BY) == by:
                for some in range(0, blocks, S):
                    at = some + tl.arange(0, S).to(tl.int64)
                    cell = sums + relation * blocks + at
                    size = tl.load(cell, mask=at < blocks, other=0)
                    ends = total + tl.cumsum(size, 0)
                    tl.store(cell, ends - size, mask=at < blocks)
                    total += tl.sum(size, 0)
        tl.store(level + by, total - begin)
    place = tt.address(level, types, relations, 0)
    tl.store(place + tt.IDS, ids.to(tl.int64))
    tl.store(place + tt.ROOTS, roots.to(tl.int64))
    tl.store(place + tt.LOCAL, local.to(tl.int64))


@triton.jit(
    do_not_specialize=["hop", "types", "relations", "depth", "position", "slots"]
)
def settle(
    words,
    levels,
    hop,
    types,
    relations,
    depth,
    receiver,
    landed,
    reached,
    position,
    slots,
    sums,
    ids,
    roots,
    local,
    APART: tl.constexpr,
    B: tl.constexpr,
):
    """Writes new nodes, their roots and local ids; `reached` turns into positions."""
    block, relation = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    before = tt.level_row(levels, hop, types, relations)
    level = tt.level_row(levels, hop + 1, types, relations)
    at, mask = _hop_edges(level, types, relations, relation, block, B)
    own = tt.relation_row(words, relation, types, depth)
    by, to = tl.load(own + tt.BY), tl.load(own + tt.TO)
    kind = words + by * tt.TYPE_COLUMNS
    place = tl.load(reached + at, mask=mask, other=0)
    node = place
    if APART:
        node = tl.load(landed + at, mask=mask, other=0)
    found = claimed(kind, place, mask, slots.to(tl.int64), APART)
    new = mask & (found == position + at)
    rank = tl.load(sums + relation * tl.num_programs(0) + block)
    rank += tl.cumsum(new.to(tl.int64), 0) - 1
    first = tt.node_start(level, types, relations) + by
    name = tl.load(first + types) + rank - tl.load(first)
    tl.store(ids + rank, node, mask=new)
    tl.store(local + at, name, mask=new)
    tl.store(reached + at, found, mask=mask)
    if APART:
        here = tt.node_start(before, types, relations) + to
        parent = tl.load(receiver + at, mask=new, other=0) - tl.load(here + types)
        others = longs(tl.load(tt.address(before, types, relations, tt.ROOTS)))
        root = tl.load(others + tl.load(here) + parent, mask=new, other=0)
        tl.store(roots + rank, root, mask=new)
    _look_ahead(words, level, hop + 1, types, relations, depth, by, node, new)


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
        # a position of a later hop is read beyond this one's end unless it is masked off
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
            names = tl.load(own + tt.NAMES)
            if names != 0:
                taken = read_ids(names, tl.load(own + tt.WIDE_NAMES), taken, mask)
            tl.store(edge + to, taken, mask=mask)
            local = tl.load(
                longs(tl.load(place + tt.RECEIVER)) + at, mask=mask, other=0
            )
            tl.store(col + to, local, mask=mask)
            position = tl.load(
                longs(tl.load(place + tt.REACHED)) + at, mask=mask, other=0
            )
            by = tl.load(own + tt.BY)
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
        by, receiver = tl.load(own + tt.BY), tl.load(own + tt.TO)
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
