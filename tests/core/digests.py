"""Many calls whose random draws must stay what they are, and a digest of each.

A seed is a promise: whoever has noted one gets the same batch from a later version.
`test_digests` compares with `digests.json`, on every backend. Where a change of the
draws is meant, say so in the CHANGELOG and record them anew:

    python tests/core/digests.py --record
"""

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import (
    AttentionBias,
    CompactAdj,
    EdgeWeightBias,
    ExcludeBias,
    FastGCNBias,
    FractionBias,
    LABORBias,
    LADIESBias,
    Node2VecBias,
    NoRevisitBias,
    RootedAdjAcc,
    StratifiedBias,
    TemporalBias,
    sample_rooted,
    traverse,
    use_backend,
)
from gttf_sampler.distributed import PartitionedGraph, partition
from gttf_sampler.embedding import DeepWalk, Node2Vec, WatchYourStep, split_links
from gttf_sampler.objectives import NegativeSampler
from gttf_sampler.rooted import sample_budget, walk_subgraph

FILE = Path(__file__).with_name("digests.json")
BACKENDS = ("numba", "torch") if find_spec("numba") else ("torch",)
NODES, EDGES = 300, 3000
PLACE = "cpu"  # where the graphs of `CORE` are
SIZE = 1  # of the graph and of batches; see `enlarged`
LARGE = 20  # as many times: batches that several threads draw


@cache
def numbers(size: int = 1) -> dict[str, Tensor]:
    """A graph by Python's own numbers, so that it is the same with every torch."""
    nodes, edges = NODES * size, EDGES * size
    draw, i = Random(0), torch.arange(edges)
    ends = [[draw.randrange(nodes - 20) for _ in range(edges)] for _ in range(2)]
    ends[0][-200:] = [5] * 200  # a hub; and twenty nodes have no edge
    return {
        "edges": torch.tensor(ends),
        "weight": (i % 17).to(torch.float32) / 16,
        "time": (i * 37) % 101,
        "node_time": (torch.arange(nodes) * 53) % 97,
        "seeds": (torch.arange(40 if size == 1 else 200 * size) * 19 + 5) % nodes,
    }


GIVEN = numbers()
SEEDS = GIVEN["seeds"]


@contextmanager
def enlarged() -> Iterator[None]:
    """Within it, calls of `CORE` have a graph and a batch that threads share."""
    global SIZE
    SIZE = LARGE
    try:
        yield
    finally:
        SIZE = 1


def seeds() -> Tensor:
    """The seeds of the batch, whose size `enlarged` changes."""
    return numbers(SIZE)["seeds"]


def graph(direction: str = "in", *, typed: bool = False, **changes: Any) -> Any:
    """The graph as rows; three relations of it if `typed`."""
    found, nodes = numbers(SIZE), NODES * SIZE
    if typed:
        kinds = [("a", "r", "a"), ("a", "to", "b"), ("b", "of", "a")]
        columns = {"edge_weight": found["weight"], "edge_time": found["time"]}
        parts = [found["edges"].chunk(3, dim=1)]
        parts += [columns[name].chunk(3) for name in changes]
        return {
            kind: CompactAdj.from_edge_index(
                part, (nodes, nodes), **dict(zip(changes, more, strict=True))
            ).to(PLACE)
            for kind, (part, *more) in zip(kinds, zip(*parts, strict=True), strict=True)
        }
    given = {"edge_weight": found["weight"], "edge_time": found["time"], **changes}
    return CompactAdj.from_edge_index(
        found["edges"], nodes, direction=direction, **given
    ).to(PLACE)


def forest(fanouts: list[int], bias: Any = None, **how: Any) -> Callable[[], Any]:
    """A call of `traverse`."""

    def call() -> Any:
        adj = graph("out", edge_time=None)
        drawn = traverse(adj, seeds(), fanouts, bias, generator=11, **how)
        return drawn.nodes, drawn.edges

    return call


def rooted(fanouts: Any, bias: Any = None, **how: Any) -> Callable[[], Any]:
    """A call of `sample_rooted`."""

    def call() -> Any:
        return sample_rooted(graph(), seeds(), fanouts, bias=bias, generator=12, **how)

    return call


def typed(fanouts: Any, **how: Any) -> Callable[[], Any]:
    """A call of `sample_rooted` on several relations."""

    def call() -> Any:
        roots = {"a": seeds(), "b": seeds()[:7]}
        return sample_rooted(graph(typed=True), roots, fanouts, generator=13, **how)

    return call


def attention(node: Tensor, neighbor: Tensor) -> Tensor:
    """Scores that are exact in float32."""
    return ((node + neighbor) % 5).to(torch.float32) ** 2


def by_degree(path: Tensor, node: Tensor, neighborhood: Any) -> Tensor:
    """A bias as users write them."""
    return neighborhood.neighbor % 3


def accumulated() -> Any:
    """A subgraph recorded by an accumulator."""
    record = RootedAdjAcc()
    adj = graph("out", edge_time=None)
    traverse(adj, seeds(), [3, 2], NoRevisitBias(), record, generator=14)
    return record.result()


def hidden() -> Any:
    """Rows without some of their edges."""
    adj = graph(edge_time=None)
    bias = ExcludeBias(torch.arange(0, EDGES * SIZE, 3))
    return sample_rooted(adj, seeds(), [5, 5], bias=bias, generator=15)


def negatives() -> Any:
    """Nodes in proportion to a power of their degree."""
    draw = NegativeSampler(graph(), 0.75)
    return draw.draw((40 * SIZE, 5), generator=16)


def timed(fanouts: list[int], **how: Any) -> Callable[[], Any]:
    """A call of `sample_rooted` with a time for every seed."""

    def call() -> Any:
        bias = TemporalBias(seed_time=seeds() % 90 + 10, **how)
        given = {"bias": bias, "disjoint": True, "generator": 12}
        return sample_rooted(graph(), seeds(), fanouts, **given)

    return call


def of_relations(bias: Callable[[], Any], column: str, **how: Any) -> Callable[[], Any]:
    """A call of `sample_rooted` with a bias for every relation."""

    def call() -> Any:
        adjs, roots = graph(typed=True, **{column: True}), {"a": seeds()}
        given = {"bias": dict.fromkeys(adjs, bias()), "generator": 13, **how}
        return sample_rooted(adjs, roots, [3, 2], **given)

    return call


def budget(**how: Any) -> Callable[[], Any]:
    """HGT's draws: as many nodes of every type per layer."""

    def call() -> Any:
        adjs, roots = graph(typed=True), {"a": seeds()}
        return sample_budget(adjs, roots, [30 * SIZE, 20 * SIZE], generator=19, **how)

    return call


def in_parts(**how: Any) -> Callable[[], Any]:
    """A graph on a disk, as `partition` cuts it."""

    def call() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            partition(graph(edge_time=None).to("cpu"), Path(folder, "parts"), 1)
            with PartitionedGraph.open(Path(folder, "parts")) as found:
                drawn = sample_rooted(found.adj, seeds(), [5, 4], generator=12, **how)
        return drawn

    return call


def fitted(model: Any, **how: Any) -> Callable[[], Any]:
    """Some coordinates after two epochs, as coarse as the backends round them alike."""

    def call() -> Any:
        torch.manual_seed(41)
        adj = graph("out", edge_time=None, edge_weight=None).to("cpu")
        made = model(adj, 4, **how)
        epochs = made.fit(2, batch_size=64, lr=0.05, generator=42, progress=False)
        table = next(made.parameters())[:20].detach()
        return [(table * 16).round().long(), torch.tensor([e.pairs for e in epochs])]

    return call


CORE: dict[str, Callable[[], Any]] = {
    "forest uniform": forest([4, 3, 2]),
    "forest walk": forest([1] * 12),
    "forest distinct": forest([4, 3], replace=False),
    "forest weighted": forest([3, 3], EdgeWeightBias()),
    "forest weighted distinct": forest([3, 3], EdgeWeightBias(), replace=False),
    "forest node2vec": forest([1] * 8, Node2VecBias(0.25, 4.0)),
    "forest node2vec branching": forest([2, 2, 2], Node2VecBias(4.0, 0.25)),
    "forest node2vec weighted": forest([1] * 8, Node2VecBias(2, 0.5, weighted=True)),
    "forest no revisit": forest([3, 3], NoRevisitBias()),
    "forest attention": forest([3, 3], AttentionBias(attention)),
    "forest function": forest([3, 3], by_degree),
    "forest product": forest([3, 3], EdgeWeightBias() * NoRevisitBias()),
    "rooted": rooted([7, 4]),
    "rooted replaced": rooted([7, 4], replace=True),
    "rooted all": rooted([-1, 2]),
    "rooted disjoint": rooted([4, 3], disjoint=True),
    "rooted weighted": rooted([5, 4], EdgeWeightBias()),
    "rooted weighted replaced": rooted([5, 4], EdgeWeightBias(), replace=True),
    "rooted attention": rooted([5, 4], AttentionBias(attention)),
    "rooted function": rooted([5, 4], by_degree),
    "rooted times": timed([5, 4]),
    "rooted latest": timed([5, 4], strategy="last"),
    "rooted window": timed([5, 4], window=20),
    "rooted LADIES": rooted([8, 8], LADIESBias(30)),
    "rooted FastGCN": rooted([8, 8], FastGCNBias(30)),
    "rooted LABOR": rooted([-1, -1], LABORBias([5, 4])),
    "rooted LABOR weighted": rooted([-1, -1], LABORBias([5, 4], EdgeWeightBias())),
    "rooted fraction": rooted([-1, -1], FractionBias([0.4, 0.2])),
    "rooted stratified": rooted([5, 4], StratifiedBias(), replace=True),
    "rooted stratified weighted": rooted(
        [5, 4], StratifiedBias(EdgeWeightBias(), systematic=False), replace=True
    ),
    "rooted padded": rooted([5, 4], padded=True),
    "rooted padded weighted": rooted([5, 4], EdgeWeightBias(), padded=True),
    "rooted hidden": hidden,
    "typed": typed([3, 2]),
    "typed replaced": typed([3, 2], replace=True),
    "typed disjoint": typed([3, 2], disjoint=True),
    "typed padded": typed([3, 2], padded=True),
    "typed all": typed([-1, 2]),
    "typed weighted": of_relations(EdgeWeightBias, "edge_weight"),
    "typed times": of_relations(
        lambda: TemporalBias(seed_time=seeds() % 90 + 10), "edge_time", disjoint=True
    ),
    "budget": budget(),
    "budget limited": budget(max_neighbors=3),
    "accumulated": accumulated,
    "visited": lambda: walk_subgraph(
        traverse(graph("out", edge_time=None), seeds(), [1] * 4, generator=17)
    ),
    "negatives": negatives,
    "links": lambda: split_links(numbers(SIZE)["edges"], generator=18),
}
# What is drawn on the CPU only.
HERE: dict[str, Callable[[], Any]] = {
    "parts": in_parts(),
    "parts weighted": in_parts(bias=EdgeWeightBias()),
}
FITS: dict[str, Callable[[], Any]] = {
    "fit DeepWalk": fitted(DeepWalk, contrast="logistic"),
    "fit Node2Vec": fitted(Node2Vec, p=0.5, q=2.0, contrast="logistic"),
    "fit Watch Your Step": fitted(WatchYourStep, fanouts=[1] * 4),
}


def large(call: Callable[[], Any]) -> Callable[[], Any]:
    """The same call on a graph and a batch that several threads share."""

    def enlarged_call() -> Any:
        with enlarged():
            return call()

    return enlarged_call


def tensors(value: Any) -> Iterable[Tensor]:
    """The tensors of whole numbers in a result, in a fixed order."""
    if isinstance(value, Tensor):
        if not value.is_floating_point():
            yield value.detach().cpu().to(torch.int64)
    elif isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield from tensors(value[key])
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors(part)
    elif hasattr(value, "__dataclass_fields__"):
        fields = [name for name in value.__dataclass_fields__ if name[0] != "_"]
        yield from tensors([getattr(value, name) for name in fields])


def digest(value: Any) -> str:
    """Sixteen characters that tell results apart."""
    total = hashlib.sha256()
    for tensor in tensors(value):
        total.update(str(list(tensor.shape)).encode())
        total.update(tensor.contiguous().numpy().tobytes())
    return total.hexdigest()[:16]


def calls() -> dict[str, Callable[[], Any]]:
    """All calls that can be made here."""
    drawn = {**CORE, **HERE}
    found = {**drawn, **FITS}
    found |= {f"large {name}": large(call) for name, call in drawn.items()}
    if find_spec("torch_geometric"):
        import digests_pyg

        found |= digests_pyg.CALLS
    if find_spec("dgl"):
        import digests_dgl

        found |= digests_dgl.CALLS
    return found


def main() -> None:
    """Records the digests, which must be the same on every backend."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", required=True)
    parser.parse_args()
    tests = FILE.parent.parent
    sys.path += [str(tests / "pyg"), str(tests / "dgl")]
    found = {}
    for name, call in calls().items():
        several = set()
        for backend in BACKENDS:
            with use_backend(backend):
                several.add(digest(call()))
        if len(several) > 1:
            sys.exit(f"backends differ: {name}")
        (found[name],) = several
    FILE.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
