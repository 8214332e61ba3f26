"""`gttf build`: the rows of a graph, from more edges than memory holds."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gttf_sampler import CompactAdj, _check
from gttf_sampler.cli.progress import progress
from gttf_sampler.graph.compact import DIRECTIONS

PIECE = 1 << 22  # edges that are read at a time


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What can be said on the command line."""
    add = parser.add_argument
    what = ".npy with edges [2, m] or [m, 2], or lines 'source target' of integers"
    add("edges", nargs="+", help=f"{what}; several are one graph")
    add("out", help="directory to write, for CompactAdj.open")
    add("--nodes", type=int, help="how many there are; by default the largest id + 1")
    add("--direction", choices=DIRECTIONS, default="in", help="whose rows (in)")
    add("--both", action="store_true", help="add the reverse of every edge")
    add("--no-ids", action="store_true", help="do not keep the positions of edges")
    add("--memory", type=float, metavar="GB", help="for sorting (2)")
    add("--tmp", help="where edges wait meanwhile (beside the result)")
    add("--force", action="store_true", help="write beside other files")


def run(args: argparse.Namespace) -> list[str]:
    """Builds; returns what to tell."""
    for name in args.edges:
        if not Path(name).is_file():
            _check.fail("edges", "must be files that are there", repr(name))
    memory = None if args.memory is None else round(args.memory * 1e9)
    with progress(unit="edges") as report:
        adj = CompactAdj.from_chunks(
            *(Files(args.edges, args.both), args.out, args.nodes),
            direction=args.direction,
            edge_ids=not args.no_ids,
            overwrite=args.force,
            memory=memory,
            tmp=args.tmp,
            report=report,
        )
    return [repr(adj), f"wrote {args.out}"]


class Files:
    """The edges of some files, chunk by chunk, as often as somebody asks.

    With `both`, the reverses of a chunk follow it.
    """

    def __init__(self, names: list[str], both: bool) -> None:
        self.names, self.both = names, both

    def __iter__(self) -> Iterator[Any]:
        for name in self.names:
            chunks = _of_npy(name) if name.endswith(".npy") else _of_text(name)
            for chunk in chunks:
                yield chunk
                if self.both:
                    yield chunk[::-1].copy()


def _of_npy(name: str) -> Iterator[Any]:
    """Edges of an array, which stays on disk."""
    edges = np.load(name, mmap_mode="r", allow_pickle=False)
    if edges.ndim != 2 or 2 not in edges.shape:
        rule = "must have shape [2, m] or [m, 2]"
        _check.fail(name, rule, list(edges.shape))
    if edges.shape[0] != 2:
        edges = edges.T
    for start in range(0, edges.shape[1], PIECE):
        yield np.array(edges[:, start : start + PIECE])


def _of_text(name: str) -> Iterator[Any]:
    """Edges of lines, of which some are in memory at a time."""
    with open(name, encoding="utf-8-sig") as lines:
        plain = (line for line in lines if line.strip() and line[0] not in "#%")
        while True:
            some = [line for line, _ in zip(plain, range(PIECE), strict=False)]
            if not some:
                return
            try:
                words = [line.replace(",", " ").split()[:2] for line in some]
                yield np.array(words, np.int64).T.copy()
            except ValueError:
                rule = "must have two integers in every line"
                _check.fail(name, rule, "another line", "see read_edge_list for words")
