"""Options of `fit`, their checks, and its record of an epoch."""

from __future__ import annotations

import math
from collections.abc import Callable
from os import PathLike
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gttf_sampler import _check, _files
from gttf_sampler._backends.pairs import RULES
from gttf_sampler.embedding.evaluation import Score
from gttf_sampler.embedding.links import LinkSplit
from gttf_sampler.random import Randomness

Schedule = Callable[[float], float]  # the share of an lr, by the share of all steps
Show = Callable[[float, float, int], None]  # share of all epochs, loss, pairs
SCHEDULES: dict[str, Schedule] = {
    "constant": lambda share: 1.0,
    "linear": lambda share: 1.0 - share,
    "cosine": lambda share: 0.5 + 0.5 * math.cos(math.pi * share),
}


class Epoch(NamedTuple):
    """Record of an epoch of `fit`.

    Attributes:
        loss: the mean over its batches.
        seconds: how long it took, without the test on held-out edges.
        pairs: how many pairs of vectors were multiplied, negatives included.
        auc: of held-out edges after it; None if none are held out.
    """

    loss: float
    seconds: float
    pairs: int
    auc: float | None


class Task(NamedTuple):
    """A model and the functions that `fit` trains it with.

    Attributes:
        model: the module; all its parameters are trained that want a gradient.
        tables: its tables of vectors, by name.
        batches: one epoch of them, given the size of a batch and a generator.
        loss: of a batch, [].
        score: of pairs [2, e], for held-out edges.
        allocate: makes what optimizers keep.
        settings: all else that a run depends on, by name, in plain numbers and words.
    """

    model: nn.Module
    tables: dict[str, nn.Embedding]
    batches: Callable[[int, torch.Generator], Any]
    loss: Callable[[Any], Tensor]
    score: Score
    allocate: Callable[[str, torch.Size, torch.dtype], Tensor]
    settings: Callable[[], dict[str, Any]]


class Options(NamedTuple):
    """The arguments of `fit`; see `WalkEmbedding.fit`."""

    epochs: int
    optimizer: str = "adam"
    lr: float = 0.01
    weight_decay: float = 0.0
    batch_size: int = 512
    schedule: str | Schedule = "constant"
    hogwild: bool = False
    valid: LinkSplit | None = None
    patience: int | None = None
    checkpoint: str | PathLike[str] | None = None
    resume: bool = False
    progress: bool | Show | None = None
    generator: Randomness = None


def check_options(options: Options) -> None:
    """Refuses options that make no sense."""
    _check.count("epochs", options.epochs)
    _check.one_of("optimizer", options.optimizer, RULES)
    _check.positive("lr", options.lr)
    if _check.finite("weight_decay", options.weight_decay) < 0:
        _check.fail("weight_decay", "must not be negative", options.weight_decay)
    _check.count("batch_size", options.batch_size)
    if not callable(options.schedule):
        _check.one_of("schedule", options.schedule, tuple(SCHEDULES))
    _check.yes_or_no("hogwild", options.hogwild)
    _check.yes_or_no("resume", options.resume)
    if options.valid is not None:
        _check.of_type("valid", options.valid, LinkSplit)
    if options.patience is not None:
        _check.count("patience", options.patience)
        if options.valid is None:
            _check.fail("patience", "needs 'valid' edges to look at", options.patience)
    _check.randomness(options.generator)
    if options.checkpoint is not None:  # now, not after the first epoch
        file = _check.path("checkpoint", options.checkpoint)
        _files.check_free("checkpoint", file, force=True)
    elif options.resume:
        _check.fail("resume", "needs a 'checkpoint'", "none")


def check_table(name: str, table: Any) -> None:
    """Refuses tables that do more than to hold vectors, or hold none."""
    plain = type(table) is nn.Embedding and table.padding_idx is None
    if not plain or table.max_norm is not None or table.scale_grad_by_freq:
        rule = "must be a plain torch.nn.Embedding"
        _check.fail(name, rule, repr(table), "train it with an optimizer of torch")
    if not table.num_embeddings:
        _check.fail("num_nodes", "must be at least 1 for 'fit'", 0)
