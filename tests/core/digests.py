"""Many calls whose random draws must stay what they are, and a digest of each.

A seed is a promise: whoever has noted one gets the same batch from a later version.
`test_digests` compares with `digests.json`, on every backend. Whole numbers and floats
have a digest each, the second one under the name of the call and "floats". Where a
change of the draws is meant, say so in the CHANGELOG and record them anew:

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
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gttf_sampler import (
    AttentionBias,
    CommunitySampler,
    CompactAdj,
    DeepWalkAcc,
    EdgeWeightBias,
    ExcludeBias,
    FastGCNBias,
    FractionBias,
    LABORBias,
    LADIESBias,
    Node2VecAcc,
    Node2VecBias,
    NoRevisitBias,
    PPRAcc,
    RootedAdjAcc,
    StratifiedBias,
    TemporalBias,
    TransitionAcc,
    TransitionFactorizationAcc,
    WYSAcc,
    ppr_neighbors,
    sample_rooted,
    traverse,
    use_backend,
)
from gttf_sampler.bias import Variates
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


def hidden(**how: Any) -> Any:
    """Rows without some of their edges."""
    adj = graph(edge_time=None)
    bias = ExcludeBias(torch.arange(0, EDGES * SIZE, 3))
    return sample_rooted(adj, seeds(), [5, 5], bias=bias, generator=15, **how)


def by_time() -> TemporalBias:
    """A time for every seed."""
    return TemporalBias(seed_time=seeds() % 90 + 10)


def negatives() -> Any:
    """Nodes in proportion to a power of their degree."""
    draw = NegativeSampler(graph(), 0.75)
    return draw.draw((40 * SIZE, 5), generator=16)


def timed(fanouts: list[int], padded: bool = False, **how: Any) -> Callable[[], Any]:
    """A call of `sample_rooted` with a time for every seed."""

    def call() -> Any:
        bias = TemporalBias(seed_time=seeds() % 90 + 10, **how)
        given = {"bias": bias, "disjoint": True, "padded": padded, "generator": 12}
        return sample_rooted(graph(), seeds(), fanouts, **given)

    return call


def of_relations(bias: Callable[[], Any], column: str, **how: Any) -> Callable[[], Any]:
    """A call of `sample_rooted` with a bias for every relation."""

    def call() -> Any:
        adjs, roots = graph(typed=True, **{column: True}), {"a": seeds()}
        given = {"bias": dict.fromkeys(adjs, bias()), "generator": 13, **how}
        return sample_rooted(adjs, roots, given.pop("fanouts", [3, 2]), **given)

    return call


def budget(**how: Any) -> Callable[[], Any]:
    """HGT's draws: as many nodes of every type per layer."""

    def call() -> Any:
        adjs, roots = graph(typed=True), {"a": seeds()}
        return sample_budget(adjs, roots, [30 * SIZE, 20 * SIZE], generator=19, **how)

    return call


class InParts(NamedTuple):
    """A draw from a graph that is cut into parts, one per process.

    Attributes:
        cut: (folder, number of parts), which writes them.
        draw: from the opened graph.
    """

    cut: Callable[[Path, int], Any]
    draw: Callable[[PartitionedGraph], Any]

    def __call__(self) -> Any:
        """The draw, from one part."""
        with tempfile.TemporaryDirectory() as folder:
            self.cut(Path(folder, "parts"), 1)
            with PartitionedGraph.open(Path(folder, "parts")) as found:
                return self.draw(found)


def in_parts(**how: Any) -> InParts:
    """A call of `sample_rooted` on a graph in parts."""

    def cut(folder: Path, parts: int) -> None:
        partition(graph(edge_time=None).to("cpu"), folder, parts)

    def draw(found: PartitionedGraph) -> Any:
        return sample_rooted(found.adj, seeds(), [5, 4], generator=12, **how)

    return InParts(cut, draw)


def factors(bias: Any, fanouts: Any, **how: Any) -> Callable[[], Any]:
    """The number of edges that each edge of a batch stands for."""

    def call() -> Any:
        own = bias()
        return own.factor(rooted(fanouts, own, **how)())

    return call


def labor_of_run() -> Any:
    """LABOR, whose numbers turn into others in the course of some batches."""
    parts = [Variates.of_run(19, number, 4) for number in (0, 1, 5)]
    found = []
    for part in parts:
        bias = LABORBias([5, 4], variate=part.numbers)
        sub = sample_rooted(graph(), seeds(), [-1, -1], bias=bias, generator=12)
        found.append((sub, bias.factor(sub)))
    return found


def gcn_weights() -> Any:
    """The weights of a GCN, by every scheme."""
    adj = graph()
    sub = sample_rooted(adj, seeds(), [5, 4], generator=12)
    return [sub.gcn_weight(adj, scheme) for scheme in ("unbiased", "paper", "sampled")]


def walked(**how: Any) -> Any:
    """Results of accumulators of a forest, and the weights of its walkers."""
    adj = graph("out", edge_time=None)
    record, given = [TransitionAcc(2), PPRAcc(0.3)], {"generator": 11, **how}
    for accumulate in record:
        found = traverse(adj, seeds(), [4, 3], accumulate=accumulate, **given)
    return [each.result() for each in record], found.walk_weights()


def losses() -> Any:
    """Losses, to three places: logarithms are not the same on all machines."""
    adj = graph("out", edge_time=None)
    table = (torch.arange(adj.num_rows * 4) % 13 - 6).view(-1, 4) / 16
    context, found = torch.tensor([0.5, 0.3, 0.2]), []
    for make in (
        lambda draw: DeepWalkAcc(table, 2, generator=draw),
        lambda draw: DeepWalkAcc(table, 2, contrast="logistic", generator=draw),
        lambda draw: Node2VecAcc(table, 2, 0.5, 2.0, generator=draw),
        lambda draw: WYSAcc(table, table.flip(0), context, generator=draw),
        lambda draw: TransitionFactorizationAcc(table, table.flip(0), [1, 0.5, 0.25]),
    ):
        accumulate = make(torch.Generator().manual_seed(20))
        given = {"accumulate": accumulate, "generator": 11}
        traverse(adj, seeds(), [1] * 3, **given)
        found.append(accumulate.result())
    return [(loss.double() * 1000).round().long() for loss in found]


def communities() -> Any:
    """Two epochs of seeds in the order of their communities."""
    draw = torch.Generator().manual_seed(24)
    order = CommunitySampler(numbers(SIZE)["node_time"], 5, generator=draw)
    return [torch.tensor([*order]) for _ in range(2)]


def nearest(**how: Any) -> Callable[[], Any]:
    """The nodes with the most personalised PageRank."""

    def call() -> Any:
        near = ppr_neighbors(graph(), 4, walks=8, generator=25, **how)
        return near.rowptr, near.col, near.edge_weight

    return call


def fitted(model: Any, **how: Any) -> Callable[[], Any]:
    """Some coordinates after two epochs, as coarse as the backends round them alike."""

    def call() -> Any:
        torch.manual_seed(41)
        adj = graph("out", edge_time=None, edge_weight=None).to("cpu")
        made = model(adj, 4, **how)
        size = 64 if SIZE == 1 else 4000
        epochs = made.fit(
            2 // SIZE or 1, batch_size=size, lr=0.05, generator=42, progress=False
        )
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
    "rooted padded disjoint": rooted([4, 3], disjoint=True, padded=True),
    "rooted padded times": timed([4, 3], padded=True),
    "rooted padded hidden": lambda: hidden(padded=True),
    "rooted hidden": hidden,
    "typed": typed([3, 2]),
    "typed replaced": typed([3, 2], replace=True),
    "typed disjoint": typed([3, 2], disjoint=True),
    "typed padded": typed([3, 2], padded=True),
    "typed all": typed([-1, 2]),
    "typed weighted": of_relations(EdgeWeightBias, "edge_weight"),
    "typed LABOR": of_relations(
        lambda: LABORBias([3, 2]), "edge_weight", fanouts=[-1, -1]
    ),
    "typed fraction": of_relations(
        lambda: FractionBias([0.4, 0.3]), "edge_weight", fanouts=[-1, -1]
    ),
    "typed times": of_relations(by_time, "edge_time", disjoint=True),
    "typed padded times": of_relations(by_time, "edge_time", padded=True),
    "typed padded disjoint": typed([3, 2], padded=True, disjoint=True),
    "budget": budget(),
    "budget limited": budget(max_neighbors=3),
    "accumulated": accumulated,
    "visited": lambda: walk_subgraph(
        traverse(graph("out", edge_time=None), seeds(), [1] * 4, generator=17)
    ),
    "negatives": negatives,
    "links": lambda: split_links(numbers(SIZE)["edges"], generator=18),
}
PARTS: dict[str, InParts] = {
    "parts": in_parts(),
    "parts weighted": in_parts(bias=EdgeWeightBias()),
}
# What goes through the paths of batches whose sizes are all in `CORE` already.
SMALL: dict[str, Callable[[], Any]] = {
    "LABOR factor": factors(lambda: LABORBias([5, 4]), [-1, -1]),
    "LABOR factor weighted": factors(
        lambda: LABORBias([5, 4], EdgeWeightBias(), importance=1), [-1, -1]
    ),
    "LABOR of a run": labor_of_run,
    "LADIES factor": factors(lambda: LADIESBias(30), [-1, -1]),
    "FastGCN factor": factors(lambda: FastGCNBias(30), [-1, -1]),
    "gcn_weight": gcn_weights,
    "walked": walked,
    "walked distinct": lambda: walked(replace=False),
    "losses": losses,
    "communities": communities,
    "PPR": nearest(),
    "PPR weighted": nearest(bias=EdgeWeightBias()),
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


def tensors(value: Any, floats: bool = False) -> Iterable[Tensor]:
    """The tensors of whole numbers, or of floats, in a result, in a fixed order."""
    if isinstance(value, Tensor):
        if value.is_sparse:
            yield from tensors([value.indices(), value.values()], floats)
        elif floats == value.is_floating_point():
            found = value.detach().cpu()
            yield found if floats else found.to(torch.int64)
    elif isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield from tensors(value[key], floats)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors(part, floats)
    elif hasattr(value, "__dataclass_fields__"):
        fields = [name for name in value.__dataclass_fields__ if name[0] != "_"]
        yield from tensors([getattr(value, name) for name in fields], floats)


def digest(value: Any, floats: bool = False) -> str:
    """Sixteen characters that tell results apart, by their bits."""
    total = hashlib.sha256()
    for tensor in tensors(value, floats):
        total.update(str(list(tensor.shape)).encode())
        total.update(tensor.contiguous().numpy().tobytes())
    return total.hexdigest()[:16]


def digests_of(name: str, value: Any) -> dict[str, str]:
    """The digests of the whole numbers and of the floats of a result, if it has any."""
    names = {False: name, True: f"{name} floats"}
    return {
        own: digest(value, floats)
        for floats, own in names.items()
        if any(True for _ in tensors(value, floats))
    }


def all_in_parts() -> dict[str, InParts]:
    """All draws from graphs in parts that can be made here."""
    return {name: call for name, call in calls().items() if isinstance(call, InParts)}


def calls() -> dict[str, Callable[[], Any]]:
    """All calls that can be made here."""
    found: dict[str, Callable[[], Any]] = {**CORE, **PARTS, **FITS}
    found |= {f"large {name}": large(call) for name, call in found.items()}
    found |= SMALL
    if find_spec("torch_geometric"):
        import digests_pyg

        found |= digests_pyg.CALLS
        found |= {f"large {n}": large(digests_pyg.CALLS[n]) for n in digests_pyg.LARGE}
    if find_spec("dgl"):
        import digests_dgl

        found |= digests_dgl.CALLS
        found |= {f"large {n}": large(digests_dgl.CALLS[n]) for n in digests_dgl.LARGE}
    return found


def main() -> None:
    """Records the digests, which must be the same on every backend."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", required=True)
    parser.parse_args()
    tests = FILE.parent.parent
    sys.path += [str(tests / "pyg"), str(tests / "dgl")]
    found: dict[str, str] = {}
    for name, call in calls().items():
        several = []
        for backend in BACKENDS:
            with use_backend(backend):
                several.append(digests_of(name, call()))
        if any(each != several[0] for each in several):
            sys.exit(f"backends differ: {name}")
        found |= several[0]
    FILE.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    import digests  # as the calls of the hosts do, which have its `SIZE`

    digests.main()
