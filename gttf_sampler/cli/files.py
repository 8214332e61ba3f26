"""`gttf build`, `convert`, `features` and `info`: graphs and features in files."""

import argparse
import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gttf_sampler import CompactAdj, FeatureFile, _check, _files
from gttf_sampler.backend import no_triton
from gttf_sampler.bench import machine
from gttf_sampler.bench.graphs import facts as facts_of_graph
from gttf_sampler.bench.hosts import unavailable
from gttf_sampler.cli import reading
from gttf_sampler.distributed.part import WHOLE
from gttf_sampler.distributed.write import facts_of
from gttf_sampler.features.write import ENCODINGS, chunks_of, is_features
from gttf_sampler.graph.cells import OtherCellError, integers
from gttf_sampler.graph.compact import DIRECTIONS
from gttf_sampler.graph.edgelist import BLOCK, TextTable
from gttf_sampler.graph.io import WRITTEN, is_table, read_table, write_graph

PIECE = 1 << 22  # edges that are read at a time
FOLDER = "a directory"


def add_build(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `gttf build`."""
    add = parser.add_argument
    what = ".npy with edges [2, m] or [m, 2], or text with integers (also .gz)"
    add("edges", nargs="+", help=f"{what}; several are one graph")
    add("out", help="directory to write, for CompactAdj.open")
    add("--nodes", type=int, help="how many there are; by default the largest id + 1")
    add("--direction", choices=DIRECTIONS, default="in", help="whose rows (in)")
    add("--both", action="store_true", help="add the reverse of every edge")
    add("--no-ids", action="store_true", help="do not keep the positions of edges")
    add("--memory", type=float, metavar="GB", help="for sorting (2)")
    add("--tmp", help="where edges wait meanwhile (beside the result)")
    add("--force", action="store_true", help="write beside other files")
    reading.add_arguments(parser)


def run_build(args: argparse.Namespace) -> list[str]:
    """Sorts edges into rows on disk; returns the lines to print."""
    reading.must_exist("edges", args.edges, "files that are there")
    memory = None if args.memory is None else round(args.memory * 1e9)
    files = EdgeFiles(args)
    with reading.progress(unit="edges") as report, reading.called(args, "out"):
        adj = CompactAdj.from_chunks(
            *(files, args.out, args.nodes),
            direction=args.direction,
            edge_ids=not args.no_ids,
            overwrite=args.force,
            memory=memory,
            tmp=args.tmp,
            report=report,
        )
    names = (table.names() for table in files.tables.values())
    told = [reading.heading(columns) for columns in names if columns]
    return [*told, repr(adj), f"wrote {args.out}"]


class EdgeFiles:
    """The edges of some files, chunk by chunk, as often as somebody asks.

    With `--both`, the reverses of a chunk follow it. Weights and times are kept where
    a heading or `--columns` names them.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        with reading.called(args, "edges"):
            self.tables = {
                name: TextTable(Path(name), reading.asked(args), guess=False)
                for name in args.edges
                if not name.endswith(".npy")
            }

    def __iter__(self) -> Iterator[Any]:
        for name in self.args.edges:
            table = self.tables.get(name)
            chunks = _of_npy(name) if table is None else self._of_text(table)
            for ends, values in chunks:
                yield ends, values
                if self.args.both:
                    yield ends[::-1].copy(), values

    def _of_text(self, table: TextTable) -> Iterator[Any]:
        """Edges of lines, of which some are in memory at a time."""
        with reading.called(self.args, "edges"):
            try:
                blocks = table.blocks(integers)
                while some := list(islice(blocks, PIECE // BLOCK)):
                    yield _joined(some)
            except OtherCellError:
                rule = "must have two integers in every line"
                cure = f"'gttf convert {table.file} OUT' takes words, if memory holds "
                table.refuse_ids(integers, "edges", rule, f"{cure}all edges")


def _joined(blocks: list[tuple[list[Any], dict[str, Any]]]) -> tuple[Any, Any]:
    """Edges [2, k] and their values, from blocks of them."""
    ends = [np.concatenate([ends[side] for ends, _ in blocks]) for side in (0, 1)]
    values = {
        f"edge_{name}": np.concatenate([read[name] for _, read in blocks])
        for name in blocks[0][1]
    }
    return np.stack(ends), values


def _of_npy(name: str) -> Iterator[Any]:
    """Edges of an array, which stays on disk."""
    edges = np.load(name, mmap_mode="r", allow_pickle=False)
    if edges.ndim != 2 or 2 not in edges.shape:
        rule = "must have shape [2, m] or [m, 2]"
        _check.fail(name, rule, list(edges.shape))
    if edges.shape[0] != 2:
        edges = edges.T
    for start in range(0, edges.shape[1], PIECE):
        yield np.array(edges[:, start : start + PIECE]), {}


def add_convert(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `gttf convert`."""
    add = parser.add_argument
    add("graph", help=reading.KINDS)
    what = f"file to write: {', '.join(WRITTEN)}, text also in .gz; or {FOLDER}"
    add("out", help=what)
    add("--direction", choices=("in", "out"), default="in", help=f"of rows in {FOLDER}")
    add("--force", action="store_true", help="overwrite what is there")
    reading.add_arguments(parser)


def run_convert(args: argparse.Namespace) -> list[str]:
    """Writes a graph in another format; returns the lines to print."""
    out, given = Path(args.out), Path(args.graph)
    if out.exists() and given.exists() and out.samefile(given):
        _check.fail("out", "must not be the graph itself", args.out)
    folder = out.is_dir() or not out.suffix
    if not folder:
        _files.check_free("out", out, args.force)
    adj, told = reading.read(args, "graph", direction=args.direction)
    with reading.called(args, "out"):
        if folder:
            adj.save(out, overwrite=args.force)
        else:
            write_graph(out, adj)
    return [*told, f"{adj}", f"wrote {args.out}"]


def add_features(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `gttf features`."""
    add = parser.add_argument
    add("values", nargs="+", help=".npy files with rows; several are joined")
    add("out", help="file to write, readable as .npy as well")
    add("--stored", choices=ENCODINGS, help="fewer bytes; rows are read as before")
    add("--force", action="store_true", help="replace a file that is there")


def run_features(args: argparse.Namespace) -> list[str]:
    """Writes rows that batches read by id; returns the lines to print."""
    arrays = [reading.array("values", name) for name in args.values]
    _files.check_free("out", args.out, args.force)
    with reading.progress(sum(array.nbytes for array in arrays)) as report:
        made = FeatureFile.from_chunks(
            args.out,
            (chunk for array in arrays for chunk in chunks_of(array)),
            stored=args.stored,
            overwrite=args.force,
            report=report,
        )
    return [repr(made), f"wrote {args.out}"]


def add_info(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `gttf info`."""
    add = parser.add_argument
    what = "edge list, .parquet, .npz, CompactAdj or partitioned directory, features"
    add("graph", nargs="?", help=what)
    add("--json", action="store_true", help="print JSON")
    what = "compile the GPU kernels for sm_80 and sm_90 and print what they take"
    add("--kernels", action="store_true", help=what)
    reading.add_arguments(parser)


def run_info(args: argparse.Namespace) -> list[str] | int:
    """Versions, backend and hosts, or the facts of a file; returns lines to print."""
    command = "gttf info --kernels" if args.kernels else "gttf info"
    try:
        if args.kernels:
            return _kernels()
        found = _of_file(args) if args.graph else machine.describe()
    except (ValueError, TypeError, OSError, ImportError) as error:
        sys.stderr.write(f"{command}: {error}\n")
        return 2
    if args.json:
        return json.dumps(found, indent=1).splitlines()
    heading = found.pop("heading", None)
    lines = [reading.line(name, value) for name, value in found.items()]
    if heading:
        lines.insert(0, f"heading: {heading}")
    if args.graph is None:
        told = [f"{adapter}: needs {host}" for adapter, host in unavailable()]
        lines += [reading.line("", each) for each in told]
    return lines


def _kernels() -> list[str]:
    """The table of the GPU kernels, which takes a minute or two."""
    if why := no_triton():
        raise ImportError(why)
    from gttf_sampler.cli.kernels import report

    return report().splitlines()


def _of_file(args: argparse.Namespace) -> dict[str, Any]:
    """The facts of features, of a graph in parts, or of a graph."""
    path = args.graph
    if is_features(path):
        file = FeatureFile(path)
        file.validate()
        return {
            "rows": len(file),
            "row": list(file.shape[1:]),
            "dtype": str(file.dtype).removeprefix("torch."),
            "stored": file.stored,
            "bytes": file.nbytes,
            "checksums": "all match",
        }
    if WHOLE.is_in(Path(path)):
        return facts_of(WHOLE.read_header(Path(path)))
    adj, told = _read(args)
    degree = adj.degree.sort().values
    places = [round(share * (degree.numel() - 1)) for share in (0.25, 0.5, 0.75)]
    quartiles = degree[places].tolist() if degree.numel() else []
    named = torch.bincount(adj.col, minlength=adj.num_rows)[: adj.num_rows]
    without = int(((adj.degree == 0) & (named == 0)).sum())
    facts = {**told, **facts_of_graph(adj), **_values(adj)}
    return {**facts, "quartiles": quartiles, "isolated": without, "graph": repr(adj)}


def _read(args: argparse.Namespace) -> tuple[CompactAdj, dict[str, Any]]:
    """A graph, its heading, and a third column that cannot be weights."""
    if not is_table(args.graph):
        return reading.read(args, "graph")[0], {}
    with reading.called(args, "graph"):
        edges = read_table(Path(args.graph), reading.asked(args))
    told: dict[str, Any] = {}
    if edges.columns:
        told["heading"] = reading.heading(edges.columns).removeprefix("heading: ")
    if edges.weight is not None and args.columns is None:
        low, high = edges.weight.aminmax()
        if low < 0:
            told["no weights"] = f"{low:g} … {high:g}, as some are negative"
            edges = edges._replace(weight=None)
    return CompactAdj.from_edges(edges), told


def _values(adj: CompactAdj) -> dict[str, str]:
    """The range of weights and of times, where a graph has them."""
    shown = {}
    for name, values in (("weights", adj.edge_weight), ("times", adj.edge_time)):
        if values is None:
            shown[name] = "none"
        elif values.numel():
            low, high = (bound.item() for bound in values.aminmax())
            if low != low:
                _check.fail("graph", f"must have {name} without NaN", "NaN")
            shown[name] = f"{low} … {high}"
    return shown
