"""The expected batches of a PyG loader, worked out in plain Python from the data."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch_geometric.data import Data, HeteroData

Kind = tuple[str, str, str]
ONLY: Kind = ("", "", "")


class Found(NamedTuple):
    """A batch: per node type ids and trees, per edge type (row, col, e_id)."""

    node: dict[str, list[int]]
    tree: dict[str, list[int]]
    edge: dict[Kind, list[tuple[int, int, int]]]
    num_nodes: dict[str, list[int]]
    num_edges: dict[Kind, list[int]]


def relations(data: Any) -> dict[Kind, list[tuple[int, int]]]:
    """Per edge type its edges (source, target) in the caller's order."""
    stores = {ONLY: data} if isinstance(data, Data) else dict(data.edge_items())
    return {
        kind: list(zip(*store.edge_index.tolist(), strict=True))
        for kind, store in stores.items()
    }


def node_types(data: Any) -> list[str]:
    return [""] if isinstance(data, Data) else data.node_types


def neighborhood(
    data: Any,
    seeds: dict[str, list[int]],
    hops: int,
    *,
    disjoint: bool = False,
    backward: bool = False,
    allowed: Callable[[Kind, int, int, int], bool] = lambda *_: True,
    time: Callable[[Kind, int, int], float] = lambda *_: 0,
) -> Found:
    """All neighbours, `hops` times: breadth first, in the order the contract fixes.

    `allowed(kind, tree, source, edge)` says whether a seed may see an edge; a row is
    sorted by `time(kind, source, edge)`, stably.
    """
    node: dict[str, list[int]] = {name: [] for name in node_types(data)}
    tree: dict[str, list[int]] = {name: [] for name in node}
    local: dict[tuple[str, int, int], int] = {}
    for name, ids in seeds.items():
        for seed in ids:
            number = sum(map(len, tree.values()))
            local.setdefault((name, number * disjoint, seed), len(node[name]))
            node[name].append(seed)
            tree[name].append(number)
    edges: dict[Kind, list[tuple[int, int, int]]] = {k: [] for k in relations(data)}
    num_nodes = {name: [len(ids)] for name, ids in node.items()}
    num_edges: dict[Kind, list[int]] = {kind: [] for kind in edges}
    frontier = {name: range(len(ids)) for name, ids in node.items()}
    for _ in range(hops):
        known = {name: len(ids) for name, ids in node.items()}
        for kind, pairs in relations(data).items():
            by, to, before = kind[0], kind[2], len(edges[kind])
            if backward:
                by, to = to, by
            for place in frontier[to]:
                here, own = node[to][place], tree[to][place]
                row = [
                    (src, number)
                    for number, pair in enumerate(pairs)
                    for src, dst in [pair[::-1] if backward else pair]
                    if dst == here and allowed(kind, own, src, number)
                ]
                row.sort(key=lambda entry, k=kind: time(k, *entry))
                for there, number in row:
                    identity = (by, own * disjoint, there)
                    if identity not in local:
                        local[identity] = len(node[by])
                        node[by].append(there)
                        tree[by].append(own)
                    ends = local[identity], place
                    edges[kind].append((*(ends[::-1] if backward else ends), number))
            num_edges[kind].append(len(edges[kind]) - before)
        frontier = {name: range(known[name], len(ids)) for name, ids in node.items()}
        for name, ids in node.items():
            num_nodes[name].append(len(ids) - known[name])
    return Found(node, tree, edges, num_nodes, num_edges)


def found_in(batch: Any, disjoint: bool = False) -> Found:
    """The same view of a batch that a loader returned."""
    if isinstance(batch, Data):
        nodes: dict[str, Any] = {"": batch}
        stores: dict[Kind, Any] = {ONLY: batch}
    else:
        nodes, stores = dict(batch.node_items()), dict(batch.edge_items())
    return Found(
        {name: store.n_id.tolist() for name, store in nodes.items()},
        {
            name: store.batch.tolist() if disjoint else []
            for name, store in nodes.items()
        },
        {
            kind: list(zip(*s.edge_index.tolist(), s.e_id.tolist(), strict=True))
            for kind, s in stores.items()
        },
        {name: store.num_sampled_nodes for name, store in nodes.items()},
        {kind: store.num_sampled_edges for kind, store in stores.items()},
    )


def assert_same(batch: Any, expected: Found, disjoint: bool = False) -> None:
    """The batch has the nodes, edges and counts of the reference, in its order."""
    found = found_in(batch, disjoint)
    assert found.node == expected.node
    assert found.edge == expected.edge
    assert found.num_nodes == expected.num_nodes
    assert found.num_edges == expected.num_edges
    if disjoint:
        assert found.tree == expected.tree


def assert_consistent(batch: Any, data: Any) -> None:
    """Local ids, global ids and all features belong together."""
    if isinstance(data, Data):
        nodes, stores = {"": (batch, data)}, {ONLY: (batch, data)}
    else:
        nodes = {name: (batch[name], data[name]) for name in data.node_types}
        stores = {kind: (batch[kind], data[kind]) for kind in data.edge_types}
    for kind, (part, whole) in stores.items():
        row, col = part.edge_index
        ends = nodes[kind[0]][0].n_id[row], nodes[kind[2]][0].n_id[col]
        assert torch.equal(torch.stack(ends), whole.edge_index[:, part.e_id].long())
        for name in whole.edge_attrs():
            if name != "edge_index":
                assert torch.equal(part[name], whole[name][part.e_id])
    for part, whole in nodes.values():
        for name in whole.node_attrs():
            assert torch.equal(part[name], whole[name][part.n_id]), name


def hetero_toy() -> HeteroData:
    """Two users, three items and a lonely tag; multi-edges and no reverse for 'is'."""
    data = HeteroData()
    data["user"].x = torch.arange(8.0).view(4, 2)
    data["item"].x = torch.arange(15.0).view(5, 3)
    data["tag"].x = torch.ones(3, 1)
    data["alone"].x = torch.ones(2, 1)
    buys = torch.tensor([[0, 0, 1, 1, 2, 3, 3], [0, 1, 1, 1, 2, 4, 0]])
    data["user", "buys", "item"].edge_index = buys
    data["user", "buys", "item"].edge_attr = torch.arange(7.0)
    data["item", "rev_buys", "user"].edge_index = buys.flip(0)
    data["tag", "is", "item"].edge_index = torch.tensor([[0, 1, 2, 0], [0, 0, 1, 4]])
    data["user", "knows", "user"].edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
    return data
