"""The hosts that take part: what adapters hand in to `gttf bench` and `gttf verify`.

The engine knows no host by name. A distribution registers a `Host` as an entry point of
the group `gttf.hosts`, in setup.cfg:

    [options.entry_points]
    gttf.hosts =
        pyg = gttf_pyg._bench:HOST

It is imported when a task asks for hosts; one that cannot be imported is left out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from gttf_sampler import CompactAdj
from gttf_sampler.bench.machine import Missing, first_line, of_extra, version
from gttf_sampler.bench.measure import CPU, Peer, Work
from gttf_sampler.embedding import Epoch

GROUP = "gttf.hosts"
NOBODY = "no adapter is registered; install the package anew, so that its hosts are"


class LoaderSetting(NamedTuple):
    """The batches that every loader makes.

    Attributes:
        adj: rows to sample from, on the CPU.
        x: features [n, d].
        y: labels [n].
        fanouts: neighbours per hop, seeds first.
        seeds: [batches, b].
        workers: worker processes; 0 where batches are made on a device.
        device: where batches end up.
    """

    adj: CompactAdj
    x: Tensor
    y: Tensor
    fanouts: list[int]
    seeds: Tensor
    workers: int = 0
    device: torch.device = CPU


class Mode(NamedTuple):
    """A row of `gttf bench modes`: one way to load batches.

    Attributes:
        name: what `--only` calls it.
        work: what the table calls it, beside fanouts and batch size.
        fanouts: neighbours per hop, seeds first.
        reach: the ratio that is worked for; it is in the JSON and in no table.
        graph: a key of the host's `graphs`.
        batch: seeds per batch.
        batches: per round; small ones are many, or a clock could not tell.
        kind: "nodes" or "links", whichever are loaded; "sampler" for no loader at all.
        time: the attribute with times, None where there are none.
        workers: worker processes, beside a second run without any.
        options: other arguments of the loaders.
    """

    name: str
    work: str
    fanouts: tuple[int, ...]
    reach: float
    graph: str
    batch: int
    batches: int = 20
    kind: str = "nodes"
    time: str | None = None
    workers: int = 0
    options: Mapping[str, Any] = {}

    def title(self, batch: int) -> str:
        """The row's first cell; a small graph may not have seeds for a whole batch."""
        return f"{self.work}, {list(self.fanouts)}, batch {batch:,}"


class ModeGraph(NamedTuple):
    """The size of a made graph that several modes share, at scale 1.

    Attributes:
        title: what a table says about it.
        nodes: in all, or of every type; 0 where the host makes tables of its own sizes.
        degree: mean degree; of every relation if there are types.
        features: per node.
        types: 1 if nodes have no types.
    """

    title: str
    nodes: int
    degree: float
    features: int
    types: int = 1


Makers = dict[str, Callable[[int], Peer]]  # name → number of workers → the peer


class Ground(Protocol):
    """A made graph in the host's own form, from which the modes load batches."""

    @property
    def facts(self) -> dict[str, int]:
        """Its "nodes" and "edges"."""

    def seeds(self, mode: Mode, batches: int, seed: int) -> Tensor:
        """The seeds of every batch [batches, b]: nodes, or positions of edges."""

    def peers(self, mode: Mode, seeds: Tensor, seed: int, missing: Missing) -> Makers:
        """Our loader first, then the host's own if it has this mode."""


class EmbeddingSetting(NamedTuple):
    """The graph that embeddings are learned from.

    Attributes:
        train: edges [2, m], both directions of each.
        num_nodes: of the graph.
        size: numbers of a vector.
        epochs: of the methods that have the longest ones.
        seed: of everything random.
    """

    train: Tensor
    num_nodes: int
    size: int
    epochs: int
    seed: int

    def rows(self) -> CompactAdj:
        """The edges as rows to walk along."""
        return CompactAdj.from_edge_index(self.train, self.num_nodes, direction="out")


class Trained(NamedTuple):
    """The epochs of a model, and a function that scores pairs [2, k] by it."""

    epochs: list[Epoch]
    score: Callable[[Tensor], Tensor]


class Embedder(NamedTuple):
    """Someone who learns embeddings; those with the same method are compared."""

    method: str
    train: Callable[[EmbeddingSetting], Trained]


# edges [2, m], number of nodes, fanouts, seeds → a function that draws all batches and
# returns them, or None where the sampler can be made but cannot sample
MakeSampler = Callable[[Tensor, int, list[int], Tensor], Callable[[], Any]]
Calls = dict[str, Callable[[], list[Tensor]]]


@dataclass(frozen=True)
class Host:
    """A host and everything of it that tasks measure, as its adapter hands it in.

    Attributes:
        name: of the host, as titles and labels have it.
        loaders: a loader per name, ours first, on one setting.
        work: counts a batch of these loaders.
        trainer: number of features, device → a function that takes a training step of
            the host's GraphSAGE on a batch.
        graphs, modes: of `gttf bench modes`.
        ground: makes one of these graphs, by name, scale, seed and device.
        samplers: who is asked in `gttf bench memory`.
        walkers: rows, steps of a walk, (p, q) of node2vec → who walks.
        embedders: who is asked in `gttf bench embedding`.
        checks: graph, device → calls that `gttf verify` compares; the first is the one
            on the CPU that all others are compared with.
    """

    name: str
    loaders: Callable[[LoaderSetting, Missing], dict[str, Any]]
    work: Callable[[Any], Work]
    trainer: Callable[[int, torch.device], Callable[[Any], None]]
    graphs: Mapping[str, ModeGraph]
    modes: tuple[Mode, ...]
    ground: Callable[[str, float, int, torch.device], Ground]
    samplers: Mapping[str, MakeSampler]
    walkers: Callable[[CompactAdj, int, tuple[float, float], Missing], dict[str, Peer]]
    checks: Callable[[CompactAdj, Tensor, torch.device, Missing], Calls]
    embedders: Mapping[str, Embedder] = field(default_factory=dict)


def hosts(missing: Missing) -> list[Host]:
    """The hosts that can be imported here; notes the others."""
    found: list[Host] = []
    points = entry_points(group=GROUP)
    if not points:
        missing.add("all hosts", NOBODY)
    for point in sorted(points, key=lambda point: point.name, reverse=True):
        try:
            found.append(point.load())
        except (ImportError, OSError, RuntimeError, AttributeError) as error:
            missing.add(point.module.partition(".")[0], first_line(error))
    return found


def unavailable() -> list[tuple[str, str]]:
    """(adapter, packages it needs) of hosts that are not installed; imports nothing.

    The extra with the name of an entry point has the packages of its host.
    """
    found = []
    for point in entry_points(group=GROUP):
        needs = [name for name in of_extra(point.name) if version(name) is None]
        if needs:
            found.append((point.module.partition(".")[0], ", ".join(needs)))
    return found
