"""Exchange: processes that ask each other for what they hold, and answer.

Every process has a thread per peer that answers that peer's requests, so that nobody
waits for a process that is busy with its own batches, has fewer of them, or has none
left. Requests and answers are point-to-point messages of a gloo group of its own: in a
collective each process would wait for the slowest of all, and none could tell which one
that is.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from itertools import count
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from gttf_sampler.distributed.wire import pack, unpack

Arrays = Sequence[Tensor]
Handler = Callable[[list[Tensor]], Arrays | Tensor]
REQUEST, DONE, FAILED = range(3)
CALLS, HEAD = 0, 6  # the tag of all heads of requests, and how many numbers they have
AGES = timedelta(days=3650)  # a process that has nothing to ask is not a failure
GLANCE = 0.1  # seconds after which a process that waits looks for failures of others
LAST_WORDS = timedelta(seconds=2)  # which a process that fails has for them


class PeerError(RuntimeError):
    """Another process has failed, is gone, or has not answered in time."""


class Traffic(NamedTuple):
    """What a process has asked of others.

    Attributes:
        messages: requests and answers.
        sent: bytes of requests.
        received: bytes of answers.
    """

    messages: int = 0
    sent: int = 0
    received: int = 0


class Exchange:
    """The link of this process to the others of a group.

    Args:
        store: where the processes find each other.
        rank: of this process.
        size: how many processes there are.
        timeout: seconds within which a process must answer.

    Attributes:
        traffic: what was asked of others so far.
    """

    def __init__(self, store: Any, rank: int, size: int, timeout: float) -> None:
        self.rank, self.size, self.timeout = rank, size, timeout
        self.traffic = Traffic()
        self._pid, self._closed = os.getpid(), False
        self._failure: str | None = None
        self._lock = threading.Lock()
        self._tags = count(1, 3)
        self._services: list[tuple[str, Handler]] = [("a sign of life", lambda _: [])]
        self._heard: dict[int, str] = {}
        self._last_words: list[Any] = []
        self._threads: dict[int, threading.Thread] = {}
        self._open: dict[int, set[int]] = {}  # tags of requests without an answer yet
        if size == 1:
            return
        self._group: Any = dist.ProcessGroupGloo(store, rank, size, AGES)
        atexit.register(self._at_exit)

    def serve(self, name: str, handler: Handler) -> int:
        """Takes on a service, in the same order in all processes; returns its number.

        `name` says what is asked for; "{}" in it stands for the detail of a request. A
        handler gets the arrays of a request and returns those of the answer, or the
        message that they make.
        """
        self._services.append((name, handler))
        return len(self._services) - 1

    def start(self) -> None:
        """Begins to answer."""
        for peer in range(self.size):
            if peer != self.rank:
                name = f"gttf-answers-{peer}"
                run = threading.Thread(
                    target=self._answer_all, args=(peer,), daemon=True, name=name
                )
                self._threads[peer] = run
                run.start()

    def ask(
        self, service: int, messages: Mapping[int, Arrays], detail: int = 0
    ) -> Pending:
        """Sends requests to some processes; the answers are waited for later."""
        if os.getpid() != self._pid:
            raise RuntimeError(
                "a partitioned graph must be used in the process that opened it (got "
                "a worker process); set 'num_workers' to 0 and use 'prefetch'"
            )
        if self._failure is not None:
            raise PeerError(self._failure)
        if self._closed:
            raise RuntimeError("a partitioned graph must be open to be asked")
        return Pending(self, service, messages, detail)

    def close(self) -> None:
        """Goes on answering until nobody has anything to ask, then parts.

        Raises:
            PeerError: if another process has failed meanwhile.
        """
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        if self.size > 1:
            atexit.unregister(self._at_exit)
        if self._failure is None:
            for peer in self._threads:
                self._call(peer, DONE)
        for peer in self._threads:
            self._await_end(peer)
        if self._failure is not None:
            raise PeerError(self._failure)

    def abort(self, error: BaseException) -> None:
        """Tells the others that this process has failed, and does not wait for them."""
        if self._closed or self.size == 1 or os.getpid() != self._pid:
            return
        self._closed = True
        atexit.unregister(self._at_exit)
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        words = f"rank {self.rank} has failed: {said}"
        self.fail(str(error) if isinstance(error, PeerError) else words)
        until = time.monotonic() + LAST_WORDS.total_seconds()
        for work in self._last_words:
            try:
                work.wait(timedelta(seconds=max(0.01, until - time.monotonic())))
            except RuntimeError:  # that one is gone as well
                continue

    def fail(self, words: str, tell: bool = True) -> None:
        """Notes the first failure, and tells it the others unless they told it."""
        with self._lock:
            if self._failure is not None:
                return
            self._failure = words
        if tell:
            text = _as_bytes(words)
            for peer in self._threads:
                try:
                    tag = next(self._tags)
                    head = torch.tensor([FAILED, 0, 0, tag, text.numel(), 0])
                    self._last_words.append(self._group.send([head], peer, CALLS))
                    self._last_words.append(self._group.send([text], peer, tag))
                except RuntimeError:  # it is gone
                    continue

    def blame(self, peer: int, error: RuntimeError, task: str) -> PeerError:
        """The error of a peer that has not answered, which all others are told."""
        late = "imed out" in str(error)
        if not late:  # its last words may be on their way
            self._threads[peer].join(LAST_WORDS.total_seconds())
        did = "does not answer" if late else "is gone"
        limit = f" within {self.timeout:g} s" if late else ""
        last = self._heard.get(peer)
        before = "" if last is None else f"; it last asked rank {self.rank} for {last}"
        self.fail(f"rank {peer} {did}{limit}: rank {self.rank} {task}{before}")
        return PeerError(self._failure)

    def open_tag(self, peer: int) -> tuple[int, int]:
        """A new tag, and the first one without an answer: those before have arrived."""
        with self._lock:
            tag, waiting = next(self._tags), self._open.setdefault(peer, set())
            waiting.add(tag)
            return tag, min(waiting)

    def close_tag(self, peer: int, tag: int) -> None:
        """Notes that an answer has come, or that nobody waits for it any more."""
        with self._lock:
            self._open[peer].discard(tag)

    def name_of(self, service: int, detail: int) -> str:
        """What a request asks for, in words."""
        return self._services[service][0].format(detail)

    def count(self, sent: int, received: int) -> None:
        """Notes a request and its answer."""
        with self._lock:
            before = self.traffic
            self.traffic = Traffic(
                before.messages + 2, before.sent + sent, before.received + received
            )

    def _at_exit(self) -> None:
        """Ends with the interpreter: waits for others, or tells them of a failure."""
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        if error is not None:
            self.abort(error)
        else:
            self.close()

    def _call(self, peer: int, kind: int) -> None:
        """Sends a message that has a head only, if the peer is still there."""
        try:
            head = torch.tensor([kind, 0, 0, 0, 0, 0])
            self._group.send([head], peer, CALLS).wait(timedelta(seconds=self.timeout))
        except RuntimeError as error:
            if self._threads[peer].is_alive():
                self.blame(peer, error, "told it that it is done")

    def _await_end(self, peer: int) -> None:
        """Waits until a peer is done, and looks now and then whether it lives."""
        thread, asked = self._threads[peer], time.monotonic()
        while self._failure is None:
            thread.join(GLANCE)
            if not thread.is_alive():
                return
            if time.monotonic() < asked + self.timeout / 3:
                continue
            asked = time.monotonic()
            try:
                Pending(self, 0, {peer: []}, 0).answers()
            except PeerError:
                if thread.is_alive():
                    return
                self._failure = None  # it was done in the meantime

    def _answer_all(self, peer: int) -> None:
        """Answers one peer until it is done, or gone."""
        under_way: dict[int, list[Any]] = {}  # a message lives as long as its handle
        try:
            while True:
                head = torch.empty(HEAD, dtype=torch.int64)
                self._group.recv([head], peer, CALLS).wait()
                kind, service, detail, tag, size, first_open = head.tolist()
                if kind == DONE:
                    return
                body = torch.empty(size, dtype=torch.uint8)
                self._group.recv([body], peer, tag).wait()
                if kind == FAILED:
                    self.fail(_as_text(body), tell=False)
                    return
                self._heard[peer] = self.name_of(service, detail)
                for old in [each for each in under_way if each < first_open]:
                    del under_way[old]  # it has arrived
                try:
                    found = self._services[service][1](unpack(body))
                    answer = found if isinstance(found, Tensor) else pack(found)
                    size_of = torch.tensor([answer.numel()])
                except Exception as error:
                    answer = _as_bytes(f"{type(error).__name__}: {error}")
                    size_of = torch.tensor([-answer.numel()])
                under_way[tag] = [
                    self._group.send([size_of], peer, tag + 1),
                    self._group.send([answer], peer, tag + 2),
                ]
        except RuntimeError:
            if not sys.is_finalizing():
                last = self._heard.get(peer)
                before = "" if last is None else f"; the last it asked for was {last}"
                self.fail(f"rank {peer} is gone: rank {self.rank} answers it{before}")


class Pending:
    """Requests that were sent; see `Exchange.ask`."""

    def __init__(
        self,
        exchange: Exchange,
        service: int,
        messages: Mapping[int, Arrays],
        detail: int,
    ) -> None:
        self._exchange = exchange
        self._task = f"waits for {exchange.name_of(service, detail)}"
        self._sent: list[Any] = []  # a message lives as long as its handle
        self._asked: list[tuple[int, int, int, Tensor, Any]] = []
        for peer, arrays in messages.items():
            group = exchange._group
            body, (tag, first_open) = pack(arrays), exchange.open_tag(peer)
            about = REQUEST, service, detail, tag, body.numel(), first_open
            head = torch.tensor(about)
            size = torch.empty(1, dtype=torch.int64)
            try:
                self._sent.append(group.send([head], peer, CALLS))
                self._sent.append(group.send([body], peer, tag))
                work = group.recv([size], peer, tag + 1)
            except RuntimeError as error:
                raise exchange.blame(peer, error, "asks it") from None
            self._asked.append((peer, tag, body.numel(), size, work))

    def answers(self) -> dict[int, list[Tensor]]:
        """The answer of every process that was asked."""
        exchange, found = self._exchange, {}
        limit = timedelta(seconds=exchange.timeout)
        for peer, tag, sent, size, work in self._asked:
            try:
                work.wait(limit)
                answer = torch.empty(abs(int(size)), dtype=torch.uint8)
                exchange._group.recv([answer], peer, tag + 2).wait(limit)
            except RuntimeError as error:
                raise exchange.blame(peer, error, self._task) from None
            exchange.close_tag(peer, tag)
            if int(size) < 0:
                raise PeerError(f"rank {peer} cannot answer: {_as_text(answer)}")
            exchange.count(sent, answer.numel())
            found[peer] = unpack(answer)
        for work in self._sent:  # they have arrived, or there would be no answers
            work.wait(limit)
        return found

    def __del__(self) -> None:
        """Lets answers go that nobody waits for any more."""
        for peer, tag, *_ in self._asked:
            self._exchange.close_tag(peer, tag)


def _as_bytes(words: str) -> Tensor:
    """A text as a message."""
    return torch.frombuffer(bytearray(words.encode()), dtype=torch.uint8)


def _as_text(message: Tensor) -> str:
    """The text of a message."""
    return bytes(message.tolist()).decode()
