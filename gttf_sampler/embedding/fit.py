"""`model.fit`: epochs of training that change rows in place, and can be resumed."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler.embedding import settings
from gttf_sampler.embedding.links import link_auc
from gttf_sampler.embedding.optimizers import RowOptimizer
from gttf_sampler.embedding.settings import SCHEDULES, Epoch, Options, Task
from gttf_sampler.objectives.scores import Collector
from gttf_sampler.random import FIT, fold, new_key

CPU = torch.device("cpu")
SEEDS = (1 << 63) - 1  # those a torch.Generator takes


def fit(task: Task, options: Options) -> list[Epoch]:
    """Trains for some epochs, or until held-out edges are found no better."""
    settings.check_options(options)
    for name, table in task.tables.items():
        settings.check_table(name, table)
    key = int(new_key(options.generator, CPU, FIT))
    run = Run(task, options, key)
    if options.resume:
        settings.load(options.checkpoint, run)
    while not run.over:
        run.epoch()
    if run.best is not None:
        task.model.load_state_dict(run.best)
    return run.history


class Run:
    """A run of `fit`: all that changes from one epoch to the next."""

    def __init__(self, task: Task, options: Options, key: int) -> None:
        self.task, self.options, self.key = task, options, key
        weights = {name: table.weight for name, table in task.tables.items()}
        mine = {id(weight) for weight in weights.values()}
        others = [
            p for p in task.model.parameters() if p.requires_grad and id(p) not in mine
        ]
        how = options.optimizer, weights, others, key, task.allocate
        self.optimizer = RowOptimizer(*how, decay=options.weight_decay)
        self.history: list[Epoch] = []
        self.best: dict[str, Tensor] | None = None  # parameters, where AUC was best
        kept = options.checkpoint is not None
        self.settings = settings.settings(task, options) if kept else {}

    @property
    def over(self) -> bool:
        """True if all epochs are done, or `patience` has run out."""
        aucs = [epoch.auc for epoch in self.history if epoch.auc is not None]
        late = self.options.patience is not None and len(aucs) > 0
        since = len(aucs) - 1 - aucs.index(max(aucs)) if late else 0
        stops = late and since >= (self.options.patience or 0)
        return stops or len(self.history) >= self.options.epochs

    def epoch(self) -> None:
        """One more epoch: it depends on the key and its number alone."""
        number, options = len(self.history), self.options
        seed = int(fold(self.key, number)) & SEEDS
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(seed)
            generator = torch.Generator().manual_seed(int(fold(seed, 1)) & SEEDS)
            batches = self.task.batches(options.batch_size, generator)
            start = time.perf_counter()
            with _bar(len(batches), number, options) as show:
                work = _Work(self, batches, show)
                work.run()
            seconds = time.perf_counter() - start
        loss = work.loss / max(1, work.done)
        self.check_loss(loss)
        if not all(is_finite(table.weight) for table in self.task.tables.values()):
            self.check_loss(math.nan)
        valid = options.valid
        auc = None if valid is None else link_auc(self.task.score, valid)
        self.history.append(Epoch(loss, seconds, work.pairs, auc))
        self._remember()
        if options.checkpoint is not None:
            settings.save(options.checkpoint, self)

    def lr(self, step: int, per_epoch: int) -> float:
        """The learning rate of a step, from 0."""
        options, schedule = self.options, self.options.schedule
        if isinstance(schedule, str):
            schedule = SCHEDULES[schedule]
        share = schedule(step / max(1, per_epoch * options.epochs))
        try:
            rate = options.lr * float(share)
        except (TypeError, ValueError):
            rule = "must return a number, the share of 'lr'"
            _check.mistyped("schedule", rule, _check.shown(share))
        if not math.isfinite(rate):
            _check.fail("schedule", "must return a finite share of 'lr'", share)
        return rate

    def check_loss(self, loss: float) -> float:
        """The loss of a batch, which must be finite before a step is taken by it."""
        if not math.isfinite(loss):
            if self.optimizer.steps == 0:
                self._check_start(loss)
            rule, cure = "must let the loss stay finite", "try a tenth of it"
            _check.fail("lr", rule, f"{self.options.lr} and a loss of {loss}", cure)
        return loss

    def _check_start(self, loss: float) -> None:
        """Names what made the very first loss what it is."""
        cure = "set them anew, as 'reset_parameters()' does"
        for name, value in self.task.model.named_parameters():
            if not is_finite(value):
                own = name.removesuffix(".weight")
                _check.fail(own, "must hold finite numbers", "others, too", cure)
        rule = "must hold vectors whose products are finite"
        _check.fail(next(iter(self.task.tables)), rule, f"a loss of {loss}", cure)

    def _remember(self) -> None:
        """Keeps the parameters if no epoch before was as good, and that matters."""
        if self.options.patience is None:
            return
        aucs = [epoch.auc or 0.0 for epoch in self.history]
        if aucs[-1] > max(aucs[:-1], default=-1.0):
            state = self.task.model.state_dict()
            self.best = {name: value.clone() for name, value in state.items()}


@torch.no_grad()
def is_finite(value: Tensor) -> bool:
    """True if all numbers are finite; one pass that allocates nothing."""
    return not value.numel() or all(map(math.isfinite, value.aminmax()))


class _Work:
    """The batches of an epoch, shared by threads if that is wanted."""

    def __init__(
        self, run: Run, batches: Any, show: Callable[[float, int], None]
    ) -> None:
        self.run_, self.size, self.show = run, len(batches), show
        self.batches: Iterator[Any] = iter(batches)
        self.turn = threading.Condition()
        self.running, self.ended = 0, 0  # threads
        self.loss, self.pairs, self.done, self.begun = 0.0, 0, 0, 0
        self.error: BaseException | None = None

    def run(self) -> None:
        """Does all of them: one after the other, or several at a time."""
        if not self.run_.options.hogwild:
            self._steps()
            return
        threads = [
            threading.Thread(target=self._alone, name=f"gttf-hogwild-{number}")
            for number in range(torch.get_num_threads())
        ]
        try:
            for thread in threads:
                thread.start()
            with self.turn:
                self.turn.wait_for(lambda: self.ended == len(threads))
        except BaseException as error:  # Ctrl-C comes here, and to no other thread
            self.error = error
        self._finish()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        torch.set_num_threads(torch.get_num_threads())  # of threads yet to come
        if self.error is not None:
            raise self.error

    def _finish(self) -> None:
        """Waits for threads that have begun, however often Ctrl-C is pressed.

        Not by `Thread.join`: Python 3.11 takes a thread whose join was interrupted for
        one that has ended.
        """
        while True:
            try:
                with self.turn:
                    self.turn.wait_for(lambda: self.running == 0)
                return
            except KeyboardInterrupt as error:
                self.error = self.error or error

    def _alone(self) -> None:
        """The part of one of several threads, which gets no help from others."""
        torch.set_num_threads(1)  # of this thread
        with self.turn:
            begins = self.error is None  # who comes after an error changes nothing
            self.running += begins
        try:
            if begins:
                self._steps()
        except BaseException as error:
            self.error = self.error or error
        finally:
            with self.turn:
                self.running -= begins
                self.ended += 1
                self.turn.notify_all()

    def _steps(self) -> None:
        """Takes batches until there is none."""
        optimizer = self.run_.optimizer
        collector = Collector(optimizer.tables)
        while self.error is None:
            with self.turn:
                batch = next(self.batches, None)
                step = len(self.run_.history) * self.size + self.begun
                self.begun += 1
            if batch is None:
                return
            before = collector.scored
            tables, others = optimizer.tables, optimizer.others
            with collector.use():
                loss = self.run_.task.loss(batch)
                how: dict[str, Any] = {"allow_unused": True}  # tables are collected
                found = torch.autograd.grad(loss, [*tables, *others], **how)
            if self.error is not None:  # of another thread: no row changes any more
                return
            value = self.run_.check_loss(loss.item())
            rate = self.run_.lr(step, self.size)
            optimizer.step(collector.owed, found[len(tables) :], rate)
            collector.owed.clear()
            with self.turn:
                self.loss += value
                self.pairs += collector.scored - before
                self.done += 1
                self.show(self.loss / self.done, self.pairs)


@contextmanager
def _bar(
    batches: int, epoch: int, options: Options
) -> Iterator[Callable[[float, int], None]]:
    """Shows loss and pairs per second where tqdm is installed, on a terminal."""
    told, done = options.progress, count(epoch * batches + 1)
    if callable(told):
        every = max(1, batches * options.epochs)
        yield lambda loss, pairs: told(next(done) / every, loss, pairs)
        return
    if options.progress is False or find_spec("tqdm") is None:
        yield lambda loss, pairs: None
        return
    hidden = None if options.progress is None else False
    name, start = f"epoch {epoch + 1}/{options.epochs}", time.perf_counter()
    how: dict[str, Any] = {"leave": False, "disable": hidden, "unit": "batch"}
    with import_module("tqdm").tqdm(total=batches, desc=name, **how) as line:

        def show(loss: float, pairs: int) -> None:
            line.update()
            if not line.disable:
                pace = pairs / max(1e-9, time.perf_counter() - start) / 1e6
                shown = f"loss {loss:.4g}, {pace:.1f} M pairs/s"
                line.set_postfix_str(shown, refresh=False)

        yield show
