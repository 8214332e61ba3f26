"""`gttf partition`: a graph and its features, cut into parts for several processes."""

import argparse
import os
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from gttf_sampler import CompactAdj, _check
from gttf_sampler.cli import reading
from gttf_sampler.distributed import partition
from gttf_sampler.distributed.book import METHODS
from gttf_sampler.distributed.part import ONLY, WHOLE, open_part
from gttf_sampler.graph.exchange import unpacked
from gttf_sampler.graph.io import is_table, read_table

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
    graph, features, told = read(args)
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
    return [*told, *describe(facts), f"wrote {args.out}"]


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
    """A graph, by edge types if it has any, its features, and what to tell of both."""
    path, weight, time = args.graph, args.weight_attr, args.time_attr
    if Path(path).suffix in SAVED_BY_TORCH:
        host = import_module("gttf_pyg.partition")
        graph, features, left_out = host.whole_of(host.load(path), weight, time)
        told = [f"{'left out':14s}{', '.join(left_out)}"] if left_out else []
        return graph, features, told
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
    names = {kind: unpacked(dict(told)) for kind, told in part.names.items()}
    adjs = {}
    for kind, rows in part.relations.items():
        how: dict[str, Any] = {**rows.adj.arrays(), "edge_id": rows.edge_id}
        how |= {"num_cols": rows.adj.num_cols, "direction": rows.adj.direction}
        adj = CompactAdj(**how, node_id=names[kind[2]])
        adjs[kind] = adj.validate()
    graph = adjs[ONLY] if list(adjs) == [ONLY] else adjs
    return graph, dict(part.features), []


def _of_table(args: argparse.Namespace) -> tuple[CompactAdj, dict[Any, Any], list[str]]:
    """The graph of a table, with the weights and times that are asked for."""
    asked = {
        "weight": ("--weight-attr", args.weight_attr, "third column of numbers"),
        "time": ("--time-attr", args.time_attr, "column of numbers called 'time'"),
    }
    named = dict(zip(("weight", "time"), (args.columns or [])[2:], strict=False))
    wanted = {role for role, (_, value, _) in asked.items() if value} | set(named)
    with reading.called(args, "graph"):
        table = Path(args.graph), reading.asked(args)
        edges = read_table(*table, values=bool(wanted))
        for role in wanted - set(named):
            option, _, what = asked[role]
            if getattr(edges, role) is None:
                rule = f"must be left out where edges have no {what}"
                _check.fail(option, rule, args.graph)
        edges = edges._replace(
            weight=edges.weight if "weight" in wanted else None,
            time=edges.time if "time" in wanted else None,
        )
        left = [asked[role][0] for role in set(asked) - wanted]
        left = [f"{option} NAME takes its column" for option in sorted(left)]
        told = reading.told(edges, ", ".join(left))
        return CompactAdj.from_edges(edges), {}, told


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
