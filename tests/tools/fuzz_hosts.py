"""The part of the fuzzer's words that needs PyG or DGL."""

import contextlib
import itertools
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fuzz_calls import BATCHES, ENDS
from fuzz_checks import hold

if find_spec("torch_geometric"):
    import torch_geometric  # noqa: F401
    from torch_geometric.data import Data, HeteroData
    from torch_geometric.sampler import (  # noqa: F401
        EdgeSamplerInput,
        NegativeSampling,
        NodeSamplerInput,
    )
    from torch_geometric.testing import MyFeatureStore, MyGraphStore

    import gttf_pyg
    from gttf_pyg import (  # noqa: F401
        GTTFLinkLoader,
        GTTFLoader,
        GTTFNorm,
        GTTFSampler,
        ToCompact,
        layerwise_inference,
        sampled_inference,
    )

_numbers = itertools.count(os.getpid() << 32)

ERRORS: tuple[type[Exception], ...] = ()
if find_spec("dgl"):
    import dgl

    import gttf_dgl  # noqa: F401

    ERRORS = (dgl.DGLError,)


def data(**changes: Any) -> "Data":
    """The toy graph as PyG has it, with features, weights and times."""
    made = {
        "edge_index": torch.tensor(ENDS),
        "x": torch.rand(5, 3),
        "w": torch.arange(10.0),
        "time": torch.arange(5),
        "t": torch.arange(10),
    }
    return Data(num_nodes=5, **{**made, **changes})


def nodes_in(**fields: Any) -> "NodeSamplerInput":
    """Seeds as PyG hands them on, with fields that its constructor would not take."""
    made = NodeSamplerInput(None, torch.tensor([0]))
    made.__dict__.update(fields)
    return made


def edges_in(**fields: Any) -> "EdgeSamplerInput":
    """Seed edges, alike."""
    made = EdgeSamplerInput(None, torch.tensor([0]), torch.tensor([1]))
    made.__dict__.update(fields)
    return made


def several() -> "HeteroData":
    """Two types of nodes and three of edges."""
    made = HeteroData()
    made["a"].num_nodes, made["b"].num_nodes = 5, 2
    made["a"].time, made["b"].time = torch.arange(5), torch.arange(2)
    made["a", "to", "a"].edge_index = torch.tensor(ENDS)
    made["a", "to", "b"].edge_index = torch.tensor([[0, 4, 2], [0, 1, 1]])
    made["b", "to", "a"].edge_index = torch.tensor([[0, 1, 1], [0, 4, 2]])
    return made


def batches(loader: Any) -> None:
    """The first batches of a loader of PyG's, compared with the data."""
    for batch in itertools.islice(loader, BATCHES):
        whole = loader.data[0] if isinstance(loader.data, tuple) else loader.data
        stores = [(batch, whole, batch, batch)]
        if isinstance(batch, HeteroData):
            stores = [
                (batch[kind], whole[kind], batch[kind[0]], batch[kind[2]])
                for kind in batch.edge_types
            ]
        for part, store, source, target in stores:
            _compare(part, store, source.n_id, target.n_id)


def _code(index: Tensor) -> Tensor:
    """A feature of edges that tells their ends."""
    return index[0] * 1000 + index[1]


def _put(pair: Any, kind: Any, group: Any, size: Any, layout: str) -> None:
    """Edges in one layout, with features in its order."""
    index = (
        torch.tensor(ENDS)
        if kind in (None, ("a", "to", "a"))
        else several()[kind].edge_index
    )
    by = {"csr": 0, "csc": 1, "sorted": 1}.get(layout)
    if by is not None:
        index = index[:, index[by].sort(stable=True).indices]
    ends: Any = list(index)
    if layout in ("csr", "csc"):
        ends[by] = torch.bincount(index[by], minlength=size[by]).cumsum(0)
        ends[by] = torch.cat([torch.zeros(1, dtype=torch.int64), ends[by]])
    how = {"edge_type": kind, "size": size, "is_sorted": layout == "sorted"}
    how["layout"] = "coo" if layout == "sorted" else layout
    pair[1].put_edge_index(tuple(ends), **how)
    count = index.shape[1]
    columns = {"code": _code(index), "w": torch.arange(1.0, 1 + count)}
    for name, rows in {**columns, "t": torch.arange(count)}.items():
        pair[0].put_tensor(rows, group_name=group, attr_name=name, index=None)


def stores(layout: str, group: Any) -> Any:
    """The toy graph as PyG's stores."""
    pair = MyFeatureStore(), MyGraphStore()
    _put(pair, None, group, (5, 5), layout)
    for name, rows in {"x": torch.arange(5.0), "time": torch.arange(5)}.items():
        pair[0].put_tensor(rows, group_name=None, attr_name=name, index=None)
    return pair


def typed_stores(layout: str) -> Any:
    """Two types of nodes and three of edges, as PyG's stores."""
    pair, whole = (MyFeatureStore(), MyGraphStore()), several()
    for name in whole.node_types:
        count = whole[name].num_nodes
        for key, rows in {
            "x": torch.arange(float(count)),
            "time": whole[name].time,
        }.items():
            pair[0].put_tensor(rows, group_name=name, attr_name=key, index=None)
    for kind in whole.edge_types:
        _put(
            pair,
            kind,
            kind,
            (whole[kind[0]].num_nodes, whole[kind[2]].num_nodes),
            layout,
        )
    return pair


def coded(loader: Any) -> None:
    """The first batches of a loader of stores: all features are their own rows."""
    for batch in itertools.islice(loader, BATCHES):
        typed = isinstance(batch, HeteroData)
        for store in batch.node_stores:
            hold(torch.equal(store.x, store.n_id.float()), "features of other nodes")
        for kind in batch.edge_types if typed else [None]:
            part = batch[kind] if typed else batch
            ends = (batch[kind[0]], batch[kind[2]]) if typed else (batch, batch)
            _own_rows(part, ends[0].n_id, ends[1].n_id)


def coded_data() -> "Data":
    """The toy graph, whose features tell nodes and edges."""
    return data(n_id=torch.arange(5), code=_code(torch.tensor(ENDS)))


def clustered(loader: Any) -> None:
    """All batches of a `ClusterLoader`: every node once, all features their own."""
    seen = []
    for batch in loader:
        hold(batch.num_nodes > 0, "an empty batch")
        hold(batch.x.shape[0] == batch.num_nodes, "features of other nodes")
        _own_rows(batch, batch.n_id, batch.n_id)
        seen += batch.n_id.tolist()
    hold(sorted(seen) == list(range(5)), "nodes that are in no batch, or in two")


def _own_rows(part: Any, source: Tensor, target: Tensor) -> None:
    """Features of edges tell the ends that the edges have, in either direction."""
    if "code" not in part and "e_id" not in part:
        return  # types whose reverses have no ids, and so no features
    own = torch.stack([source[part.edge_index[0]], target[part.edge_index[1]]])
    right = part.code == _code(own)
    if source is target:  # of a sample that has edges in both directions
        right |= part.code == _code(own.flip(0))
    hold(bool(right.all()), "features of other edges")


def some(loader: Any) -> None:
    """The first batches of any loader; that they can be made is all."""
    for _ in itertools.islice(loader, BATCHES):
        pass


def summed(model: Any) -> None:
    """A fused model, on batches of a loader; what it gives has the seeds' rows."""
    for batch in GTTFLoader(data(), [2], batch_size=2):
        rows = model(batch.x, batch.edge_index).size(0)
        hold(rows in (batch.batch_size, batch.num_nodes), "rows of seeds or of all")


def no_future(**how: Any) -> None:
    """Accepts any times: they are not the question."""
    with contextlib.suppress(AssertionError):
        gttf_pyg.assert_no_future(**how)


def fresh(name: str) -> Path:
    """A path where nothing is yet."""
    return Path(f"{name}-{next(_numbers)}")


def _compare(part: Any, store: Any, source: Tensor, target: Tensor) -> None:
    """Every edge of a batch is the edge of the data that it says it is."""
    if "e_id" not in part:
        return
    own = part.e_id >= 0  # others are self-loops of a GCN
    ends = torch.stack([source[part.edge_index[0]], target[part.edge_index[1]]])[:, own]
    known = torch.as_tensor(store.edge_index)[:, part.e_id[own]]
    if source is target:  # an edge may be there in both directions
        ends, known = ends.sort(0).values, known.sort(0).values
    hold(torch.equal(ends, known.long()), "edges of the batch that the data lacks")


def graph(**changes: Any) -> Any:
    """The toy graph as DGL has it; what DGL refuses is left out."""
    g = dgl.graph((torch.tensor(ENDS[0]), torch.tensor(ENDS[1])), num_nodes=5)
    g.ndata["x"] = torch.rand(5, 3)
    made = {"w": torch.arange(10.0), "m": torch.arange(10) > 3, **changes}
    for name, value in made.items():
        try:
            g.edata[name] = value
        except Exception:
            continue
    return g


def two_ways() -> Any:
    """Two types of nodes, with edges to and fro."""
    there = torch.tensor([0, 4, 2, 1, 3]), torch.tensor([0, 1, 1, 0, 0])
    kinds = {("a", "to", "b"): there, ("b", "from", "a"): there[::-1]}
    return dgl.heterograph(kinds, {"a": 5, "b": 2})


def several_g() -> Any:
    """Two types of nodes and two of edges."""
    kinds = {
        ("a", "in", "a"): (torch.tensor(ENDS[0]), torch.tensor(ENDS[1])),
        ("a", "to", "b"): (torch.tensor([0, 4, 2]), torch.tensor([0, 1, 1])),
    }
    return dgl.heterograph(kinds, {"a": 5, "b": 2})


def blocks(sampler: Any, g: Any, seeds: Any, **how: Any) -> None:
    """The blocks of a sampler of DGL's, compared with the graph."""
    _, _, found = sampler.sample(g, seeds, **how)
    for block in found if isinstance(found, list) else [found]:
        for kind in block.canonical_etypes:
            src, dst = block.edges(etype=kind)
            source = block.srcnodes[kind[0]].data[dgl.NID][src]
            target = block.dstnodes[kind[2]].data[dgl.NID][dst]
            own = kind if kind in g.canonical_etypes else kind[::-1]
            known = g.find_edges(block.edges[kind].data[dgl.EID], etype=own)
            turned = sampler.edge_dir == "out"
            pair = (target, source) if turned else (source, target)
            same = all(map(torch.equal, pair, known))
            hold(same, "edges of the block that the graph lacks")
