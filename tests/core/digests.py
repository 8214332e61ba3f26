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
from collections.abc import Callable, Iterable, Mapping
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
    LADIESBias,
    Node2VecBias,
    NoRevisitBias,
    RootedAdjAcc,
    TemporalBias,
    sample_rooted,
    traverse,
    use_backend,
)
from gttf_sampler.embedding import split_links
from gttf_sampler.objectives import NegativeSampler
from gttf_sampler.rooted import walk_subgraph

FILE = Path(__file__).with_name("digests.json")
BACKENDS = ("numba", "torch") if find_spec("numba") else ("torch",)
NODES, EDGES = 300, 3000
PLACE = "cpu"  # where the graphs of `CORE` are


def _numbers() -> dict[str, Tensor]:
    """A graph by Python's own numbers, so that it is the same with every torch."""
    draw, i = Random(0), torch.arange(EDGES)
    ends = [[draw.randrange(NODES - 20) for _ in range(EDGES)] for _ in range(2)]
    ends[0][-200:] = [5] * 200  # a hub; and twenty nodes have no edge
    return {
        "edges": torch.tensor(ends),
        "weight": (i % 17).to(torch.float32) / 16,
        "time": (i * 37) % 101,
        "node_time": (torch.arange(NODES) * 53) % 97,
        "seeds": (torch.arange(40) * 19 + 5) % NODES,
    }


GIVEN = _numbers()
SEEDS = GIVEN["seeds"]


def graph(direction: str = "in", *, typed: bool = False, **changes: Any) -> Any:
    """The graph as rows; three relations of it if `typed`."""
    given = {"edge_weight": GIVEN["weight"], "edge_time": GIVEN["time"], **changes}
    if typed:
        kinds = [("a", "r", "a"), ("a", "to", "b"), ("b", "of", "a")]
        parts = GIVEN["edges"].chunk(3, dim=1)
        return {
            kind: CompactAdj.from_edge_index(part, (NODES, NODES)).to(PLACE)
            for kind, part in zip(kinds, parts, strict=True)
        }
    return CompactAdj.from_edge_index(
        GIVEN["edges"], NODES, direction=direction, **given
    ).to(PLACE)


def forest(fanouts: list[int], bias: Any = None, **how: Any) -> Callable[[], Any]:
    """A call of `traverse`."""

    def call() -> Any:
        adj = graph("out", edge_time=None)
        drawn = traverse(adj, SEEDS, fanouts, bias, generator=11, **how)
        return drawn.nodes, drawn.edges

    return call


def rooted(fanouts: Any, bias: Any = None, **how: Any) -> Callable[[], Any]:
    """A call of `sample_rooted`."""

    def call() -> Any:
        return sample_rooted(graph(), SEEDS, fanouts, bias=bias, generator=12, **how)

    return call


def typed(fanouts: Any, **how: Any) -> Callable[[], Any]:
    """A call of `sample_rooted` on several relations."""

    def call() -> Any:
        seeds = {"a": SEEDS, "b": SEEDS[:7]}
        return sample_rooted(graph(typed=True), seeds, fanouts, generator=13, **how)

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
    traverse(adj, SEEDS, [3, 2], NoRevisitBias(), record, generator=14)
    return record.result()


def hidden() -> Any:
    """Rows without some of their edges."""
    adj = graph(edge_time=None)
    bias = ExcludeBias(torch.arange(0, EDGES, 3))
    return sample_rooted(adj, SEEDS, [5, 5], bias=bias, generator=15)


def negatives() -> Any:
    """Nodes in proportion to a power of their degree."""
    draw = NegativeSampler(graph(), 0.75)
    return draw.draw((40, 5), generator=16)


def time_of_seeds(**how: Any) -> TemporalBias:
    """Times for all seeds."""
    return TemporalBias(seed_time=SEEDS % 90 + 10, **how)


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
    "rooted times": rooted([5, 4], time_of_seeds(), disjoint=True),
    "rooted latest": rooted([5, 4], time_of_seeds(strategy="last"), disjoint=True),
    "rooted window": rooted([5, 4], time_of_seeds(window=20), disjoint=True),
    "rooted LADIES": rooted([8, 8], LADIESBias(30)),
    "rooted FastGCN": rooted([8, 8], FastGCNBias(30)),
    "rooted hidden": hidden,
    "typed": typed([3, 2]),
    "typed replaced": typed([3, 2], replace=True),
    "typed disjoint": typed([3, 2], disjoint=True),
    "accumulated": accumulated,
    "visited": lambda: walk_subgraph(
        traverse(graph("out", edge_time=None), SEEDS, [1] * 4, generator=17)
    ),
    "negatives": negatives,
    "links": lambda: split_links(GIVEN["edges"], generator=18),
}


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
    found = dict(CORE)
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
