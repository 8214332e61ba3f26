"""PyG in `gttf bench` and `gttf verify`: its loaders, samplers and models."""

import time
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch_geometric import typing as pyg_typing
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import (
    GATConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    GraphSAGE,
    HeteroConv,
    SAGEConv,
)
from torch_geometric.nn import Node2Vec as PyGNode2Vec
from torch_geometric.utils import to_torch_csr_tensor, trim_to_layer

import gttf_pyg
from gttf_pyg import _bench_modes as modes
from gttf_pyg._bench_modes import LABEL, NO_BACKEND, backend, data_of
from gttf_pyg.fused import fused
from gttf_pyg.inference import inference
from gttf_pyg.partition import saved
from gttf_sampler import CompactAdj
from gttf_sampler.bench.graphs import SEED_TYPE
from gttf_sampler.bench.hosts import (
    Calls,
    Embedder,
    EmbeddingSetting,
    Host,
    LoaderSetting,
    MakeSampler,
    StepBatch,
    StepModels,
    Stepper,
    StepSetting,
    Trained,
)
from gttf_sampler.bench.machine import Missing, first_line
from gttf_sampler.bench.measure import Peer, Work, each
from gttf_sampler.bench.models import attention, mlp
from gttf_sampler.embedding import Epoch

NO_CLUSTER = (
    "torch-cluster cannot be imported ({}); install it with: "
    "pip install --no-build-isolation torch-cluster (it compiles)"
)


def _memory(kind: Any) -> MakeSampler:
    """A loader over PyG's Data, which keeps the edges as they were given."""

    def make(edges: Tensor, nodes: int, fanouts: list[int], seeds: Tensor) -> Any:
        data = Data(edge_index=edges, num_nodes=nodes)
        how = {"num_neighbors": fanouts, "input_nodes": seeds, "batch_size": 1024}
        loader = kind(data, **how)
        can = kind is gttf_pyg.GTTFLoader or backend() is not None
        return lambda: list(loader) if can else None

    return make


def walkers(
    adj: CompactAdj, length: int, law: tuple[float, float], missing: Missing
) -> dict[str, Peer]:
    """torch-cluster, which PyG walks with, called directly."""
    name = "torch-cluster random_walk"
    try:
        import torch_cluster  # type: ignore[import-not-found,unused-ignore]
    except (ImportError, OSError) as error:
        missing.add(name, NO_CLUSTER.format(first_line(error)))
        return {}
    walk, col = torch.ops.torch_cluster.random_walk, adj.col.to(torch.int64)

    def steps(made: Any) -> Work:
        moved = adj.degree[made[0][:, :-1]] > 0  # it stays where there is no edge
        return Work(int(moved.sum()), len(made[0]))

    name = f"torch-cluster {torch_cluster.__version__} random_walk"
    return {name: Peer(each(lambda s: walk(adj.rowptr, col, s, length, *law)), steps)}


# the settings of PyG's own example of Node2Vec
LENGTH, CONTEXT, WALKS, NEGATIVES, BATCH, RATE = 20, 10, 10, 1, 128, 0.01
METHOD = "PyG's Node2Vec: walks of 20, contexts of 10, 10 per node, batches of 128"


def _node2vec(setting: EmbeddingSetting) -> Any:
    """Our class as in PyG's example; vectors start as small as those of our models."""
    torch.manual_seed(setting.seed)
    shape = setting.size, LENGTH, CONTEXT, WALKS
    how: dict[str, Any] = {"num_nodes": setting.num_nodes, "sparse": True}
    how["num_negative_samples"] = NEGATIVES
    model = gttf_pyg.Node2Vec(setting.train, *shape, **how)
    torch.nn.init.normal_(model.embedding.weight, std=0.1)
    return model


def _fit(setting: EmbeddingSetting, **how: Any) -> Trained:
    model = _node2vec(setting)
    how |= {"batch_size": BATCH, "lr": RATE, "progress": False}
    epochs = model.fit(setting.epochs, generator=setting.seed, **how)
    return Trained(epochs, model._link_score)


def _loop(setting: EmbeddingSetting, kind: Any = gttf_pyg.Node2Vec) -> Trained:
    """The loop of PyG's example on our walks, with the loss of class `kind`."""
    model, epochs = _node2vec(setting), []
    optimizer = torch.optim.SparseAdam(model.parameters(), lr=RATE)
    windows = setting.num_nodes * WALKS * (LENGTH - CONTEXT + 1)
    pairs = windows * (CONTEXT - 1) * (1 + NEGATIVES)
    for _ in range(setting.epochs):
        start, losses = time.perf_counter(), []
        for batch in model.loader(batch_size=BATCH, shuffle=True):
            optimizer.zero_grad()
            loss = kind.loss(model, *batch)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        mean = sum(losses) / max(1, len(losses))
        epochs.append(Epoch(mean, time.perf_counter() - start, pairs, None))
    return Trained(epochs, model._link_score)


# Bits


def checks(
    rows: CompactAdj, seeds: Tensor, device: torch.device, missing: Missing
) -> Calls:
    """Loaders whose features are here, there and in between, made ahead or not."""
    calls: Calls = {"PyG, on the CPU": partial(_batches, rows, seeds, None)}
    places: dict[str, dict[str, Any]] = {"on the device": {}}
    if device.type == "cuda":
        places |= {"pinned": {"uva": False}, "by UVA": {"uva": True}}
    for name, how in places.items():
        place = device if name == "on the device" else None
        for prefetch, ahead in ((0, ""), (2, ", 2 ahead")):
            more = {**how, "device": device, "prefetch": prefetch}
            call = partial(_batches, rows, seeds, place, **more)
            calls[f"PyG, features {name}{ahead}"] = call
    return calls


def _batches(
    rows: CompactAdj, seeds: Tensor, place: torch.device | None, **how: Any
) -> list[Tensor]:
    """The ids, edges and features of some batches; features are at `place`."""
    n = rows.num_rows
    x = torch.arange(n * 3).view(n, 3).to(torch.bfloat16)
    some = LoaderSetting(rows, x, torch.arange(n), [5, 4], seeds)
    data = data_of(some, place)
    how |= {"input_nodes": seeds, "batch_size": 16, "seed": 3, "shuffle": True}
    loader = gttf_pyg.GTTFLoader(data, some.fanouts, **how)
    names = "n_id", "e_id", "edge_index", "x", "y"
    return [batch[name].cpu() for batch in loader for name in names]


def _read(batch: Any) -> StepBatch:
    """The rows, edges and labels of a batch."""
    seeds = batch[SEED_TYPE] if isinstance(batch, HeteroData) else batch
    x, edges = _parts(batch, "x", "edge_index")
    return StepBatch(x, edges, seeds.y[: seeds.batch_size])


def _trim(batch: Any, depth: int, x: Any, edges: Any) -> tuple[Any, Any]:
    """The rows and edges that layer `depth` needs, by the sizes of hops."""
    hops = _parts(batch, "num_sampled_nodes", "num_sampled_edges")
    x, edges, _ = trim_to_layer(depth, *hops, x, edges)
    return x, edges


def _parts(batch: Any, *names: str) -> list[Any]:
    """Attributes of a batch, of every type if there are types."""
    end = "_dict" if isinstance(batch, HeteroData) else ""
    return [getattr(batch, name + end) for name in names]


def _fuse(model: Any) -> str:
    fused(model)
    return ""


@torch.no_grad()
def _inferences(setting: StepSetting, missing: Missing) -> dict[str, Stepper]:
    """GraphSAGE for all nodes: ours, PyG's batches of all neighbours, a full batch."""
    torch.manual_seed(0)
    size, hidden, classes = setting.sizes
    model = GraphSAGE(size, hidden, num_layers=2, out_channels=classes).eval()
    data = data_of(setting.batches)
    nodes = data.num_nodes
    adj = to_torch_csr_tensor(data.edge_index.flip(0), size=(nodes, nodes))
    full = f"{LABEL} GraphSAGE, full batch, torch CSR"
    row = partial(Stepper, [None], labels=None, model=model)
    found = {
        "gttf_pyg.inference": row(lambda _: inference(model, data), like=full),
        full: row(torch.no_grad()(lambda _: model(data.x, adj))),
    }
    name = f"{LABEL} GraphSAGE.inference"
    if backend() is None:
        missing.add(name, NO_BACKEND)
        return found
    batch = setting.batches.seeds.shape[1]
    loader = NeighborLoader(data, [-1], input_nodes=None, batch_size=batch)
    found[f"{name} ({backend()})"] = row(
        lambda _: model.inference(loader), like=full, rounds=1
    )
    return found


STEP = StepModels(
    layers={
        "sage": lambda ins, outs, hidden: SAGEConv(ins, outs),
        "gcn": lambda ins, outs, hidden: GCNConv(ins, outs),
        "gin": lambda *sizes: GINConv(mlp(*sizes)),
        "max": lambda ins, outs, hidden: SAGEConv(ins, outs, aggr="max"),
        "gat": attention(GATConv),
        "gatv2": attention(GATv2Conv),
    },
    typed=HeteroConv,
    call=lambda layer, x, edges, depth: layer(x, edges),
    read=_read,
    fuse=_fuse,
    # torch-sparse does not tell the sizes of hops
    trims={"trim_to_layer": _trim} if pyg_typing.WITH_PYG_LIB else {},
    tuned=True,
    inferences=_inferences,
)
HOST = Host(
    name="PyG",
    loaders=modes.loaders,
    work=modes.work_of,
    step=STEP,
    graphs=modes.GRAPHS,
    modes=modes.MODES,
    samplers={
        "gttf_pyg.GTTFLoader": _memory(gttf_pyg.GTTFLoader),
        f"{LABEL} NeighborLoader": _memory(NeighborLoader),
    },
    walkers=walkers,
    checks=checks,
    embedders={
        "gttf_pyg.Node2Vec.fit": Embedder(METHOD, _fit),
        "gttf_pyg.Node2Vec.fit, hogwild": Embedder(METHOD, partial(_fit, hogwild=True)),
        "gttf_pyg.Node2Vec, SparseAdam": Embedder(METHOD, _loop),
        f"{LABEL} Node2Vec.loss, SparseAdam": Embedder(
            METHOD, partial(_loop, kind=PyGNode2Vec)
        ),
    },
    saved=saved,
)
