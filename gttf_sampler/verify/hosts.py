"""Loaders of the hosts that are installed, with features here, there and in between."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from gttf_sampler.bench import peers
from gttf_sampler.verify.cases import NODES, World

HERE = "on the CPU"  # the call that all others are compared with

Calls = dict[str, Callable[[], list[Tensor]]]


def pyg_calls(world: World, device: torch.device, left_out: peers.Missing) -> Calls:
    """Loaders of `gttf_pyg`: where features are, batches made ahead or not."""
    if not left_out.needs("torch_geometric", "gttf_pyg"):
        return {}
    calls = {HERE: partial(pyg_batches, world, {})}
    places: dict[str, tuple[torch.device | None, bool]] = {}
    places["features on the device"] = device, False
    if device.type == "cuda":
        places |= {"features pinned": (None, False), "features by UVA": (None, True)}
    for name, (place, uva) in places.items():
        for prefetch, ahead in ((0, ""), (2, ", 2 ahead")):
            how = {"device": device, "prefetch": prefetch, "uva": uva}
            calls[f"PyG, {name}{ahead}"] = partial(pyg_batches, world, how, place)
    return dict(calls)


def dgl_calls(world: World, device: torch.device, left_out: peers.Missing) -> Calls:
    """Graphs of DGL on the device, and pinned ones that it reads in place."""
    if not left_out.needs("dgl", "gttf_dgl"):
        return {}
    why = peers.dgl_lacks(device)
    if why:
        left_out.add("gttf_dgl", why)
        return {}
    there = partial(dgl_batches, world, device)
    calls: Calls = {HERE: partial(dgl_batches, world)}
    calls["DGL, graph on the device"] = there
    if device.type == "cuda":
        calls["DGL, graph by UVA"] = partial(there, uva=True)
    return calls


def pyg_batches(
    world: World, how: dict[str, Any], place: torch.device | None = None
) -> list[Tensor]:
    """The ids, edges and features of some batches."""
    pyg, data = import_module("gttf_pyg"), peers.pyg_data(world.rows)
    data.x = torch.arange(NODES * 3).view(NODES, 3).to(torch.bfloat16)
    data.y = torch.arange(NODES)
    if place is not None:
        data.x, data.y = data.x.to(place), data.y.to(place)
    words = {"input_nodes": world.seeds, "batch_size": 16, "seed": 3, "shuffle": True}
    loader = pyg.GTTFLoader(data, [5, 4], **words, **how)
    names = "n_id", "e_id", "edge_index", "x", "y"
    return [batch[name].cpu() for batch in loader for name in names]


def dgl_batches(
    world: World, device: torch.device | None = None, uva: bool = False
) -> list[Tensor]:
    """The ids and features of some batches."""
    dgl, graph, seeds = peers.load("dgl"), peers.dgl_graph(world.rows), world.seeds
    graph.ndata["x"] = torch.arange(NODES * 3.0).view(NODES, 3)
    sampler = import_module("gttf_dgl").GTTFSampler([4, 5], seed=3)
    if device is not None:
        seeds, graph = seeds.to(device), graph if uva else graph.to(device)
    if uva:
        graph.create_formats_()
        graph.pin_memory_()
    found: list[Tensor] = []
    for part in seeds.split(16):
        nodes, _, blocks = sampler.sample(graph, part)
        found += [nodes.cpu(), blocks[0].srcdata["x"].cpu()]
        found += [block.edata[dgl.EID].cpu() for block in blocks]
    return found
