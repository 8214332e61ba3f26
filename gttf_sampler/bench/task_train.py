"""`gttf bench train`: an epoch of GraphSAGE, and where its time goes."""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import CompactAdj
from gttf_sampler.bench import model, peers
from gttf_sampler.bench.clock import settle
from gttf_sampler.bench.measure import Report, Work, disagreement, draw_seeds
from gttf_sampler.bench.task_loader import (
    CLASSES,
    dgl_loaders,
    made_features,
    of_blocks,
    of_data,
    plain_loaders,
    pyg_loaders,
)

HIDDEN = 256
PARTS = "sampling", "gather", "compute"

Split = dict[str, float]


def run(
    graph: str,
    fanouts: list[int],
    batch: int,
    batches: int,
    rounds: int,
    seed: int,
    features: int,
    report: Report,
    device: str = "cpu",
) -> dict[str, Any]:
    """The job: epochs of `batches` steps with every loader, in turns.

    On a device the parts of a step overlap, so that only the whole is told.
    """
    adj = CompactAdj.open(graph, mmap=False)
    seeds = draw_seeds(adj.num_rows, batches, batch, seed)
    x, y = made_features(adj.num_rows, features, seed)
    missing = peers.Missing()
    common = (adj, x, y, fanouts[:2], seeds, {"batch_size": seeds.shape[1]})
    groups, full, where = [], {}, torch.device(device)
    if where.type == "cpu":
        full = full_batch(adj, x, y, features, missing)
    if missing.needs("torch_geometric", "PyG NeighborLoader"):
        loaders = pyg_loaders(*common, missing, where)
        epochs = _epochs(
            loaders, "node_sampler.sample_from_nodes", model.from_data, where
        )
        title = "GraphSAGE with PyG's loaders"
        groups.append(_group(title, epochs, of_data, full, rounds, report))
        del loaders, epochs
        full = {}
    if missing.needs_dgl_on(where, "DGL DataLoader"):
        loaders = dgl_loaders(*common, where)
        epochs = _epochs(
            loaders, "graph_sampler.sample_blocks", model.from_blocks, where
        )
        title = "GraphSAGE with DGL's loaders"
        groups.append(_group(title, epochs, of_blocks, full, rounds, report))
    if not groups:
        there = adj.to(where), x.to(where), y.to(where), fanouts[:2], seeds.to(where)
        loaders = plain_loaders(*there)
        epochs = _epochs(loaders, "plain_sampler.sample", model.from_data, where)
        title = "GraphSAGE in plain torch"
        groups.append(_group(title, epochs, of_data, full, rounds, report))
    return {"groups": groups, "left_out": missing}


def _epochs(
    loaders: dict[str, Any],
    sampling: str,
    convert: Callable[[Any], Any],
    device: torch.device,
) -> "dict[str, Epoch]":
    """An epoch per loader; `sampling` names the method of theirs that is timed."""
    holder, method = sampling.split(".")
    return {
        name: Epoch(loader, holder, method, convert, device)
        for name, loader in loaders.items()
    }


class Epoch:
    """One pass of a loader through a new model; says which part took how long."""

    def __init__(
        self,
        loader: Any,
        holder: str,
        method: str,
        convert: Callable[[Any], Any],
        device: torch.device,
    ) -> None:
        self.loader, self.convert, self.sampled = loader, convert, 0.0
        self.device = device
        sampler = getattr(loader, holder)
        sample = getattr(sampler, method)

        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            made = sample(*args, **kwargs)
            self.sampled += time.perf_counter() - start
            return made

        setattr(sampler, method, timed)

    def __call__(self) -> Split:
        """Seconds of sampling, of gathering features, of the model."""
        torch.manual_seed(0)
        settle(self.device)
        begun = time.perf_counter()
        net, optimizer, self.sampled = None, None, 0.0
        loading = computing = 0.0
        batches, last = iter(self.loader), time.perf_counter()
        for made in batches:
            arrived = time.perf_counter()
            loading += arrived - last
            batch = self.convert(made)
            if net is None or optimizer is None:
                net = model.SAGE(batch.x.shape[1], HIDDEN, CLASSES).to(self.device)
                optimizer = torch.optim.Adam(net.parameters(), 1e-3)
            model.step(net, optimizer, batch)
            del made, batch
            last = time.perf_counter()
            computing += last - arrived
        if self.device.type != "cpu":
            settle(self.device)
            whole = time.perf_counter() - begun
            return {"sampling": 0.0, "gather": 0.0, "compute": whole}
        return {
            "sampling": self.sampled,
            "gather": loading - self.sampled,
            "compute": computing,
        }


def full_batch(
    adj: CompactAdj, x: Tensor, y: Tensor, features: int, missing: Any
) -> dict[str, Callable[[], Split]]:
    """The whole graph in one step, if its messages fit into memory."""
    name = "full batch, one step"
    need = 4 * adj.num_edges * max(features, HIDDEN) * 2
    free = _free_memory()
    if need > free // 2:
        why = f"the messages take {need / 1e9:.0f} GB of {free / 1e9:.0f} GB free"
        if peers.load("psutil") is None:
            why += f", which is a guess: {peers.absent('psutil')}"
        missing.add(name, why)
        return {}
    src, dst = adj.to_edge_index()
    layer = model.Layer(src, dst, adj.num_rows)
    batch = model.Batch(x, [layer, layer], y)

    def epoch() -> Split:
        torch.manual_seed(0)
        net = model.SAGE(features, HIDDEN, CLASSES)
        start = time.perf_counter()
        model.step(net, torch.optim.Adam(net.parameters(), 1e-3), batch)
        return {"sampling": 0.0, "gather": 0.0, "compute": time.perf_counter() - start}

    return {name: epoch}


def _group(
    title: str,
    epochs: dict[str, Epoch],
    count: Callable[[Any], Work],
    others: dict[str, Callable[[], Split]],
    rounds: int,
    report: Report,
) -> dict[str, Any]:
    """Interleaved epochs; the parts are those of the best one."""
    work = {name: [count(b) for b in epoch.loader] for name, epoch in epochs.items()}
    everyone: dict[str, Callable[[], Split]] = {**epochs, **others}
    turns: dict[str, list[Split]] = {name: [] for name in everyone}
    for turn in range(rounds):
        for place, (name, epoch) in enumerate(everyone.items()):
            turns[name].append(epoch())
            done = turn * len(everyone) + place + 1
            report(title, done / (rounds * len(everyone)))
    first = next(iter(epochs))
    best = {name: min(found, key=_total) for name, found in turns.items()}
    rows = []
    for name, parts in best.items():
        differs = None if name in others else disagreement(work[first], work[name])
        ratio = _total(parts) / _total(best[first])
        apart = epochs[first].device.type == "cpu"
        alone = name == first or differs is not None or name in others
        rows.append(
            {
                "peer": name,
                "best": _total(parts),
                "median": median(_total(found) for found in turns[name]),
                **(parts if apart else dict.fromkeys(PARTS)),
                "share": parts["sampling"] / _total(parts) if apart else None,
                "ratio": None if alone else ratio,
                "differs": differs,
            }
        )
    return {"title": title, "rows": rows}


def _total(parts: Split) -> float:
    return sum(parts[part] for part in PARTS)


def _free_memory() -> int:
    """Bytes that can be had without swapping; a guess where the system does not say."""
    psutil = peers.load("psutil")
    return int(psutil.virtual_memory().available) if psutil is not None else 4 << 30
