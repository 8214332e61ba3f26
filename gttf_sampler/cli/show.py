"""`gttf show` and `demo`: a sample or a forest as text, as a figure or as a page."""

import argparse
from pathlib import Path

import torch

from gttf_sampler import CompactAdj, Subgraph, _check, _files, sample_rooted, traverse
from gttf_sampler.cli import reading
from gttf_sampler.graph.exchange import places
from gttf_sampler.plot.subgraph import short

PAGES = (".html", ".htm")
PICTURES = (".png", ".svg", ".pdf")
MOST = 12  # names in a line
EDGES = [[0, 1, 1, 1, 1, 2, 3, 3, 4, 4], [1, 0, 2, 3, 4, 1, 1, 4, 1, 3]]
PICTURE = "0 ─── 1 ─── 2", "     ╱ ╲", "    3 ─ 4"
FIGURE_1 = 21874  # the key that draws the forest of the figure


def add_show(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `gttf show`."""
    add = parser.add_argument
    add("graph", help=reading.KINDS)
    add("--seed", nargs="+", required=True, metavar="ID", help="nodes to start from")
    add("--fanouts", type=int, nargs="+", default=[5, 5], help="neighbours per hop")
    add("--out", metavar="FILE", help=f"write {', '.join((*PAGES[:1], *PICTURES))}")
    what = "in: who sends to a node; out: whom it sends to; both"
    add("--direction", choices=("in", "out", "both"), default="in", help=what)
    add("--key", type=int, default=0, help="of the draws: another one, another sample")
    add("--force", action="store_true", help="overwrite the file if it is there")
    reading.add_arguments(parser)


def run_show(args: argparse.Namespace) -> list[str]:
    """Samples and draws; returns the lines to print."""
    out = None if args.out is None else Path(args.out)
    if out is not None:
        if out.suffix not in (*PAGES, *PICTURES):
            rule = f"must end in one of {', '.join((*PAGES, *PICTURES))}"
            _check.fail("--out", rule, repr(out.name))
        _files.check_free("--out", out, args.force)
    adj, told = _rows(args)
    seeds = places("--seed", args.seed, adj.node_id, adj.num_rows)
    sub = sample_rooted(adj, seeds, args.fanouts, generator=args.key)
    lines = [*told, f"{sub}", *_hops(sub, adj), *_hint(args, adj, seeds)]
    if out is None:
        return [*lines, "--out FILE.html or FILE.png draws it"]
    if out.suffix in PAGES:
        fanouts = " ".join(map(str, args.fanouts))
        title = f"{', '.join(args.seed[:3])} · fanouts {fanouts}"
        content = sub.html(adj, title).encode()
        with _files.replacing(out) as (file,):
            file.write(content)
    else:
        figure = sub.draw(adj)
        with _files.replacing(out) as (file,):
            figure.savefig(file, dpi=150, format=out.suffix[1:])
    return [*lines, f"wrote {out}"]


def _rows(args: argparse.Namespace) -> tuple[CompactAdj, list[str]]:
    """The rows that are walked along, both ways if that is asked for; what was read."""
    both = args.direction == "both"
    direction = "in" if both else args.direction
    adj, told = reading.read(args, "graph", direction=direction)
    if not both and adj.direction == direction:
        return adj, told
    ends = adj.to_edge_index()
    weight, time = (
        None if x is None else adj.in_caller_order(x).repeat(1 + both)
        for x in (adj.edge_weight, adj.edge_time)
    )
    if both:
        ends = torch.cat([ends, ends.flip(0)], dim=1)
    rows = CompactAdj.from_edge_index(
        ends, adj.num_rows, direction=direction, edge_weight=weight, edge_time=time
    )
    return rows.named(adj.node_id), told


def _hint(args: argparse.Namespace, adj: CompactAdj, seeds: list[int]) -> list[str]:
    """Says why there are no hops, where seeds have no edges in this direction."""
    named = zip(args.seed, seeds, strict=True)
    alone = [name for name, seed in named if not int(adj.degree[seed])]
    if not alone:
        return []
    verb = "has" if len(alone) == 1 else "have"
    which = {"in": "in-edges", "out": "out-edges", "both": "edges"}[args.direction]
    other = {"in": "out", "out": "in"}.get(args.direction)
    cure = f"; try --direction {other} or both" if other else ""
    return [f"{', '.join(map(short, alone))} {verb} no {which}{cure}"]


def _hops(sub: Subgraph, adj: CompactAdj) -> list[str]:
    """The nodes of every hop, by name."""
    lines, start = [], 0
    for hop, count in enumerate(sub.num_sampled_nodes or []):
        ids = sub.node[start : start + count].tolist()
        start += count
        names = [short(str(i if adj.node_id is None else adj.node_id[i])) for i in ids]
        more = f", … (+{len(names) - MOST})" if len(names) > MOST else ""
        title = "seeds" if hop == 0 else f"hop {hop}"
        lines.append(f"{title:7s}{', '.join(names[:MOST])}{more}")
    return lines


def add_demo(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `gttf demo`."""
    add = parser.add_argument
    add("--seeds", type=int, nargs="+", default=[4, 0], help="nodes to start from")
    add("--fanouts", type=int, nargs="+", default=[2, 2], help="walkers per walker")
    add("--seed", type=int, default=FIGURE_1, help="of the draws")
    add("--plot", metavar="FILE", help="draw the forest as well")
    add("--force", action="store_true", help="overwrite the plot if it is there")


def run_demo(args: argparse.Namespace) -> list[str]:
    """Walks on the graph of the paper's Figure 1; returns the lines to print."""
    if args.plot:
        reading.check_plot(args)
    adj = CompactAdj.from_edge_index(EDGES)
    forest = traverse(adj, args.seeds, args.fanouts, generator=args.seed)
    sub = sample_rooted(adj, args.seeds, args.fanouts, generator=args.seed)
    if args.plot:
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
