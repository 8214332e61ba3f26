"""CompactAdj: the paper's degree vector δ and left-packed neighbour rows Â."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends import ops
from gttf_sampler._backends.memory import NodeTable, ScratchPool
from gttf_sampler._backends.streams import streams_of
from gttf_sampler._compat import is_compiling
from gttf_sampler.graph import build, exchange, storage, tables
from gttf_sampler.graph.edgelist import EdgeList

if TYPE_CHECKING:  # which need graphs themselves
    from gttf_sampler._backends.record import Batch, Law, Plan, Rooted

DIRECTIONS = ("in", "out")
T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class CompactAdj:
    """A graph as rows of neighbours: row u lists where a walker at u may go.

    >>> import torch
    >>> from gttf_sampler import CompactAdj
    >>> edge_index = torch.tensor([[0, 2, 3], [1, 1, 2]])  # 0 → 1, 2 → 1, 3 → 2
    >>> adj = CompactAdj.from_edge_index(edge_index, num_nodes=4)
    >>> adj
    CompactAdj(4 nodes, 3 edges, direction='in', max_degree=2, 52 bytes on cpu)
    >>> adj.degree.tolist()
    [0, 2, 1, 0]
    >>> adj.neighbor(torch.tensor([1, 1]), torch.tensor([0, 1])).tolist()
    [0, 2]

    Message passing walks against the edges (`direction="in"`), random walks along them
    (`"out"`). Make one with a `from_...` constructor: they check what they are given.

    Attributes:
        rowptr: int64 [n + 1]; row u is `col[rowptr[u]:rowptr[u + 1]]`.
        col: int32 or int64 [m], the rows of Â end to end.
        num_cols: how many nodes `col` may name; not the number of rows in a bipartite
            graph.
        direction: "in" if a row lists the sources of the edges into its node, "out" if
            the targets of the edges out of it.
        edge_id: [m], position of each entry in the caller's edge order; None if the
            two orders are the same.
        edge_weight: [m] in the order of `col`, or None.
        edge_time: [m] in the order of `col`, or None.
        node_id: [n], what each node is called elsewhere; None if that is its number.
    """

    rowptr: Tensor
    col: Tensor
    num_cols: int
    direction: str = "in"
    edge_id: Tensor | None = None
    edge_weight: Tensor | None = None
    edge_time: Tensor | None = None
    node_id: exchange.Array | None = None
    _cache: dict[str, Any] = field(default_factory=dict, init=False)
    scratch: ScratchPool = field(default_factory=ScratchPool, init=False)

    @classmethod
    def from_edge_index(
        cls,
        edge_index: Any,
        num_nodes: int | tuple[int, int] | None = None,
        *,
        direction: str = "in",
        edge_weight: Any = None,
        edge_time: Any = None,
        node_time: Any = None,
        sort_by_time: bool = True,
    ) -> CompactAdj:
        """Sorts edges into rows in O(n + m); a row keeps the caller's edge order.

        Args:
            edge_index: [2, m], sources above targets.
            num_nodes: one number, or (sources, targets) of a bipartite graph; by
                default the largest id + 1.
            direction: "in" walks from target to source, "out" from source to target.
            edge_weight: [m], finite and >= 0.
            edge_time: [m], integer or float.
            node_time: [num_cols] instead of `edge_time`: an edge then has the time of
                the node it leads a walker to.
            sort_by_time: if there are times, sort each row by them, stably.
        """
        _check.one_of("direction", direction, DIRECTIONS)
        row, col = build.endpoints(edge_index, direction)
        num_rows, num_cols = build.sizes(row, col, num_nodes, direction)
        _check.within("edge_index", row, num_rows)
        _check.within("edge_index", col, num_cols)
        _check.fits("num_nodes", 8 * num_rows)
        weight = build.weights(edge_weight, col)
        time = build.times(edge_time, node_time, col, num_cols)
        rows = build.rows_from_edges(
            row, col, num_rows, num_cols, weight, time, sort_by_time
        )
        _check.row_pointer("edge_index", rows.rowptr, rows.col.numel())
        arrays = rows._asdict()
        return cls(num_cols=num_cols, direction=direction, **arrays).trusted()

    @classmethod
    def from_chunks(
        cls,
        chunks: Iterable[Any],
        path: str | os.PathLike[str],
        num_nodes: int | tuple[int, int] | None = None,
        *,
        direction: str = "in",
        edge_ids: bool = True,
        sort_by_time: bool = True,
        overwrite: bool = False,
        memory: int | None = None,
        tmp: str | os.PathLike[str] | None = None,
        report: Callable[[str, int], None] | None = None,
    ) -> CompactAdj:
        """Sorts edges that come in chunks into rows on disk; memory need not hold them.

        The rows of `from_edge_index`, as `save` writes them, opened with `mmap`.

        Args:
            chunks: edges [2, k] each, or (edges, {"edge_weight": [k], "edge_time":
                [k]}).
            path: the directory to write, which appears when it is whole.
            num_nodes: by default the largest id + 1, for which chunks are read twice;
                what can be read but once must come with it.
            direction: see `from_edge_index`.
            edge_ids: whether to keep the position of every edge in the stream.
            sort_by_time: see `from_edge_index`.
            overwrite: see `save`.
            memory: bytes for sorting, by default 2 GB, or half of what is left.
            tmp: where edges wait meanwhile, 12 bytes each; by default beside `path`.
            report: called with what is done, and with how many edges more.
        """
        _check.one_of("direction", direction, DIRECTIONS)
        build.rows_on_disk(
            *(chunks, path, num_nodes, direction),
            edge_ids=_check.yes_or_no("edge_ids", edge_ids),
            sort_by_time=_check.yes_or_no("sort_by_time", sort_by_time),
            overwrite=_check.yes_or_no("overwrite", overwrite),
            nbytes=memory,
            tmp=tmp,
            report=report,
        )
        return cls.open(path, verify=False)

    @classmethod
    def from_csr(
        cls,
        rowptr: Any,
        col: Any,
        num_cols: int | None = None,
        *,
        direction: str = "in",
        edge_id: Any = None,
        edge_weight: Any = None,
        edge_time: Any = None,
    ) -> CompactAdj:
        """Takes rows as they are: no copy if `rowptr` is int64 and `col` contiguous.

        `num_cols` defaults to the number of rows; see the class for the rest.
        """
        _check.one_of("direction", direction, DIRECTIONS)
        col = _check.integers("col", col)
        rowptr = _check.row_pointer("rowptr", rowptr, col.numel()).to(col.device)
        num_cols = rowptr.numel() - 1 if num_cols is None else num_cols
        num_cols = _check.nodes("num_cols", num_cols)
        _check.within("col", col, num_cols)
        if edge_id is not None:
            edge_id = _check.edge_ids(edge_id, col.numel()).to(col.device)
        weight = build.weights(edge_weight, col)
        time = build.times(edge_time, None, col, num_cols)
        rows = rowptr, col.contiguous(), num_cols, direction
        return cls(*rows, edge_id, weight, time).trusted()

    @classmethod
    def from_scipy(
        cls, matrix: Any, *, direction: str = "in", weighted: bool = False
    ) -> CompactAdj:
        """Takes a scipy sparse matrix or array whose entry (i, j) is an edge i → j.

        No copy for CSR with `direction="out"` and for CSC with `"in"`. `weighted` makes
        the stored values edge weights; edge ids count the values as they are stored.
        """
        _check.one_of("direction", direction, DIRECTIONS)
        weighted = _check.yes_or_no("weighted", weighted)
        return exchange.from_scipy(cls, matrix, direction, weighted)

    @classmethod
    def from_edges(cls, edges: EdgeList, *, direction: str = "in") -> CompactAdj:
        """Takes edges with the ids of their nodes, as `read_edges` reads them."""
        _check.of_type("edges", edges, EdgeList)
        adj = cls.from_edge_index(
            edges.edge_index,
            edges.num_nodes,
            direction=direction,
            edge_weight=edges.weight,
            edge_time=edges.time,
        )
        return adj.named(edges.node_id)

    @classmethod
    def from_pandas(
        cls,
        frame: Any,
        source: str = "source",
        target: str = "target",
        *,
        weight: str | None = None,
        time: str | None = None,
        direction: str = "in",
    ) -> CompactAdj:
        """Takes a table with an edge per row, and keeps its ids as `node_id`.

        Also of polars, pyarrow or cuDF, or a dict of columns. Ids are integers or
        words, numbered in their order; dates become seconds since 1970.
        """
        edges = exchange.edges_of_frame(frame, source, target, weight, time)
        return cls.from_edges(edges, direction=direction)

    from_polars = from_pandas

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        *,
        weight: str | None = None,
        time: str | None = None,
        direction: str = "in",
    ) -> CompactAdj:
        """Takes a networkx graph; an undirected edge counts in both directions.

        Nodes stay in their order, and `node_id` has them; `weight` and `time` name
        attributes of edges.
        """
        edges = exchange.edges_of_networkx(graph, weight, time)
        return cls.from_edges(edges, direction=direction)

    @classmethod
    def from_igraph(
        cls,
        graph: Any,
        *,
        weight: str | None = None,
        time: str | None = None,
        direction: str = "in",
    ) -> CompactAdj:
        """Takes an igraph Graph like `from_networkx`; ids are the attribute `name`."""
        edges = exchange.edges_of_igraph(graph, weight, time)
        return cls.from_edges(edges, direction=direction)

    def named(self, node_id: Any) -> CompactAdj:
        """The same rows, whose nodes are called `node_id` [n]; None forgets that."""
        if node_id is not None:
            _check.one_node_set("adj", self.num_rows, self.num_cols)
            node_id = exchange.node_ids(node_id, self.num_rows)
        found = replace(self, node_id=node_id)
        found._cache.update(self._cache)
        return found

    @property
    def local(self) -> CompactAdj:
        """The rows that are in this process: all; see `RemoteRows`."""
        return self

    @property
    def num_rows(self) -> int:
        """The number of nodes a walker may stand on."""
        return self.rowptr.numel() - 1

    @property
    def num_edges(self) -> int:
        """The number of entries of all rows, m."""
        return self.col.numel()

    @property
    def device(self) -> torch.device:
        """The device of the rows, and of everything drawn from them."""
        return self.col.device

    @property
    def nbytes(self) -> int:
        """The memory of all arrays."""
        return sum(a.numel() * a.element_size() for a in self.arrays().values())

    @property
    def degree(self) -> Tensor:
        """δ, int64 [n]: the length of every row."""
        if "degree" not in self._cache and self.device.type == "cpu":
            # torch repeats out of its memory below zero
            _inside(_check.row_pointer, "rowptr", self.rowptr, self.num_edges)
        return self.cached("degree", self.rowptr.diff)

    @property
    def max_degree(self) -> int:
        """The length of the longest row."""
        if self.num_rows == 0:
            return 0
        return self.cached("max_degree", lambda: int(self.degree.max()))

    def neighbor(self, node: Any, slot: Any) -> Tensor:
        """Â[node, slot], int64: neighbour number `slot` of each node, 0 <= slot < δ."""
        here, which = _check.pairs(("node", node), ("slot", slot), self.device)
        _check.within("node", here, self.num_rows)
        start, degree = self.row_range(here.reshape(-1).to(torch.int64))
        start, degree = start.view(here.shape), degree.view(here.shape)
        wrong = ((which < 0) | (which >= degree)).nonzero()
        if wrong.shape[0]:
            first = tuple(wrong[0].tolist())
            rule = "must lie in [0, degree) of its node"
            got = f"{int(which[first])} at a node of degree {int(degree[first])}"
            _check.fail("slot", rule, got)
        return self.col[start + which].to(torch.int64)

    def edges_between(self, node: Any, neighbor: Any) -> tuple[Tensor, Tensor]:
        """All entries of row node[i] that lead to neighbor[i], for every pair i.

        Two bisections per pair, in rows that are sorted once per graph.

        Returns:
            which [k], the pairs i in ascending order, one entry per edge found; and
            edge [k], the positions of those edges in `col`, ascending within a pair.
        """
        self.ensure_sound()
        return tables.edges_between(self, *checked_pairs(self, node, neighbor))

    def original_edge(self, edge: Tensor) -> Tensor:
        """Positions in the caller's edges, from positions in `col`; -1 stays -1."""
        edge = _check.positions("edge", edge, self.num_edges)
        if self.edge_id is None:
            return edge
        return ops.take_or_none(self.edge_id, edge)

    def row_range(self, node: Tensor) -> tuple[Tensor, Tensor]:
        """Start and length [w] of the row of each node; length 0 for the node -1."""
        if self.device.type != "cpu" or is_compiling():
            return ops.row_range(self.rowptr, node)
        try:
            start, count = ops.row_range(self.rowptr, node)
        except IndexError:
            _check.changed()
        if node.numel():  # kernels that go on from here take rows as they are
            low, end = torch.minimum(start, count).min(), (start + count).max()
            if low < 0 or end > self.num_edges:
                _check.changed()
        return start, count

    def borrow_table(self, num_nodes: int) -> AbstractContextManager[NodeTable]:
        """A scratch table for `num_nodes` nodes, kept with this graph between uses."""
        return self.scratch.borrow(num_nodes, self.device)

    def to_edge_index(self) -> Tensor:
        """int64 [2, m], sources above targets, in the caller's order of edges."""
        row = torch.arange(self.num_rows, device=self.device)
        row = row.repeat_interleave(self.degree, output_size=self.num_edges)
        ends = torch.stack([row, self.col.to(torch.int64)])
        if self.direction == "in":
            ends = ends.flip(0)
        return self.in_caller_order(ends)

    def in_caller_order(self, values: Tensor) -> Tensor:
        """Values [..., m] per edge, from the order of `col` to the caller's."""
        if self.edge_id is None:
            return values
        return torch.empty_like(values).index_copy_(-1, self.edge_id.long(), values)

    def to_scipy(self) -> Any:
        """A scipy array whose entry (i, j) is the weight of i → j, or one.

        Without a copy of the rows: CSR if they are those of "out", else CSC. Parallel
        edges are entries of their own.
        """
        return exchange.to_scipy(self)

    def to_pandas(self, source: str = "source", target: str = "target") -> Any:
        """A pandas frame with an edge per row, and what weights and times there are."""
        columns = exchange.columns_of(self, source, target)
        return _check.library("pandas", "to_pandas").DataFrame(columns)

    def to_polars(self, source: str = "source", target: str = "target") -> Any:
        """A polars frame with an edge per row, and what weights and times there are."""
        columns = exchange.columns_of(self, source, target)
        return _check.library("polars", "to_polars").DataFrame(columns)

    def to_networkx(self) -> Any:
        """A networkx DiGraph with the ids of the nodes, a multi-graph if need be."""
        return exchange.to_networkx(self)

    def to_igraph(self) -> Any:
        """A directed igraph Graph, with ids as the attribute `name`."""
        return exchange.to_igraph(self)

    def arrays(self) -> dict[str, Tensor]:
        """The arrays that are there, by name."""
        names = ("rowptr", "col", "edge_id", "edge_weight", "edge_time")
        found = {name: getattr(self, name) for name in names}
        return {name: array for name, array in found.items() if array is not None}

    def to(
        self, device: torch.device | str, *, non_blocking: bool = False
    ) -> CompactAdj:
        """The graph on another device."""
        device = _check.device("device", device)
        return self._map(lambda array: array.to(device, non_blocking=non_blocking))

    def cpu(self) -> CompactAdj:
        """The graph on the CPU."""
        return self.to("cpu")

    def cuda(
        self, device: torch.device | str | int | None = None, non_blocking: bool = False
    ) -> CompactAdj:
        """The graph on a GPU, by default the current one."""
        if isinstance(device, int):
            device = torch.device("cuda", _check.size("device", device))
        device = "cuda" if device is None else device
        return self.to(device, non_blocking=non_blocking)

    def uva(self, device: torch.device | str = "cuda") -> CompactAdj:
        """The graph for kernels of a GPU that read its edges in memory of the host.

        For graphs that are larger than the GPU's memory; what a batch needs comes over
        the bus. Where rows start is copied: it is read twice for every edge, and small.
        So are tables of weights, once they are needed, 8 bytes per edge. The memory of
        edges is locked in its place as long as they live.
        """
        device = _check.device("device", device)
        streams = streams_of(device)
        if streams is None or self.device.type != "cpu":
            rule = "must be a GPU that reads memory of the host, where the graph is"
            _check.fail("device", rule, f"{device} for one on {self.device}")
        self.ensure_sound()
        there: dict[str, Any] = {
            name: streams.mapped(array)
            for name, array in self.arrays().items()
            if name != "rowptr"
        }
        return replace(self, rowptr=self.rowptr.to(device), **there).trusted()

    def pin_memory(self) -> CompactAdj:
        """The graph in page-locked memory, for fast copies to a GPU."""
        return self._map(Tensor.pin_memory)

    def share_memory_(self) -> CompactAdj:
        """Moves the arrays to shared memory, so that worker processes do not copy."""
        for array in self.arrays().values():
            array.share_memory_()
        return self

    def validate(self) -> CompactAdj:
        """Reads every array once and raises the first fault found; returns self."""
        _check.one_of("direction", self.direction, DIRECTIONS)
        for name, array in self.arrays().items():
            _check.dense(name, array)
        col = _check.integers("col", self.col)
        rowptr = _check.integers("rowptr", self.rowptr)
        if rowptr.dtype != torch.int64:
            _check.mistyped("rowptr", "must have dtype int64", rowptr.dtype)
        _check.row_pointer("rowptr", rowptr, self.num_edges)
        _check.within("col", col, _check.nodes("num_cols", self.num_cols))
        if self.edge_id is not None:
            _check.edge_ids(self.edge_id, self.num_edges)
        build.weights(self.edge_weight, self.col)
        build.times(self.edge_time, None, self.col, self.num_cols)
        _check.one_device(self.arrays())
        return self.trusted()

    def ensure_inside(self) -> None:
        """Refuses rows that were edited to lead out of the graph; reads all of them.

        For what is made of them once; samplers check what they follow.
        """
        if self.device.type != "cpu":
            return
        _inside(_check.row_pointer, "rowptr", self.rowptr, self.num_edges)
        _inside(_check.within, "col", self.col, self.num_cols)
        for name, array in self.arrays().items():
            if name != "rowptr":
                _inside(_check.length, name, array, self.num_edges, "edge")

    def ensure_sound(self) -> None:
        """Validates a graph that was put together by hand, before its first use."""
        if "sound" not in self._cache:
            self.validate()

    def trusted(self) -> CompactAdj:
        """Marks the arrays as checked, so that they are not checked before first use.

        For arrays that were checked elsewhere: compiled code relies on them, and wrong
        ones may end the process. Returns self.
        """
        self._cache["sound"] = True
        return self

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes a directory of plain arrays and a JSON header, atomically.

        A graph that was saved there before is replaced, in one step: a process that
        opens it meanwhile gets the old one or the new one, and of several that are
        saved at once the last. A directory with anything else in it is refused, unless
        `overwrite`.
        """
        header = {"num_cols": self.num_cols, "direction": self.direction}
        overwrite = _check.yes_or_no("overwrite", overwrite)
        arrays = {**self.arrays(), **exchange.packed(self.node_id)}
        storage.save(path, arrays, header, overwrite)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        mmap: bool = True,
        *,
        verify: bool = True,
    ) -> CompactAdj:
        """Opens what `save` wrote; `mmap` leaves the arrays on disk until touched.

        `verify` compares checksums and checks every array, which reads all bytes once.
        Leave it out for large files that you trust: a damaged one may end the process.
        """
        mmap = _check.yes_or_no("mmap", mmap)
        verify = _check.yes_or_no("verify", verify)
        arrays, header = storage.load(path, mmap, verify)
        size, direction = header["num_cols"], header["direction"]
        node_id = exchange.unpacked(arrays)
        if node_id is not None:
            nodes = arrays["rowptr"].numel() - 1
            exchange.check_one_per_node(len(node_id), nodes, str(path), "save it again")
        adj = cls(num_cols=size, direction=direction, node_id=node_id, **arrays)
        if verify:
            try:
                return adj.validate()
            except (TypeError, ValueError) as error:
                rule = "must hold a sound graph"
                _check.fail(str(path), rule, error, "save it again")
        _check.row_pointer("rowptr", adj.rowptr, adj.num_edges)
        return adj.trusted()

    def __repr__(self) -> str:
        """Says what a person wants to know first."""
        parts = [described_nodes(self), f"{self.num_edges:,} edges"]
        parts.append(f"direction={self.direction!r}")
        parts.append(f"max_degree={self.max_degree}")
        parts += [
            name for name in ("edge_weight", "edge_time") if name in self.arrays()
        ]
        parts.append(f"{_check.readable(self.nbytes)} on {self.device}")
        return f"CompactAdj({', '.join(parts)})"

    def cached(self, name: str, make: Callable[[], T]) -> T:
        """Returns the cached result of `make`, called once per graph and `name`."""
        if name not in self._cache:
            self._cache.setdefault(name, make())  # of two threads, the first one's
        found: T = self._cache[name]
        return found

    def _map(self, change: Callable[[Tensor], Tensor]) -> CompactAdj:
        """A CompactAdj of changed arrays; its tables are made anew when needed."""
        arrays: dict[str, Any] = {n: change(a) for n, a in self.arrays().items()}
        changed = replace(self, **arrays)
        changed._cache["max_degree"] = self.max_degree
        sound = "sound" in self._cache and not changed.col.is_meta
        return changed.trusted() if sound else changed


def _inside(check: Callable[..., Any], *args: Any) -> None:
    """Makes a check of an array that has passed it before, when the graph was built."""
    try:
        check(*args)
    except (TypeError, ValueError):
        _check.changed()


class RemoteRows:
    """A graph of which some rows are in other processes, as `distributed` has it.

    It takes the place of a `CompactAdj` where a bias is given as data, a `Law`: the
    process that holds a row draws from it, and draws the same. Sizes are those of the
    whole graph.
    """

    num_rows: int
    num_cols: int
    num_edges: int
    max_degree: int
    direction: str
    device = torch.device("cpu")
    local: CompactAdj  # the rows that are here, with columns of the whole graph
    scratch: ScratchPool
    law_of: Callable[..., Law]  # the law of a bias that need not see the rows
    sample: Callable[[Plan, Batch], Rooted]  # a batch of rooted sampling
    walk: Callable[..., list[tuple[Tensor, Tensor]]]  # (edges, nodes) [w, f] by depth

    def ensure_sound(self) -> None:
        """Does nothing: rows are checked when they are opened."""


def checked_pairs(
    adj: CompactAdj | RemoteRows, node: Any, neighbor: Any
) -> tuple[Tensor, Tensor]:
    """Rows and columns int64 [w] of a graph, as `edges_between` is given them."""
    here, there = _check.pairs(("node", node), ("neighbor", neighbor), adj.device)
    here, there = (x.reshape(-1).to(torch.int64) for x in (here, there))
    _check.within("node", here, adj.num_rows)
    _check.within("neighbor", there, adj.num_cols)
    return here, there


def described_nodes(adj: CompactAdj | RemoteRows) -> str:
    """The number of nodes in words; of rows and columns where they differ."""
    if adj.num_rows == adj.num_cols:
        return f"{adj.num_rows:,} nodes"
    return f"{adj.num_rows:,} × {adj.num_cols:,} nodes"
