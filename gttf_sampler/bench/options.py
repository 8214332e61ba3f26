"""Options: what a task of `gttf bench` was asked for, by name."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Options:
    """The options of all tasks; each reads those that it has.

    Attributes:
        graph: a name of `graphs.SIZES`, a file of the user, or None where a task makes
            its own.
        scale: of a made graph; None for the usual one.
        fanouts: neighbours per hop, seeds first.
        batch: seeds per batch, or walks.
        batches: per round; 0 where every mode has its own.
        rounds: everyone takes a turn in each.
        features: per node.
        workers: worker processes of a loader.
        length: steps of a walk.
        only: names of modes, None for all.
        device: where to sample.
        memory: GB that `disk` supposes there are; None for those that there are.
        seed: of graphs and seed nodes.
        tmp: where graphs are made.
        keep: where the made graph stays, if anywhere.
    """

    graph: str | None = "reddit-like"
    scale: float | None = None
    fanouts: list[int] = field(default_factory=lambda: [15, 10])
    batch: int = 1024
    batches: int = 20
    rounds: int = 7
    features: int = 100
    workers: int = 0
    length: int = 20
    only: list[str] | None = None
    device: str = "cpu"
    memory: float | None = None
    seed: int = 0
    tmp: str = ""
    keep: str | None = None
