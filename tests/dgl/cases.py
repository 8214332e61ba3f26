"""Random graphs as DGL has them, and what every block must be, in plain Python."""

from collections import Counter
from typing import Any, NamedTuple

import dgl
import torch
from hypothesis import strategies as st

from strategies import Hetero, counts, hetero, seeds, weights

Kind = tuple[str, str, str]

FANOUTS = (-1, 0, 1, 2, 30)


class Case(NamedTuple):
    """A graph and one call of a sampler on it.

    `ends[kind][eid]` is (source, target); `banned[kind]` holds edges that must not be
    taken, because they weigh nothing, are masked or are excluded.
    """

    g: dgl.DGLGraph
    ends: dict[Kind, list[tuple[int, int]]]
    seeds: dict[str, torch.Tensor]
    fanouts: list[dict[Kind, int]]
    edge_dir: str
    replace: bool
    banned: dict[Kind, set[int]]
    options: dict[str, Any]
    exclude: dict[Kind, torch.Tensor] | None

    def turned(self, kind: Kind) -> Kind:
        """The type that the edges of a batch have."""
        return kind if self.edge_dir == "in" else kind[::-1]

    def row(self, kind: Kind, node: int) -> list[tuple[int, int]]:
        """(sender, eid) of the edges that may bring messages to `node`."""
        here, there = (1, 0) if self.edge_dir == "in" else (0, 1)
        return [
            (ends[there], eid)
            for eid, ends in enumerate(self.ends[kind])
            if ends[here] == node and eid not in self.banned[kind]
        ]

    def check_edges(self, batch, kind, fanout, first, senders, receivers) -> set[int]:
        """Checks the edges into receivers from `first` on; returns who sends."""
        name = self.turned(kind)
        row, col = (x.tolist() for x in batch.edges(etype=name, order="eid"))
        eids = batch.edges[name].data[dgl.EID].tolist()
        assert col == sorted(col)
        taken: dict[int, list[tuple[int, int]]] = {}
        for u, v, eid in zip(row, col, eids, strict=True):
            taken.setdefault(v, []).append((senders[u], eid))
        for local, node in enumerate(receivers):
            if local < first:
                continue
            may, did = self.row(kind, node), taken.get(local, [])
            assert set(did) <= set(may)
            if fanout < 0:
                assert did == may  # and in the order of the graph
            elif self.replace:
                assert len(did) == (fanout if may else 0)
            else:
                assert len(set(did)) == len(did) == min(fanout, len(may))
        return set(row)


@st.composite
def cases(draw: st.DrawFn, fanouts: tuple[int, ...] = FANOUTS, layers: int = 2) -> Case:
    """One to four relations, a node type without any, and everything that forbids."""
    data: Hetero = draw(hetero())
    if draw(st.booleans()):
        only = next(iter(data.graphs))
        size = max(data.graphs[only].sizes())
        one = {("_N", "_E", "_N"): data.graphs[only]}
        data = Hetero(one, {"_N": size}, {"_N": draw(seeds(size, 4))})
    idtype = draw(st.sampled_from([torch.int32, torch.int64]))
    sizes = dict(data.sizes)
    if len(data.graphs) > 1 and draw(st.booleans()):
        sizes["z"] = 3
    ends = {k: graph.edge_index.t().tolist() for k, graph in data.graphs.items()}
    g = dgl.heterograph(
        {k: tuple(x.edge_index) for k, x in data.graphs.items()}, sizes, idtype=idtype
    )
    for name in g.ntypes:
        count = g.num_nodes(name)
        g.nodes[name].data["feat"] = torch.arange(2.0 * count).view(count, 2)
    banned: dict[Kind, set[int]] = {kind: set() for kind in ends}
    options: dict[str, Any] = {}
    how = draw(st.sampled_from(["uniform", "prob", "mask"]))
    if how != "uniform":
        options[how] = "w"
        for kind in draw(st.permutations(list(ends)))[: 1 + draw(counts(3))]:
            weight = draw(weights(len(ends[kind]), True))
            value = weight > 0.5 if how == "mask" else weight
            g.edges[kind].data["w"] = value
            banned[kind] |= {i for i, w in enumerate(value.tolist()) if not w}
    exclude = None
    if draw(st.booleans()):
        exclude = {}
        for kind, pairs in ends.items():
            hidden = draw(seeds(len(pairs), 4))
            exclude[kind] = torch.tensor(hidden, dtype=idtype)
            banned[kind] |= set(hidden)
    started = {n: torch.tensor(x, dtype=idtype) for n, x in data.seeds.items()}
    if "z" in sizes:
        started["z"] = torch.tensor([2, 0, 2], dtype=idtype)
    plan = [
        {kind: draw(st.sampled_from(fanouts)) for kind in ends}
        for _ in range(draw(st.integers(1, layers)))
    ]
    edge_dir, replace = draw(st.sampled_from(["in", "out"])), draw(st.booleans())
    return Case(g, ends, started, plan, edge_dir, replace, banned, options, exclude)


def ids(batch: Any, side: str, names: list[str]) -> dict[str, list[int]]:
    """Global ids per node type: of "src", "dst" or, in a graph, "" nodes."""
    view = getattr(batch, f"{side}nodes")
    return {name: view[name].data[dgl.NID].tolist() for name in names}


def as_table(batch: Any) -> list[tuple]:
    """All that a batch of blocks says, to compare two of them."""
    return [
        (
            *(ids(block, side, block.srctypes) for side in ("src", "dst")),
            [
                [x.tolist() for x in block.edges(etype=kind, order="eid")]
                + [block.edges[kind].data[dgl.EID].tolist()]
                for kind in block.canonical_etypes
            ],
        )
        for block in batch
    ]


def edge_counts(block: Any) -> Counter[tuple[int, int]]:
    """(sender, eid) → how often, over a homogeneous block."""
    senders = block.srcdata[dgl.NID][block.edges(order="eid")[0]].tolist()
    return Counter(zip(senders, block.edata[dgl.EID].tolist(), strict=True))
