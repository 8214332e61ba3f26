"""`gttf bench embedding`: epochs of embeddings, what they are worth, how they grow."""

from statistics import median
from typing import Any

import torch

from gttf_sampler import _check
from gttf_sampler.bench import embedders, planted, word2vecs
from gttf_sampler.bench.children import ChildError, Progress, RefusedError, run_job
from gttf_sampler.bench.in_processes import PACKAGE, add_ratio
from gttf_sampler.bench.learning import Setting, Subject
from gttf_sampler.bench.measure import Report
from gttf_sampler.bench.peak import PeakMemory
from gttf_sampler.bench.peers import Missing
from gttf_sampler.embedding import (
    DeepWalk,
    Epoch,
    LinkSplit,
    WatchYourStep,
    largest_component,
    mean_rank,
    split_links,
)
from gttf_sampler.graph.files import read_structure

SIZE = 128  # numbers of a vector
NODES, EDGES = 9_877, 51_946  # of the made graph: as many as ca-HepTh has
FEW = 300  # nodes to warm up with
RANKED = 1_000  # hidden edges whose rank is worked out
SLACK = 0.003  # of AUC, within which another one counts as reached
METHODS = {
    "Node2Vec": "PyG's Node2Vec: walks of 20, contexts of 10, 10 per node, batches 128",
    "DeepWalk": "DeepWalk: one walk of 10 steps, batches of 512",
    "Watch Your Step": "Watch Your Step: one walk of 10 steps, batches of 2048",
}
# of graphs of all sizes: the class, its shape and options, and those of `fit`
STEPS = 10
SMALL = 0.01  # first vectors, so that few steps are enough to forget them
SETTINGS: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any], dict[str, Any]]] = {
    "DeepWalk": (DeepWalk, (STEPS,), {}, {"lr": 0.05, "batch_size": 2048}),
    "Watch Your Step": (
        WatchYourStep,
        ((1,) * STEPS,),
        {"symmetric": True, "negative_weight": 0.15},
        {"lr": 0.1, "batch_size": 2048},
    ),
}
TRAINED = ("gttf WatchYourStep.fit", "gttf DeepWalk.fit", "gttf_pyg.Node2Vec.fit")


def everyone() -> dict[str, Subject]:
    """All who could take part, by name."""
    return {**embedders.subjects(), **word2vecs.subjects()}


def measure(
    graph: str | None, subject: str, rounds: int, seed: int, report: Report
) -> dict[str, Any]:
    """The job of one subject: all its epochs."""
    split = _split(graph, seed)
    report(f"training {subject}", 0.0)
    setting, train = Setting(split, SIZE, rounds, seed), everyone()[subject].train
    few = planted.planted(FEW, 10 * FEW, seed).adj.to_edge_index()
    train(setting._replace(split=split_links(few, FEW, generator=seed), epochs=1))
    epochs = train(setting)  # after what is compiled, or loaded, once
    return {"peer": subject, "epochs": [tuple(epoch) for epoch in epochs]}


def compare(options: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """A process per subject, a table per method, and one of all that were trained."""
    missing, found = Missing(), dict[str, dict[str, Any]]()
    chosen = everyone()
    wanted = {name: options[name] for name in ("graph", "rounds", "seed")}
    for name, subject in chosen.items():
        if all(missing.needs(package, name) for package in subject.needs):
            job = {"run": f"{PACKAGE}.task_embedding:measure", "subject": name}
            try:
                found[name] = _row(run_job({**job, **wanted}, progress))
            except ChildError as error:
                if name.startswith("gttf"):  # ours, which others are compared to
                    raise
                missing.add(name, str(error).splitlines()[-1])
    groups = []
    for method, title in METHODS.items():
        rows = [row for name, row in found.items() if chosen[name].method == method]
        if rows:
            add_ratio(rows, "best")
            groups.append({"title": title, "rows": rows, "columns": "embedding"})
    peers = [row for name, row in found.items() if chosen[name].method == "word2vec"]
    ours = [dict(found[name]) for name in TRAINED if name in found]
    slow = [dict(row) for row in found.values() if "Node2Vec.loss" in row["peer"]]
    groups.append(_trained([*ours, *slow, *peers], peers))
    return {"groups": groups, "left_out": missing, "graph": _facts(options)}


def _trained(rows: list[dict[str, Any]], peers: list[dict[str, Any]]) -> dict[str, Any]:
    """The table of all that were trained: until AUC is that of the best word2vec."""
    title, goal = "trained to the end", None
    if peers:
        best = max(peers, key=lambda row: row["auc"])
        goal = best["auc"] - SLACK
        title += f"; until AUC is that of {best['peer']}, less {100 * SLACK:.1f} points"
    for row in rows:
        row.pop("ratio", None)
        reached = (s for s, _, auc in row["curve"] if goal is not None and auc >= goal)
        row["reached"] = next(reached, None)
    add_ratio(rows, "total")
    return {"title": title, "rows": rows, "columns": "trained"}


def _row(found: dict[str, Any]) -> dict[str, Any]:
    """What tables say of one subject."""
    epochs = [Epoch(*epoch) for epoch in found["epochs"]]
    seconds, curve = 0.0, []
    for number, epoch in enumerate(epochs, 1):
        seconds += epoch.seconds
        curve.append((seconds, number, epoch.auc))
    times = [epoch.seconds for epoch in epochs]
    best = min(times)
    return {
        "peer": found["peer"],
        "best": best,
        "median": median(times),
        "edges": epochs[0].pairs,
        "rate": epochs[0].pairs / best / 1e6,
        "count": len(epochs),
        "total": seconds,
        "auc": epochs[-1].auc,
        "curve": curve,
    }


def grow(options: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """A process per size and method, on made graphs with planted communities.

    What one of them takes with it is its own row only: if the memory does not hold the
    largest graph, the others are still told.
    """
    rows, missing = list[dict[str, Any]](), Missing()
    sizes = planted.steps(options["scale"])
    for method in SETTINGS:
        job = {"run": f"{PACKAGE}.task_embedding:measure_size", "method": method}
        job |= {name: options[name] for name in ("rounds", "seed")}
        mine = []
        for nodes in sizes:
            try:
                mine.append(run_job({**job, "nodes": nodes}, progress))
            except ChildError as error:
                why = str(error).splitlines()[0]
                missing.add(f"{method}, {nodes:,} nodes", why)
        for row in mine:
            row["ratio"] = row["per_node"] / mine[0]["per_node"]
        rows += mine
    if not rows:
        raise ChildError("; ".join(f"{e['peer']}: {e['why']}" for e in missing))
    title = f"one walk of {STEPS} steps per node, {SIZE} dimensions, lazy Adam"
    group = {"title": title, "rows": rows, "columns": "embedding scale"}
    return {"groups": [group], "left_out": missing}


def measure_size(
    nodes: int, method: str, rounds: int, seed: int, report: Report
) -> dict[str, Any]:
    """The job of one size: the best of some epochs, and how hidden edges are found."""
    report(f"making {planted.edges_of(nodes):,} edges", 0.0)
    adj, split = planted.planted(nodes, planted.edges_of(nodes), seed)
    told = Told(f"{method} on {nodes:,} nodes", report)
    torch.manual_seed(seed)
    kind, shape, how, training = SETTINGS[method]
    with PeakMemory() as memory:
        made = kind(adj, SIZE, *shape, **how)
        for table in made.children():
            torch.nn.init.normal_(table.weight, std=SMALL)
        given = {"valid": split, "progress": told, "generator": seed}
        epochs = made.fit(rounds, **training, **given)
    ranked = split._replace(positive=split.positive[:, :RANKED])
    best = min(epoch.seconds for epoch in epochs)
    return {
        "peer": f"gttf {type(made).__name__}.fit",
        "nodes": nodes,
        "edges": adj.num_edges,
        "best": best,
        "per_node": best / nodes * 1e6,
        "rate": epochs[0].pairs / best / 1e6,
        "count": len(epochs),
        "peak": memory.beyond,
        "first": epochs[0].auc,
        "auc": epochs[-1].auc,
        "rank": mean_rank(made.score, ranked, generator=seed),
    }


class Told:
    """Passes on the progress of `fit`, a hundred times at most."""

    def __init__(self, what: str, report: Report) -> None:
        self.what, self.report, self.last = what, report, -1

    def __call__(self, share: float, loss: float, pairs: int) -> None:
        """Takes what `fit` tells."""
        if int(100 * share) > self.last:
            self.last = int(100 * share)
            self.report(f"{self.what}: loss {loss:.4g}", share)


def check_scale(scale: float) -> None:
    """Refuses sizes that make no sense."""
    if not 0.002 <= scale <= 10:
        _check.fail("--scale", "must lie in [0.002, 10] for 'embedding'", scale)


def _facts(options: dict[str, Any]) -> dict[str, Any]:
    """The graph that is learned from, before edges were hidden."""
    split = _split(options["graph"], options["seed"])
    name = "a made graph" if options["graph"] is None else options["graph"]
    count = split.train.shape[1] + 2 * split.positive.shape[1]
    return {
        "name": str(name).rpartition("/")[2],
        "nodes": split.num_nodes,
        "edges": count,
    }


def _split(graph: str | None, seed: int) -> LinkSplit:
    """Half of the edges of the largest component to learn from, half to find."""
    if graph is None:
        whole = planted.planted(NODES, EDGES, seed).adj
    else:
        try:
            whole = read_structure(graph)
        except (ValueError, TypeError, OSError) as error:
            raise RefusedError(f"--graph {graph}: {error}") from error
    edges, nodes = largest_component(whole.to_edge_index(), whole.num_rows)
    return split_links(edges, len(nodes), hide=0.5, generator=seed)
