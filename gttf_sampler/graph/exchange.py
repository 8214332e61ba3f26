"""Converts graphs and node ids from and to other libraries: tables, scipy, networkx.

Nothing is imported to read them: every library's columns have `to_numpy`. networkx is
read edge by edge; its `to_scipy_sparse_array` would add up parallel edges, sort rows
and lose times.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterable, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler.graph import cells
from gttf_sampler.graph.edgelist import EdgeList

if TYPE_CHECKING:
    from gttf_sampler.graph.compact import CompactAdj

LARGEST = 2**63 - 1

Array = np.ndarray[Any, Any]


def ids_of(name: str, values: Any) -> Array:
    """Converts ids to an array of integers or of words; refuses missing ones."""
    if isinstance(values, Tensor):
        values = _check.dense(name, values).tolist()
    try:
        found: Array = np.asarray(values)
    except ValueError:  # rows of several lengths
        _check.fail(name, "must have 1 dimension(s)", _check.shown(values))
    if found.ndim != 1:
        _check.fail(name, "must have 1 dimension(s)", f"shape {list(found.shape)}")
    if found.dtype.kind in "iu":
        if found.dtype == np.uint64 and len(found) and found.max() > LARGEST:
            _too_large(name, found.max())
        return found.astype(np.int64)
    if found.dtype.kind == "U":
        if isinstance(values, list | tuple):  # of which numpy makes words of numbers
            found = np.array(values, dtype=object)
        else:
            return found
    if found.dtype.kind == "f" and not len(found):
        return found.astype(np.int64)
    if found.dtype.kind not in "OT":
        cure = "convert them to integers or to words"
        _check.mistyped(name, "must hold integers or words", found.dtype, cure)
    entries = found.tolist()
    if all(isinstance(entry, int) for entry in entries):
        if max(map(abs, entries), default=0) > LARGEST:
            _too_large(name, max(entries, key=abs))
        return np.array(entries, dtype=np.int64)
    if all(isinstance(entry, str) for entry in entries):
        return np.array(entries, dtype=np.str_)
    kinds = sorted({type(entry).__name__ for entry in entries})
    _check.mistyped(name, "must hold integers, or words, in every row", kinds)


def _too_large(name: str, value: Any) -> NoReturn:
    _check.fail(name, "must hold integers below 2**63", value, "convert them to words")


def node_ids(values: Any, nodes: int) -> Array | None:
    """Checks ids [n] of all nodes; None where they say no more than the numbers do."""
    if getattr(getattr(values, "dtype", None), "kind", "") != "O":
        values = ids_of("node_id", values)  # networkx has nodes of any kind
    check_one_per_node(len(values), nodes)
    if values.dtype.kind == "i" and np.array_equal(values, np.arange(nodes)):
        return None
    found: Array = values
    return found


def check_one_per_node(
    ids: int, nodes: int, name: str = "node_id", cure: str = ""
) -> None:
    """Refuses more or fewer ids than there are nodes."""
    if ids != nodes:
        _check.fail(name, f"must have one entry per node, {nodes}", ids, cure)


def places(
    name: str, wanted: Iterable[Any], node_id: Array | None, nodes: int
) -> list[int]:
    """Returns the numbers of nodes from their ids, which may be given as words."""
    ids = range(nodes) if node_id is None else node_id
    known = {str(entry): i for i, entry in enumerate(ids)}
    found = []
    for entry in wanted:
        if str(entry) not in known:
            some = (word if word.isprintable() else repr(word) for word in known)
            rule = f"must be ids of the graph, like {', '.join(islice(some, 3))}"
            _check.fail(name, rule, repr(entry))
        found.append(known[str(entry)])
    return found


def packed(node_id: Array | None) -> dict[str, Tensor]:
    """Packs ids as arrays of numbers: integers, or the UTF-8 of words and its ends."""
    if node_id is None:
        return {}
    if node_id.dtype.kind == "i":
        return {"node_id": torch.from_numpy(node_id)}
    rule, cure = "must be integers or words to be saved", "forget them: adj.named(None)"
    if node_id.dtype.kind != "U":
        _check.mistyped("node_id", rule, f"dtype {node_id.dtype}", cure)
    try:
        words = [str(word).encode() for word in node_id]
    except UnicodeEncodeError as error:  # half a character of UTF-16
        _check.fail("node_id", rule, repr(error.object), cure)
    text = np.frombuffer(b"".join(words), np.uint8).copy()
    ends = np.cumsum([len(word) for word in words], dtype=np.int64)
    return {"name_text": torch.from_numpy(text), "name_end": torch.from_numpy(ends)}


def unpacked(arrays: dict[str, Tensor]) -> Array | None:
    """Takes the ids out of the arrays of a saved graph."""
    plain, text, ends = (
        arrays.pop(name, None) for name in ("node_id", "name_text", "name_end")
    )
    if plain is not None:
        return plain.numpy()
    if text is None or ends is None:
        return None
    whole, stops = text.numpy().tobytes(), ends.tolist()
    words = [whole[a:b].decode() for a, b in pairwise([0, *stops])]
    return np.array(words, dtype=np.str_)


def edges_of_frame(
    frame: Any,
    source: str,
    target: str,
    weight: str | None = None,
    time: str | None = None,
    dates: str | None = None,
) -> EdgeList:
    """Reads a table with an edge per row; nodes are numbered in the order of their ids.

    The frame is of pandas, polars, pyarrow or cuDF, or a dict of columns, which the
    other arguments name; `dates` is the format of times that are words.
    """
    senders = ids_of("source", _column(frame, "source", source))
    receivers = ids_of("target", _column(frame, "target", target))
    if len(senders) != len(receivers):
        rule = "must have as many entries as 'source'"
        _check.fail("target", rule, f"{len(receivers)} and {len(senders)}")
    if senders.dtype.kind != receivers.dtype.kind:
        rule = "must be of one kind, integers or words"
        kinds = f"{senders.dtype}, {receivers.dtype}"
        _check.mistyped("source and target", rule, kinds)
    ends = np.concatenate([senders, receivers])
    node_id, number = np.unique(ends, return_inverse=True)
    edge_index = torch.from_numpy(number.reshape(2, -1).astype(np.int64))
    wanted = (("weight", weight, None), ("time", time, dates))
    values = (
        None if column is None else _numbers(name, _column(frame, name, column), form)
        for name, column, form in wanted
    )
    return EdgeList(edge_index, node_id, next(values), next(values))


def _column(frame: Any, name: str, column: str) -> Array:
    if not isinstance(column, str):
        _check.mistyped(name, "must name a column", _check.kind_of(column))
    try:
        found = frame[column]
    except Exception:  # every library has errors of its own for a missing column
        own = frame if isinstance(frame, dict) else getattr(frame, "columns", ())
        known = list(getattr(frame, "column_names", own))  # the latter of pyarrow
        _check.fail(name, f"must be one of the columns {known}", repr(column))
    if isinstance(found, Tensor):
        found = found.cpu()
    if hasattr(found, "to_numpy"):
        found = found.to_numpy()
    return np.asarray(found)


def _numbers(name: str, values: Array, dates: str | None) -> Tensor:
    """Converts a column to numbers; dates, also those in words, to seconds."""
    numbers = int, float, decimal.Decimal  # decimals, or several kinds
    entries = values.tolist() if values.dtype.kind == "O" else []
    if entries and all(isinstance(entry, numbers) for entry in entries):
        values = values.astype(np.float64)
    elif values.dtype.kind in ("M" if name == "weight" else "OMTU"):
        values = _seconds(name, values, dates)
    if values.dtype.kind not in "iufb":
        _check.mistyped(name, "must be a column of numbers", values.dtype)
    kind = np.int64 if values.dtype.kind in "iub" else np.float64
    return torch.from_numpy(np.ascontiguousarray(values.astype(kind)))


def _seconds(name: str, values: Array, dates: str | None) -> Array:
    """Converts dates of numpy or Python, or words that are dates, to seconds."""
    entries = values.tolist()
    moments = values.dtype.kind == "M"
    if moments or (entries and all(isinstance(e, datetime.date) for e in entries)):
        none = np.isnat(values) if moments else [e != e for e in entries]
        if any(none):  # NaT of numpy or pandas
            _check.fail(name, "must have a date in every row", "none in one")
        return cells.seconds_of(values if moments else entries)
    if not entries or not all(isinstance(entry, str) for entry in entries):
        kinds = sorted({type(entry).__name__ for entry in entries})
        _check.mistyped(name, "must be a column of numbers or of dates", kinds)
    try:
        return cells.dates(entries, dates)
    except ValueError as error:
        cure = "name their format" if dates is None else ""
        _check.fail(name, "must hold numbers or dates", error, cure)


def columns_of(adj: CompactAdj, source: str, target: str) -> dict[str, Array]:
    """Returns the edges as named columns, in the caller's order, with ids of nodes."""
    ends = adj.to_edge_index().cpu().numpy()
    named: dict[str, Array] = {}
    for name, number in ((source, ends[0]), (target, ends[1])):
        named[name] = number if adj.node_id is None else adj.node_id[number]
    return {**named, **values_of(adj)}


def values_of(adj: CompactAdj) -> dict[str, Array]:
    """Returns weights and times that are there, in the caller's order of edges."""
    found = {"weight": adj.edge_weight, "time": adj.edge_time}
    return {
        name: adj.in_caller_order(values).cpu().numpy()
        for name, values in found.items()
        if values is not None
    }


def from_scipy(
    cls: type[CompactAdj], matrix: Any, direction: str, weighted: bool
) -> CompactAdj:
    """Makes a graph of a sparse matrix; no copy if it has the rows asked for."""
    _check.scipy_matrix("matrix", matrix)
    _check.scipy_rows("matrix", matrix)
    sources, targets = matrix.shape
    ready, num_cols = ("csr", targets) if direction == "out" else ("csc", sources)
    if matrix.format == ready:
        weight = matrix.data if weighted else None
        rows = matrix.indptr, matrix.indices, num_cols
        return cls.from_csr(*rows, edge_weight=weight, direction=direction)
    entries = matrix.tocoo()
    weight = entries.data if weighted else None
    ends = torch.stack([_check.tensor("matrix", e) for e in (entries.row, entries.col)])
    size = sources, targets
    return cls.from_edge_index(ends, size, edge_weight=weight, direction=direction)


def to_scipy(adj: CompactAdj) -> Any:
    """Makes a scipy array of the rows, without a copy: CSR of "out", else CSC."""
    sparse = _check.library("scipy.sparse", "to_scipy")
    weight = adj.edge_weight
    values = torch.ones(adj.num_edges) if weight is None else weight
    rows = tuple(x.cpu().numpy() for x in (values, adj.col, adj.rowptr))
    if adj.direction == "out":
        return sparse.csr_array(rows, shape=(adj.num_rows, adj.num_cols))
    return sparse.csc_array(rows, shape=(adj.num_cols, adj.num_rows))


def edges_of_networkx(graph: Any, weight: str | None, time: str | None) -> EdgeList:
    """Reads all edges, those of an undirected graph in both directions.

    A weight that an edge lacks is one, as in networkx; a time must not be missing.
    """
    if not all(hasattr(graph, name) for name in ("nodes", "edges", "is_directed")):
        _check.mistyped("graph", "must be a networkx graph", _check.kind_of(graph))
    number = {node: i for i, node in enumerate(graph.nodes)}
    edges = list(graph.edges(data=True))
    columns = []
    for kind, name, default in (("weight", weight, 1), ("time", time, None)):
        values = [data.get(name, default) for *_, data in edges]
        if name is not None and any(value is None for value in values):
            _check.fail(kind, "must be an attribute of every edge", repr(name))
        columns.append(None if name is None else _tensor(kind, values))
    pairs = [(number[source], number[target]) for source, target, _ in edges]
    return _directed(pairs, list(number), columns, graph.is_directed())


def edges_of_igraph(graph: Any, weight: str | None, time: str | None) -> EdgeList:
    """Reads all edges like `edges_of_networkx`; ids are the attribute `name`."""
    if not all(hasattr(graph, name) for name in ("vs", "es", "get_edgelist")):
        _check.mistyped("graph", "must be an igraph Graph", _check.kind_of(graph))
    named, known = "name" in graph.vs.attributes(), graph.es.attributes()
    columns = []
    for kind, name in (("weight", weight), ("time", time)):
        if name is not None and name not in known:
            _check.fail(kind, f"must be one of the edge attributes {known}", repr(name))
        columns.append(None if name is None else _tensor(kind, graph.es[name]))
    ids = list(graph.vs["name"] if named else range(graph.vcount()))
    return _directed(graph.get_edgelist(), ids, columns, graph.is_directed())


def to_networkx(adj: CompactAdj) -> Any:
    """Makes a networkx DiGraph of the rows, a MultiDiGraph if edges are parallel."""
    networkx = _check.library("networkx", "to_networkx")
    ends = adj.to_edge_index().t().tolist()
    parallel = len(set(map(tuple, ends))) < len(ends)
    graph = networkx.MultiDiGraph() if parallel else networkx.DiGraph()
    _check.one_node_set("adj", adj.num_rows, adj.num_cols)
    ids = range(adj.num_rows) if adj.node_id is None else adj.node_id.tolist()
    graph.add_nodes_from(ids)
    values = {name: column.tolist() for name, column in values_of(adj).items()}
    for edge, (source, target) in enumerate(ends):
        attributes = {name: column[edge] for name, column in values.items()}
        graph.add_edge(ids[source], ids[target], **attributes)
    return graph


def to_igraph(adj: CompactAdj) -> Any:
    """Makes a directed igraph Graph; ids of nodes are its attribute `name`."""
    igraph = _check.library("igraph", "to_igraph")
    edges = adj.to_edge_index().t().tolist()
    graph = igraph.Graph(n=adj.num_rows, edges=edges, directed=True)
    if adj.node_id is not None:
        _check.one_node_set("adj", adj.num_rows, adj.num_cols)
        graph.vs["name"] = adj.node_id.tolist()
    for name, values in values_of(adj).items():
        graph.es[name] = values.tolist()
    return graph


def _directed(
    pairs: Sequence[Any], ids: list[Any], columns: list[Tensor | None], directed: bool
) -> EdgeList:
    """Makes an edge list in which an undirected edge counts both ways, a loop once."""
    ends = torch.tensor(pairs, dtype=torch.int64).view(-1, 2).t().contiguous()
    if not directed:
        back = (ends[0] != ends[1]).nonzero().view(-1)
        ends = torch.cat([ends, ends[:, back].flip(0)], dim=1)
        columns = [None if x is None else torch.cat([x, x[back]]) for x in columns]
    weight, time = columns
    for kind, dtype in ((int, np.int64), (str, np.str_)):
        if all(type(node) is kind for node in ids):
            return EdgeList(ends, np.array(ids, dtype=dtype), weight, time)
    found = np.empty(len(ids), dtype=object)  # of anything that can be hashed
    found[:] = ids
    return EdgeList(ends, found, weight, time)


def _tensor(kind: str, values: Sequence[Any]) -> Tensor:
    try:
        found = torch.as_tensor(np.asarray(values))
    except TypeError:
        _check.mistyped(kind, "must hold numbers", _check.shown(values))
    return found
