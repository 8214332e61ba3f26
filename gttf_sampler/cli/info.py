"""`gttf info`: versions, backend and hosts; or the facts of a graph or of features."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch

from gttf_sampler import CompactAdj, FeatureFile, _check
from gttf_sampler.backend import no_triton
from gttf_sampler.bench import machine
from gttf_sampler.bench.graphs import facts as facts_of_graph
from gttf_sampler.bench.hosts import unavailable
from gttf_sampler.cli import reading
from gttf_sampler.cli.features import describe
from gttf_sampler.distributed import layout
from gttf_sampler.distributed.partition import facts_of
from gttf_sampler.features.layout import is_features
from gttf_sampler.graph.files import is_table, read_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds everything that `gttf info` takes."""
    add = parser.add_argument
    add(
        "graph",
        nargs="?",
        help="edge list, .parquet, .npz, CompactAdj or partitioned directory, features",
    )
    add("--json", action="store_true", help="print JSON")
    what = "compile the GPU kernels for sm_80 and sm_90 and print what they take"
    add("--kernels", action="store_true", help=what)
    reading.add_arguments(parser)


def run(args: argparse.Namespace) -> list[str] | int:
    """The lines to print."""
    if args.kernels:
        return _kernels()
    try:
        found = _of_graph(args) if args.graph else machine.describe()
    except (ValueError, TypeError, OSError) as error:
        sys.stderr.write(f"gttf info: {error}\n")
        return 2
    if args.json:
        return json.dumps(found, indent=1).splitlines()
    heading = found.pop("heading", None)
    lines = [f"{name:14s}{_readable(value)}" for name, value in found.items()]
    if heading:
        lines.insert(0, f"heading: {heading}")
    if args.graph is None:
        lines += [f"{'':14s}{adapter}: needs {host}" for adapter, host in unavailable()]
    return lines


def _kernels() -> list[str] | int:
    """The table of the GPU kernels, which takes a minute or two."""
    try:
        if why := no_triton():
            raise ImportError(why)
        from gttf_sampler._backends.triton_report import report

        return report().splitlines()
    except (ImportError, ValueError) as error:
        sys.stderr.write(f"gttf info --kernels: {error}\n")
        return 2


def _of_graph(args: argparse.Namespace) -> dict[str, Any]:
    """The facts of a graph, with the quartiles of its degrees."""
    path = args.graph
    if is_features(path):
        return describe(FeatureFile(path))
    if layout.is_partitioned(path):
        return facts_of(layout.read_header(Path(path), layout.WHOLE))
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
        return reading.read(args, args.graph, "graph")[0], {}
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
    found = {"weights": adj.edge_weight, "times": adj.edge_time}
    shown = {}
    for name, values in found.items():
        if values is None:
            shown[name] = "none"
        elif values.numel():
            low, high = (bound.item() for bound in values.aminmax())
            if low != low:
                _check.fail("graph", f"must have {name} without NaN", "NaN")
            shown[name] = f"{low} … {high}"
    return shown


def _readable(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {version}" for name, version in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)
