"""Reads graphs from files: text, .parquet, .npz, or a CompactAdj directory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np

from gttf_sampler import _check
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.graph.edgelist import EdgeList, read_text
from gttf_sampler.graph.exchange import edges_of_frame
from gttf_sampler.graph.headings import ROLES, TableOptions, choose_columns
from gttf_sampler.graph.names import Array, ids_of

LAYOUTS = "'edge_index' [2, m], 'row' and 'col' [m], or 'indptr' and 'indices'"
TABLES = (".parquet", ".pq")
DEFAULTS = TableOptions()


def read_graph(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    *,
    direction: str = "in",
    header: bool | None = None,
    separator: str | None = None,
    dates: str | None = None,
) -> CompactAdj:
    """Reads a graph from a directory, an .npz or .parquet file, or text.

    Ids that are no numbers 0 … n - 1 are kept as `node_id`.

    Args:
        path: what `CompactAdj.save` or `write_graph` wrote, or a file of yours: text
            (see `read_edge_list`), also packed with gzip; .parquet; or .npz with
            'edge_index' [2, m], 'row' and 'col', or 'indptr' and 'indices', or written
            by scipy.
        columns: names of the columns of a table: source, target, and perhaps the
            weight and the time; by default those that have such names.
        direction: see `CompactAdj`; a directory has its own.
        header: of text, see `read_edge_list`.
        separator: of text, see `read_edge_list`.
        dates: the format of times for `strptime`, if they are not numbers or ISO 8601.
    """
    file, options = (
        _check.path("path", path),
        TableOptions(columns, header, separator, dates),
    )
    if file.is_dir():
        _check_no_table(file, options)
        return CompactAdj.open(file)
    if file.suffix == ".npz":
        _check_no_table(file, options)
        return _from_arrays(file, direction)
    return CompactAdj.from_edges(read_table(file, options), direction=direction)


def read_edges(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    *,
    header: bool | None = None,
    separator: str | None = None,
    dates: str | None = None,
) -> EdgeList:
    """Reads the edges of a file, with the ids of nodes there; see `read_graph`."""
    file, options = (
        _check.path("path", path),
        TableOptions(columns, header, separator, dates),
    )
    if file.suffix != ".npz":
        return read_table(file, options)
    _check_no_table(file, options)
    adj = _from_arrays(file, "in")
    ids = np.arange(adj.num_rows) if adj.node_id is None else adj.node_id
    return EdgeList(adj.to_edge_index(), ids, adj.edge_weight, adj.edge_time)


def is_table(path: str | os.PathLike[str]) -> bool:
    """True for a table of edges: text or .parquet, whose columns can be chosen."""
    file = _check.path("path", path)
    return not file.is_dir() and file.suffix != ".npz"


def read_table(
    file: Path, options: TableOptions = DEFAULTS, values: bool = True
) -> EdgeList:
    """Reads text or .parquet; without weights and times if `values` is False.

    A third column of numbers may be anything, also less than zero: who needs the
    structure alone does not read it.
    """
    if file.suffix in TABLES:
        return _from_table(file, options, values)
    return read_text(file, options, values)


def read_structure(path: str | os.PathLike[str]) -> CompactAdj:
    """Reads a graph without the weights and times of a table."""
    if not is_table(path):
        return read_graph(path)
    return CompactAdj.from_edges(read_table(Path(path), values=False))


def _check_no_table(file: Path, options: TableOptions) -> None:
    """Refuses columns where there are none to choose."""
    for name, value in options._asdict().items():
        if value is not None:
            rule = "must be left out where the graph is .npz or a directory"
            _check.fail(name, rule, f"{_check.shown(value)} for {file}")


def _from_table(file: Path, options: TableOptions, values: bool) -> EdgeList:
    """Reads the edges of a .parquet file."""
    if not file.is_file():
        _check.fail("path", "must be a file with edges", str(file))
    for name, value in (("header", options.header), ("separator", options.separator)):
        if value is not None:
            got = f"{_check.shown(value)} for {file}"
            _check.fail(name, "must be left out where the graph is .parquet", got)
    _check.library("pyarrow", file.suffix)
    parquet: Any = import_module("pyarrow.parquet")
    try:
        table = parquet.read_table(file)
    except (OSError, ValueError) as error:
        _check.fail("path", "must be a whole .parquet file", f"{file}: {error}")
    names = list(table.column_names)
    if len(names) < 2:
        _check.fail("path", "must have two columns or more", f"{names} in {file}")
    columns = choose_columns(names, options.columns, headed=True).without_guess()
    found = {role: names[at] for role, at in columns.places.items()}
    read = {role: found[role] for role in found if values or role in ROLES[:2]}
    edges = edges_of_frame(table, **read, dates=options.dates)
    return edges._replace(columns=found)


def _from_scipy(file: Path) -> tuple[Array, int]:
    """Reads edges and number of nodes that `scipy.sparse.save_npz` has written."""
    _check.library("scipy", f"'{file.name}', which scipy has written,")
    matrix = import_module("scipy.sparse").load_npz(file).tocoo()
    return np.stack([matrix.row, matrix.col]).astype(np.int64), max(matrix.shape)


def _from_arrays(file: Path, direction: str) -> CompactAdj:
    """Reads a graph from named arrays; scipy's A[i, j] is an edge i → j."""
    if not is_zipfile(file):
        _check.fail("path", "must be a whole .npz file", str(file))
    with np.load(file) as arrays:
        names = set(arrays.files)
        if "format" in names:
            return CompactAdj.from_edge_index(*_from_scipy(file), direction=direction)
        if {"indptr", "indices"} <= names:
            rows = arrays["indptr"], arrays["indices"]
            return CompactAdj.from_csr(*rows, direction=direction)
        if "edge_index" in names:
            ends = arrays["edge_index"]
        elif {"row", "col"} <= names:
            ends = np.stack([arrays["row"], arrays["col"]]).astype(np.int64)
        else:
            _check.fail(file.name, f"must hold {LAYOUTS}", sorted(names))
        size = int(arrays["num_nodes"]) if "num_nodes" in names else None
        values = {
            f"edge_{word}": arrays[name]
            for word in ("weight", "time")
            for name in (word, f"edge_{word}")  # ours, and what attributes are called
            if name in names
        }
        adj = CompactAdj.from_edge_index(
            ends,
            size,
            direction=direction,
            **values,
        )
        ids = ids_of("node_id", arrays["node_id"]) if "node_id" in names else None
        return adj.named(ids)
