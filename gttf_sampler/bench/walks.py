"""`gttf bench walks`: uniform and node2vec walks along the rows of a graph."""

from typing import Any

from gttf_sampler import CompactAdj, Node2VecBias, traverse
from gttf_sampler.bench.hosts import hosts
from gttf_sampler.bench.machine import Missing
from gttf_sampler.bench.measure import Group, Peer, Work, compare, draw_seeds, each
from gttf_sampler.bench.options import Options
from gttf_sampler.bench.process import Report

LAWS = {"uniform": (1.0, 1.0), "node2vec": (0.5, 2.0)}  # p and q


def run(graph: str, options: dict[str, Any], report: Report) -> dict[str, Any]:
    """The job: the same walks by everyone."""
    asked, missing = Options(**options), Missing()
    stored = CompactAdj.open(graph, mmap=False)
    adj = CompactAdj(stored.rowptr, stored.col, stored.num_cols, "out")
    seeds = draw_seeds(adj.num_rows, asked.batches, asked.batch, asked.seed)
    present, groups = hosts(missing), list[Group]()
    for name, (p, q) in LAWS.items():
        law = "" if p == q == 1.0 else f", p = {p:g}, q = {q:g}"
        title = f"{name} walks of {asked.length} steps{law}"
        found = {"gttf": walker(adj, asked.length, p, q)}
        for host in present:
            found |= host.walkers(adj, asked.length, (p, q), missing)
        group = compare(title, found, seeds, asked.rounds, report)
        for row in group["rows"]:
            row["rate"] = row["edges"] / row["best"] / 1e3
        groups.append(group)
    return {"groups": groups, "left_out": missing}


def walker(adj: CompactAdj, length: int, p: float, q: float) -> Peer:
    """Our walks; node2vec's where p or q is not 1."""
    bias = None if p == q == 1.0 else Node2VecBias(p, q)
    return Peer(each(lambda seeds: traverse(adj, seeds, [1] * length, bias)), of_forest)


def of_forest(made: Any) -> Work:
    """The steps that were taken, and the walks."""
    taken = sum(int((level >= 0).sum()) for level in made.edges[1:])
    return Work(taken, made.nodes[0].numel())
