"""`gttf info`: versions, backend and hosts; or the facts of a graph or of features."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch

from gttf_sampler import FeatureFile
from gttf_sampler.bench import inputs, machine, peers
from gttf_sampler.cli.features import describe
from gttf_sampler.distributed import layout
from gttf_sampler.distributed.partition import facts_of
from gttf_sampler.features.layout import is_features
from gttf_sampler.graph.asked import read_asked


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What can be said on the command line."""
    add = parser.add_argument
    add(
        "graph",
        nargs="?",
        help="edge list, .parquet, .npz, CompactAdj or partitioned directory, features",
    )
    add("--json", action="store_true", help="print JSON")
    what = "compile the GPU kernels for sm_80 and sm_90 and print what they take"
    add("--kernels", action="store_true", help=what)


def run(args: argparse.Namespace) -> list[str] | int:
    """The lines to print."""
    if args.kernels:
        return _kernels()
    try:
        found = _of_graph(args.graph) if args.graph else machine.describe()
    except (ValueError, TypeError, OSError) as error:
        sys.stderr.write(f"gttf info: {args.graph}: {error}\n")
        return 2
    if args.json:
        return json.dumps(found, indent=1).splitlines()
    lines = [f"{name:14s}{_readable(value)}" for name, value in found.items()]
    if args.graph is None:
        lines += [f"{'':14s}{peer['peer']}: {peer['why']}" for peer in _absent()]
    return lines


def _kernels() -> list[str] | int:
    """The table of the GPU kernels, which takes a minute or two."""
    try:
        from gttf_sampler._backends.triton_report import report

        return report().splitlines()
    except (ImportError, ValueError) as error:
        sys.stderr.write(f"gttf info --kernels: {error}\n")
        return 2


def _absent() -> peers.Missing:
    """The hosts that are not there, and what is not to be had without them."""
    absent = peers.Missing()
    for module, what in (("torch_geometric", "gttf_pyg"), ("dgl", "gttf_dgl")):
        if peers.version(module) is None:
            absent.add(what, f"needs {peers.PACKAGES[module]}")
    return absent


def _of_graph(path: str) -> dict[str, Any]:
    """The facts of a graph, with the quartiles of its degrees."""
    if is_features(path):
        return describe(FeatureFile(path))
    if layout.is_partitioned(path):
        return facts_of(layout.read_header(Path(path), layout.WHOLE))
    adj = read_asked(path)
    degree = adj.degree.sort().values
    places = [round(share * (degree.numel() - 1)) for share in (0.25, 0.5, 0.75)]
    quartiles = degree[places].tolist() if degree.numel() else []
    named = torch.bincount(adj.col, minlength=adj.num_rows)[: adj.num_rows]
    without = int(((adj.degree == 0) & (named == 0)).sum())
    facts = inputs.facts(adj)
    return {**facts, "quartiles": quartiles, "isolated": without, "graph": repr(adj)}


def _readable(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {version}" for name, version in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)
