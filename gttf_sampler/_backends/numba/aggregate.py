"""Sums, means, extremes and softmax over the senders of each receiver, compiled.

A block of the columns of a receiver's sum stays in registers while its senders' rows
are read, and rows of later edges are asked for meanwhile: some edges ahead where rows
are narrow, a receiver ahead where one row is read block by block. Threads share the
receivers; every number is a chain of multiply-adds in the order of the edges.
"""

from functools import partial
from itertools import chain, pairwise
from typing import Any

import numba
import numpy as np
import torch
from llvmlite import ir
from numba import types, uint64
from numba.core import cgutils
from numba.extending import intrinsic
from torch import Tensor

from gttf_sampler._backends.memory import Array, empty_rows
from gttf_sampler._backends.numba.rng import compiled, prefetch
from gttf_sampler._backends.numba.vectors import (
    _array,
    _filled,
    _kind,
    _lanes,
    _leaky,
    _load,
    _multiply_add,
    _pointer,
    _spread,
    _store,
    dot,
    leaky_dot,
)
from gttf_sampler._backends.threads import run
from gttf_sampler._backends.torch import aggregate as reference

_WORD, _LANE = ir.IntType(64), ir.IntType(32)
_EDGES_AHEAD = 32  # of narrow rows
_WIDE = 384  # numbers of a row that one block does not hold
_WORK = 1 << 16  # multiply-adds, fewer are not worth another thread
_TOGETHER = 256  # receivers whose gradients of a parameter are added up by one thread

WIDE = (torch.float32, torch.float64)
READ = (*WIDE, torch.bfloat16, torch.float16, torch.int8)  # the latter as float32


def _ask(builder, pointer, at):
    """Asks memory for pointer[at:], and does not wait for it."""
    byte = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [byte, _LANE, _LANE, _LANE])
    call = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
    where = builder.bitcast(builder.gep(pointer, [at]), byte)
    builder.call(call, [where, _LANE(0), _LANE(3), _LANE(1)])


class _Senders:
    """The loop over a receiver's edges that both kinds of blocks share."""

    def __init__(self, context, builder, signature, args):
        self.builder = builder
        read = partial(_array, context, builder, signature, args)
        self.x, self.index, self.weight, self.out = (read(i) for i in range(4))
        where, edges, weighing, place = (
            cgutils.unpack_tuple(builder, args[number]) for number in (4, 5, 6, 7)
        )
        self.stride, self.column = where
        self.low, self.high, self.ahead, self.last = edges
        self.first, self.step = weighing
        self.to, self.apart = place
        self.number, self.full = _kind(self.x)

    def each(self, vectors, lanes, body):
        """body(edge, rows): the vectors of a sender's row, for every edge."""
        builder = self.builder
        begins = [_WORD(turn * lanes) for turn in range(vectors)]

        def row(edge):
            sender = builder.load(builder.gep(self.index, [edge]))
            return builder.add(builder.mul(sender, self.stride), self.column)

        edges = self.low, self.high, _WORD(1)
        with cgutils.for_range_slice(builder, *edges, intp=_WORD) as (edge, _):
            later = builder.add(edge, self.ahead)
            there = builder.icmp_signed("<", later, self.last)
            soon = row(builder.select(there, later, self.last))
            for begin in begins:
                _ask(builder, self.x, builder.add(soon, begin))
            here = row(edge)
            body(edge, [self.load(builder.add(here, b), lanes) for b in begins])

    def load(self, at, lanes):
        return _load(self.builder, self.x, at, lanes)

    def weigh(self, edge, head, lanes):
        """The weight of an edge for a head, as a vector."""
        builder = self.builder
        at = builder.add(builder.mul(edge, self.step), self.first)
        at = builder.add(at, _WORD(head)) if head else at
        return _spread(builder, builder.load(builder.gep(self.weight, [at])), lanes)


_SHAPE = types.UniTuple(types.int64, 2)
_EDGES = types.UniTuple(types.int64, 4)


def _summing(vectors, heads, halved=0):
    """An intrinsic that adds up some columns of a receiver's senders, for some heads.

    Arguments are flat arrays of rows, of senders, of weights and of results; the
    stride and the first column of rows; the first and last edge, how many edges ahead
    to ask for, and the last of all; the first weight and the step to the next edge's;
    where results go and the step to the next head's; and a factor.
    """

    @intrinsic
    def add_up(_, x, index, weight, out, where, edges, weighing, place, factor):
        def emit(context, builder, signature, args):
            loop = _Senders(context, builder, signature, args)
            lanes = max(1, loop.full >> halved)
            kind = _lanes(loop.number, lanes)
            sums = [
                [cgutils.alloca_once(builder, kind) for _ in range(vectors)]
                for _ in range(heads)
            ]
            for total in chain(*sums):
                builder.store(_filled(kind, 0.0), total)

            def body(edge, rows):
                for head in range(heads):
                    by = loop.weigh(edge, head, lanes)
                    for row, total in zip(rows, sums[head], strict=True):
                        value = _multiply_add(builder, row, by, builder.load(total))
                        builder.store(value, total)

            loop.each(vectors, lanes, body)
            by = _spread(builder, args[8], lanes)
            for head in range(heads):
                start = builder.add(loop.to, builder.mul(loop.apart, _WORD(head)))
                for turn, total in enumerate(sums[head]):
                    at = builder.add(start, _WORD(turn * lanes))
                    value = builder.fmul(builder.load(total), by)
                    _store(builder, value, loop.out, at, lanes)
            return context.get_dummy_value()

        known = x, index, weight, out, _SHAPE, _EDGES, _SHAPE, _SHAPE
        return types.void(*known, factor), emit

    return add_up


def _seeking(vectors, keep, halved=0):
    """As `_summing`, for the largest: `factor` -1 makes it the least.

    The edge that has it is noted in the array `best`, where results go.
    """

    @intrinsic
    def seek(_, x, index, weight, out, where, edges, weighing, place, factor, best):
        def emit(context, builder, signature, args):
            loop = _Senders(context, builder, signature, args)
            lanes = max(1, loop.full >> halved)
            kind, whole = _lanes(loop.number, lanes), _lanes(_LANE, lanes)
            tops = [cgutils.alloca_once(builder, kind) for _ in range(vectors)]
            found = [cgutils.alloca_once(builder, whole) for _ in range(vectors)]
            for top, edge in zip(tops, found, strict=True):
                builder.store(_filled(kind, float("-inf")), top)
                first = builder.trunc(loop.low, _LANE)
                builder.store(_spread(builder, first, lanes), edge)
            sign = _spread(builder, args[8], lanes)

            def body(edge, rows):
                by = builder.fmul(loop.weigh(edge, 0, lanes), sign)
                own = _spread(builder, builder.trunc(edge, _LANE), lanes)
                for row, top, at in zip(rows, tops, found, strict=True):
                    value, before = builder.fmul(row, by), builder.load(top)
                    # a NaN wins, and whatever is compared with it later does not
                    more = builder.or_(
                        builder.fcmp_ordered(">", value, before),
                        builder.fcmp_unordered("uno", value, value),
                    )
                    builder.store(builder.select(more, value, before), top)
                    if keep:
                        edge_now = builder.select(more, own, builder.load(at))
                        builder.store(edge_now, at)

            loop.each(vectors, lanes, body)
            to = _array(context, builder, signature, args, 9)
            for turn, (top, edge) in enumerate(zip(tops, found, strict=True)):
                at = builder.add(loop.to, _WORD(turn * lanes))
                value = builder.fmul(builder.load(top), sign)
                _store(builder, value, loop.out, at, lanes)
                if keep:
                    at = builder.add(loop.apart, _WORD(turn * lanes))
                    where = builder.gep(to, [at])
                    if lanes > 1:
                        where = builder.bitcast(where, whole.as_pointer())
                    builder.store(builder.load(edge), where, align=4)
            return context.get_dummy_value()

        known = x, index, weight, out, _SHAPE, _EDGES, _SHAPE, _SHAPE
        return types.void(*known, factor, best), emit

    return seek


def _bending(vectors, halved=0):
    """As `_summing`, for the derivatives of leaky ReLUs of own + row, one per sender.

    Adds Σ weight · derivative · vector to `out`, and Σ weight · leaky ReLU to `total`.
    What is the receiver's own stands where its result does, and `vector` where `total`.
    """

    @intrinsic
    def bend(_, x, index, weight, out, where, edges, weighing, place, slope, beside):
        def emit(context, builder, signature, args):
            loop = _Senders(context, builder, signature, args)
            kinds, values = (
                signature.args[9].types,
                cgutils.unpack_tuple(builder, args[9]),
            )
            own, vector, total = (
                _pointer(context, builder, kind, value)
                for kind, value in zip(kinds, values, strict=True)
            )
            lanes = max(1, loop.full >> halved)
            kind = _lanes(loop.number, lanes)
            begins = [_WORD(turn * lanes) for turn in range(vectors)]
            mine = [
                _load(builder, own, builder.add(loop.to, begin), lanes)
                for begin in begins
            ]
            sums = [
                [cgutils.alloca_once(builder, kind) for _ in begins] for _ in range(2)
            ]
            for each in chain(*sums):
                builder.store(_filled(kind, 0.0), each)
            falling = _spread(builder, args[8], lanes)

            def body(edge, rows):
                by = loop.weigh(edge, 0, lanes)
                for row, base, *both in zip(rows, mine, *sums, strict=True):
                    bent = _leaky(builder, builder.fadd(row, base), falling)
                    for factor, each in zip(reversed(bent), both, strict=True):
                        value = _multiply_add(builder, factor, by, builder.load(each))
                        builder.store(value, each)

            loop.each(vectors, lanes, body)
            for begin, slopes, values in zip(begins, *sums, strict=True):
                to, at = (builder.add(p, begin) for p in (loop.to, loop.apart))
                by, value = _load(builder, vector, at, lanes), builder.load(slopes)
                before = _load(builder, loop.out, to, lanes)
                value = _multiply_add(builder, value, by, before)
                _store(builder, value, loop.out, to, lanes)
                value = _load(builder, total, at, lanes)
                value = builder.fadd(value, builder.load(values))
                _store(builder, value, total, at, lanes)
            return context.get_dummy_value()

        known = x, index, weight, out, _SHAPE, _EDGES, _SHAPE, _SHAPE
        return types.void(*known, slope, beside), emit

    return bend


def _columns(block, most, *how, twice=True):
    """A function that has all columns of a row computed, by blocks as wide as can be.

    The last block of a row overlaps the one before it, and finds the same numbers
    again; a row that is narrower than a vector is cut into halves.

    Args:
        block: makes an intrinsic of a number of vectors, `how`, and how often a vector
            is halved.
        most: vectors of the widest block.
        how: see `block`.
        twice: whether a column may be computed twice; where blocks add to what is
            there, the end of a row is cut into halves as well.
    """
    many, four, two, one = (block(size, *how) for size in (most, 4, 2, 1))
    half, quarter, eighth, single = (block(1, *how, halved=by) for by in (1, 2, 3, 4))

    def cover(width, full, arrays, stride, edges, weighing, place, shift, more):
        done = 0
        while width - done >= most * full:
            to = place[0] + done, place[1] + shift * done
            many(*arrays, (stride, done), edges, weighing, to, *more)
            done += most * full
        while width - done >= 4 * full:
            to = place[0] + done, place[1] + shift * done
            four(*arrays, (stride, done), edges, weighing, to, *more)
            done += 4 * full
        if width - done >= 2 * full:
            to = place[0] + done, place[1] + shift * done
            two(*arrays, (stride, done), edges, weighing, to, *more)
            done += 2 * full
        if twice and width > full:
            while done < width:
                done = min(done, width - full)
                to = place[0] + done, place[1] + shift * done
                one(*arrays, (stride, done), edges, weighing, to, *more)
                done += full
            return
        if width - done >= full:
            to = place[0] + done, place[1] + shift * done
            one(*arrays, (stride, done), edges, weighing, to, *more)
            done += full
        if width & (full >> 1):
            to = place[0] + done, place[1] + shift * done
            half(*arrays, (stride, done), edges, weighing, to, *more)
            done += full >> 1
        if width & (full >> 2):
            to = place[0] + done, place[1] + shift * done
            quarter(*arrays, (stride, done), edges, weighing, to, *more)
            done += full >> 2
        if width & (full >> 3):
            to = place[0] + done, place[1] + shift * done
            eighth(*arrays, (stride, done), edges, weighing, to, *more)
            done += full >> 3
        if width & (full >> 4):
            to = place[0] + done, place[1] + shift * done
            single(*arrays, (stride, done), edges, weighing, to, *more)

    # Kernels come from the disk one by one, each with the machine code of its own
    # columns: of two functions with one name, a process would use the first for both.
    cover.__qualname__ = "_".join(map(str, (block.__name__, most, *how, twice)))
    return numba.njit(nogil=True)(cover)


_sum_columns = _columns(_summing, 24, 1)
_sum_four_heads = _columns(_summing, 6, 4)
_seek_columns = _columns(_seeking, 8, False)
_seek_and_note = _columns(_seeking, 8, True)
_bend_columns = _columns(_bending, 8, twice=False)


@compiled
def sum_kernel(lo, hi, x, index, weight, out, ptr, shape, steps, mean):
    """Sums for receivers lo to hi; arrays are flat.

    `shape`: heads, columns, numbers of a vector. `steps`: from row to row and from head
    to head of `x`, from edge to edge in `weight`, from receiver to receiver and from
    head to head in `out`.
    """
    heads, width, full = shape
    stride, beside, step, row, apart = steps
    last = index.size - 1
    for i in range(lo, hi):
        low, high = ptr[i], ptr[i + 1]
        ahead = high - low if width > _WIDE else _EDGES_AHEAD
        edges, to = (low, high, ahead, last), i * row
        by = 1.0 / (high - low) if mean and high > low else 1.0
        factor = (weight.dtype.type(by),)
        for head in range(heads):
            arrays = x[head * beside :], index, weight, out
            place, first = (to + head * apart, apart), (head, step)
            _sum_columns(width, full, arrays, stride, edges, first, place, 0, factor)


@compiled
def heads_kernel(lo, hi, x, index, weight, out, ptr, shape, steps, mean):
    """As `sum_kernel`, for heads four by four: a row is read once for all of them."""
    heads, width, full = shape
    stride, _, step, row, apart = steps
    arrays, last = (x, index, weight, out), index.size - 1
    factor = (weight.dtype.type(1),)
    for i in range(lo, hi):
        low, high = ptr[i], ptr[i + 1]
        ahead = high - low if width > _WIDE // 4 else _EDGES_AHEAD
        edges, to = (low, high, ahead, last), i * row
        for head in range(0, heads, 4):
            place, first = (to + head * apart, apart), (head, step)
            _sum_four_heads(width, full, arrays, stride, edges, first, place, 0, factor)


@compiled
def best_kernel(lo, hi, x, index, weight, out, best, ptr, shape, steps, keep, sign):
    """Extremes for receivers lo to hi; see `sum_kernel`.

    `best` is flat, in the order of receivers; `sign` is 1 for the largest, -1 for the
    least.
    """
    width, full = shape
    stride, step, row = steps
    arrays, last = (x, index, weight, out), index.size - 1
    for i in range(lo, hi):
        low, high = ptr[i], ptr[i + 1]
        ahead = high - low if width > _WIDE else _EDGES_AHEAD
        edges, by, more = (low, high, ahead, last), (0, step), (sign, best)
        place = i * row, i * width
        if low == high:
            out[place[0] : place[0] + width] = 0
            if keep:
                best[place[1] : place[1] + width] = -1
        elif keep:
            _seek_and_note(width, full, arrays, stride, edges, by, place, 1, more)
        else:
            _seek_columns(width, full, arrays, stride, edges, by, place, 1, more)


@compiled
def scatter_kernel(lo, hi, grad, best, index, weight, step, out):
    """Adds gradients of the columns lo to hi to the rows that had the extreme."""
    for i in range(best.shape[0]):
        for f in range(lo, hi):
            edge = best[i, f]
            if edge >= 0:
                out[uint64(index[edge]), f] += grad[i, f] * weight[edge * step]


@compiled
def dot_kernel(lo, hi, x, index, grad, out, ptr, shape, steps):
    """Products of rows and gradients for the edges of receivers lo to hi.

    `shape`: heads, columns. `steps`: from row to row and from head to head of `x`, from
    receiver to receiver and from head to head of `grad`.
    """
    heads, width = shape
    stride, beside, row, apart = steps
    last = index.size - 1
    for i in range(lo, hi):
        for edge in range(ptr[i], ptr[i + 1]):
            soon = index[min(edge + 4, last)] * stride
            for f in range(0, width, 16):
                prefetch(x, soon + f)
            here = index[edge] * stride
            for head in range(heads):
                at, to = uint64(here + head * beside), uint64(i * row + head * apart)
                out[edge * heads + head] = dot(x, at, grad, to, uint64(width))


@compiled
def leaky_kernel(lo, hi, x, index, query, vector, out, ptr, shape, slope):
    """Scores ⟨leaky ReLU of row + query, vector⟩ of the edges of receivers lo to hi.

    `shape`: heads, columns, numbers from row to row of `x`.
    """
    heads, width, stride = shape
    whole, last = heads * width, index.size - 1
    tables = x, query, vector
    for i in range(lo, hi):
        for edge in range(ptr[i], ptr[i + 1]):
            soon = index[min(edge + 4, last)] * stride
            for f in range(0, whole, 16):
                prefetch(x, soon + f)
            here = index[edge] * stride
            for head in range(heads):
                at = head * width
                places = uint64(here + at), uint64(i * whole + at), uint64(at)
                found = leaky_dot(tables, places, slope, uint64(width))
                out[edge * heads + head] = found


@compiled
def bend_kernel(lo, hi, x, index, weight, out, own, vector, total, ptr, shape, slope):
    """Gradients of `leaky_kernel` for receivers lo to hi, and of its vector.

    `shape`: heads, columns, numbers of a vector, numbers from row to row of `x`.
    """
    heads, width, full, stride = shape
    whole, last = heads * width, index.size - 1
    for i in range(lo, hi):
        low, high = ptr[i], ptr[i + 1]
        beside = own, vector, total[i // _TOGETHER]
        more, edges = (slope, beside), (low, high, _EDGES_AHEAD, last)
        for head in range(heads):
            at = head * width
            arrays, place = (x[at:], index, weight, out), (i * whole + at, at)
            first = head, heads
            _bend_columns(width, full, arrays, stride, edges, first, place, 1, more)


@compiled
def softmax_kernel(lo, hi, ptr, score, out):
    """The softmax of the scores of receivers lo to hi."""
    for i in range(lo, hi):
        for head in range(score.shape[1]):
            top = score.dtype.type(-np.inf)
            for edge in range(ptr[i], ptr[i + 1]):
                top = max(top, score[edge, head])
            total = score.dtype.type(0)
            for edge in range(ptr[i], ptr[i + 1]):
                raised = np.exp(score[edge, head] - top)
                out[edge, head] = raised
                total += raised
            for edge in range(ptr[i], ptr[i + 1]):
                out[edge, head] /= total


@compiled
def softmax_gradient_kernel(lo, hi, ptr, share, grad, out):
    """The gradient of the scores of receivers lo to hi."""
    for i in range(lo, hi):
        for head in range(share.shape[1]):
            total = share.dtype.type(0)
            for edge in range(ptr[i], ptr[i + 1]):
                total += share[edge, head] * grad[edge, head]
            for edge in range(ptr[i], ptr[i + 1]):
                out[edge, head] = share[edge, head] * (grad[edge, head] - total)


@compiled
def sound_kernel(index, ptr, rows):
    """True if `ptr` covers `index` in ascending steps and all rows are there."""
    if ptr[0] != 0 or ptr[ptr.size - 1] != index.size:
        return False
    falls, largest = False, uint64(0)
    for i in range(ptr.size - 1):
        falls |= ptr[i + 1] < ptr[i]
    for edge in range(index.size):
        largest = max(largest, uint64(index[edge]))
    return not falls and (index.size == 0 or largest < uint64(rows))


def sound(index: Tensor, ptr: Tensor, rows: int) -> bool:
    """True if a CSR leads to rows that are there; see `torch.aggregate`."""
    return bool(sound_kernel(index.numpy(), ptr.numpy(), rows))


def segment_sum(
    x: Tensor,
    ptr: Tensor,
    index: Tensor,
    weight: Tensor | None,
    mean: bool,
    out: Tensor,
) -> None:
    """Weighted sums of rows per receiver and head; see `torch.aggregate`."""
    heads, width = out.shape[1:]
    if not _known(x, out) or not index.numel():
        reference.segment_sum(x, ptr, index, weight, mean, out)
        return
    x = _side_by_side(x)
    weight, step = _weights(weight, out)
    arrays = _flat(x), index.numpy(), _flat(weight), _flat(out)
    shape, beside = (heads, width, _full(out)), x.stride(1) if x.dim() == 3 else 0
    steps = x.stride(0), beside, step, out.stride(0), out.stride(1)
    work = index.numel() * heads * width
    shared = x.dim() == 2 and heads % 4 == 0 and not mean and step
    kernel = heads_kernel if shared else sum_kernel
    _over_edges(kernel, ptr, work, *arrays, ptr.numpy(), shape, steps, mean)


def segment_best(
    x: Tensor,
    ptr: Tensor,
    index: Tensor,
    weight: Tensor | None,
    largest: bool,
    out: Tensor,
    best: Tensor | None,
) -> None:
    """The largest or least rows per receiver and column; see `torch.aggregate`."""
    most = 1 << 31  # edges are noted as int32
    if not _known(x, out) or index.numel() >= most:
        reference.segment_best(x, ptr, index, weight, largest, out, best)
        return
    x, sign = _side_by_side(x), out.numpy().dtype.type(1 if largest else -1)
    weight, step = _weights(weight, out)
    noted = torch.empty(0, dtype=torch.int32) if best is None else best
    if noted.dtype != torch.int32:
        noted = torch.empty(noted.shape, dtype=torch.int32)
    arrays = _flat(x), index.numpy(), _flat(weight), _flat(out), _flat(noted)
    shape, steps = (x.shape[1], _full(out)), (x.stride(0), step, out.stride(0))
    work, keep = index.numel() * x.shape[1], best is not None
    more = ptr.numpy(), shape, steps, keep, sign
    _over_edges(best_kernel, ptr, work, *arrays, *more)
    if best is not None and best is not noted:
        best.copy_(noted)


def scatter_best(
    grad: Tensor,
    best: Tensor,
    ptr: Tensor,
    index: Tensor,
    weight: Tensor | None,
    out: Tensor,
) -> None:
    """Adds the gradient of each extreme to its row; see `torch.aggregate`."""
    if not _known(grad, out):
        reference.scatter_best(grad, best, ptr, index, weight, out)
        return
    grad = grad.to(out.dtype)
    weight, step = _weights(weight, out)
    args = grad.numpy(), best.numpy(), index.numpy(), _flat(weight), step, out.numpy()
    size = out.shape[1]
    parts = max(1, min(torch.get_num_threads(), grad.numel() // _WORK, size // 16))
    bounds = [size * part // parts for part in range(parts + 1)]
    run([partial(scatter_kernel, *part, *args) for part in pairwise(bounds)])


def edge_dot(x: Tensor, ptr: Tensor, index: Tensor, grad: Tensor, out: Tensor) -> None:
    """Products of rows and gradients per edge and head; see `torch.aggregate`."""
    heads, width = grad.shape[1:]
    if not _known(x, out) or not out.is_contiguous() or not out.numel():
        reference.edge_dot(x, ptr, index, grad, out)
        return
    x, grad = _side_by_side(x), _side_by_side(grad.to(out.dtype))
    arrays = _flat(x), index.numpy(), _flat(grad), _flat(out)
    steps = x.stride(0), x.stride(1) if x.dim() == 3 else 0, *grad.stride()[:2]
    more = ptr.numpy(), (heads, width), steps
    _over_edges(dot_kernel, ptr, out.numel() * width, *arrays, *more)


def additive_score(
    x: Tensor,
    ptr: Tensor,
    index: Tensor,
    query: Tensor,
    vector: Tensor,
    slope: float,
    out: Tensor,
) -> None:
    """Scores of sums of a row and a query; see `torch.aggregate`."""
    heads, width = vector.shape
    if not _known(x, out) or not out.numel():
        reference.additive_score(x, ptr, index, query, vector, slope, out)
        return
    x = _in_heads(x)
    others = (_flat(value.contiguous()) for value in (query, vector))
    arrays = _flat(x), index.numpy(), *others, _flat(out), ptr.numpy()
    shape = heads, width, x.stride(0)
    work = 2 * out.numel() * width
    _over_edges(leaky_kernel, ptr, work, *arrays, shape, out.numpy().dtype.type(slope))


def additive_gradient(
    x: Tensor,
    ptr: Tensor,
    index: Tensor,
    grad: Tensor,
    own: Tensor,
    vector: Tensor,
    slope: float,
    out: Tensor,
) -> Tensor:
    """Gradients of `additive_score`; see `torch.aggregate`."""
    heads, width = vector.shape
    known = _known(x, out) and own.dtype in READ and out.is_contiguous()
    if not known or not grad.numel():
        given = x, ptr, index, grad, own, vector, slope, out
        return reference.additive_gradient(*given)
    x, number = _in_heads(x), out.numpy().dtype.type
    others = (_flat(value.contiguous()) for value in (own, vector))
    blocks = -(-out.shape[0] // _TOGETHER)
    total = np.zeros((blocks, heads * width), number)
    arrays = _flat(x), index.numpy(), _flat(grad.contiguous()), _flat(out), *others
    shape = heads, width, _full(out), x.stride(0)
    work = 4 * grad.numel() * width
    more = total, ptr.numpy(), shape, number(slope)
    _over_edges(bend_kernel, ptr, work, *arrays, *more, together=_TOGETHER)
    found = total.sum(0, dtype=np.float64).astype(number)
    return torch.from_numpy(found).view(heads, width)


def segment_softmax(score: Tensor, ptr: Tensor) -> Tensor:
    """The softmax over the edges of each receiver; see `torch.aggregate`."""
    if score.dtype not in WIDE:
        return reference.segment_softmax(score, ptr)
    out = empty_rows(score.shape, score.dtype)
    args = ptr.numpy(), score.detach().numpy(), out.numpy()
    _over_edges(softmax_kernel, ptr, 16 * score.numel(), *args)
    return out


def softmax_gradient(share: Tensor, grad: Tensor, ptr: Tensor) -> Tensor:
    """The gradient of scores, from that of their softmax; see `torch.aggregate`."""
    if share.dtype not in WIDE or grad.dtype != share.dtype:
        return reference.softmax_gradient(share, grad, ptr)
    out = empty_rows(share.shape, share.dtype)
    args = ptr.numpy(), share.numpy(), grad.numpy(), out.numpy()
    _over_edges(softmax_gradient_kernel, ptr, 4 * share.numel(), *args)
    return out


def _over_edges(
    kernel: Any, ptr: Tensor, work: int, *args: Any, together: int = 1
) -> None:
    """kernel(lo, hi, *args) for ranges of receivers that have about as many edges.

    So many receivers in a row stay `together`.
    """
    rows, threads = ptr.numel() - 1, torch.get_num_threads()
    parts = min(8 * threads, work // _WORK) if threads > 1 else 1
    if parts < 2:
        kernel(0, rows, *args)
        return
    edges = ptr.numpy()
    ends = [edges[-1] * part // parts for part in range(1, parts)]
    inner = [int(at) for at in np.searchsorted(edges, ends) // together * together]
    bounds = sorted({0, *(min(at, rows) for at in inner), rows})
    run([partial(kernel, *part, *args) for part in pairwise(bounds)])


def _known(x: Tensor, out: Tensor) -> bool:
    """True if kernels compute with these numbers, and write where they are wanted."""
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    here = x.dtype in READ and out.dtype == wide and x.shape[-1] > 0
    return here and (out.shape[-1] == 1 or out.stride(-1) == 1)


def _side_by_side(x: Tensor) -> Tensor:
    """Rows whose numbers are neighbours in memory."""
    x = x.detach()
    return x if x.stride(-1) == 1 and min(x.stride()) >= 0 else x.contiguous()


def _in_heads(x: Tensor) -> Tensor:
    """Rows [n, heads, f] whose heads are neighbours in memory."""
    x = _side_by_side(x)
    return x if x.stride(1) == x.shape[2] else x.contiguous()


def _weights(weight: Tensor | None, out: Tensor) -> tuple[Tensor, int]:
    """Weights of edges in the dtype to compute with, and the step to the next."""
    if weight is None:
        return torch.ones(4, dtype=out.dtype), 0
    weight = weight.detach().to(out.dtype)
    if weight.dim() == 2 and weight.shape[1] > 1 and weight.stride(1) != 1:
        weight = weight.contiguous()
    return weight, weight.stride(0)


def _full(out: Tensor) -> int:
    """Numbers of a vector."""
    return 64 // out.element_size()


def _flat(x: Tensor) -> Array:
    """The memory from the first to the last number of a tensor; see `vectors`."""
    last = sum((n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True))
    flat = x.detach().as_strided((last + 1 if x.numel() else 0,), (1,))
    if x.dtype == torch.bfloat16:
        bits: Array = flat.view(torch.int16).numpy().view(np.uint16)
        return bits
    half = x.dtype == torch.float16
    found: Array = flat.view(torch.int16).numpy() if half else flat.numpy()
    return found
