"""Rows from a stream of edges that memory need not hold: seconds, memory and disk.

    python -m examples.bench.chunks --scale 1 --tmp DIR

At scale 1 it is a graph of papers100M's size: 1.6 billion edges, twenty minutes. A
hundredth by default.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from examples.bench.tables import show
from gttf_sampler import CompactAdj
from gttf_sampler.bench import graphs
from gttf_sampler.bench.machine import private


def edges_of(law):
    """Edges [2, k], from neighbours (which are anywhere) to the nodes of a piece."""
    for piece, neighbors in zip(law.pieces(), law.col(), strict=True):
        degree = law.degrees(piece)
        first = piece * law.step
        row = np.repeat(np.arange(first, first + degree.size), degree)
        yield np.stack([neighbors, row])


def main(args):
    size = graphs.scaled("papers-like", args.scale)
    law, peak = graphs.Law(size.nodes, size.edges, 0), 0

    def tick(what, more):
        nonlocal peak
        peak = max(peak, private())

    with tempfile.TemporaryDirectory(dir=args.tmp) as folder:
        graphs.check_room(folder, size.nodes, 3 * size.edges)  # rows, twice as much
        start = time.perf_counter()
        how = {"direction": "out", "edge_ids": False, "report": tick}
        how["memory"] = round(args.memory * 1e9)
        adj = CompactAdj.from_chunks(
            edges_of(law), Path(folder, "rows"), size.nodes, **how
        )
        took, total = time.perf_counter() - start, law.count()
        differs = None if adj.num_edges == total else "some edges are missing"
        row = {"peer": "gttf CompactAdj.from_chunks", "edges": total, "best": took}
        row |= {"rate": total / took / 1e6, "peak": peak, "MB": adj.nbytes}
        title = f"{total:,} edges of {size.nodes:,} nodes to rows, from a stream"
        group = {"title": title, "rows": [{**row, "differs": differs}]}
        show("chunks", [group], [], args)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--scale", type=float, default=0.01)
    add("--memory", type=float, default=2.0, help="GB to sort in")
    add("--tmp", default=None, help="where rows are made")
    add("--json", help="numbers as JSON")
    main(parser.parse_args())
