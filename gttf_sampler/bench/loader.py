"""`gttf bench loader`: batches with features, and a model where there is no host."""

from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from gttf_sampler import CompactAdj, gather_rows, sample_rooted
from gttf_sampler.bench.hosts import LoaderSetting, Stepper, hosts
from gttf_sampler.bench.machine import Missing
from gttf_sampler.bench.measure import Group, Options, Peer, Work, compare, draw_seeds
from gttf_sampler.bench.process import Report

CLASSES, HIDDEN = 47, 256
PLAIN = "gttf sample_rooted, gather_rows"


def load(graph: str, options: dict[str, Any], report: Report) -> dict[str, Any]:
    """The job: a group per host, our loaders and its own, or one in plain torch."""
    asked, missing, groups = Options(**options), Missing(), list[Group]()
    setting = read_setting(graph, asked)
    for host, loaders, work in _loaders(setting, missing):
        peers = {
            name: Peer(over(loader), work, device=setting.device)
            for name, loader in loaders.items()
        }
        title = f"{host} loaders"
        groups.append(compare(title, peers, setting.seeds, asked.rounds, report))
    return {"groups": groups, "left_out": missing}


def _loaders(setting: LoaderSetting, missing: Missing) -> Iterator[tuple[Any, ...]]:
    """One host after the other, so that only one host's graph is in memory."""
    alone = True
    for host in hosts(missing):
        if found := host.loaders(setting, missing):
            alone = False
            yield host.name, found, host.work
    if alone:
        yield "plain torch", {PLAIN: plain_loader(setting)}, of_batch


def read_setting(graph: str, options: Options) -> LoaderSetting:
    """The batches that are asked for, on a graph that was written before."""
    adj = CompactAdj.open(graph, mmap=False, verify=False)
    seeds = draw_seeds(adj.num_rows, options.batches, options.batch, options.seed)
    x, y = made_features(adj.num_rows, options.features, options.seed)
    device = torch.device(options.device)
    return LoaderSetting(adj, x, y, options.fanouts, seeds, options.workers, device)


def over(loader: Any) -> Callable[[Tensor], Any]:
    """A loader, which has its seeds already, as a function of seeds."""
    return lambda seeds: loader


def made_features(
    nodes: int, features: int, seed: int, classes: int = CLASSES
) -> tuple[Tensor, Tensor]:
    """Random features [n, d] and labels [n]; what they are does not change the time."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(nodes, features, generator=generator)
    return x, torch.randint(classes, (nodes,), generator=generator)


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


def stepper(setting: LoaderSetting) -> Stepper:
    """Training steps of `SAGE` on batches of `plain_loader`."""
    torch.manual_seed(0)
    model = SAGE(setting.x.shape[1]).to(setting.device)
    made = plain_loader(setting)
    return Stepper(made, lambda b: model(b.x, b.sub), lambda b: b.y, model)
