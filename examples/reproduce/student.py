"""Student's t distribution, without scipy: probabilities and quantiles."""

import math


def cdf(t: float, degrees: float) -> float:
    """P(T ≤ t) for so many degrees of freedom."""
    if math.isinf(t):
        return float(t > 0)
    tail = 0.5 * _beta(degrees / 2, 0.5, degrees / (degrees + t * t))
    return 1 - tail if t > 0 else tail


def quantile(probability: float, degrees: float) -> float:
    """The t with P(T ≤ t) = probability, by bisection."""
    if not 0 < probability < 1:
        raise ValueError(
            f"'probability' must be between 0 and 1, exclusive (got {probability})"
        )
    high = 1.0
    while cdf(high, degrees) < max(probability, 1 - probability):
        high *= 2
    low = -high
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if cdf(middle, degrees) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # where its continued fraction is slow
        return 1 - _beta(b, a, 1 - x)
    log = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(log + a * math.log(x) + b * math.log1p(-x)) / a
    return front * _fraction(a, b, x)


def _fraction(a: float, b: float, x: float) -> float:
    """Its continued fraction, evaluated forwards by Lentz's method."""
    tiny, value, upper, lower = 1e-300, 1.0, 1.0, 0.0
    for i in range(500):
        m = i // 2
        if i == 0:
            term = 1.0
        elif i % 2 == 0:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        else:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        lower = 1 / ((1 + term * lower) or tiny)
        upper = (1 + term / upper) or tiny
        factor = upper * lower
        value *= factor
        if abs(1 - factor) < 1e-15:
            break
    return value - 1
