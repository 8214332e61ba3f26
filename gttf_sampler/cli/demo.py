"""`gttf demo`: the idea on the graph of the paper's Figure 1, in a second."""

import argparse
from importlib.util import find_spec
from pathlib import Path

from gttf_sampler import CompactAdj, _check, _files, sample_rooted, traverse

EDGES = [[0, 1, 1, 1, 1, 2, 3, 3, 4, 4], [1, 0, 2, 3, 4, 1, 1, 4, 1, 3]]
PICTURE = "0 ─── 1 ─── 2", "     ╱ ╲", "    3 ─ 4"
FIGURE_1 = 21874  # the key that draws the forest of the figure


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments to its parser."""
    add = parser.add_argument
    add("--seeds", type=int, nargs="+", default=[4, 0], help="nodes to start from")
    add("--fanouts", type=int, nargs="+", default=[2, 2], help="walkers per walker")
    add("--seed", type=int, default=FIGURE_1, help="of the draws")
    add("--plot", metavar="FILE", help="draw the forest as well")
    add("--force", action="store_true", help="overwrite the plot if it is there")


def run(args: argparse.Namespace) -> list[str]:
    """The lines to print."""
    if args.plot:
        _files.check_free("--plot", args.plot, args.force)
    adj = CompactAdj.from_edge_index(EDGES)
    forest = traverse(adj, args.seeds, args.fanouts, generator=args.seed)
    sub = sample_rooted(adj, args.seeds, args.fanouts, generator=args.seed)
    if args.plot:
        if find_spec("matplotlib") is None:
            cure = "install it with: pip install matplotlib"
            _check.fail("--plot", "needs matplotlib", "none", cure)
        with _files.replacing(args.plot) as (file,):
            kind = Path(args.plot).suffix[1:] or "png"
            forest.draw().savefig(file, dpi=150, format=kind)
    return [
        *(f"  {line}" for line in PICTURE),
        "",
        f"Every walker splits: seeds {args.seeds}, fanouts {args.fanouts}.",
        *(f"  {line}" for line in forest.text().splitlines()),
        "",
        "A walk through it is a sentence for word2vec:",
        f"  {forest.path(forest.depth)[0].tolist()}",
        "Every node expanded once, it is a mini-batch for a GNN:",
        f"  {sub}",
    ]
