"""Random graphs, seeds and fanouts, and the plain-Python view of them.

What a test compares with is worked out from the caller's list of edges alone: nothing
here calls the code under test except `adj` and `adjs`, which build its input.
"""

from importlib.util import find_spec
from typing import NamedTuple

import torch
from hypothesis import strategies as st
from torch import Tensor

from gttf_sampler import CompactAdj

LAYOUTS = ("contiguous", "transposed", "strided")
DTYPES = (torch.int32, torch.int64)
DIRECTIONS = ("in", "out")
BACKENDS = ("numba", "torch") if find_spec("numba") else ("torch",)
EDGE_WEIGHTS = (0.0, 0.25, 1.0, 3.0, 1e-30, 1e30)


class Graph(NamedTuple):
    """Arguments of a call of `from_edge_index`.

    `num_nodes` is a pair (sources, targets) in a bipartite graph.
    """

    edge_index: Tensor
    num_nodes: int | tuple[int, int]
    direction: str
    weight: Tensor | None
    time: Tensor | None

    def adj(self) -> CompactAdj:
        """The graph as the engine takes it."""
        return CompactAdj.from_edge_index(
            self.edge_index,
            self.num_nodes,
            direction=self.direction,
            edge_weight=self.weight,
            edge_time=self.time,
        )

    def rows(self) -> list[list[tuple[int, int]]]:
        """Per node where a walker may stand: (neighbour, caller's edge) in order."""
        sources, targets = self.edge_index.tolist()
        here, there = targets, sources
        if self.direction == "out":
            here, there = sources, targets
        order = list(range(len(here)))
        if self.time is not None:
            time = self.time.tolist()
            order.sort(key=lambda edge: time[edge])
        rows: list[list[tuple[int, int]]] = [[] for _ in range(self.sizes()[0])]
        for edge in order:
            rows[here[edge]].append((there[edge], edge))
        return rows

    def sizes(self) -> tuple[int, int]:
        """The numbers of rows and of columns."""
        if isinstance(self.num_nodes, int):
            return self.num_nodes, self.num_nodes
        sources, targets = self.num_nodes
        return (sources, targets) if self.direction == "out" else (targets, sources)


class Hetero(NamedTuple):
    """Relations by edge type, all with `direction="in"`, and seeds by node type."""

    graphs: dict[tuple[str, str, str], Graph]
    sizes: dict[str, int]
    seeds: dict[str, list[int]]

    def adjs(self) -> dict[tuple[str, str, str], CompactAdj]:
        """The relations as the engine takes them."""
        return {kind: graph.adj() for kind, graph in self.graphs.items()}


def laid_out(edges: list[tuple[int, int]], dtype: torch.dtype, layout: str) -> Tensor:
    """[2, m] with the given strides."""
    plain = torch.tensor(edges, dtype=dtype).reshape(-1, 2)
    if layout == "transposed":
        return plain.t()
    plain = plain.t().contiguous()
    if layout == "strided":
        return torch.stack([plain, plain - 1], dim=2).flatten(1)[:, ::2]
    return plain


@st.composite
def graphs(
    draw: st.DrawFn,
    *,
    weighted: bool | None = None,
    timed: bool | None = None,
    bipartite: bool = False,
    max_nodes: int = 8,
    max_edges: int = 24,
) -> Graph:
    """Isolated nodes, self-loops, multi-edges and no nodes at all come up by chance.

    `weighted` and `timed` leave it to chance as well if they are None.
    """
    sources = draw(counts(max_nodes))
    targets = draw(counts(max_nodes)) if bipartite else sources
    edges = draw(pairs(sources, targets, max_edges))
    layout, dtype = draw(st.sampled_from(LAYOUTS)), draw(st.sampled_from(DTYPES))
    return Graph(
        laid_out(edges, dtype, layout),
        (sources, targets) if bipartite else sources,
        draw(st.sampled_from(DIRECTIONS)),
        draw(weights(len(edges), weighted)),
        draw(times(len(edges), timed)),
    )


def counts(most: int) -> st.SearchStrategy[int]:
    """From 0 to `most`; one in two is large, as small ones have little to show."""
    return st.integers(0, most) | st.integers((most + 1) // 2, most)


@st.composite
def sized(draw: st.DrawFn, entries: st.SearchStrategy, most: int) -> list:
    """A list whose length is spread over 0 … `most`; by itself it would be short."""
    size = draw(counts(most))
    return draw(st.lists(entries, min_size=size, max_size=size))


def pairs(
    sources: int, targets: int, most: int
) -> st.SearchStrategy[list[tuple[int, int]]]:
    """Edges; none where there is nothing to connect."""
    if not sources or not targets:
        return st.just([])
    ends = st.tuples(st.integers(0, sources - 1), st.integers(0, targets - 1))
    return sized(ends, most)


@st.composite
def weights(draw: st.DrawFn, edges: int, wanted: bool | None) -> Tensor | None:
    """Weights that span sixty orders of magnitude, some of them zero."""
    if not (draw(st.booleans()) if wanted is None else wanted):
        return None
    values = st.lists(st.sampled_from(EDGE_WEIGHTS), min_size=edges, max_size=edges)
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    return torch.tensor(draw(values), dtype=dtype)


@st.composite
def times(draw: st.DrawFn, edges: int, wanted: bool | None) -> Tensor | None:
    """Few different times, so that many are equal."""
    if not (draw(st.booleans()) if wanted is None else wanted):
        return None
    values = st.lists(st.integers(-3, 6), min_size=edges, max_size=edges)
    dtype = draw(st.sampled_from([torch.int64, torch.int32, torch.float32]))
    return torch.tensor(draw(values), dtype=dtype)


def seeds(num_nodes: int, max_size: int = 5) -> st.SearchStrategy[list[int]]:
    """Node ids that may repeat; an empty batch, too."""
    if num_nodes == 0:
        return st.just([])
    return sized(st.integers(0, num_nodes - 1), max_size)


def fanouts(max_hops: int = 3) -> st.SearchStrategy[list[int]]:
    """All neighbours (-1), none (0), few, more than there are; no hop at all."""
    return sized(st.sampled_from([-1, 1, 2, 3, 30, 0]), max_hops)


def positive_fanouts(max_hops: int = 3) -> st.SearchStrategy[list[int]]:
    """Fanouts that `traverse` takes."""
    return sized(st.integers(1, 4), max_hops)


def backends() -> st.SearchStrategy[str]:
    """Every promise holds on every backend."""
    return st.sampled_from(BACKENDS)


@st.composite
def hetero(draw: st.DrawFn, *, timed: bool = False, weighted: bool = False) -> Hetero:
    """One to four relations among three node types, and seeds for some of them."""
    sizes = {name: draw(counts(5)) for name in ("a", "b", "c")}
    ends = st.tuples(st.sampled_from("abc"), st.sampled_from("abc"))
    relations = {}
    kinds = [draw(ends), *draw(sized(ends, 3))]
    for number, (source, target) in enumerate(kinds):
        edges = draw(pairs(sizes[source], sizes[target], 12))
        relations[source, f"r{number}", target] = Graph(
            laid_out(edges, torch.int64, "contiguous"),
            (sizes[source], sizes[target]),
            "in",
            draw(weights(len(edges), weighted)),
            draw(times(len(edges), timed)),
        )
    used = sorted({end for kind in relations for end in (kind[0], kind[2])})
    started = draw(st.permutations(used))[: draw(counts(len(used)))]
    return Hetero(
        relations,
        {name: sizes[name] for name in used},
        {name: draw(seeds(sizes[name], 4)) for name in started},
    )
