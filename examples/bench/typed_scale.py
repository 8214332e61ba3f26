"""A batch from typed graphs of all sizes, with times or without: ms against edges.

    python -m examples.bench.typed_scale --mode temporal --scale 1

The database of `gttf bench modes` in memory, from 100,000 edges to 100 million at scale
1, for which 4 GB are enough; seeds are users. Two minutes at the default scale of 0.1.
"""

import argparse

from examples.bench.tables import show
from gttf_sampler import TemporalBias, sample_rooted
from gttf_sampler.bench import graphs
from gttf_sampler.bench.machine import private
from gttf_sampler.bench.measure import Options
from gttf_sampler.bench.memory import row_of

SMALLEST, LARGEST = 10**5, 10**8


def steps(scale):
    """The numbers of edges, each ten times the one before."""
    found = [round(LARGEST * scale)]
    while found[-1] / 10 >= SMALLEST:
        found.append(found[-1] // 10)
    return found[::-1]


def measured(edges, timed, options, report=lambda what, share: None):
    """The row of one size."""
    before = private()
    made = graphs.database(edges / graphs.EDGES, options.seed)
    adjs, users = made.rows(timed), made.nodes["user"]
    nodes = sum(made.nodes.values())
    del made
    times = graphs.seed_times((min(options.batch, users),), options.seed)
    bias = {k: TemporalBias(times) for k, a in adjs.items() if a.edge_time is not None}

    def sample(some):
        return sample_rooted(adjs, {"user": some}, options.fanouts, bias=bias)

    row = row_of(sample, options, list(adjs.values()), users, report)
    return {**row, "nodes": nodes, "private": private() - before}


def main(args):
    options = Options(batch=args.batch, batches=args.batches, rounds=args.rounds)
    timed = args.mode == "temporal"
    rows = [measured(edges, timed, options) for edges in steps(args.scale)]
    late = ", none later than its seed" if timed else ""
    title = f"{args.batch:,} seeds, fanouts {options.fanouts}, 12 relations{late}"
    show("scale", [{"title": title, "rows": rows}], [], args)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--mode", default="typed", choices=["typed", "temporal"])
    add("--scale", type=float, default=0.1)
    add("--batch", type=int, default=1024)
    add("--batches", type=int, default=20)
    add("--rounds", type=int, default=5)
    add("--json", help="numbers as JSON")
    main(parser.parse_args())
