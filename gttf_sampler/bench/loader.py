"""`gttf bench loader` and `step`: batches with features, and training steps on them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from gttf_sampler import CompactAdj, gather_rows, sample_rooted
from gttf_sampler.bench.hosts import LoaderSetting, hosts
from gttf_sampler.bench.machine import Missing
from gttf_sampler.bench.measure import Group, Peer, Work, compare, draw_seeds
from gttf_sampler.bench.options import Options
from gttf_sampler.bench.process import Report

CLASSES, HIDDEN = 47, 256
PLAIN = "gttf sample_rooted, gather_rows"
ALONE = "the model alone, on one batch"

Step = Callable[[Any], None]  # trains on a batch


class Loaders(NamedTuple):
    """Loaders that are compared with each other.

    Attributes:
        host: whose loaders they are.
        loaders: by name, ours first.
        work: counts a batch.
        step: takes a training step on a batch.
    """

    host: str
    loaders: dict[str, Any]
    work: Callable[[Any], Work]
    step: Step


def load(graph: str, options: dict[str, Any], report: Report) -> dict[str, Any]:
    """The job of `loader`: our loaders and those of every host."""
    return _compared(graph, Options(**options), False, report)


def train(graph: str, options: dict[str, Any], report: Report) -> dict[str, Any]:
    """The job of `step`: GraphSAGE with two layers on every loader's batches."""
    return _compared(graph, Options(**options), True, report)


def _compared(
    graph: str, options: Options, trains: bool, report: Report
) -> dict[str, Any]:
    """A group per host, or one in plain torch if there is no host."""
    adj = CompactAdj.open(graph, mmap=False, verify=False)
    seeds = draw_seeds(adj.num_rows, options.batches, options.batch, options.seed)
    x, y = made_features(adj.num_rows, options.features, options.seed)
    where = torch.device(options.device)
    setting = LoaderSetting(adj, x, y, options.fanouts, seeds, options.workers, where)
    missing, groups = Missing(), list[Group]()
    for group in _loaders(setting, missing):
        title = f"{group.host} loaders"
        peers = {
            name: Peer(_over(loader), group.work, device=where)
            for name, loader in group.loaders.items()
        }
        if trains:
            title = f"GraphSAGE, 2 layers of {HIDDEN}, {title}"
            one = next(iter(next(iter(group.loaders.values()))))
            again = [one] * len(seeds)
            peers[ALONE] = Peer(_over(again), bound=True, device=where)
            peers = {
                name: replace(peer, run=_trained(peer.run, group.step))
                for name, peer in peers.items()
            }
        groups.append(compare(title, peers, seeds, options.rounds, report))
    return {"groups": groups, "left_out": missing}


def _loaders(setting: LoaderSetting, missing: Missing) -> Iterator[Loaders]:
    """One group after the other, so that only one host's graph is in memory."""
    alone, features = True, setting.x.shape[1]
    for host in hosts(missing):
        if found := host.loaders(setting, missing):
            alone, step = False, host.trainer(features, setting.device)
            yield Loaders(host.name, found, host.work, step)
    if alone:
        step = trainer(features, setting.device)
        yield Loaders("plain torch", {PLAIN: plain_loader(setting)}, of_batch, step)


def _over(loader: Any) -> Callable[[Tensor], Any]:
    """A loader, which has its seeds already, as a function of seeds."""
    return lambda seeds: loader


def _trained(
    batches: Callable[[Tensor], Iterable[Any]], step: Step
) -> Callable[[Tensor], Iterator[Any]]:
    """Takes a training step on every batch."""

    def run(seeds: Tensor) -> Iterator[Any]:
        for made in batches(seeds):
            step(made)
            yield made

    return run


def made_features(nodes: int, features: int, seed: int) -> tuple[Tensor, Tensor]:
    """Random features [n, d] and labels [n]; what they are does not change the time."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(nodes, features, generator=generator)
    return x, torch.randint(CLASSES, (nodes,), generator=generator)


def plain_loader(setting: LoaderSetting) -> Any:
    """A loader that needs torch alone: torch's DataLoader over batches of seeds."""
    device = setting.device
    adj, x, y = setting.adj.to(device), setting.x.to(device), setting.y.to(device)
    sample = partial(sample_rooted, adj, fanouts=setting.fanouts)

    def batch(part: Any) -> Any:
        sub = sample(part)
        return SimpleNamespace(x=gather_rows(x, sub.node), y=y[part], sub=sub)

    rows: Any = setting.seeds.to(device)  # an entry is the seeds of a batch
    workers = setting.workers if device.type == "cpu" else 0
    how: dict[str, Any] = {"batch_size": None, "num_workers": workers}
    return DataLoader(rows, collate_fn=batch, **how)


def of_batch(made: Any) -> Work:
    """The edges of a batch of `plain_loader`, and the nodes whose features it has."""
    return Work(made.sub.num_edges, made.x.shape[0])


class SAGE(nn.Module):
    """GraphSAGE with means of neighbours in plain torch, for batches of our own."""

    def __init__(self, features: int) -> None:
        super().__init__()
        sizes = [(features, HIDDEN), (HIDDEN, CLASSES)]
        self.own = nn.ModuleList(nn.Linear(*size) for size in sizes)
        self.near = nn.ModuleList(nn.Linear(*size, bias=False) for size in sizes)

    def forward(self, x: Tensor, sub: Any) -> Tensor:
        """Logits [seeds, classes]; a layer computes what the next one needs."""
        nodes, edges = sub.num_sampled_nodes, sub.num_sampled_edges
        for depth, (own, near) in enumerate(zip(self.own, self.near, strict=True)):
            hops = len(edges) - depth
            count, size = sum(edges[:hops]), sum(nodes[:hops])
            row, col = sub.row[:count], sub.col[:count]
            total = x.new_zeros(size, x.shape[1]).index_add_(0, col, x[row])
            mean = total / col.bincount(minlength=size).clamp_(min=1)[:, None]
            x = own(x[:size]) + near(mean)
            x = x.relu() if depth == 0 else x
        return x


def trainer(features: int, device: torch.device) -> Step:
    """Steps of a new model with Adam, on batches of `plain_loader`."""
    torch.manual_seed(0)
    model = SAGE(features).to(device)
    return steps_of(model, lambda made: (model(made.x, made.sub), made.y))


def steps_of(model: nn.Module, forward: Callable[[Any], tuple[Tensor, Tensor]]) -> Step:
    """Training steps of any model; `forward` gives logits and labels of a batch."""
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)

    def step(made: Any) -> None:
        optimizer.zero_grad()
        logits, y = forward(made)
        nn.functional.cross_entropy(logits, y).backward()
        optimizer.step()

    return step
