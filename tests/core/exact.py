"""Small graphs, exact probabilities, and the one comparison with what was drawn.

The tolerance is always `SIGMAS` standard errors, those of a frequency being one draw at
least: one outcome in a million may turn up in a thousand draws. What has probability
zero must never occur. A test module that draws large batches imports `one_thread` too.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, permutations
from typing import Any

import pytest
import torch
from torch import Tensor

from gttf_sampler import CompactAdj

SIGMAS = 5.0
ROUNDING = 1e-6  # of results that are float32

Outcome = tuple[int, ...]
Distribution = Mapping[Outcome, float]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Keeps torch on one thread: beside a busy process OpenMP's barriers stall."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def graph(rows: Sequence[Sequence[int]], **edge: Any) -> CompactAdj:
    """The graph whose row u is `rows[u]`; `edge` are values in that order."""
    rowptr = [0, *accumulate(len(row) for row in rows)]
    return CompactAdj.from_csr(
        rowptr, list(chain.from_iterable(rows)), direction="out", **edge
    )


def copies(rows: Sequence[Sequence[int]], count: int) -> CompactAdj:
    """`count` graphs side by side: node u of copy c is node c · n + u, edges alike.

    One batch with the same seeds in every copy gives `count` independent samples.
    """
    one = graph(rows)
    shift = len(rows) * torch.arange(count)[:, None]
    rowptr = torch.cat([torch.zeros(1).long(), one.degree.repeat(count).cumsum(0)])
    return CompactAdj.from_csr(rowptr, (one.col + shift).view(-1), direction="out")


def proportional(weights: Mapping[Outcome, float]) -> dict[Outcome, float]:
    """Probabilities in proportion to the weights; nothing underflows or overflows."""
    top = max(weights.values())
    total = sum(weight / top for weight in weights.values())
    return {outcome: weight / top / total for outcome, weight in weights.items()}


def successive(weights: Sequence[float], size: int) -> dict[Outcome, float]:
    """The sets of `size` positions that draws by weight, one after another, give.

    By enumeration of all orders in which a set can be drawn. With fewer positive
    weights than `size`, the set is that of the positive ones.
    """
    positive = [i for i, weight in enumerate(weights) if weight > 0]
    exact: dict[Outcome, float] = {}
    for order in permutations(positive, min(size, len(positive))):
        left, probability = list(positive), 1.0
        for i in order:
            probability *= weights[i] / sum(weights[j] for j in left)
            left.remove(i)
        chosen = tuple(sorted(order))
        exact[chosen] = exact.get(chosen, 0.0) + probability
    return exact


def transition_matrix(
    rows: Sequence[Sequence[int]], weights: Sequence[Sequence[float]] | None = None
) -> Tensor:
    """𝒯, float64 [n, n]: a dead end stays, a row without weight loses its walkers."""
    matrix = torch.zeros(len(rows), len(rows), dtype=torch.float64)
    for u, row in enumerate(rows):
        own = [1.0] * len(row) if weights is None else weights[u]
        for v, weight in zip(row, own, strict=True):
            if sum(own) > 0:
                matrix[u, v] += weight / sum(own)
        if not row:
            matrix[u, u] = 1.0
    return matrix


Step = Callable[[Outcome], Mapping[int, float]]


def second_order(
    rows: Sequence[Sequence[int]], weights: Iterable[float], p: float, q: float
) -> Step:
    """A step of node2vec for `paths`; weights of edges in the order of the rows."""
    flat = iter(weights)
    own = [[next(flat) for _ in row] for row in rows]

    def step(path: Outcome) -> Mapping[int, float]:
        last = path[-2] if len(path) > 1 else None
        mass: dict[int, float] = {}
        for to, weight in zip(rows[path[-1]], own[path[-1]], strict=True):
            alpha = 1.0
            if last is not None and to == last:
                alpha = 1 / p
            elif last is not None and last not in rows[to]:
                alpha = 1 / q
            mass[to] = mass.get(to, 0.0) + alpha * weight
        total = sum(mass.values())
        return {to: own / total for to, own in mass.items()} if total else {}

    return step


def paths(
    step: Step, start: int, length: int, end: int | None = None
) -> dict[Outcome, float]:
    """The exact distribution of walks; step(path) gives node → probability.

    Where it gives nothing, a walk stays, or is at `end` from then on.
    """
    found: dict[Outcome, float] = {(start,): 1.0}
    for _ in range(length):
        longer: dict[Outcome, float] = {}
        for path, chance in found.items():
            moves = step(path) if path[-1] >= 0 else {}
            for node, share in (moves or {path[-1] if end is None else end: 1}).items():
                if share:
                    walk = (*path, node)
                    longer[walk] = longer.get(walk, 0.0) + chance * share
        found = longer
    return found


def tally(outcomes: Tensor) -> dict[Outcome, int]:
    """Counts of each row of `outcomes`, integer [N, c]."""
    shift = int(outcomes.min())
    base = int(outcomes.max()) - shift + 1
    digits = base ** torch.arange(outcomes.shape[1])
    code, count = ((outcomes - shift) * digits).sum(1).unique(return_counts=True)
    rows = (code[:, None] // digits % base + shift).tolist()
    return {tuple(row): n for row, n in zip(rows, count.tolist(), strict=True)}


def assert_frequencies(outcomes: Tensor, exact: Distribution) -> None:
    """Every row of `outcomes`, integer [N, c], is as frequent as `exact` says."""
    assert abs(sum(exact.values()) - 1) < 1e-9, "the probabilities do not sum to 1"
    counts, total = tally(outcomes), outcomes.shape[0]
    for outcome in counts.keys() | exact.keys():
        p, share = exact.get(outcome, 0.0), counts.get(outcome, 0) / total
        assert p > 0 or share == 0, f"{outcome} is impossible, but has been drawn"
        error = max(p * (1 - p) / total, total**-2) ** 0.5
        assert abs(share - p) <= SIGMAS * error, (
            f"{outcome} has frequency {share:.6f} and probability {p:.6f}, "
            f"{(share - p) / error:.1f} standard errors apart in {total} draws"
        )


def assert_means(sample: Tensor, exact: Tensor) -> None:
    """The mean of `sample` [N, ...] is `exact` [...], entry by entry."""
    off, error = deviations(sample, exact)
    within = off.abs() <= SIGMAS * error + ROUNDING
    assert bool(within.all()), (
        f"means {sample.double().mean(0)[~within].tolist()} "
        f"should be {exact[~within].tolist()}, "
        f"{(off / error)[~within].tolist()} standard errors away"
    )


def deviations(sample: Tensor, exact: Tensor) -> tuple[Tensor, Tensor]:
    """Errors of the mean of `sample` [N, ...] against `exact`, and standard errors."""
    sample = sample.double()
    assert sample.shape[1:] == exact.shape, (sample.shape, exact.shape)
    return sample.mean(0) - exact, sample.std(0) / sample.shape[0] ** 0.5
