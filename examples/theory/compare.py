"""The one comparison of estimates with what they estimate."""

from torch import Tensor


def compare(sample: Tensor, exact: Tensor) -> dict[str, float]:
    """Bias and error of estimates [r, ...] in % of the norm of `exact` [...].

    `bias` is how far the mean of all r is off; `chance` is how far it would be if there
    were no bias at all; `error` is that of a single estimate.
    """
    rounds, size = len(sample), exact.square().sum()
    over = tuple(range(1, sample.dim()))
    parts = {
        "bias": (sample.mean(0) - exact).square().sum(),
        "chance": (sample.var(0) / rounds).sum(),
        "error": (sample - exact).square().sum(over).mean(),
    }
    return {name: 100 * float((part / size).sqrt()) for name, part in parts.items()}
