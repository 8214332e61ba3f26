"""`gttf bench sampling`: seeds to edges, without features."""

from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import CompactAdj, EdgeWeightBias, sample_rooted
from gttf_sampler.bench import peers
from gttf_sampler.bench.measure import (
    Peer,
    Report,
    Work,
    beside_torch,
    compare,
    draw_seeds,
    each,
)

Peers = dict[str, Peer]
HOW = {False: "without replacement", True: "with replacement"}


def run(
    graph: str,
    fanouts: list[int],
    batch: int,
    batches: int,
    rounds: int,
    seed: int,
    report: Report,
    device: str = "cpu",
) -> dict[str, Any]:
    """The job: every way to sample, against whoever samples the same way."""
    adj = CompactAdj.open(graph, mmap=False, verify=False).to(device)
    seeds = draw_seeds(adj.num_rows, batches, batch, seed)
    missing = peers.Missing()
    groups: dict[str, Peers] = {}
    for replace, how in HOW.items():
        title = f"one rooted sample, {how}"
        groups[title] = rooted(adj, fanouts, replace, seeds, missing)
    for replace, how in HOW.items():
        title = f"one sample per layer, {how}"
        groups[title] = layered(adj, fanouts, replace, missing)
    groups["by edge weight, per layer, without replacement"] = weighted(
        adj, fanouts, seed, missing
    )
    return {
        "groups": [compare(t, p, seeds, rounds, report) for t, p in groups.items()],
        "left_out": missing,
    }


def rooted(
    adj: CompactAdj, fanouts: list[int], replace: bool, seeds: Tensor, missing: Any
) -> Peers:
    """A node is expanded once, when it is first reached: PyG's way."""
    found = our_rooted(adj, fanouts, replace, seeds, missing)
    if missing.needs_pyg_backend("NeighborSampler"):
        name = peers.pyg_label("NeighborSampler") + peers.on_cpu(adj.device)
        call = _pyg_sampler(adj.cpu(), fanouts, replace)
        found[name] = Peer(each(call), _of_output)
    return found


def our_rooted(
    adj: CompactAdj, fanouts: list[int], replace: bool, seeds: Tensor, missing: Any
) -> Peers:
    """Our backends, and their bound."""
    device = adj.device
    sample = partial(sample_rooted, adj, fanouts=fanouts, replace=replace)
    ours = Peer(each(sample, device), _of_subgraph, device=device)
    found = beside_torch({"gttf": ours}, missing)
    if device.type != "cpu":
        here = partial(sample_rooted, adj.cpu(), fanouts=fanouts, replace=replace)
        found[f"gttf{peers.on_cpu(device)}"] = Peer(each(here), _of_subgraph)
    found["reading as many edges"] = reading(adj, sample(seeds[0]).num_edges)
    return found


def reading(adj: CompactAdj, edges: int) -> Peer:
    """The bound of all samplers: as many random reads, and nothing else."""
    where = torch.randint(adj.num_edges, (edges,)).to(adj.device)
    run = each(lambda _: adj.col.index_select(0, where))
    return Peer(run, bound=True, device=adj.device)


def _pyg_sampler(adj: CompactAdj, fanouts: list[int], replace: bool) -> Any:
    """PyG's own sampler as a function of seeds."""
    pyg = import_module("torch_geometric.sampler")
    data = peers.pyg_data(adj)
    sampler = pyg.NeighborSampler(data, fanouts, replace=replace)
    return lambda s: sampler.sample_from_nodes(pyg.NodeSamplerInput(None, s))


def layered(adj: CompactAdj, fanouts: list[int], replace: bool, missing: Any) -> Peers:
    """Every layer samples anew for all nodes of the one before: DGL's way."""
    device = adj.device
    draw = each(_layers(adj, fanouts, replace), device)
    found = {"gttf": Peer(draw, _of_layers, device=device)}
    if not missing.needs_dgl_on(device, "DGL NeighborSampler"):
        return found
    graph = peers.dgl_graph(adj.cpu()).to(device)
    ours = import_module("gttf_dgl").GTTFSampler(fanouts[::-1], replace=replace)
    theirs = import_module("dgl.dataloading").NeighborSampler(
        fanouts[::-1], replace=replace
    )
    for name, sampler in (
        ("gttf_dgl.GTTFSampler", ours),
        (peers.label("dgl", "NeighborSampler"), theirs),
    ):
        found[name] = Peer(
            each(lambda seeds, sampler=sampler: sampler.sample(graph, seeds), device),  # type: ignore[misc]
            _of_blocks,
            device=device,
        )
    return found


def weighted(adj: CompactAdj, fanouts: list[int], seed: int, missing: Any) -> Peers:
    """The same, neighbours by edge weight."""
    device = adj.device
    generator = torch.Generator().manual_seed(seed)
    weight = torch.rand(adj.num_edges, generator=generator).to(device) + 0.1
    heavy = CompactAdj(adj.rowptr, adj.col, adj.num_cols, edge_weight=weight)
    draw = _layers(heavy, fanouts, False, bias=EdgeWeightBias())
    found = {"gttf": Peer(each(draw, device), _of_layers, device=device)}
    if missing.needs_dgl_on(device, "DGL NeighborSampler"):
        graph = peers.dgl_graph(adj.cpu()).to(device)
        graph.edata["p"] = weight
        loading = import_module("dgl.dataloading")
        sampler = loading.NeighborSampler(fanouts[::-1], prob="p")
        name = peers.label("dgl", "NeighborSampler")
        run = each(lambda s: sampler.sample(graph, s), device)
        found[name] = Peer(run, _of_blocks, device=device)
    return found


def _layers(
    adj: CompactAdj, fanouts: list[int], replace: bool, bias: Any = None
) -> Any:
    """A function that draws one hop per layer, from all nodes there are so far."""

    def draw(seeds: Tensor) -> list[Any]:
        layers = []
        for fanout in fanouts:
            hop = sample_rooted(adj, seeds, [fanout], replace=replace, bias=bias)
            layers.append(hop)
            seeds = hop.node
        return layers

    return draw


def _of_subgraph(made: Any) -> Work:
    return Work(made.num_edges, made.num_nodes)


def _of_output(made: Any) -> Work:
    return Work(made.row.numel(), made.node.numel())


def _of_layers(made: Any) -> Work:
    return Work(sum(hop.num_edges for hop in made), made[-1].num_nodes)


def _of_blocks(made: Any) -> Work:
    input_nodes, _, blocks = made
    return Work(sum(block.num_edges() for block in blocks), len(input_nodes))
