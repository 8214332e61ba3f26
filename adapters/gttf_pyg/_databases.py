"""Made databases: heterogeneous graphs in memory, whose tables refer to each other."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import CompactAdj
from gttf_sampler.bench.graphs import sized, skewed

EdgeType = tuple[str, str, str]

EMPTY = 0.2  # of the rows of a table that leave a key empty
SPAN = 1_000_000  # times lie in [0, SPAN)


class Schema(NamedTuple):
    """The tables of a database.

    Attributes:
        rows: of every table, at scale 1.
        keys: which table refers to which.
        timed: tables whose rows have a time.
    """

    rows: dict[str, int]
    keys: tuple[tuple[str, str], ...]
    timed: tuple[str, ...]


SCHEMAS = {
    "database": Schema(
        {
            "user": 200_000,
            "item": 100_000,
            "order": 2_000_000,
            "review": 1_500_000,
            "shop": 5_000,
        },
        (
            ("order", "user"),
            ("order", "item"),
            ("order", "shop"),
            ("review", "user"),
            ("review", "item"),
            ("item", "shop"),
        ),
        ("order", "review", "user"),
    ),
    # a hundred times examples/shop.py
    "relational": Schema(
        {"user": 80_000, "item": 6_000, "order": 500_000, "review": 150_000},
        (("order", "user"), ("order", "item"), ("review", "user"), ("review", "item")),
        ("order", "review", "user"),
    ),
}
EDGES = 14_560_000  # of the database at scale 1, about


class Typed(NamedTuple):
    """A heterogeneous graph.

    Attributes:
        nodes: how many nodes each type has.
        edges: (source, relation, target) → [2, m], sources above targets.
        times: int64 [n] of the types that have times.
    """

    nodes: dict[str, int]
    edges: dict[EdgeType, Tensor]
    times: dict[str, Tensor]

    @property
    def num_edges(self) -> int:
        """The edges of all types."""
        return sum(ends.shape[1] for ends in self.edges.values())

    def rows(self, timed: bool) -> dict[EdgeType, CompactAdj]:
        """The rows that `sample_rooted` takes, sorted by time if `timed`."""
        found = {}
        for kind, ends in self.edges.items():
            source, _, target = kind
            sizes = self.nodes[source], self.nodes[target]
            time = self.times.get(source) if timed else None
            found[kind] = CompactAdj.from_edge_index(ends, sizes, node_time=time)
        return found


def database(scale: float = 1.0, seed: int = 0, schema: str = "database") -> Typed:
    """The tables of one of `SCHEMAS`, whose keys are followed both ways."""
    rows, keys, timed = SCHEMAS[schema]
    random = np.random.Generator(np.random.PCG64([seed, 3]))
    nodes = {name: sized(count, scale) for name, count in rows.items()}
    edges: dict[EdgeType, Tensor] = {}
    for source, target in keys:
        ends = _keys(random, nodes[source], nodes[target])
        edges[source, f"has_{target}", target] = ends
        edges[target, f"rev_{source}", source] = ends.flip(0)
    times = {
        name: torch.from_numpy(random.integers(SPAN, size=nodes[name]))
        for name in timed
    }
    return Typed(nodes, edges, times)


def seed_times(shape: tuple[int, ...], seed: int = 0) -> Tensor:
    """Times of seeds: they see between half of the past and all of it."""
    random = np.random.Generator(np.random.PCG64([seed, 5]))
    return torch.from_numpy(random.integers(SPAN // 2, SPAN, size=shape))


def _keys(random: np.random.Generator, rows: int, targets: int) -> Tensor:
    """The edges [2, m] of a key, whose rows are empty now and then."""
    row = np.flatnonzero(random.random(rows) >= EMPTY)
    return torch.from_numpy(np.stack([row, skewed(random, targets, row.size)]))
