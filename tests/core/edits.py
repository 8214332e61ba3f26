"""Edits of a graph after it was built: a result or an error, never the end of Python.

    python tests/core/edits.py --rounds 500 --seed 1

Every round builds a graph, edits one of its arrays in place (also what it was built
from, and by way of numpy), before its first use or after it, and samples. What was last
at work is the last line before a crash.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

from gttf_sampler import (
    CompactAdj,
    EdgeWeightBias,
    ExcludeBias,
    LABORBias,
    LADIESBias,
    Node2VecBias,
    NoRevisitBias,
    StratifiedBias,
    TemporalBias,
    sample_rooted,
    set_backend,
    traverse,
)
from gttf_sampler.embedding import DeepWalk
from gttf_sampler.features import most_reached

NODES, EDGES, SEEDS = 400, 4000, 300
Call = Callable[[CompactAdj], Any]


def _rooted(fanouts: Any, bias: Any = None, **options: Any) -> Call:
    def call(adj: CompactAdj) -> Any:
        made = bias() if callable(bias) else bias
        seeds = torch.arange(SEEDS) % adj.num_rows
        return sample_rooted(adj, seeds, fanouts, bias=made, **options)

    return call


def _forest(fanouts: Any, bias: Any = None, **options: Any) -> Call:
    def call(adj: CompactAdj) -> Any:
        seeds = torch.arange(SEEDS)
        return traverse(adj, seeds, fanouts, bias() if bias else None, **options)

    return call


def _typed(adj: CompactAdj) -> Any:
    kinds = {("a", "r", "a"): adj, ("a", "s", "a"): adj}
    return sample_rooted(kinds, {"a": torch.arange(SEEDS)}, [4, 4])


def _latest() -> TemporalBias:
    return TemporalBias(torch.full((SEEDS,), 2000), strategy="last")


def _ends(adj: CompactAdj) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(NODES), torch.arange(NODES).flip(0)


CALLS: dict[str, Call] = {
    "rooted": _rooted([4, 4]),
    "rooted, large": _rooted([20, -1]),
    "rooted, replace": _rooted([6, 6], replace=True),
    "rooted, disjoint": _rooted([4, 4], disjoint=True),
    "rooted, disjoint, large": _rooted([20, 10], disjoint=True),
    "rooted, padded": _rooted([4, 4], padded=True),
    "rooted, weighted": _rooted([4, 4], EdgeWeightBias),
    "rooted, weighted, large": _rooted([100, 20], EdgeWeightBias),
    "rooted, weighted, replace": _rooted([30, 30], EdgeWeightBias, replace=True),
    "rooted, temporal": _rooted([4, 4], _latest, disjoint=True),
    "rooted, hidden": _rooted([4, 4], lambda: ExcludeBias(torch.arange(900))),
    "rooted, LABOR": _rooted([-1, -1], lambda: LABORBias(4)),
    "rooted, LADIES": _rooted([30, 30], lambda: LADIESBias(30)),
    "rooted, stratified": _rooted([4, 4], StratifiedBias, replace=True),
    "typed": _typed,
    "forest": _forest([4, 3]),
    "forest, distinct": _forest([4, 3], replace=False),
    "forest, weighted": _forest([4, 3], EdgeWeightBias),
    "forest, no revisit": _forest([2, 2, 2], NoRevisitBias),
    "node2vec": _forest([1] * 6, lambda: Node2VecBias(0.2, 5)),
    "node2vec, weighted": _forest([1] * 6, lambda: Node2VecBias(4, 0.3, weighted=True)),
    "edges between": lambda adj: adj.edges_between(*_ends(adj)),
    "neighbours": lambda adj: adj.neighbor(adj.degree.nonzero().view(-1), 0),
    "all edges": lambda adj: adj.in_caller_order(adj.to_edge_index()[0]),
    "names": lambda adj: adj.original_edge(torch.arange(3000)),
    "most reached": most_reached,
    "moved": lambda adj: adj.to("cpu").validate(),
    "DeepWalk": lambda adj: DeepWalk(adj, 8).fit(epochs=1),
}
NAMES = ("col", "rowptr", "edge_id", "edge_weight", "edge_time")
VALUES = (-1, -(10**9), NODES, EDGES, EDGES + 1, 10**6, 2**31 - 1, 2**62, -(2**63))
KINDS = ("torch", "numpy", "source", "resize", "data", "many")


def build(draw: random.Random) -> tuple[CompactAdj, dict[str, torch.Tensor]]:
    """A graph, and the tensors that it was built from."""
    kind = draw.choice([torch.int32, torch.int64])
    degree = torch.randint(0, 2 * EDGES // NODES, (NODES,))
    rowptr = torch.zeros(NODES + 1, dtype=torch.int64)
    rowptr[1:] = degree.cumsum(0)
    edges = int(rowptr[-1])
    given = {
        "rowptr": rowptr,
        "col": torch.randint(0, NODES, (edges,), dtype=kind),
        "edge_id": torch.randperm(edges),
        "edge_weight": torch.rand(edges),
        "edge_time": torch.arange(edges) % 3000,
    }
    given["edge_time"] = given["edge_time"].sort().values
    if draw.random() < 0.3:
        row = torch.arange(NODES).repeat_interleave(degree)
        ends = torch.stack([given["col"].long(), row])
        rest = {name: given[name] for name in NAMES[3:]}
        return CompactAdj.from_edge_index(ends, NODES, direction="in", **rest), given
    return CompactAdj.from_csr(direction="in", **given), given


def edit(draw: random.Random, adj: CompactAdj, given: dict[str, torch.Tensor]) -> str:
    """Changes an array in place; says how."""
    name, how, value = draw.choice(NAMES), draw.choice(KINDS), draw.choice(VALUES)
    array = given[name] if how == "source" else getattr(adj, name)
    if array is None:
        return f"nothing of {name}"
    least = torch.iinfo(array.dtype) if not array.is_floating_point() else None
    if least is not None:
        value = max(least.min, min(least.max, value))
    places = [draw.randrange(array.numel()) for _ in range(1 if how == "numpy" else 40)]
    if how == "resize":  # in memory of numpy's, nobody can
        array = array.set_(array.clone())
        array.resize_(draw.choice([0, 1, array.numel() // 2, 2 * array.numel()]))
    elif how == "data":
        array.data = torch.full((draw.choice([0, 5, 10**4]),), 7).to(array.dtype)
    elif how == "many":
        array.fill_(value)
    else:
        array.numpy()[places] = value
    return f"{how} {name} {value}"


def main() -> None:
    """Runs rounds; prints how they ended."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="round to begin with")
    parser.add_argument("--backend", default="auto")
    options = parser.parse_args()
    set_backend(options.backend)
    ends: Counter[str] = Counter()
    for number in range(options.first, options.rounds):
        draw = random.Random(f"{options.seed} {number}")
        torch.manual_seed(number)
        adj, given = build(draw)
        names = [draw.choice(list(CALLS)) for _ in range(3)]
        if draw.random() < 0.5:  # tables are made before the edit
            for name in names:
                CALLS[name](adj)
        done = edit(draw, adj, given)
        for name in names:
            print(f"{number}: {done}; {name}", file=sys.stderr, flush=True)
            try:
                CALLS[name](adj)
                ends["result"] += 1
            except (ValueError, TypeError, IndexError, RuntimeError) as error:
                ours = "(got " in str(error)
                ends["our error" if ours else f"torch's {type(error).__name__}"] += 1
                if not ours:
                    print(f"    {error!s:.200}", file=sys.stderr, flush=True)
    print(", ".join(f"{count} {end}" for end, count in sorted(ends.items())))


if __name__ == "__main__":
    main()
