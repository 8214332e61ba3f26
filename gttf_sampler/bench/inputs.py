"""Graphs that are given: an edge list, an .npz file, or a CompactAdj directory."""

from collections.abc import Callable
from typing import Any

from gttf_sampler import CompactAdj, _check
from gttf_sampler.bench import graphs
from gttf_sampler.bench.children import RefusedError
from gttf_sampler.graph.files import read_structure

Report = Callable[[str, float], None]


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
        adj = read_structure(source)
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
