"""`gttf build`, `convert`, `features`, `partition` and `info`: what is in files."""

import argparse
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gttf_sampler import CompactAdj, FeatureFile, _check, _files
from gttf_sampler.bench import machine
from gttf_sampler.bench.graphs import facts as facts_of_graph
from gttf_sampler.bench.hosts import hosts, unavailable
from gttf_sampler.cli import reading
from gttf_sampler.distributed import partition
from gttf_sampler.distributed.book import METHODS
from gttf_sampler.distributed.part import ONLY, WHOLE, open_part
from gttf_sampler.distributed.write import facts_of
from gttf_sampler.features.write import ENCODINGS, chunks_of, is_features
from gttf_sampler.graph.cells import OtherCellError, integers
from gttf_sampler.graph.compact import DIRECTIONS
from gttf_sampler.graph.edgelist import TextTable
from gttf_sampler.graph.exchange import unpacked
from gttf_sampler.graph.io import WRITTEN, is_table, write_graph

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
    lines = [reading.heading(columns) for columns in names if columns]
    return [*lines, repr(adj), f"wrote {args.out}"]


class EdgeFiles:
    """The edges of some files, chunk by chunk, as often as they are asked for.

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
                for ends, read in table.pieces(integers, PIECE):
                    yield ends, {f"edge_{role}": x for role, x in read.items()}
            except OtherCellError:
                rule = "must have two integers in every line"
                cure = f"'gttf convert {table.file} OUT' takes words, if memory holds "
                table.refuse_ids(integers, "edges", rule, f"{cure}all edges")


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
    adj, lines = reading.read(args, "graph", direction=args.direction)
    with reading.called(args, "out"):
        if folder:
            adj.save(out, overwrite=args.force)
        else:
            write_graph(out, adj)
    return [*lines, f"{adj}", f"wrote {args.out}"]


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
    reading.add_arguments(parser)


def run_info(args: argparse.Namespace) -> list[str]:
    """Versions, backend and hosts, or the facts of a file; returns lines to print."""
    found = _of_file(args) if args.graph else machine.describe()
    if args.json:
        return json.dumps(found, indent=1).splitlines()
    heading = found.pop("heading", None)
    lines = [reading.line(name, value) for name, value in found.items()]
    if heading:
        lines.insert(0, f"heading: {heading}")
    if args.graph is None:
        lines += [reading.line(name, f"needs {host}") for name, host in unavailable()]
    return lines


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
    adj, found = _read(args)
    degree = adj.degree.sort().values
    places = [round(share * (degree.numel() - 1)) for share in (0.25, 0.5, 0.75)]
    quartiles = degree[places].tolist() if degree.numel() else []
    named = torch.bincount(adj.col, minlength=adj.num_rows)[: adj.num_rows]
    without = int(((adj.degree == 0) & (named == 0)).sum())
    facts = {**found, **facts_of_graph(adj), **_values(adj)}
    return {**facts, "quartiles": quartiles, "isolated": without, "graph": repr(adj)}


def _read(args: argparse.Namespace) -> tuple[CompactAdj, dict[str, Any]]:
    """A graph, its heading, and a third column that cannot be weights."""
    if not is_table(args.graph):
        return reading.read(args, "graph")[0], {}
    edges, found = reading.table(args, "graph"), dict[str, Any]()
    if edges.columns:
        found["heading"] = reading.heading(edges.columns).removeprefix("heading: ")
    if edges.weight is not None and args.columns is None:
        low, high = edges.weight.aminmax()
        if low < 0:
            found["no weights"] = f"{low:g} … {high:g}, as some are negative"
            edges = edges._replace(weight=None)
    return CompactAdj.from_edges(edges), found


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


SAVED_BY_TORCH = (".pt", ".pth")


def add_partition(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `gttf partition`."""
    add = parser.add_argument
    kinds = "edge list, .parquet, .npz, CompactAdj directory, one cut into 1 part"
    add("graph", help=f"{kinds}, or a PyG Data or HeteroData in a .pt file")
    add("out", help="directory to write")
    add("--parts", type=int, required=True, help="how many parts, one per process")
    words = "range, hash, metis, or a file: .npy with the part of every node, .npz with"
    add("--method", default="range", help=f"{words} such an array per node type")
    words = "values per node in .npy files; TYPE.NAME=FILE if there are node types"
    add("--features", nargs="+", default=[], metavar="NAME=FILE", help=words)
    words = "of a .pt file, an edge attribute to draw by; any name takes the third "
    words += "column of an edge list, or the column 'weight' of .parquet"
    add("--weight-attr", metavar="NAME", help=words)
    words = "of a .pt file, an attribute of nodes or edges that is their time; any name"
    words += " takes the column 'time' of an edge list or .parquet"
    add("--time-attr", metavar="NAME", help=words)
    add("--replicate", type=float, default=0.0, metavar="SHARE")
    words = "store floats of features in fewer bytes: float16, bfloat16, int8"
    add("--stored", metavar="DTYPE", help=words)
    add("--force", action="store_true", help="replace another partitioned graph")
    reading.add_arguments(parser)
    parser.description = (
        f"{parser.description} --replicate 0.01 gives every part the rows of the 1% of "
        "nodes that most edges lead to."
    )


def run_partition(args: argparse.Namespace) -> list[str]:
    """Cuts and writes; returns the lines to print."""
    if os.path.exists(args.out) and os.path.samefile(args.graph, args.out):
        rule = "must not be the graph that is cut"
        _check.fail("out", rule, repr(args.out), "name another directory")
    graph, features, lines = read(args)
    features.update(_features(args.features))
    method = args.method if args.method in METHODS else _given(args.method)
    with reading.progress() as report:
        facts = partition(
            graph,
            args.out,
            args.parts,
            method=method,
            features=features,
            replicate=args.replicate,
            stored=args.stored,
            overwrite=args.force,
            report=report,
        )
    return [*lines, *describe(facts), f"wrote {args.out}"]


def describe(facts: dict[str, Any]) -> list[str]:
    """Formats the facts of a partitioned graph, line by line."""
    shown = {
        "parts": f"{facts['parts']} by {facts['method']}",
        "nodes": " + ".join(f"{count:,}" for count in facts["nodes"]),
        "edges": " + ".join(f"{count:,}" for count in facts["edges"]),
        "balance": f"{facts['balance']:.3f} (largest part over the mean, in edges)",
        "edge cut": f"{facts['cut']:.1%} of the edges lead to another part",
        "replicated": f"{facts['replicated']:,} nodes",
        "features": ", ".join(facts["features"]) or "none",
    }
    return [reading.line(name, value) for name, value in shown.items()]


def read(args: argparse.Namespace) -> tuple[Any, dict[Any, Any], list[str]]:
    """A graph, by edge types if it has any, its features, and lines to print."""
    path, weight, time = args.graph, args.weight_attr, args.time_attr
    if Path(path).suffix in SAVED_BY_TORCH:
        whole = _saved_by(path)(path, weight, time)
        left_out = ", ".join(whole.left_out)
        lines = [reading.line("left out", left_out)] if left_out else []
        return whole.graph, whole.features, lines
    if is_table(path):
        return _of_table(args)
    for name, value in (("--weight-attr", weight), ("--time-attr", time)):
        if value is not None:
            rule = "must be left out where GRAPH is .npz or a directory, which keep "
            _check.fail(name, f"{rule}theirs", path)
    if not WHOLE.is_in(Path(path)):
        if os.path.isdir(path):
            return CompactAdj.open(path, verify=False), {}, []
        return reading.read(args, "graph")[0], {}, []
    part = open_part(path, 0)
    if part.header["parts"] != 1:
        rule = "must be whole, or cut into 1 part"
        _check.fail("graph", rule, f"{part.header['parts']} parts in {path}")
    names = {kind: unpacked(dict(own)) for kind, own in part.names.items()}
    adjs = {}
    for kind, rows in part.relations.items():
        how: dict[str, Any] = {**rows.adj.arrays(), "edge_id": rows.edge_id}
        how |= {"num_cols": rows.adj.num_cols, "direction": rows.adj.direction}
        adj = CompactAdj(**how, node_id=names[kind[2]])
        adjs[kind] = adj.validate()
    graph = adjs[ONLY] if list(adjs) == [ONLY] else adjs
    return graph, dict(part.features), []


def _saved_by(path: str) -> Callable[[str, str | None, str | None], Any]:
    """The function of the first host that reads what `torch.save` has written."""
    missing = machine.Missing()
    for host in hosts(missing):
        if host.saved is not None:
            return host.saved
    why = "; ".join(each["why"] for each in missing) or "others"
    _check.fail("graph", f"needs a host that reads {Path(path).suffix}", why)


def _of_table(args: argparse.Namespace) -> tuple[CompactAdj, dict[Any, Any], list[str]]:
    """The graph of a table, with the weights and times that are asked for."""
    asked = {
        "weight": ("--weight-attr", args.weight_attr, "third column of numbers"),
        "time": ("--time-attr", args.time_attr, "column of numbers called 'time'"),
    }
    named = dict(zip(("weight", "time"), (args.columns or [])[2:], strict=False))
    wanted = {role for role, (_, value, _) in asked.items() if value} | set(named)
    edges = reading.table(args, "graph", values=bool(wanted))
    for role in wanted - set(named):
        option, _, what = asked[role]
        if getattr(edges, role) is None:
            rule = f"must be left out where edges have no {what}"
            _check.fail(option, rule, args.graph)
    unasked: dict[str, Any] = dict.fromkeys(set(asked) - wanted)
    edges = edges._replace(**unasked)
    options = sorted(asked[role][0] for role in unasked)
    left = [f"{option} NAME takes its column" for option in options]
    with reading.called(args, "graph"):
        adj = CompactAdj.from_edges(edges)
    return adj, {}, reading.read_as(edges, ", ".join(left))


def _features(named: list[str]) -> dict[Any, Any]:
    """The files of `--features`, mapped into memory."""
    found: dict[Any, Any] = {}
    for text in named:
        name, sign, file = text.partition("=")
        if not (name and sign and file):
            _check.fail("--features", "must read NAME=FILE", repr(text))
        kind, dot, own = name.rpartition(".")
        found[kind, own if dot else name] = reading.array("--features", file)
    return found


def _given(file: str) -> Any:
    """The part of every node, per node type if it is an .npz file."""
    what = f"one of {', '.join(METHODS)}, or a file that is there"
    reading.must_exist("--method", [file], what)
    if Path(file).suffix != ".npz":
        return reading.array("--method", file)
    with np.load(file) as arrays:
        return {name: arrays[name] for name in arrays.files}
