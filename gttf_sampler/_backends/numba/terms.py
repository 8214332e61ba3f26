"""φ of `pairs.Terms` and its slope, for many scores at a time.

Processors have vectors of numbers, the mathematical library has none of them: the
exponential and the logarithm of float32 are written as polynomials here, which LLVM
turns into vector instructions. float64, for those who compare, is left to the library.
"""

import math

import numpy as np
from numba import types, uint64
from numba.extending import overload

from gttf_sampler._backends.numba.rng import compiled
from gttf_sampler._backends.pairs import (
    KIND,
    LIKE,
    LIKE_EPS,
    LINEAR,
    PAIR_STEP,
    PARTITION,
    ROW_STEP,
    ROWS,
    UNLIKE_EPS,
    WEIGHT,
    WIDTH,
)

_MAGIC = np.float32(12582912.0)  # 1.5 · 2²³: what is added to it is rounded
_BITS = np.int32(0x4B400000)  # of that number
_LOG2E = np.float32(1.44269504)
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_LEAST = np.float32(-87.0)  # whose exponential is still a normal number
_EXP = [np.float32(1 / math.factorial(k)) for k in range(2, 8)]
_E2, _E3, _E4, _E5, _E6, _E7 = _EXP
_A3, _A5, _A7, _A9, _A11, _A13 = [np.float32(1 / k) for k in range(3, 14, 2)]
_ZERO, _ONE, _TWO = np.float32(0), np.float32(1), np.float32(2)
_NONE = np.float32(-np.inf)  # whose exponential is nothing at all
_FAR = 12.0  # beyond which eps counts
_NEAR = 2.0  # beyond which digits of 1 − σ are lost


def _exp(x):
    """exp(x) of x <= 0."""
    return math.exp(x)


def _log1p(x):
    """log(1 + x) of 0 <= x <= 1."""
    return math.log1p(x)


@overload(_exp, inline="always")
def _exp_of(x):
    if x != types.float32:
        return lambda x: math.exp(x)

    def single(x):
        given = x
        x = _LEAST if x < _LEAST else x  # NaN stays
        shifted = x * _LOG2E + _MAGIC
        whole = shifted - _MAGIC
        r = x - whole * _LN2_HIGH - whole * _LN2_LOW
        poly = _E6 + r * _E7
        poly = _E5 + r * poly
        poly = _E4 + r * poly
        poly = _E3 + r * poly
        poly = _E2 + r * poly
        poly = _ONE + r + r * r * poly
        bits = np.float32(shifted).view(np.int32)
        power = (bits - _BITS + np.int32(127)) << np.int32(23)
        found = poly * np.int32(power).view(np.float32)
        return _ZERO if given == _NONE else found

    return single


@overload(_log1p, inline="always")
def _log1p_of(x):
    if x != types.float32:
        return lambda x: math.log1p(x)

    def single(x):  # twice the inverse hyperbolic tangent of x / (2 + x)
        z = x / (_TWO + x)
        s = z * z
        poly = _A11 + s * _A13
        poly = _A9 + s * poly
        poly = _A7 + s * poly
        poly = _A5 + s * poly
        poly = _A3 + s * poly
        return _TWO * (z + z * s * poly)

    return single


def _logistic(sign, score, slope, low, high):
    """softplus(sign · s) in the place of scores, and its slope in s."""
    one = sign * sign  # of the right type
    zero = one - one
    for i in range(low, high):
        x = sign * score[i]
        e = _exp(-abs(x))
        share = one / (one + e)
        score[i] = (x if x > zero else zero) + _log1p(e)
        slope[i] = sign * (share if x > zero else e * share)


_logistic = compiled(_logistic, error_model="numpy")


@compiled
def _saturate(kind, eps, value, slope, low, high):
    """Puts eps into the logarithms where it counts.

    1 − σ is rounded as those round it who subtract: beyond 17 float32 has none left.
    """
    one, like = value.dtype.type(1), kind == LIKE_EPS
    least, sign = (_FAR, -one) if like else (_NEAR, one)
    for i in range(low, high):
        if value[i] > least:
            x = float(value[i])
            x -= math.log1p(math.exp(-x) / (1 - math.exp(-x)))  # softplus undone
            e = value.dtype.type(math.exp(-x))
            share = one / (one + e)
            rest = float(e * share) if like else float(one - share)
            value[i] = -math.log(rest + eps)
            slope[i] = sign * float(share) * rest / (rest + eps)


@compiled
def _apply(kind, eps, score, slope, low, high):
    """φ of scores low to high in their place, φ′ in `slope`; not of PARTITION."""
    if kind == LINEAR:
        for i in range(low, high):
            slope[i] = 1
        return
    one = score.dtype.type(1)
    sign = -one if kind in (LIKE, LIKE_EPS) else one
    _logistic(sign, score, slope, low, high)
    if kind in (LIKE_EPS, UNLIKE_EPS):
        _saturate(kind, eps, score, slope, low, high)


@compiled
def _infinite(score, slope, low, width, most):
    """The log mean exp whose largest score is infinite; NaN where one is NaN."""
    for i in range(low, low + width):
        if math.isnan(score[i]):
            slope[low : low + width] = score[i]
            return float(score[i])
    return most


@compiled
def _partition(score, slope, low, width):
    """The log mean exp of the scores of a source, and its slopes."""
    most = score[low]
    for i in range(low + uint64(1), low + width):
        most = max(most, score[i])
    total = 0.0
    for i in range(low, low + width):
        part = math.exp(float(score[i]) - float(most))
        slope[i] = part
        total += part
    if math.isinf(most):  # slopes of the largest are NaN, others are zero
        return _infinite(score, slope, low, width, float(most))
    for i in range(low, low + width):
        slope[i] /= total
    return float(most) + math.log(total / float(width))


@compiled
def _weigh_row(number, width, weight, place, step, score, slope):
    """The weighted φ of one source, added up; slopes get the same weights."""
    value = 0.0
    if step == uint64(0):
        own = weight[place]
        for i in range(number, number + width):
            slope[i] *= own
            value += score[i]
        return value * own
    for i in range(width):
        own = weight[place + i]
        slope[number + i] *= own
        value += own * score[number + i]
    return value


@compiled
def weigh(first, last, blocks, terms, eps, weight, unit, score, slope):
    """Adds up the loss of some trees' scores; slopes become those of the loss."""
    value, low, high = 0.0, uint64(0), uint64(0)
    for block in range(blocks.shape[0]):
        rows = (last - first) * blocks[block, ROWS]
        high += uint64(rows * blocks[block, WIDTH])
        end = block + 1 == blocks.shape[0]
        if end or terms[block, KIND] != terms[block + 1, KIND]:
            if terms[block, KIND] != PARTITION:  # as many at a time as are of a kind
                _apply(terms[block, KIND], eps, score, slope, low, high)
            low = high
    number = uint64(0)
    for block in range(blocks.shape[0]):
        at, step = blocks[block], uint64(terms[block, PAIR_STEP])
        counts = unit.size > 0 and terms[block, ROW_STEP] > 0
        width = uint64(at[WIDTH])
        for row in range(first * at[ROWS], last * at[ROWS]):
            place = uint64(terms[block, WEIGHT] + row * terms[block, ROW_STEP])
            if terms[block, KIND] == PARTITION:
                found = _partition(score, slope, number, width)
                value += float(weight[place]) * found
                if counts:
                    unit[place] += found
                for i in range(width):
                    slope[number + i] *= weight[place]
                number += width
                continue
            value += _weigh_row(number, width, weight, place, step, score, slope)
            if counts:
                for i in range(width):
                    unit[place + i * step] += score[number + i]
            number += width
    return value
