"""Hosts: all that adapters hand in to the commands bench, verify and partition.

The engine knows no host by name. A distribution registers a `Host` as an entry point of
the group `gttf.hosts`, in setup.cfg:

    [options.entry_points]
    gttf.hosts =
        pyg = gttf_pyg._bench:HOST

It is imported when a task asks for hosts; one that cannot be imported is left out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gttf_sampler import CompactAdj
from gttf_sampler.bench.machine import Missing, first_line, of_extra, version
from gttf_sampler.bench.measure import CPU, Peer, Work
from gttf_sampler.embedding import Epoch

GROUP = "gttf.hosts"
NO_ADAPTER = "no adapter is registered; install the package anew, so that its hosts are"


class Mode(NamedTuple):
    """A row of `gttf bench modes`: one way to load batches."""

    name: str  # for `--only`
    work: str  # in the table, beside fanouts and batch size
    fanouts: tuple[int, ...]  # seeds first
    reach: float  # the ratio that is worked for; in the JSON, in no table
    graph: str  # a key of the host's `graphs`
    batch: int
    batches: int = 20  # per round; small ones are many, or a clock could not tell
    kind: str = "nodes"  # or "links", or "sampler" for no loader at all
    time: str | None = None  # the attribute with times
    workers: int = 0  # worker processes, beside a second run without any
    options: Mapping[str, Any] = {}  # other arguments of the loaders

    def title(self, batch: int) -> str:
        """The row's first cell; a small graph may not have seeds for a whole batch."""
        return f"{self.work}, {list(self.fanouts)}, batch {batch:,}"


GIVEN = Mode("", "plain", (), 0.0, "", 0)  # batches that were asked for by options


class ModeGraph(NamedTuple):
    """The size of a made graph that several modes share, at scale 1."""

    title: str
    nodes: int  # in all, or of every type; 0 where the host has sizes of its own
    degree: float  # the mean; of every relation if there are types
    features: int
    types: int = 1


class LoaderSetting(NamedTuple):
    """The batches that every loader makes."""

    adj: Any  # a CompactAdj with rows to sample from, on the CPU, or a `Typed` graph
    x: Any  # features [n, d], of each type if there are types
    y: Any  # labels [n], of the first type if there are types; None where not needed
    fanouts: list[int]  # seeds first
    seeds: Tensor  # [batches, b], nodes, or positions of edges where these are seeds
    workers: int = 0  # worker processes; 0 where batches are made on a device
    device: torch.device = CPU  # where batches end up
    mode: Mode = GIVEN  # its kind, times and options
    seed: int = 0  # of times and weights, where the mode has any


class StepSetting(NamedTuple):
    """A model of two layers that is trained on the batches of every loader."""

    layer: str  # sage, gcn, gin, max, gat, gatv2; "inference" uses SAGE on all nodes
    sizes: tuple[int, int, int]  # features, hidden units, classes
    loaders: dict[str, Any]  # of the host, ours first
    batches: LoaderSetting  # what they load


class StepBatch(NamedTuple):
    """The parts of a batch that a step reads."""

    x: Any  # rows [n, d], of each type if there are types
    edges: Any  # as a layer of the host takes them
    labels: Tensor  # of the seeds, whose rows come first


class Stepper(NamedTuple):
    """A peer that takes training steps of a model."""

    loader: Iterable[Any]
    logits: Callable[[Any], Tensor]  # of a batch's seeds
    labels: Callable[[Any], Tensor] | None  # None: nothing is trained
    model: nn.Module
    like: str | None = None  # the row whose outputs these must be
    tuned: bool = False  # once more where the allocator keeps its memory
    rounds: int = 1 << 30  # the most it takes part in


MakeLayer = Callable[[int, int, int], nn.Module]  # of inputs, outputs, hidden units


class StepModels(NamedTuple):
    """The layers of a host, and how its batches go through them."""

    layers: Mapping[str, MakeLayer]  # by the name of the model
    typed: Callable[[dict[Any, nn.Module]], nn.Module]  # layers of relations as one
    call: Callable[[Any, Any, Any, int], Any]  # (layer, x, edges, depth) → rows
    read: Callable[[Any], StepBatch]
    fuse: Callable[[Any], str]  # a model, in place; says why not, if nothing is fused
    # by name of the row: (batch, depth, x, edges) → x and edges that the layer needs
    trims: Mapping[str, Callable[[Any, int, Any, Any], tuple[Any, Any]]] = {}
    tuned: bool = False  # its own rows once more where the allocator keeps its memory
    inferences: Callable[[StepSetting, Missing], dict[str, Stepper]] = lambda *_: {}


class EmbeddingSetting(NamedTuple):
    """The graph that embeddings are learned from."""

    train: Tensor  # edges [2, m], both directions of each
    num_nodes: int
    size: int  # numbers of a vector
    epochs: int  # of the methods that have the longest ones
    seed: int

    def rows(self) -> CompactAdj:
        """The edges as rows to walk along."""
        return CompactAdj.from_edge_index(self.train, self.num_nodes, direction="out")


class Trained(NamedTuple):
    """The epochs of a model, and a function that scores pairs [2, k] by it."""

    epochs: list[Epoch]
    score: Callable[[Tensor], Tensor]


class Embedder(NamedTuple):
    """A peer that learns embeddings; those with the same method are compared."""

    method: str
    train: Callable[[EmbeddingSetting], Trained]


# edges [2, m], number of nodes, fanouts, seeds → a function that draws all batches and
# returns them, or None where the sampler can be made but cannot sample
MakeSampler = Callable[[Tensor, int, list[int], Tensor], Callable[[], Any]]
Calls = dict[str, Callable[[], list[Tensor]]]


@dataclass(frozen=True)
class Host:
    """A host and everything of it that tasks measure, as its adapter hands it in."""

    name: str
    # a loader per name, ours first, on one setting; none where the host has no such
    loaders: Callable[[LoaderSetting, Missing], dict[str, Any]]
    work: Callable[[Any], Work]  # counts a batch of these loaders
    step: StepModels  # of `gttf bench step`
    graphs: Mapping[str, ModeGraph]  # of `gttf bench modes`
    modes: tuple[Mode, ...]
    samplers: Mapping[str, MakeSampler]  # of `gttf bench memory`
    # rows, steps of a walk, (p, q) of node2vec → who walks
    walkers: Callable[[CompactAdj, int, tuple[float, float], Missing], dict[str, Peer]]
    # graph, device → calls that `gttf verify` compares with the first, on the CPU
    checks: Callable[[CompactAdj, Tensor, torch.device, Missing], Calls]
    embedders: Mapping[str, Embedder] = field(default_factory=dict)
    # file, names of weights and times → a graph that `torch.save` has written, with
    # `graph`, `features` and `left_out`; None where the host has no such files
    saved: Callable[[str, str | None, str | None], Any] | None = None


def hosts(missing: Missing) -> Iterator[Host]:
    """The hosts that can be imported here, one by one; notes the others."""
    points = entry_points(group=GROUP)
    if not points:
        missing.add("all hosts", NO_ADAPTER)
    for point in sorted(points, key=lambda point: point.name, reverse=True):
        try:
            host: Host = point.load()
        except (ImportError, OSError, RuntimeError, AttributeError) as error:
            missing.add(point.module.partition(".")[0], first_line(error))
        else:
            yield host


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
