"""The rows of `gttf bench modes`: what is loaded from which graph, and how."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from gttf_sampler import _check


class Graph(NamedTuple):
    """A made graph that several modes share, at scale 1.

    Attributes:
        host: whose loaders are measured on it.
        title: what a table says about it.
        nodes: in all, or of every type; 0 if it is one of `in_memory.SCHEMAS`.
        degree: mean degree; of every relation if there are types.
        features: per node.
        types: 1 if nodes have no types.
    """

    host: str
    title: str
    nodes: int
    degree: float
    features: int
    types: int = 1


GRAPHS = {
    "plain": Graph("PyG", "one node type", 1_000_000, 20, 64),
    "database": Graph("PyG", "5 tables, 12 relations", 0, 0, 32, 5),
    "relational": Graph("PyG", "a shop: 4 tables, 8 relations", 0, 0, 32, 4),
    "cora": Graph("PyG", "as small as Cora", 2_708, 3.9, 1_433),
    "dgl-small": Graph("DGL", "a small graph", 3_000, 10, 100),
    "dgl-typed": Graph("DGL", "4 types, 8 relations", 50_000, 2.5, 32, 4),
    "dgl-plain": Graph("DGL", "one node type", 1_000_000, 20, 100),
}


@dataclass(frozen=True)
class Mode:
    """One row.

    Attributes:
        name: what `--only` calls it.
        work: what the table calls it, beside fanouts and batch size.
        fanouts: neighbours per hop, seeds first.
        reach: the ratio that is worked for; it is in the JSON and in no table.
        graph: a key of `GRAPHS`.
        batch: seeds per batch.
        batches: per round; small ones are many, or a clock could not tell.
        kind: "nodes" or "links", whichever are loaded; "sampler" for no loader at all.
        time: the attribute with times, None where there are none.
        workers: worker processes, beside a second run without any.
        options: what else the loaders are told.
    """

    name: str
    work: str
    fanouts: tuple[int, ...]
    reach: float
    graph: str
    batch: int
    batches: int = 20
    kind: str = "nodes"
    time: str | None = None
    workers: int = 0
    options: dict[str, Any] = field(default_factory=dict)

    def title(self, batch: int) -> str:
        """The row's first cell; a small graph may not have seeds for a whole batch."""
        return f"{self.work}, {list(self.fanouts)}, batch {batch:,}"


LAST = {"temporal_strategy": "last"}
BINARY = {"neg_sampling": "binary"}
WEIGHTED = {"weight_attr": "edge_weight"}
BOTH_WAYS = {"subgraph_type": "bidirectional"}
ALONE = "sampler alone, typed with times"

plain = partial(Mode, graph="plain", batch=1024)
typed = partial(Mode, graph="database", batch=512, batches=40)
timed = partial(typed, time="time")
small = partial(timed, batch=128, batches=100)

MODES = (
    plain("plain", "plain", (15, 10), 4),
    plain("disjoint", "disjoint", (10, 5), 3, options={"disjoint": True}),
    plain("node-time", "node time, uniform", (10, 5), 3, time="node_time"),
    plain(
        "node-time-last", "node time, last", (10, 5), 3, time="node_time", options=LAST
    ),
    plain("edge-time", "edge time", (10, 5), 3, time="edge_time"),
    plain("weighted", "weighted", (15, 10), 8, options=WEIGHTED),
    plain("bidirectional", "bidirectional", (15, 10), 4, options=BOTH_WAYS),
    plain("links", "links, binary negatives", (10, 5), 4, kind="links", options=BINARY),
    plain("workers", "plain, 2 workers", (15, 10), 4, batches=60, workers=2),
    typed("typed", "typed", (10, 10), 2),
    typed("typed-wide", "typed", (64, 64), 2),
    timed("typed-time", "typed with times, uniform", (64, 64), 2),
    timed("typed-time-last", "typed with times, last", (64, 64), 2, options=LAST),
    small("typed-time-small", "typed with times", (16, 16), 1.5),
    typed(
        "typed-links",
        "typed links, binary negatives",
        (8, 8),
        2,
        kind="links",
        batches=20,
        options=BINARY,
    ),
    timed("typed-workers", "typed with times, 2 workers", (64, 64), 2, workers=2),
    timed("sampler-time", ALONE, (64, 64), 3, kind="sampler"),
    small("sampler-time-small", ALONE, (16, 16), 3, kind="sampler"),
    Mode(
        "relational",
        "a shop's questions, last",
        (4, 4),
        2,
        "relational",
        256,
        100,
        time="time",
        options=LAST,
    ),
    Mode("cora", "plain", (10, 10), 1.3, "cora", 64, 200),
    Mode("dgl-small", "plain", (10, 10), 1.2, "dgl-small", 64, 200),
    Mode("dgl-typed", "typed", (10, 10), 1.5, "dgl-typed", 512, 40),
    Mode("dgl-plain", "plain", (15, 10), 3, "dgl-plain", 1024),
)


def chosen(only: list[str] | None) -> list[Mode]:
    """The modes of these names, or all, in the order of the table."""
    known = [mode.name for mode in MODES]
    for name in only or ():
        if name not in known:
            _check.fail("--only", f"must name some of {', '.join(known)}", name)
    return [mode for mode in MODES if only is None or mode.name in only]
