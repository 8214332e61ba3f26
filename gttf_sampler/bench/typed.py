"""A made database: tables whose rows name each other, as a graph with types."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import CompactAdj
from gttf_sampler.bench import graphs

EdgeType = tuple[str, str, str]
SEED_TYPE = "user"  # whose rows are asked about
EMPTY = 0.2  # of the rows of a table that leave a key empty
SPAN = 1_000_000  # times lie in [0, SPAN)
BOUGHT = (("order", "user"), ("order", "item"))
REVIEWED = (("review", "user"), ("review", "item"))


class Schema(NamedTuple):
    """The tables of a database."""

    rows: dict[str, int]  # of every table, at scale 1
    keys: tuple[tuple[str, str], ...]  # which table refers to which
    timed: tuple[str, ...]  # tables whose rows have a time


SCHEMAS = {
    "database": Schema(
        {
            "user": 200_000,
            "item": 100_000,
            "order": 2_000_000,
            "review": 1_500_000,
            "shop": 5_000,
        },
        (*BOUGHT, ("order", "shop"), *REVIEWED, ("item", "shop")),
        ("order", "review", "user"),
    ),
    # a hundred times examples/shop.py
    "relational": Schema(
        {"user": 80_000, "item": 6_000, "order": 500_000, "review": 150_000},
        (*BOUGHT, *REVIEWED),
        ("order", "review", "user"),
    ),
}
EDGES = 14_560_000  # of the database at scale 1, about


class Typed(NamedTuple):
    """A heterogeneous graph."""

    nodes: dict[str, int]  # how many each type has
    edges: dict[EdgeType, Tensor]  # [2, m], sources above targets
    times: dict[str, Tensor]  # int64 [n] of the types that have times

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
    nodes = {name: graphs.sized(count, scale) for name, count in rows.items()}
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
    row = np.flatnonzero(random.random(rows) >= EMPTY)
    return torch.from_numpy(np.stack([row, graphs.skewed(random, targets, row.size)]))
