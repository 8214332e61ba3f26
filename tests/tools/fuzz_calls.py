"""The fuzzer's vocabulary: small graphs, and calls with checks.

A checked call raises `Broken` if its result does not fit together with its arguments;
see `fuzz_checks`.
"""

import gzip
import itertools
import random
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fuzz_checks import check, check_edges, hold
from gttf_sampler import CompactAdj, HeteroSubgraph, WalkForest, sample_rooted, traverse
from gttf_sampler.embedding import split_links
from gttf_sampler.graph import read_edge_list

ENDS = [[0, 1, 1, 1, 1, 2, 3, 3, 4, 4], [1, 0, 2, 3, 4, 1, 1, 4, 1, 3]]
BATCHES = 3
FILES = Path("files")  # in the working directory, which the fuzzer makes for itself


def toy(**edge: Any) -> CompactAdj:
    """The paper's Figure 1."""
    return CompactAdj.from_edge_index(ENDS, 5, direction="out", **edge)


def heavy() -> CompactAdj:
    return toy(edge_weight=torch.arange(10.0))


def timed() -> CompactAdj:
    return toy(edge_weight=torch.arange(10), edge_time=torch.arange(10).flip(0))


def relations() -> dict[Any, CompactAdj]:
    """Two types of nodes and three of edges."""
    square = CompactAdj.from_edge_index(ENDS, 5)
    across = CompactAdj.from_edge_index([[0, 4, 2], [0, 1, 1]], (5, 2))
    back = CompactAdj.from_edge_index([[0, 1, 1], [0, 4, 2]], (2, 5))
    kinds = ("a", "to", "a"), ("a", "to", "b"), ("b", "to", "a")
    return dict(zip(kinds, (square, across, back), strict=True))


def pairing(key: Any, value: Any) -> dict[Any, Any]:
    """{key: value}, or nothing if there cannot be such a key."""
    try:
        return {key: value}
    except TypeError:
        return {}


def csr() -> Any:
    """The toy graph as a scipy matrix."""
    from scipy import sparse

    return sparse.csr_array(([1.0] * 10, ENDS), shape=(5, 5))


def gives(answer: Any) -> Any:
    """A bias that answers with a tensor of some kind, or with anything else."""

    def bias(path: Tensor, node: Tensor, neighborhood: Any) -> Any:
        one = torch.ones(neighborhood.edge.numel())
        kinds = {
            "ones": one,
            "zeros": one * 0,
            "mask": one > 0,
            "integers": one.int(),
            "grad": one.requires_grad_(),
        }
        return kinds.get(answer, answer) if isinstance(answer, str) else answer

    return bias


def folder(name: str = "graph") -> Path:
    """A path in an empty directory."""
    shutil.rmtree(FILES, ignore_errors=True)
    FILES.mkdir()
    return FILES / name


def noise(number: Any) -> bytes:
    """Some text that may be an edge list."""
    draw = random.Random(repr(number))
    letters = b"0123456789 -.,\t\n\n  #%ax\xc3\xff\x00"
    return bytes(draw.choice(letters) for _ in range(draw.randrange(60)))


def edges(text: Any, name: str = "e.txt") -> Any:
    """The edges read from a file with some text."""
    path = folder(name)
    if not isinstance(text, bytes | bytearray):
        return None
    path.write_bytes(gzip.compress(text) if random.random() < 0.7 else text)
    found = read_edge_list(path)
    index, n = found.edge_index, found.num_nodes
    hold(index.shape[0] == 2 and index.numel(), "an edge list without edges")
    hold(0 <= int(index.min()) <= int(index.max()) < n, "ids beyond the nodes")
    hold(found.weight is None or len(found.weight) == index.shape[1], "weights")
    return found


def same(left: CompactAdj, right: CompactAdj) -> bool:
    """True if two graphs have equal arrays."""
    ours, theirs = left.arrays(), right.arrays()
    return ours.keys() == theirs.keys() and all(
        torch.equal(array, theirs[name]) for name, array in ours.items()
    )


def kept(adj: CompactAdj, **how: Any) -> CompactAdj:
    """The graph after a stay on disk."""
    path = folder()
    adj.save(path)
    found = CompactAdj.open(path, **how)
    hold(same(found, adj), "another graph came back")
    return found


def damaged(adj: CompactAdj, number: Any, **how: Any) -> CompactAdj:
    """The graph after a stay on disk where one file was changed."""
    path, draw = folder(), random.Random(repr(number))
    adj.save(path)
    file = draw.choice(sorted(path.iterdir()))
    content = bytearray(file.read_bytes())
    place = draw.randrange(len(content) + 1)
    change = draw.randrange(4)
    if change == 0:
        content = content[:place]
    elif change == 1:
        content += draw.randbytes(3)
    elif change == 2:
        content[place : place + 1] = draw.randbytes(1)
    file.write_bytes(content) if change < 3 else file.unlink()
    found = CompactAdj.open(path, **how).validate()
    if how.get("verify") is not False:
        hold(same(found, adj), "another graph came back")
    return found


def whole(ids: Any) -> Tensor:
    """Ids of any kind as an int64 tensor."""
    return torch.tensor([int(i) for i in ids], dtype=torch.int64)


def walk(adj: Any, seeds: Any, fanouts: Any, **how: Any) -> WalkForest:
    """`traverse`, checked."""
    forest = traverse(adj, seeds, fanouts, **how)
    hold(torch.equal(forest.nodes[0].view(-1), whole(seeds)), "other seeds")
    for acc in (
        how.get("accumulate") or () if _listed(how) else (how.get("accumulate"),)
    ):
        if hasattr(acc, "result"):
            check(acc.result())
    return forest


def _listed(how: dict[str, Any]) -> bool:
    return isinstance(how.get("accumulate"), list | tuple)


def rooted(adj: Any, seeds: Any, fanouts: Any, **how: Any) -> Any:
    """`sample_rooted` on one graph, checked."""
    sub = sample_rooted(adj, seeds, fanouts, **how)
    if isinstance(sub, HeteroSubgraph):
        return sub
    start = whole(seeds)
    hold(torch.equal(sub.node[: start.numel()], start), "other seeds")
    check_edges(adj, sub.node, sub.node, sub.row, sub.col, sub.edge)
    if sub.batch is None:
        later = sub.node[start.numel() :]
        hold(later.unique().numel() == later.numel(), "a node twice")
    else:
        hold(torch.equal(sub.batch[sub.row], sub.batch[sub.col]), "trees are mixed")
    hops = [int(fanout) for fanout in fanouts]
    for part, fanout in zip(sub.col.split(sub.num_sampled_edges), hops, strict=True):
        most = int(part.bincount().max()) if part.numel() else 0
        hold(fanout < 0 or most <= fanout, "more edges than the fanout")
    return sub


def typed(adj: Any, seeds: Any, fanouts: Any, **how: Any) -> Any:
    """`sample_rooted` on several types, checked."""
    sub = sample_rooted(adj, seeds, fanouts, **how)
    if not isinstance(sub, HeteroSubgraph):
        return sub
    for name, ids in seeds.items():
        start = whole(ids)
        hold(torch.equal(sub.node[name][: start.numel()], start), "other seeds")
    for kind, rows in adj.items():
        ends = sub.node[kind[2]], sub.node[kind[0]]
        check_edges(rows, *ends, sub.row[kind], sub.col[kind], sub.edge[kind])
    return sub


def padded(adj: Any, seeds: Any, fanouts: Any, **how: Any) -> Any:
    """`sample_rooted` in static shapes, checked: the same draws, and dummies after."""
    found = sample_rooted(adj, seeds, fanouts, padded=True, **how)
    plain = found.unpadded()
    if type(how.get("generator")) is int:
        same = sample_rooted(adj, seeds, fanouts, **how)
        for name in ("node", "row", "col", "edge", "batch"):
            pair = getattr(plain, name), getattr(same, name)
            hold(_equal(*pair), f"other draws of {name} than without padding")
    typed = isinstance(plain, HeteroSubgraph)
    for name in ("row", "col"):
        for kind in adj if typed else [None]:
            ends = getattr(found, name)[kind] if typed else getattr(found, name)
            end = kind and kind[0 if name == "row" else 2]
            node = found.node[end] if typed else found.node
            left = ~(found.edge_mask[kind] if typed else found.edge_mask)
            hold(bool((ends[left] == node.numel() - 1).all()), "no edge of the dummy")
    repr(found)
    return plain


def _equal(one: Any, other: Any) -> bool:
    """True if tensors, or mappings of some, are the same."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_equal(one[k], other[k]) for k in one)
    return one is other is None or torch.equal(one, other)


def split(**arguments: Any) -> Any:
    """`split_links`, checked."""
    found = split_links(**arguments)
    hold(found.positive.shape == found.negative.shape, "as many of both")
    pairs = torch.cat([found.train, found.positive, found.negative], dim=1)
    hold(not pairs.numel() or int(pairs.max()) < found.num_nodes, "unknown nodes")
    return found


def trained(model: Any, **how: Any) -> Tensor:
    """A loss from the first batch of the model's loader."""
    loss = torch.zeros(())
    for batch in itertools.islice(model.loader(**how), 1):
        loss = (
            model.loss(*batch) if isinstance(batch, tuple | list) else model.loss(batch)
        )
        loss.backward()
    return loss
