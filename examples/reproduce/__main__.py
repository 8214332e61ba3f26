"""Trains every method of the paper with GTTF and without, on PyG and on DGL.

By default on a planted partition that is made here, in some minutes, to see that all
runs; `--root DIR` takes Cora, CiteSeer and PubMed from the folder of PyG's `Planetoid`,
and `--edges DIR` edge lists for embeddings (some hours in all). Larger datasets are run
when they are named: `--list` shows every cell of the paper. Stop it whenever you like:
it goes on where it was. What it finds is in `--results`, one JSON file per cell of the
table, beside a chart.
"""

import argparse
import os
import warnings
from pathlib import Path

from examples.reproduce.config import CITATIONS, EDGE_LISTS, HOSTS, WAYS
from examples.reproduce.datasets.catalog import is_there

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # steady times on a busy machine


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.reproduce", description=__doc__.splitlines()[0]
    )
    add = parser.add_argument
    add("--list", action="store_true", help="every cell of the paper, and what to do")
    add("--root", help="the folder of datasets, each as PyG or OGB lays it out")
    add("--edges", help="the folder of edge lists, as ppi.edgelist")
    add("--only", nargs="+", default=[], help="cells or methods: gcn-cora, gcn")
    add("--hosts", nargs="+", default=HOSTS, choices=HOSTS)
    add("--ways", nargs="+", default=[], choices=WAYS)
    add(
        "--seeds", type=int, help="how many, 0, 1, …; those of the protocol if not said"
    )
    add("--epochs", type=int, help="another limit than the usual one")
    add("--results", default="reproduce-results", help="folder of what is found")
    return parser


def datasets_of(args: argparse.Namespace) -> list[str]:
    """The datasets of the cells that were named, or all that there is a folder for."""
    named = [cell.split("-")[1] for cell in args.only if "-" in cell]
    if named:
        return list(dict.fromkeys(named))
    asked = [*(CITATIONS if args.root else ()), *(EDGE_LISTS if args.edges else ())]
    there = [name for name in asked if is_there(name, args.root, args.edges)]
    return there or asked[:1] or ["planted"]


def main() -> None:
    parser = arguments()
    args = parser.parse_args()
    if args.list:
        from examples.reproduce import listing

        print(listing.text(listing.lines(args.root, args.edges)))
        return
    # Advice of the hosts that does not concern runs on one thread.
    warnings.filterwarnings("ignore", "Dataloader CPU affinity")
    warnings.filterwarnings("ignore", "Sparse invariant checks")

    from examples.reproduce import chart, pages, table
    from examples.reproduce.data import load
    from examples.reproduce.runner import run_all
    from examples.reproduce.store import Store
    from examples.reproduce.tasks import tasks

    datasets = datasets_of(args)
    try:
        chosen = tasks(datasets, args.only, args.hosts, args.ways, args.seeds)
        for name in datasets:
            load(name, args.root, args.edges)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    store = Store(args.results)
    run_all(chosen, store, args.root, args.edges, args.epochs)
    runs = store.all()
    print(table.text(runs))
    (Path(args.results) / "table.md").write_text(pages.comparison(runs), "utf-8")
    chart.draw(runs, Path(args.results) / "accuracy.png")


if __name__ == "__main__":
    main()
