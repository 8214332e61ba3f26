"""`gttf build`: the rows of a graph, from more edges than memory holds."""

import argparse
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from gttf_sampler import CompactAdj, _check
from gttf_sampler.cli import reading
from gttf_sampler.cli.progress import progress
from gttf_sampler.graph.cells import OtherCellError, integers
from gttf_sampler.graph.compact import DIRECTIONS
from gttf_sampler.graph.edgelist import BLOCK, TextTable

PIECE = 1 << 22  # edges that are read at a time


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments to its parser."""
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


def run(args: argparse.Namespace) -> list[str]:
    """Builds; returns what to tell."""
    for name in args.edges:
        if not Path(name).is_file():
            _check.fail("edges", "must be files that are there", repr(name))
    memory = None if args.memory is None else round(args.memory * 1e9)
    files = Files(args)
    with progress(unit="edges") as report, reading.called(args, "out"):
        adj = CompactAdj.from_chunks(
            *(files, args.out, args.nodes),
            direction=args.direction,
            edge_ids=not args.no_ids,
            overwrite=args.force,
            memory=memory,
            tmp=args.tmp,
            report=report,
        )
    return [*files.told(), repr(adj), f"wrote {args.out}"]


class Files:
    """The edges of some files, chunk by chunk, as often as somebody asks.

    With `--both`, the reverses of a chunk follow it. Weights and times are kept where
    a heading or `--columns` names them.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.tables = args, {}
        with reading.called(args, "edges"):
            for name in args.edges:
                if not name.endswith(".npy"):
                    table = TextTable(Path(name), reading.asked(args), guess=False)
                    self.tables[name] = table

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

    def told(self) -> list[str]:
        """The headings that were read."""
        found = (table.names() for table in self.tables.values())
        return [reading.heading(columns) for columns in found if columns]


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
