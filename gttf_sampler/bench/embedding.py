"""`gttf bench walks` and `embedding`: steps of walks, and epochs that learn from them.

Half of the edges of a graph are hidden. Everyone learns from the rest, each in a
process of its own; AUC is worked out at the end, off the clock.
"""

import time
from dataclasses import asdict
from functools import partial
from importlib import import_module
from statistics import median
from typing import Any, NamedTuple

import torch

from gttf_sampler import CompactAdj, Node2VecBias, traverse
from gttf_sampler.bench import measure as timing
from gttf_sampler.bench.hosts import Embedder, EmbeddingSetting, Trained, hosts
from gttf_sampler.bench.machine import Missing, RefusedError, Report, run_jobs
from gttf_sampler.bench.measure import Group, Options, Peer, Row, Work, add_ratio
from gttf_sampler.embedding import (
    DeepWalk,
    Epoch,
    LinkSplit,
    WatchYourStep,
    link_auc,
    split_links,
)
from gttf_sampler.graph.io import read_structure

LAWS = {"uniform": (1.0, 1.0), "node2vec": (0.5, 2.0)}  # p and q
SIZE = 128  # numbers of a vector
NODES, EDGES = 9_877, 51_946  # of the made graph: as many as ca-HepTh has
TINY = 300  # nodes of the graph that everything is tried on first
COMMUNITY, INSIDE = 100, 0.8  # nodes of a community; edges that stay in theirs
STEPS, WINDOW = 10, 10
# word2vec gets as many walks as the example of Node2Vec that hosts have
WALKS, LENGTH, NEGATIVES = 10, 20, 5
GENSIM = "gensim Word2Vec, our walks"


class Method(NamedTuple):
    """A model of ours: its class, arguments, epochs per round and options of `fit`."""

    model: Any
    arguments: tuple[Any, ...]
    epochs: int
    fit: dict[str, Any]


METHODS = {
    "DeepWalk": Method(
        *(DeepWalk, (WINDOW, [1] * STEPS, 5), 10),
        {"batch_size": 512, "lr": 0.1},
    ),
    "Watch Your Step": Method(
        *(WatchYourStep, ([1] * STEPS, 20), 30),
        {"batch_size": 2048, "lr": 0.1, "schedule": "linear"},
    ),
}


def walk(graph: str, options: dict[str, Any], report: Report) -> dict[str, Any]:
    """The job of `walks`: the same walks by everyone."""
    asked, missing = Options(**options), Missing()
    stored = CompactAdj.open(graph, mmap=False)
    adj = CompactAdj(stored.rowptr, stored.col, stored.num_cols, "out")
    seeds = timing.draw_seeds(adj.num_rows, asked.batches, asked.batch, asked.seed)
    present, groups = list(hosts(missing)), list[Group]()
    for name, (p, q) in LAWS.items():
        law = "" if p == q == 1.0 else f", p = {p:g}, q = {q:g}"
        title = f"{name} walks of {asked.length} steps{law}"
        found = {"gttf": walker(adj, asked.length, p, q)}
        for host in present:
            found |= host.walkers(adj, asked.length, (p, q), missing)
        group = timing.compare(title, found, seeds, asked.rounds, report)
        for row in group["rows"]:
            row["rate"] = row["edges"] / row["best"] / 1e3
        groups.append(group)
    return {"groups": groups, "left_out": missing}


def walker(adj: CompactAdj, length: int, p: float, q: float) -> Peer:
    """Our walks; node2vec's where p or q is not 1."""
    bias = None if p == q == 1.0 else Node2VecBias(p, q)
    return Peer(
        timing.each(lambda seeds: traverse(adj, seeds, [1] * length, bias)), of_forest
    )


def of_forest(made: Any) -> Work:
    """The steps that were taken, and the walks."""
    taken = sum(int((level >= 0).sum()) for level in made.edges[1:])
    return Work(taken, made.nodes[0].numel())


def embedders(missing: Missing) -> dict[str, Embedder]:
    """Everyone who can take part, ours first in every method."""
    found: dict[str, Embedder] = {}
    for host in hosts(missing):
        found |= host.embedders
    for name, method in METHODS.items():
        label = f"gttf {method.model.__name__}.fit"
        found[label] = Embedder(name, partial(_fit, method))
    if missing.load("gensim", GENSIM) is not None:
        found[GENSIM] = Embedder("word2vec, one epoch", _gensim)
    return found


def measure(options: Options, report: Report) -> dict[str, Any]:
    """A process per model, a table per method."""
    missing, rows = Missing(), dict[str, list[Row]]()
    job: dict[str, Any] = {"run": f"{__name__}:run", "options": asdict(options)}
    known, graph = embedders(missing), dict[str, Any]()
    for name, found in run_jobs(job, known, missing, report).items():
        rows.setdefault(known[name].method, []).append(found["row"])
        graph = found["graph"]
    groups: list[Group] = []
    for method, some in rows.items():
        add_ratio(some, "best")
        groups.append({"title": method, "rows": some})
    return {"groups": groups, "left_out": missing, "graph": graph}


def run(name: str, options: dict[str, Any], report: Report) -> dict[str, Any]:
    """The job of one model: all its epochs, and the AUC that it ends with."""
    asked = Options(**options)
    whole = _graph(asked)
    split = hide(whole, asked.seed)
    report(f"training {name}", 0.0)
    train = embedders(Missing())[name].train
    few = hide(planted(TINY, 10 * TINY, asked.seed), asked.seed)
    train(EmbeddingSetting(few.train, TINY, SIZE, 1, asked.seed))  # compiles, loads
    shape = whole.num_rows, SIZE, asked.rounds, asked.seed
    trained = train(EmbeddingSetting(split.train, *shape))
    times = [epoch.seconds for epoch in trained.epochs]
    row = {
        "peer": name,
        "best": min(times),
        "median": median(times),
        "edges": trained.epochs[0].pairs,
        "rate": trained.epochs[0].pairs / min(times) / 1e6,
        "count": len(times),
        "total": sum(times),
        "auc": link_auc(trained.score, split),
    }
    name = "a made graph" if asked.graph is None else asked.graph.rpartition("/")[2]
    facts = {"name": name, "nodes": whole.num_rows, "edges": whole.num_edges}
    return {"row": row, "graph": facts}


def hide(adj: CompactAdj, seed: int, share: float = 0.5) -> LinkSplit:
    """Hides some edges of a graph, both directions of each."""
    return split_links(adj.to_edge_index(), adj.num_rows, share, generator=seed)


def planted(nodes: int, edges: int, seed: int) -> CompactAdj:
    """About `edges` directed edges with planted communities, both directions of each.

    An end of an edge is node n · r² of the nodes in order, r uniform: few nodes have
    many edges. The other end is one of the same community, or any node. Ids are in
    disguise: communities are not ranges of them.
    """
    generator = torch.Generator().manual_seed(seed)
    draw = partial(torch.rand, edges // 2, generator=generator, dtype=torch.float64)
    source = (draw() ** 2 * nodes).long()
    # the popular ones are spread over all communities
    groups = -(-nodes // COMMUNITY)
    source = (source % groups * COMMUNITY + source // groups).clamp_(max=nodes - 1)
    first = source // COMMUNITY * COMMUNITY
    share = draw()
    near = first + (share * (nodes - first).clamp_(max=COMMUNITY)).long()
    target = near.where(draw() < INSIDE, (share * nodes).long())
    name = torch.randperm(nodes, generator=generator)
    ends = name[torch.stack([source, target])[:, source != target]]
    both = torch.cat([ends, ends.flip(0)], dim=1)
    return CompactAdj.from_edge_index(both, nodes, direction="out")


def _graph(asked: Options) -> CompactAdj:
    """The graph of the user, or a made one."""
    if asked.graph is None:
        return planted(NODES, EDGES, asked.seed)
    try:
        return read_structure(asked.graph)
    except (ValueError, TypeError, OSError) as error:
        raise RefusedError(f"--graph {asked.graph}: {error}") from error


def _fit(method: Method, setting: EmbeddingSetting) -> Trained:
    """One of our models by its own `fit`, as it comes: one walk per node."""
    torch.manual_seed(setting.seed)
    model = method.model(setting.rows(), setting.size, *method.arguments)
    how = {**method.fit, "generator": setting.seed, "progress": False}
    return Trained(model.fit(method.epochs * setting.epochs, **how), model.score)


def _gensim(setting: EmbeddingSetting) -> Trained:
    """Word2vec by gensim on walks of ours; making them, and words, is off the clock.

    It has as many threads as torch would use.
    """
    seeds = torch.arange(setting.num_nodes).repeat(WALKS)
    forest = traverse(setting.rows(), seeds, [1] * (LENGTH - 1), generator=setting.seed)
    walks = torch.cat(forest.nodes, dim=1)
    order = torch.randperm(len(walks), generator=torch.Generator().manual_seed(0))
    words = [list(map(str, walk)) for walk in walks[order].tolist()]
    how = {"window": WINDOW, "negative": NEGATIVES, "sg": 1, "min_count": 0}
    how |= {"workers": torch.get_num_threads(), "epochs": 1, "seed": setting.seed}
    model = import_module("gensim.models").Word2Vec
    start = time.perf_counter()
    made = model(words, vector_size=setting.size, **how)
    seconds = time.perf_counter() - start
    z = torch.tensor(made.wv[[str(node) for node in range(setting.num_nodes)]])
    # its windows have a random size, half on average
    pairs = setting.num_nodes * WALKS * LENGTH * (WINDOW + 1) * (1 + NEGATIVES)
    epoch = Epoch(0.0, seconds, pairs, None)
    return Trained([epoch], lambda pair: (z[pair[0]] * z[pair[1]]).sum(-1))
