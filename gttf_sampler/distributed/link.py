"""Link: the messages between this process and one other, in both directions."""

from __future__ import annotations

import sys
import threading
import time
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gttf_sampler._backends.memory import FEATURES
from gttf_sampler.distributed.messages import pack, unpack

if TYPE_CHECKING:
    from gttf_sampler.distributed.exchange import Arrays, Exchange

REQUEST, DONE, BYE, FAILED = KINDS = range(4)
CALLS, REPLIES, FIRST = range(3)  # the tags of heads; those of bodies come behind
HEAD, REPLY_HEAD = 6, 2  # how many numbers they have
AGES = timedelta(days=3650)  # a process that has nothing to ask is not a failure
FAREWELL = 0  # stands for the tag of an answer where there are no more


class Slot:
    """A request on its way: where its answer will be.

    Attributes:
        task: what it asks for.
        arrived: set when there is an answer, or never will be.
        answer: the message; None before it is there.
        words: why there is none, if the other process said so.
        nbytes: of the request.
        sent: when it was sent.
    """

    def __init__(self, task: str, nbytes: int) -> None:
        self.task, self.nbytes, self.sent = task, nbytes, time.monotonic()
        self.arrived = threading.Event()
        self.answer: Tensor | None = None
        self.words = ""
        self.handles: list[Any] = []  # a message lives as long as its handle


class Link:
    """A peer, with a thread that answers it and one that takes its answers.

    No message is waited for with a time limit: gloo ends all links of a process that
    has waited too long for one of them.

    Attributes:
        peer: its rank.
        heard: what it has asked for last.
        done: set when it has nothing more to ask.
    """

    def __init__(self, exchange: Exchange, group: Any, peer: int) -> None:
        self.exchange, self.group, self.peer = exchange, group, peer
        self.heard, self.done = "", threading.Event()
        self._tags, self._lock = count(FIRST, 2), threading.Lock()
        self._slots: dict[int, Slot] = {}
        self._handles: list[Any] = []
        self._said_bye = False
        names = f"gttf-answers-to-{peer}", f"gttf-answers-of-{peer}"
        self.threads = [
            threading.Thread(target=run, name=name, daemon=True)
            for name, run in zip(names, (self._serve, self._listen), strict=True)
        ]

    def request(self, service: int, arrays: Arrays, detail: int) -> Slot:
        """Sends a request."""
        body = pack(arrays)
        name = self.exchange.services[service].name.format(detail)
        slot = Slot(name, body.numel())
        with self._lock:
            tag = next(self._tags)
            self._slots[tag] = slot
            about = REQUEST, service, detail, tag, body.numel(), min(self._slots)
            slot.handles = self._send(torch.tensor(about), body, CALLS, tag)
        return slot

    def call(self, kind: int, words: str = "") -> None:
        """Sends a message that asks for nothing."""
        body = _as_bytes(words)
        with self._lock:
            tag = next(self._tags)
            head = torch.tensor((kind, 0, 0, tag, body.numel(), 0))
            try:
                self._handles += self._send(head, body, CALLS, tag)
            except RuntimeError:  # it is gone, and a thread notes that
                return

    def wake(self) -> None:
        """Ends all waiting for answers."""
        for slot in list(self._slots.values()):
            slot.arrived.set()

    def forget(self, slot: Slot) -> None:
        """Lets an answer go that nobody waits for."""
        with self._lock:
            for tag in [tag for tag, each in self._slots.items() if each is slot]:
                del self._slots[tag]

    def is_open(self) -> bool:
        """True while any of its threads is at work."""
        return any(thread.is_alive() for thread in self.threads)

    def _send(self, head: Tensor, body: Tensor, tag: int, own: int) -> list[Any]:
        """Two messages, and handles that they live as long as."""
        handles = [self.group.send([head], self.peer, tag)]
        if body.numel():
            handles.append(self.group.send([body], self.peer, own))
        return handles

    def _receive_head(self, size: int, tag: int) -> list[int]:
        """The numbers of a head, however long it takes."""
        head = torch.empty(size, dtype=torch.int64)
        self.group.recv([head], self.peer, tag).wait(AGES)
        numbers: list[int] = head.tolist()
        return numbers

    def _receive(self, size: int, tag: int) -> Tensor:
        """The body behind a head, in memory that was used before."""
        try:
            message = FEATURES.make(size)
        except (RuntimeError, MemoryError, ValueError, OverflowError):
            raise ValueError(f"a message of {size} bytes") from None
        if size:
            self.group.recv([message], self.peer, tag).wait(AGES)
        return message

    def _serve(self) -> None:
        """Answers the peer until it says goodbye."""
        sent: dict[int, list[Any]] = {}
        try:
            while True:
                head = self._receive_head(HEAD, CALLS)
                kind, service, detail, tag, size, first_open = head
                sound = kind in KINDS and 0 <= service < len(self.exchange.services)
                if not (sound and size >= 0 and _is_tag(tag)):
                    raise ValueError(f"a message that begins with {head}")
                body = self._receive(size, tag)
                if kind == DONE:
                    self.done.set()
                elif kind in (BYE, FAILED):
                    self._said_bye = True
                    farewell = torch.tensor((FAREWELL, 0))
                    self._handles += self._send(farewell, farewell[:0], REPLIES, 0)
                    if kind == FAILED:  # its threads must not outlive its interpreter
                        self.call(BYE)
                        self.exchange.fail(_as_text(body), tell=False)
                    return
                else:
                    for old in [each for each in sent if each < first_open]:
                        del sent[old]  # it has arrived
                    name = self.exchange.services[service].name
                    self.heard = name.format(detail)
                    size, answer = self._answer(service, body)
                    about = torch.tensor((tag, size))
                    sent[tag] = self._send(about, answer, REPLIES, tag + 1)
        except RuntimeError as error:
            self._lost(error)
        except ValueError as error:
            self._refuse(error)

    def _answer(self, service: int, body: Tensor) -> tuple[int, Tensor]:
        """The answer to a request, or what went wrong with a negative size."""
        try:
            found = self.exchange.services[service].handler(unpack(body))
            answer = found if isinstance(found, Tensor) else pack(found)
            return answer.numel(), answer
        except Exception as error:
            words = _as_bytes(f"{type(error).__name__}: {error}")
            return -words.numel(), words

    def _listen(self) -> None:
        """Takes the answers of the peer."""
        try:
            while True:
                tag, size = self._receive_head(REPLY_HEAD, REPLIES)
                if tag == FAREWELL:
                    return
                if not _is_tag(tag):
                    raise ValueError(f"an answer that begins with {[tag, size]}")
                answer = self._receive(abs(size), tag + 1)
                with self._lock:
                    slot = self._slots.pop(tag, None)
                if slot is not None:
                    slot.words = _as_text(answer) if size < 0 else ""
                    slot.answer = None if size < 0 else answer
                    slot.arrived.set()
        except RuntimeError as error:
            self._lost(error)
        except ValueError as error:
            self._refuse(error)

    def _refuse(self, error: ValueError) -> None:
        """Notes that the peer sends what nobody sends; it is not listened to again."""
        self.exchange.fail(f"rank {self.peer} has sent a malformed message: {error}")

    def _lost(self, error: RuntimeError) -> None:
        """Notes that the peer went without a word."""
        if sys.is_finalizing() or self._said_bye:
            return
        before = f"; it last asked for {self.heard}" if self.heard else ""
        if stood := self.exchange.stood_still:
            here = f"rank {self.exchange.rank} itself did not run for {stood:.0f} s"
            before += f"; {here}, which others take for a failure"
        self.exchange.fail(f"rank {self.peer} is gone{before}")


def _is_tag(number: int) -> bool:
    """True for the tag of a request; its answer has the next one."""
    return FIRST <= number < 1 << 31 and number % 2 == FIRST % 2


def _as_bytes(words: str) -> Tensor:
    """A text as a message."""
    plain = bytearray(words.encode())
    return torch.frombuffer(plain, dtype=torch.uint8) if plain else torch.empty(0)


def _as_text(message: Tensor) -> str:
    """The text of a message."""
    return bytes(message.tolist()).decode(errors="replace")
