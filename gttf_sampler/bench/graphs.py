"""Made graphs of real sizes, plain or with types, and graphs that a user gives.

Node ids are ranks in disguise: a multiplication modulo n spreads the popular nodes over
all ids. The expected degree of a rank falls with its square root, times a random number
that makes low degrees common, and neighbours are drawn by the same law, each once:
degrees have a power law with exponent 3 in both directions, and hubs know hubs.
Everything depends on the seed and the position alone, and a piece of some million edges
is all that is ever in memory.

A made database has tables whose rows name each other: a graph with types.
"""

import math
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import CompactAdj, _check
from gttf_sampler._arrays import Pieces
from gttf_sampler.bench.machine import RefusedError, Report
from gttf_sampler.graph import storage
from gttf_sampler.graph.io import read_structure

PIECE = 1 << 22  # edges made at a time
GOLDEN = (math.sqrt(5) - 1) / 2
FEWEST = 200  # nodes of a type, however small the scale
SKEW = 2.5  # a key names row n · r^SKEW, with r uniform in [0, 1)

Array = np.ndarray[Any, Any]
Tick = Callable[[float], None]  # told the share of the work that is done


class Size(NamedTuple):
    """The size of a made graph, and the fanouts people use on the real one."""

    nodes: int
    edges: int
    fanouts: list[int]
    scale: float  # unless another is asked for


SIZES = {
    "reddit-like": Size(232_965, 23_213_838, [25, 10], 1.0),
    "products-like": Size(2_449_029, 123_718_280, [15, 10], 1.0),
    "papers-like": Size(111_059_956, 1_615_685_872, [15, 10], 0.01),
}


def scaled(name: str, scale: float | None) -> Size:
    """The size of a made graph at `scale`, its mean degree unchanged."""
    size = SIZES[name]
    scale = size.scale if scale is None else scale
    if not 0 < scale <= 10 or size.nodes * scale < 10:
        _check.fail("--scale", f"must lie in [{10 / size.nodes:.1g}, 10]", scale)
    nodes, edges = round(size.nodes * scale), round(size.edges * scale)
    return size._replace(nodes=nodes, edges=edges, scale=scale)


def check_room(folder: str | os.PathLike[str], nodes: int, edges: int) -> None:
    """Refuses to begin what the disk cannot hold."""
    free = shutil.disk_usage(folder).free
    need = 8.4 * nodes + (4.2 if nodes < 1 << 31 else 8.4) * edges + (1 << 20)
    if free < need:
        rule = f"must leave a graph of at most {free / 1e9:.1f} GB, the free disk"
        cure = "set '--tmp' to a larger disk"
        _check.fail("--scale", rule, f"{need / 1e9:.1f} GB", cure)


def make(
    folder: str | os.PathLike[str],
    nodes: int,
    edges: int,
    *,
    seed: int = 0,
    tick: Tick = lambda share: None,
) -> None:
    """Writes a power-law graph of about `edges` edges as a CompactAdj directory."""
    law = Law(nodes, edges, seed)
    rows = Pieces(np.dtype(np.int64), nodes + 1, law.rowptr())
    col = Pieces(law.dtype, law.count(), law.col(tick))
    facts = {"num_cols": nodes, "direction": "in"}
    storage.save(Path(folder), {"rowptr": rows, "col": col}, facts)


def make_job(
    folder: str, nodes: int, edges: int, seed: int, report: Report
) -> dict[str, Any]:
    """The job that makes a graph; returns its facts."""
    what = f"making {edges:,} edges"
    make(folder, nodes, edges, seed=seed, tick=lambda share: report(what, share))
    return facts(CompactAdj.open(folder, verify=False))


def read_job(source: str, folder: str, report: Report) -> dict[str, Any]:
    """The job that turns a file of the user into a CompactAdj directory, if need be."""
    report(f"reading {source}", 0.0)
    try:
        if Path(source, "header.json").is_file():
            rows = CompactAdj.open(source)
            _check.one_node_set("--graph", rows.num_rows, rows.num_cols)
            return {"place": source, **facts(rows)}
        adj = read_structure(source)
        if adj.num_rows != adj.num_cols or adj.num_edges == 0:
            _check.fail("--graph", "must have one set of nodes and some edges", adj)
        rows = CompactAdj(adj.rowptr, adj.col, adj.num_cols).trusted()
        rows.save(folder)
    except (ValueError, TypeError, OSError) as error:
        raise RefusedError(f"--graph {source}: {error}") from error
    return {"place": folder, **facts(rows)}


def facts(adj: CompactAdj) -> dict[str, Any]:
    """The sizes of a graph, by name."""
    return {
        "nodes": adj.num_rows,
        "edges": adj.num_edges,
        "max_degree": adj.max_degree,
        "bytes": adj.nbytes,
    }


def shuffled(adj: CompactAdj, seed: int) -> Tensor:
    """The edges [2, m] of a graph in a random order."""
    generator = torch.Generator().manual_seed(seed)
    return adj.to_edge_index()[:, torch.randperm(adj.num_edges, generator=generator)]


class Law:
    """The degrees and neighbours of every piece of a graph."""

    def __init__(self, nodes: int, edges: int, seed: int) -> None:
        self.nodes, self.seed = nodes, seed
        self.dtype = np.dtype(np.int32 if nodes < 1 << 31 else np.int64)
        factor = max(1, round(nodes * GOLDEN))
        while math.gcd(factor, nodes) != 1:
            factor += 1
        self.spread, self.rank = factor % nodes, pow(factor, -1, nodes)
        # Σ rank^-½ is about 2 √n; the constant makes the mean degree come out
        self.height = edges / (2 * math.sqrt(nodes))
        self.step = max(1, PIECE * nodes // max(edges, 1))

    def degrees(self, piece: int) -> Array:
        """The degrees of the nodes of one piece, at least 1."""
        first = piece * self.step
        node = np.arange(first, min(first + self.step, self.nodes), dtype=np.int64)
        rank = node * self.rank % self.nodes
        random = np.random.Generator(np.random.PCG64([self.seed, 0, piece]))
        mean = self.height / np.sqrt(rank + 0.5)
        drawn = mean * -np.log1p(-random.random(node.size)) + random.random(node.size)
        degree: Array = np.clip(drawn, 1, self.nodes // 2).astype(np.int64)
        return degree

    def count(self) -> int:
        """The number of edges."""
        return sum(int(self.degrees(piece).sum()) for piece in self.pieces())

    def pieces(self) -> range:
        """The numbers of all pieces."""
        return range(-(-self.nodes // self.step))

    def rowptr(self) -> Iterator[Array]:
        """The row pointer, piece by piece."""
        total = 0
        yield np.zeros(1, np.int64)
        for piece in self.pieces():
            ends = self.degrees(piece).cumsum() + total
            total = int(ends[-1])
            yield ends

    def neighbors(self, piece: int) -> Array:
        """The neighbours of the rows of one piece, end to end.

        Neighbour j of d is drawn from the j-th part of d of the law, so that ranks
        ascend in a row. Where two would be the same, the later ones move up.
        """
        degree = self.degrees(piece)
        ends = degree.cumsum()
        row = np.repeat(np.arange(degree.size), degree)
        place = np.arange(row.size) - (ends - degree)[row]
        random = np.random.Generator(np.random.PCG64([self.seed, 1, piece]))
        share = (place + random.random(row.size)) / degree[row]
        rank = (share * share * self.nodes).astype(np.int64)
        later_rows = row * (2 * self.nodes)  # a running maximum that starts anew
        lead = np.maximum.accumulate(rank - place + later_rows)
        name: Array = (lead - later_rows + place) * self.spread % self.nodes
        return name.astype(self.dtype)

    def col(self, tick: Tick = lambda share: None) -> Iterator[Array]:
        """The neighbours of all rows, made by all cores, a piece each at a time."""
        threads = os.cpu_count() or 1
        with ThreadPoolExecutor(threads) as pool:
            waiting: deque[Future[Array]] = deque()
            for piece in self.pieces():
                waiting.append(pool.submit(self.neighbors, piece))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
                tick((piece + 1 - len(waiting)) / len(self.pieces()))
            while waiting:
                yield waiting.popleft().result()
            tick(1.0)


def plain(nodes: int, degree: float, seed: int = 0) -> CompactAdj:
    """The rows of a power-law graph with this mean degree, as `make` writes them."""
    law = Law(nodes, round(nodes * degree), seed)
    rowptr = np.concatenate(list(law.rowptr()))
    col = np.concatenate(list(law.col()))
    return CompactAdj.from_csr(torch.from_numpy(rowptr), torch.from_numpy(col))


def sized(count: int, scale: float) -> int:
    """The nodes of a type at `scale`, enough of them to draw from."""
    return max(min(count, FEWEST), round(count * scale))


def skewed(random: np.random.Generator, targets: int, count: int) -> Array:
    """int64 [count]: rows of a table, the first ones far more often."""
    drawn: Array = (targets * random.random(count) ** SKEW).astype(np.int64)
    return drawn


EdgeType = tuple[str, str, str]
SEED_TYPE = "user"  # the first type of both, whose rows are asked about
LINKS = ("order", "has_item", "item")  # the relation whose edges are
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


def ring(types: int, nodes: int, degree: float, seed: int = 0) -> Typed:
    """Types of one size, each of which refers to the next two: mean degree `degree`."""
    random = np.random.Generator(np.random.PCG64([seed, 4]))
    names, count = [f"type{i}" for i in range(types)], round(nodes * degree)
    edges = {}
    for place, source in enumerate(names):
        for step in (1, 2):
            ends = random.integers(nodes, size=count), skewed(random, nodes, count)
            kind = (source, f"step{step}", names[(place + step) % types])
            edges[kind] = torch.from_numpy(np.stack(ends))
    return Typed(dict.fromkeys(names, nodes), edges, {})


def seed_times(shape: tuple[int, ...], seed: int = 0) -> Tensor:
    """Times of seeds: they see between half of the past and all of it."""
    random = np.random.Generator(np.random.PCG64([seed, 5]))
    return torch.from_numpy(random.integers(SPAN // 2, SPAN, size=shape))


def _keys(random: np.random.Generator, rows: int, targets: int) -> Tensor:
    row = np.flatnonzero(random.random(rows) >= EMPTY)
    return torch.from_numpy(np.stack([row, skewed(random, targets, row.size)]))
