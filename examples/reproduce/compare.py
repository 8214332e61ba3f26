"""Paired comparison of two ways of training, seed by seed.

The question is not whether they differ, which seeds enough would always find, but
whether GTTF loses more than a margin: two one-sided t tests (TOST) of the differences.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from statistics import mean, stdev
from typing import Any

from examples.reproduce import student
from examples.reproduce.protocol import LEVEL, MARGIN


@dataclass(frozen=True)
class Comparison:
    """Summary of paired differences, all in points of accuracy.

    Attributes:
        pairs: how many seeds both ways have.
        difference: the mean of ours minus theirs.
        low, high: the interval of the mean difference.
        p_worse: of the hypothesis that ours is worse by the margin or more.
        p_better: of the hypothesis that ours is better by the margin or more.
    """

    pairs: int
    difference: float
    low: float
    high: float
    p_worse: float
    p_better: float

    @property
    def no_worse(self) -> bool:
        """True if a loss of the margin or more is rejected."""
        return self.p_worse < 1 - LEVEL

    @property
    def equal(self) -> bool:
        """True if a difference of the margin or more, either way, is rejected."""
        return max(self.p_worse, self.p_better) < 1 - LEVEL

    @property
    def verdict(self) -> str:
        """The outcome in a word or two; docs/reproduce.md says what they mean."""
        if self.equal:
            return "equal"
        if self.no_worse:
            return "better" if self.low > 0 else "no worse"
        return "worse" if self.high < 0 else "undecided"


def compare(
    ours: Sequence[float], theirs: Sequence[float], margin: float = MARGIN
) -> Comparison:
    """Compares scores of the same seeds, in the same order; two pairs at least."""
    if len(ours) != len(theirs) or len(ours) < 2:
        raise ValueError(
            "'ours' and 'theirs' must hold the scores of the same two or more seeds "
            f"(got {len(ours)} and {len(theirs)})"
        )
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    pairs, centre = len(differences), mean(differences)
    error = stdev(differences) / sqrt(pairs)
    half = student.quantile((1 + LEVEL) / 2, pairs - 1) * error

    def above(bound: float) -> float:
        """P of a mean as high as this one, were the true one at the bound."""
        gap = centre - bound
        t = gap / error if error else inf if gap > 0 else -inf
        return 1 - student.cdf(t, pairs - 1)

    p_better = 1 - above(margin)
    return Comparison(
        pairs, centre, centre - half, centre + half, above(-margin), p_better
    )


def paired(
    runs: Iterable[dict[str, Any]], ours: str = "gttf", theirs: str = "full"
) -> Comparison | None:
    """Compares two ways among the runs of one cell and host; None without two pairs.

    Seeds that only one of the ways has are left out.
    """
    runs = list(runs)
    scores = {
        way: {run["seed"]: run["test"] for run in runs if run["way"] == way}
        for way in (ours, theirs)
    }
    seeds = sorted(scores[ours].keys() & scores[theirs].keys())
    if len(seeds) < 2:
        return None
    return compare(*([scores[way][seed] for seed in seeds] for way in (ours, theirs)))
