"""The graph of a `Data` or `HeteroData` as compact rows, built or attached to it.

Rows that are attached travel with the data, so that several loaders share them: they
are an attribute of the store that has the edges, `data.to` moves them, copies share
them, and pickling keeps them. Edges may change behind their back, so whoever uses them
compares them with the edges first, in O(m) and without copying.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Data, HeteroData

from gttf_pyg._check import (
    MissingError,
    as_pairs,
    as_reals,
    known_types,
    missing,
    name_or_none,
)
from gttf_pyg._compat import ONLY as ONLY
from gttf_pyg._compat import EdgeType as EdgeType
from gttf_pyg._compat import ordered_rows, row_type, stores_of
from gttf_sampler import CompactAdj
from gttf_sampler._check import dense, fail, mistyped, within
from gttf_sampler.graph.tables import ascends_in_time

ATTACHED = "compact_adj"  # the attribute of a store that has rows
CHUNK = 1 << 22  # edges that are compared at a time


class Graph(NamedTuple):
    """The graph that a sampler draws from.

    Attributes:
        adjs: the rows of every relation. Sampling backward, they are the rows of the
            reversed graph, and the key is the reverse of the edge type.
        num_nodes: per node type, or a number if there are no types.
        node_types: in the order of the data; `[None]` if there are no types.
        edge_types: the same; `[None]` if there are no types.
        node_time: the times of the nodes, per node type; None if the edges have them.
        edge_time: the times of the edges, per edge type; None if the nodes have them.
        loose: a relation without edges for every node type that has no relation.
    """

    adjs: dict[EdgeType, CompactAdj]
    num_nodes: Any
    node_types: list[Any]
    edge_types: list[Any]
    node_time: Any
    edge_time: Any
    loose: dict[EdgeType, CompactAdj]


class Options(NamedTuple):
    """Options of reading a graph, in the words of PyG's sampler."""

    time_attr: str | None = None
    weight_attr: Any = None
    is_sorted: bool = False
    backward: bool = False


class Columns(NamedTuple):
    """Attributes of a relation beside its edges; None for those not asked for."""

    node_time: Tensor | None = None  # of the sources, if rows are to be sorted by it
    edge_time: Tensor | None = None  # of the edges, instead
    edge_weight: Tensor | None = None  # of the edges, if they are drawn by weight


MakeRows = Callable[[Any, tuple[int, int], Columns], CompactAdj]


def graph_of(
    sizes: dict[Any, Any],
    edge_types: list[Any],
    times: tuple[Any, Any],
    weights: Mapping[Any, Tensor],
    backward: bool,
    make: MakeRows,
) -> Graph:
    """The graph of relations of which `make` gives the rows.

    Node times are per node type, edge times and weights per edge type; without types,
    all have the key None.
    """
    adjs = {}
    for kind in edge_types:
        src, _, dst = kind or (None, None, None)
        node_time, edge_time = (
            (part or {}).get(key) for part, key in zip(times, (src, kind), strict=True)
        )
        columns = Columns(node_time, edge_time, weights.get(kind))
        rows = make(kind, (sizes[src], sizes[dst]), columns)
        adjs[row_type(kind or ONLY, backward)] = rows
    if edge_types == [None]:
        count, node_time, edge_time = (x and x[None] for x in (sizes, *times))
        return Graph(adjs, count, [None], [None], node_time, edge_time, {})
    known = {end for kind in adjs for end in (kind[0], kind[2])}
    none = torch.empty(2, 0, dtype=torch.int64)
    loose = {
        (name, "", name): CompactAdj.from_edge_index(none, size)
        for name, size in sizes.items()
        if name not in known
    }
    return Graph(adjs, sizes, list(sizes), edge_types, *times, loose)


def from_memory(data: Any, options: Options) -> Graph:
    """The graph of a `Data` or a `HeteroData`."""
    nodes, edges = stores_of(data)
    if None in edges:
        name_or_none("weight_attr", options.weight_attr)
        if "edge_index" in data:  # PyG asks it for its last dimension
            index = dense("data.edge_index", plain(data["edge_index"]))
            as_pairs("data.edge_index", index)
    sizes = {
        name: (data if name is None else store).num_nodes
        for name, store in nodes.items()
    }
    for end in (end for kind in edges if kind for end in (kind[0], kind[2])):
        if sizes.get(end) is None:
            rule, cure = f"must know how many {end!r} nodes there are", "num_nodes"
            fail("data", rule, "no such store", f"set data[{end!r}].{cure}")
    weights = weights_of(
        options.weight_attr,
        list(edges),
        lambda kind, name: edges[kind].get(name),
        lambda kinds: {key for kind in kinds for key in edges[kind].edge_attrs()},
    )
    return graph_of(
        sizes,
        list(edges),
        _times(nodes, edges, options.time_attr),
        weights,
        options.backward,
        lambda kind, size, columns: rows_of(edges[kind], size, columns, options),
    )


def _times(nodes: Any, edges: Any, name: str | None) -> tuple[Any, Any]:
    """The times of the nodes or of the edges, per type."""
    if name is None:
        return None, None
    stores = [*nodes.items(), *(edges.items() if None not in edges else ())]
    times = {
        kind: as_reals(f"data{'' if kind is None else [kind]}.{name}", store[name])
        for kind, store in stores
        if name in store
    }
    if not times:
        known = sorted({key for _, store in stores for key in store})
        raise missing("time_attr", name, known)
    if None not in times:
        return typed_times(times, name)
    if nodes[None].is_node_attr(name):
        return times, None
    if not edges[None].is_edge_attr(name):
        rule = "must name a node-level or edge-level attribute"
        fail("time_attr", rule, repr(name))
    return None, times


def typed_times(times: dict[Any, Tensor] | None, name: str | None) -> tuple[Any, Any]:
    """The times of the nodes or of the edges, per type; not of both."""
    if times is None:
        return None, None
    on_nodes = {isinstance(kind, str) for kind in times}
    if len(on_nodes) != 1:
        rule = "must name either a node-level or an edge-level attribute"
        found = "both" if on_nodes else "neither"
        fail("time_attr", rule, f"{name!r}, which is {found}")
    return (times, None) if on_nodes == {True} else (None, times)


def weights_of(
    named: Any,
    edge_types: list[Any],
    column: Callable[[Any, str], Tensor | None],
    known: Callable[[list[Any]], Iterable[Any]],
    error: type[MissingError] = MissingError,
) -> dict[Any, Tensor]:
    """The weights of the edge types that have some.

    One name is that of all types that have it; a name per edge type, as PyG's issue
    8291 asks, must be there, and types that are not named are drawn uniformly.
    """
    if named is None:
        return {}
    typed = isinstance(named, Mapping)
    names = named if typed else dict.fromkeys(edge_types, named)
    known_types("weight_attr", names, edge_types)
    found = {}
    for kind, name in names.items():
        value = None if name is None else column(kind, name)
        if value is not None:
            found[kind] = value
        elif typed and name is not None:
            raise missing("weight_attr", name, sorted(known([kind])))
    if not found and not typed:
        raise error(str(missing("weight_attr", named, sorted(known(edge_types)))))
    return found


def rows_of(
    store: Any, size: tuple[int, int], columns: Columns, options: Options
) -> CompactAdj:
    """The rows of one relation between (sources, targets) many nodes."""
    shared = attached(store, size, columns, options.backward)
    if shared is not None:
        return shared
    sparse = "adj" in store or "adj_t" in store
    if sparse or ("edge_index" in store and options.is_sorted):
        return _sorted_rows(store, size, columns, options)
    index = torch.empty(2, 0, dtype=torch.int64)
    if "edge_index" in store:
        index = dense("data.edge_index", plain(store["edge_index"]))
    way = "out" if options.backward else "in"
    given: dict[str, Any] = columns._asdict()
    adj = CompactAdj.from_edge_index(index, size, direction=way, **given)
    return replace(adj, direction="in").trusted()


def _sorted_rows(
    store: Any, size: tuple[int, int], columns: Columns, options: Options
) -> CompactAdj:
    """The rows of edges that are in order already: nothing is copied."""
    for name in ("adj", "adj_t"):
        if isinstance(store.get(name, None), Tensor):
            rule = f"must have an edge_index, or an '{name}' of torch-sparse"
            got = f"a tensor of layout {store[name].layout}"
            mistyped("data", rule, got, "leave out ToSparseTensor")
    if options.is_sorted and "edge_index" in store:
        pairs = as_pairs("data.edge_index", store["edge_index"])
        ends = pairs[0 if options.backward else 1]
        if bool((ends[1:] < ends[:-1]).any()):
            by = "row" if options.backward else "column"
            rule = f"must only be set for an edge_index that is sorted by {by}"
            fail("is_sorted", rule, "one that is not")
        within("edge_index", ends, size[0 if options.backward else 1])
    if columns.node_time is not None and "adj" in store:
        raise NotImplementedError("'time_attr' needs an edge_index or adj_t (got adj)")
    rowptr, col = ordered_rows(store, size, options.backward)
    adj = from_rows(rowptr, col, size, columns, options)
    if adj.edge_time is not None and not ascends_in_time(adj):
        if "edge_index" in store:
            rule = "must only be set for edges that are sorted by column and then time"
            fail("is_sorted", rule, "some that are not", "leave it out")
        rule = "must find the edges of every row sorted by time in an adj_t"
        fail("time_attr", rule, "others", "use an edge_index")
    return adj


def from_rows(
    rowptr: Tensor,
    col: Tensor,
    size: tuple[int, int],
    columns: Columns,
    options: Options,
    edge_id: Tensor | None = None,
) -> CompactAdj:
    """Rows that somebody else has sorted, with attributes in the order of the rows."""
    num_cols, num_rows = size[::-1] if options.backward else size
    node_time, edge_time, weight = columns
    if node_time is not None:
        edge_time = node_time.to(col.device)[col.to(torch.int64)]
    if num_rows >= rowptr.numel():  # a store that knows no size leaves out empty rows
        missing = num_rows + 1 - rowptr.numel()
        rowptr = torch.cat([rowptr, rowptr[-1:].expand(missing)])
    own: dict[str, Any] = {
        "edge_id": edge_id,
        "edge_weight": weight,
        "edge_time": edge_time,
    }
    return CompactAdj.from_csr(rowptr, col, num_cols, **own)


def attached(
    store: Any, size: tuple[int, int], columns: Columns, backward: bool
) -> CompactAdj | None:
    """The rows attached to `store`, if they are what would be built from it now."""
    node_time, edge_time, weight = columns
    adj = store.get(ATTACHED)
    if not isinstance(adj, CompactAdj) or "edge_index" not in store:
        return None
    index = plain(store["edge_index"])
    row, col = index if backward else index.flip(0)
    if node_time is not None:
        edge_time = node_time[col.to(torch.int64)]
    if weight is None and adj.edge_weight is not None:
        adj = replace(adj, edge_weight=None).trusted()
    shape = size if backward else size[::-1]
    pairs = [(adj.col, col), (adj.edge_weight, weight), (adj.edge_time, edge_time)]
    fits = (adj.num_rows, adj.num_cols) == shape and all(
        (ours is None) == (theirs is None)
        and (ours is None or (ours.shape, ours.device) == (theirs.shape, theirs.device))
        for ours, theirs in pairs
    )
    if not fits:
        return None
    values = [(ours, theirs) for ours, theirs in pairs if ours is not None]
    for part, here in row_chunks(adj):
        ids = part if adj.edge_id is None else adj.edge_id[part].to(torch.int64)
        if not torch.equal(row[ids].to(torch.int64), here):
            return None
        if not all(bool((ours[part] == theirs[ids]).all()) for ours, theirs in values):
            return None
    return adj


def plain(edge_index: Tensor) -> Tensor:
    if isinstance(edge_index, EdgeIndex):
        edge_index = edge_index.as_tensor()
    return edge_index


def can_join(data: Any) -> bool:
    """True if `join` knows the data; stores and sparse matrices are left to PyG.

    A subclass may have properties that are set in ways of their own.
    """
    if type(data) not in (Data, HeteroData):
        return False
    return not any("adj_t" in store for store in data.edge_stores)


def detached(data: Any) -> Any:
    """`data` without what was attached; a shallow copy if there was something."""
    if not isinstance(data, Data | HeteroData):
        return data
    if not any(ATTACHED in store for store in data.edge_stores):
        return data
    data = copy.copy(data)
    for store in data.edge_stores:
        if ATTACHED in store:
            del store[ATTACHED]
    return data


def copied(adj: CompactAdj) -> CompactAdj:
    own: dict[str, Any] = {name: x.clone() for name, x in adj.arrays().items()}
    return replace(adj, **own).trusted()


def row_chunks(adj: CompactAdj) -> Iterator[tuple[slice, Tensor]]:
    """Some rows at a time: their positions in `adj.col`, and the row of each."""
    starts = torch.arange(0, adj.num_edges, CHUNK, device=adj.device)
    bounds = torch.searchsorted(adj.rowptr, starts).unique().tolist()
    for first, last in pairwise([*bounds, adj.num_rows]):
        begin, end = adj.rowptr[[first, last]].tolist()
        rows = torch.arange(first, last, device=adj.device)
        rows = rows.repeat_interleave(adj.degree[first:last], output_size=end - begin)
        yield slice(begin, end), rows
