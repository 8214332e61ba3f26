"""Rooted adjacencies: the literal algorithm and the fused one, by exact enumeration."""

from functools import cache
from itertools import chain, combinations, product
from math import prod

import pytest
import torch

from all_pairs import all_pairs
from exact import assert_frequencies, copies, graph
from exact import one_thread as one_thread
from gttf_sampler import NoRevisitBias, RootedAdjAcc, sample_rooted, traverse

RUNS = 10_000

# A multi-edge 3 ⇉ 4, a self-loop at 2 and a dead end 4.
ROWS = [[1, 2, 3], [0, 4], [2, 0, 1], [4, 0, 4], []]
COLUMNS = list(chain.from_iterable(ROWS))
STARTS = [0, 3, 5, 8, 11]
CASES = pytest.mark.parametrize(
    ("fanouts", "replace"),
    [((2, 2), False), ((1, 1, 1), False), ((2, 1), True), ((1, 2), True)],
)


def choices(node, fanout, replace):
    """The tuples of edges that one expansion of `node` may draw, equally likely."""
    edges = range(STARTS[node], STARTS[node] + len(ROWS[node]))
    if not edges:
        return [()]
    if replace:
        return list(product(edges, repeat=fanout))
    return list(combinations(edges, min(fanout, len(edges))))


def growths(known, frontier, fanouts, replace):
    """Yields every way to grow from the frontier: its edges and its probability."""
    if not fanouts:
        yield (), 1.0
        return
    options = [choices(node, fanouts[0], replace) for node in sorted(frontier)]
    probability = 1 / prod(map(len, options))
    for choice in product(*options):
        edges = tuple(chain.from_iterable(choice))
        new = {COLUMNS[edge] for edge in edges} - known
        for later, share in growths(known | new, new, fanouts[1:], replace):
            yield edges + later, probability * share


def distribution(seeds, fanouts, replace):
    """Probabilities of the samples, told by how often each edge was drawn."""
    exact = {}
    for edges, probability in growths(set(seeds), set(seeds), fanouts, replace):
        counts = tuple(edges.count(edge) for edge in range(len(COLUMNS)))
        exact[counts] = exact.get(counts, 0.0) + probability
    return exact


def literally(adj, seeds, fanouts, replace):
    """Algorithm 1 with the paper's two functions."""
    rooted = RootedAdjAcc()
    traverse(adj, seeds, fanouts, NoRevisitBias(), rooted, replace=replace, generator=1)
    return rooted.result()


def fused(adj, seeds, fanouts, replace):
    return sample_rooted(adj, seeds, fanouts, replace=replace, generator=2)


@cache
def edge_counts(sampler, seeds, fanouts, replace):
    """Counts of draws of each edge, [RUNS, m]: one batch in each of RUNS copies."""
    batches = len(ROWS) * torch.arange(RUNS)[:, None] + torch.tensor(seeds)
    sample = sampler(copies(ROWS, RUNS), batches.view(-1), fanouts, replace)
    return sample.edge.bincount(minlength=RUNS * len(COLUMNS)).view(RUNS, -1)


@all_pairs
@CASES
@pytest.mark.parametrize("sampler", [literally, fused])
@pytest.mark.parametrize("seeds", [(3, 0), (2,)])
def test_rooted_batch_has_exact_probabilities(sampler, seeds, fanouts, replace):
    counts = edge_counts(sampler, seeds, fanouts, replace)
    assert_frequencies(counts, distribution(seeds, fanouts, replace))


@CASES
@pytest.mark.parametrize("seed", [0, 2, 4])
def test_rooted_disjoint_trees_are_independent_samples(seed, fanouts, replace):
    trees = sample_rooted(
        graph(ROWS),
        torch.full((RUNS,), seed),
        fanouts,
        replace=replace,
        disjoint=True,
        generator=1,
    )
    cell = trees.batch[trees.col] * len(COLUMNS) + trees.edge
    counts = cell.bincount(minlength=RUNS * len(COLUMNS)).view(RUNS, -1)
    assert_frequencies(counts, distribution((seed,), fanouts, replace))
