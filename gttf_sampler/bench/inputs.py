"""Graphs that are given: an edge list, an .npz file, or a CompactAdj directory."""

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np

from gttf_sampler import CompactAdj, _check
from gttf_sampler.bench import graphs
from gttf_sampler.bench.children import RefusedError
from gttf_sampler.graph.edgelist import read_edge_list

Report = Callable[[str, float], None]
Array = np.ndarray[Any, Any]
LAYOUTS = "'edge_index' [2, m], 'row' and 'col' [m], or 'indptr' and 'indices'"


def make(
    folder: str, nodes: int, edges: int, seed: int, report: Report
) -> dict[str, Any]:
    """The job that makes a graph; returns its facts."""
    what = f"making {edges:,} edges"
    graphs.make(folder, nodes, edges, seed=seed, tick=lambda share: report(what, share))
    return facts(CompactAdj.open(folder, verify=False))


def convert(source: str, folder: str, report: Report) -> dict[str, Any]:
    """The job that turns a file of the user into a CompactAdj directory."""
    report(f"reading {source}", 0.0)
    try:
        adj = read(source)
        if adj.num_rows != adj.num_cols or adj.num_edges == 0:
            _check.fail("--graph", "must have one set of nodes and some edges", adj)
        rows = CompactAdj(adj.rowptr, adj.col, adj.num_cols).trusted()
        rows.save(folder)
    except (ValueError, TypeError, OSError) as error:
        raise RefusedError(f"--graph {source}: {error}") from error
    return facts(rows)


def look(folder: str, report: Report) -> dict[str, Any]:
    """The job that opens a saved graph; returns its facts."""
    try:
        adj = CompactAdj.open(folder)
        _check.one_node_set("--graph", adj.num_rows, adj.num_cols)
    except (ValueError, TypeError, OSError) as error:
        raise RefusedError(f"--graph {folder}: {error}") from error
    return facts(adj)


def facts(adj: CompactAdj) -> dict[str, Any]:
    """What a table says about a graph."""
    return {
        "nodes": adj.num_rows,
        "edges": adj.num_edges,
        "max_degree": adj.max_degree,
        "bytes": adj.nbytes,
    }


def read(source: str | os.PathLike[str]) -> CompactAdj:
    """The graph in a directory, an .npz file, or a text file of edges."""
    path = Path(source)
    if path.is_dir():
        return CompactAdj.open(path)
    if path.suffix == ".npz":
        return _from_arrays(path)
    return CompactAdj.from_edge_index(read_edge_list(path).edge_index)


def _from_scipy(path: Path) -> tuple[Array, int]:
    """The edges and the number of nodes of what `scipy.sparse.save_npz` has written."""
    try:
        sparse = import_module("scipy.sparse")
    except ImportError as error:
        raise ValueError(f"'{path.name}' is scipy's, which is not there") from error
    matrix = sparse.load_npz(path).tocoo()
    return np.stack([matrix.row, matrix.col]).astype(np.int64), max(matrix.shape)


def _from_arrays(path: Path) -> CompactAdj:
    """A graph from named arrays; a matrix of scipy has an edge i → j for A[i, j]."""
    if not is_zipfile(path):
        _check.fail("path", "must be a whole .npz file", str(path))
    with np.load(path) as arrays:
        if "format" in arrays.files:
            return CompactAdj.from_edge_index(*_from_scipy(path))
        if {"indptr", "indices"} <= set(arrays.files):
            return CompactAdj.from_csr(arrays["indptr"], arrays["indices"])
        if "edge_index" in arrays.files:
            return CompactAdj.from_edge_index(arrays["edge_index"])
        if {"row", "col"} <= set(arrays.files):
            ends = np.stack([arrays["row"], arrays["col"]]).astype(np.int64)
            return CompactAdj.from_edge_index(ends)
        _check.fail(path.name, f"must hold {LAYOUTS}", sorted(arrays.files))
