"""Exchange: processes that ask each other for what they hold, and answer.

Every process has threads that answer the others, so that none waits for a process
that is busy with its own batches, has fewer of them, or has none left. Requests and
answers are point-to-point messages of a gloo group of its own: in a collective each
process would wait for the slowest of all, and none could tell which one that is.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from itertools import count
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from gttf_sampler._backends.memory import FEATURES
from gttf_sampler._compat import default_store
from gttf_sampler.distributed.messages import pack, unpack

Arrays = Sequence[Tensor]
Handler = Callable[[list[Tensor]], Arrays | Tensor]
Reader = Callable[[int, list[Tensor]], Any]
GLANCE = 0.05  # seconds after which a process that waits looks what has happened
STOPPED = 2.0  # seconds by which a thread on a busy machine does not run late
LAST_WORDS = 2.0  # seconds that the words of a process that fails have to arrive
REQUEST, DONE, BYE, FAILED = KINDS = range(4)
CALLS, REPLIES, FIRST = range(3)  # the tags of heads; those of bodies come behind
HEAD, REPLY_HEAD = 6, 2  # how many numbers they have
AGES = timedelta(days=3650)  # a process that has nothing to ask is not a failure
FAREWELL = 0  # stands for the tag of an answer where there are no more
_meetings: Counter[str] = Counter()  # of every group


class PeerError(RuntimeError):
    """Another process has failed, is gone, or has not answered in time."""


class Service(NamedTuple):
    """A kind of request that a process answers."""

    name: str  # in words; "{}" in it stands for the detail of a request
    handler: Handler  # arrays of a request → those of the answer, or their message


class Traffic(NamedTuple):
    """Counts of what a process has asked of others."""

    messages: int = 0  # requests and answers
    sent: int = 0  # bytes of requests
    received: int = 0  # bytes of answers


class Slot:
    """A request that was sent, and its answer once that has arrived."""

    def __init__(self, link: Link, task: str, nbytes: int) -> None:
        self.link, self.task, self.nbytes = link, task, nbytes
        self.sent = time.monotonic()
        self.arrived = threading.Event()  # there is an answer, or never will be
        self.answer: Tensor | None = None
        self.words = ""  # why there is none, if the other process said so
        self.handles: list[Any] = []  # a message lives as long as its handle


class Link:
    """The link to a peer: a thread answers it, another one takes its answers.

    No message is waited for with a time limit: gloo ends all links of a process that
    has waited too long for one of them.
    """

    def __init__(self, exchange: Exchange, group: Any, peer: int) -> None:
        self.exchange, self.group, self.peer = exchange, group, peer
        self.heard = ""  # what the peer has asked for last
        self.done = threading.Event()  # it has nothing more to ask
        self._tags, self._lock = count(FIRST, 2), threading.Lock()
        self._slots: dict[int, Slot] = {}
        self._sent: dict[int, list[Any]] = {}  # handles of answers, by their tags
        self._handles: list[Any] = []
        self._said_bye = False
        how: dict[str, Any] = {"target": self._run, "daemon": True}
        self.threads = [
            threading.Thread(name=f"gttf-answers-to-{peer}", args=[self._serve], **how),
            threading.Thread(
                name=f"gttf-answers-of-{peer}", args=[self._listen], **how
            ),
        ]

    def request(self, service: int, arrays: Arrays, detail: int) -> Slot:
        """Sends a request."""
        body = pack(arrays)
        name = self.exchange.services[service].name.format(detail)
        slot = Slot(self, name, body.numel())
        with self._lock:
            tag = next(self._tags)
            self._slots[tag] = slot
            about = REQUEST, service, detail, tag, body.numel(), min(self._slots)
            slot.handles = self._send(torch.tensor(about), body, CALLS, tag)
        return slot

    def call(self, kind: int, words: str = "") -> None:
        """Sends a message that has no answer, such as a farewell."""
        body = _as_bytes(words)
        with self._lock:
            tag = next(self._tags)
            head = torch.tensor((kind, 0, 0, tag, body.numel(), 0))
            try:
                self._handles += self._send(head, body, CALLS, tag)
            except RuntimeError:  # it is gone, and a thread notes that
                return

    @property
    def last_request(self) -> str:
        """The end of a sentence about the peer, with its last request if any."""
        return f"; it last asked for {self.heard}" if self.heard else ""

    def wake(self) -> None:
        """Ends all waiting for answers."""
        for slot in list(self._slots.values()):
            slot.arrived.set()

    def _send(self, head: Tensor, body: Tensor, tag: int, own: int) -> list[Any]:
        """Sends a head and its body; handles must be kept until both have arrived."""
        handles = [self.group.send([head], self.peer, tag)]
        if body.numel():
            handles.append(self.group.send([body], self.peer, own))
        return handles

    def _receive_head(self, size: int, tag: int) -> list[int]:
        """Receives the numbers of a head, without a time limit."""
        head = torch.empty(size, dtype=torch.int64)
        self.group.recv([head], self.peer, tag).wait(AGES)
        numbers: list[int] = head.tolist()
        return numbers

    def _receive(self, size: int, tag: int) -> Tensor:
        """Receives the body behind a head, into memory that was used before."""
        try:
            message = FEATURES.make(size)
        except (RuntimeError, MemoryError, ValueError, OverflowError):
            raise ValueError(f"a message of {size} bytes") from None
        if size:
            self.group.recv([message], self.peer, tag).wait(AGES)
        return message

    def _run(self, turn: Callable[[], bool]) -> None:
        """Takes messages until one is the last, or the peer is gone."""
        try:
            while turn():
                pass
        except RuntimeError:
            self._lost()
        except ValueError as error:  # it is not listened to again
            words = f"rank {self.peer} has sent a malformed message: {error}"
            self.exchange.fail(words)

    def _serve(self) -> bool:
        """Answers one request; False if there will be no more."""
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
            return False
        else:
            for old in [each for each in self._sent if each < first_open]:
                del self._sent[old]  # it has arrived
            self.heard = self.exchange.services[service].name.format(detail)
            size, answer = self._answer(service, body)
            about = torch.tensor((tag, size))
            self._sent[tag] = self._send(about, answer, REPLIES, tag + 1)
        return True

    def _answer(self, service: int, body: Tensor) -> tuple[int, Tensor]:
        """The answer to a request, or what went wrong with a negative size."""
        try:
            found = self.exchange.services[service].handler(unpack(body))
            answer = found if isinstance(found, Tensor) else pack(found)
            return answer.numel(), answer
        except Exception as error:
            words = _as_bytes(f"{type(error).__name__}: {error}")
            return -words.numel(), words

    def _listen(self) -> bool:
        """Takes one answer; False if there will be no more."""
        tag, size = self._receive_head(REPLY_HEAD, REPLIES)
        if tag == FAREWELL:
            return False
        if not _is_tag(tag):
            raise ValueError(f"an answer that begins with {[tag, size]}")
        answer = self._receive(abs(size), tag + 1)
        with self._lock:
            slot = self._slots.pop(tag, None)
        if slot is not None:
            slot.words = _as_text(answer) if size < 0 else ""
            slot.answer = None if size < 0 else answer
            slot.arrived.set()
        return True

    def _lost(self) -> None:
        if sys.is_finalizing() or self._said_bye:
            return
        before = self.last_request
        if stood := self.exchange.stood_still:
            here = f"rank {self.exchange.rank} itself did not run for {stood:.0f} s"
            before += f"; {here}, which others take for a failure"
        self.exchange.fail(f"rank {self.peer} is gone{before}")


def _is_tag(number: int) -> bool:
    """True for the tag of a request; its answer has the next one."""
    return FIRST <= number < 1 << 31 and number % 2 == FIRST % 2


def _as_bytes(words: str) -> Tensor:
    plain = bytearray(words.encode())
    return torch.frombuffer(plain, dtype=torch.uint8) if plain else torch.empty(0)


def _as_text(message: Tensor) -> str:
    return bytes(message.tolist()).decode(errors="replace")


class Exchange:
    """The links of this process to the others of a group, which meet at a `store`.

    `stood_still` are the seconds for which this process itself did not run, if it was
    seen; another one must answer within `timeout` seconds.
    """

    def __init__(self, store: Any, rank: int, size: int, timeout: float) -> None:
        self.rank, self.size, self.timeout = rank, size, timeout
        self.traffic, self.stood_still = Traffic(), 0.0
        self._pid, self._closed = os.getpid(), False
        self._failure: str | None = None
        self._lock = threading.Lock()
        self.services = [Service("a sign of life", lambda _: [])]
        self.links: dict[int, Link] = {}
        if size > 1:
            soon = timedelta(seconds=timeout)  # to reach all others
            group = dist.ProcessGroupGloo(store, rank, size, soon)
            peers = (peer for peer in range(size) if peer != rank)
            self.links = {peer: Link(self, group, peer) for peer in peers}
            atexit.register(self._at_exit)

    def serve(self, name: str, handler: Handler) -> int:
        """Registers a service, in one order in all processes; returns its number."""
        self.services.append(Service(name, handler))
        return len(self.services) - 1

    def start(self) -> None:
        """Starts the threads that answer the others."""
        for link in self.links.values():
            for thread in link.threads:
                thread.start()

    def ask(
        self, service: int, messages: Mapping[int, Arrays], detail: int = 0
    ) -> list[Slot]:
        """Sends requests to some processes; `answers` waits for what they say."""
        if os.getpid() != self._pid:
            raise RuntimeError(
                "a partitioned graph must be used in the process that opened it (got "
                "a worker process); set 'num_workers' to 0 and use 'prefetch'"
            )
        if self._failure is not None:
            raise PeerError(self._failure)
        if self._closed:
            raise RuntimeError("a partitioned graph must be open to be asked")
        return self._send(service, messages, detail)

    def _send(
        self, service: int, messages: Mapping[int, Arrays], detail: int = 0
    ) -> list[Slot]:
        asked = []
        for peer, arrays in messages.items():
            try:
                asked.append(self.links[peer].request(service, arrays, detail))
            except RuntimeError:  # no such link any more
                self.fail(f"rank {peer} is gone")
                raise PeerError(self._failure) from None
        return asked

    def answers(
        self, asked: list[Slot], read: Reader = lambda rank, arrays: arrays
    ) -> dict[int, Any]:
        """The answer of every process that was asked, as `read` understands it.

        `read` gets the rank and the arrays, and raises a ValueError for an answer that
        cannot be true of the same graph: what comes from elsewhere is checked before
        compiled code follows it.
        """
        found = {}
        for slot in asked:
            message, peer = self._take(slot), slot.link.peer
            try:
                found[peer] = read(peer, unpack(message))
            except ValueError as error:
                about = f"rank {peer} has sent a malformed answer about {slot.task}"
                self.fail(f"{about}: {error}")
                raise PeerError(f"{about}: {error}") from None
        return found

    def close(self) -> None:
        """Goes on answering until no process asks any more, then closes all links.

        Raises:
            PeerError: if another process has failed meanwhile.
        """
        if not self._leaves():
            return
        if self._failure is None:
            for link in self.links.values():
                link.call(DONE)
            self._await_all()
        if self._failure is None:
            for link in self.links.values():
                link.call(BYE)
            self._await_silence(self.timeout)
        if self._failure is not None:
            raise PeerError(self._failure)

    def _leaves(self) -> bool:
        """Marks it as closed; False if there is nothing to close."""
        if self._closed or not self.links or os.getpid() != self._pid:
            return False
        self._closed = True
        atexit.unregister(self._at_exit)
        return True

    def abort(self, error: BaseException) -> None:
        """Tells the others that this process has failed, and does not wait for them."""
        if not self._leaves():
            return
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        words = f"rank {self.rank} has failed: {said}"
        self.fail(str(error) if isinstance(error, PeerError) else words)
        self._await_silence(LAST_WORDS)

    def fail(self, words: str, tell: bool = True) -> None:
        """Notes the first failure, and reports it to the others if `tell`."""
        with self._lock:
            if self._failure is not None:
                return
            self._failure = words
        for link in self.links.values():
            if tell:
                link.call(FAILED, words)
            link.wake()

    def _take(self, slot: Slot) -> Tensor:
        """The answer to a request, which must come in time, counted from then on."""
        peer = slot.link.peer
        if not self._arrives(slot):
            meanwhile = f"while rank {self.rank} waits for {slot.task}"
            rule = f"does not answer within {self.timeout:g} s {meanwhile}"
            self.fail(f"rank {peer} {rule}{slot.link.last_request}")
        if slot.words:
            raise PeerError(f"rank {peer} cannot answer: {slot.words}")
        if slot.answer is None:
            raise PeerError(self._failure)
        with self._lock:
            messages, sent, received = self.traffic
            nbytes = slot.answer.numel()
            self.traffic = Traffic(messages + 2, sent + slot.nbytes, received + nbytes)
        return slot.answer

    def _arrives(self, slot: Slot) -> bool:
        """Waits for an answer; notes if this process was stopped meanwhile itself."""
        while not slot.arrived.is_set():
            before = time.monotonic()
            left = slot.sent + self.timeout - before
            if left <= 0:
                return slot.arrived.wait(GLANCE)
            slot.arrived.wait(min(left, 1.0))
            if (stood := time.monotonic() - before) > 1.0 + STOPPED:
                self.stood_still = stood
        return True

    def _at_exit(self) -> None:
        """Ends with the interpreter: waits for others, or tells them of a failure."""
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        if error is not None:
            self.abort(error)
        else:
            self.close()

    def _await_silence(self, seconds: float) -> None:
        """Waits until all threads have ended, for so many seconds at most."""
        until = time.monotonic() + seconds
        threads = [thread for link in self.links.values() for thread in link.threads]
        while any(thread.is_alive() for thread in threads):
            if time.monotonic() > until:
                return
            time.sleep(GLANCE)

    def _await_all(self) -> None:
        """Waits until all others are done, and checks now and then that they live."""
        looked = time.monotonic()
        for link in self.links.values():
            while not link.done.wait(GLANCE) and self._failure is None:
                if time.monotonic() < looked + self.timeout / 3:
                    continue
                before, looked = looked, time.monotonic()
                links = self.links.items()
                busy = [peer for peer, each in links if not each.done.is_set()]
                try:
                    asked = self._send(0, dict.fromkeys(busy, ()))
                    for slot in asked:
                        slot.sent = before  # so that a failure is reported in time
                    self.answers(asked)
                except PeerError:  # it is noted
                    return


def rendezvous(
    group: Any, timeout: float, prepare: Callable[[int, int], tuple[Any, str, str]]
) -> tuple[Exchange, Any, list[str]]:
    """Joins the processes of a group that have opened the same graph.

    Returns the links to the others, what this process opened, and the notes of all.
    `prepare` gets (rank, size) and returns what this process opens, a word that must be
    the same in all processes, and a note for the others.
    """
    rank, size = 0, 1
    if dist.is_available() and dist.is_initialized():
        rank, size = dist.get_rank(group), dist.get_world_size(group)
    if size == 1:
        opened, _, note = prepare(0, 1)
        return Exchange(None, 0, 1, timeout), opened, [note]
    name = "world" if group is None else group.group_name
    root = default_store()
    _meetings[name] += 1
    prefixed: Any = dist.PrefixStore  # type: ignore[attr-defined]
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")  # old keys stay there
    store = prefixed(f"gttf/{attempt}/{name}/{_meetings[name]}", root)
    if store.add(f"claims of {rank}", 1) > 1:
        raise PeerError(
            f"rank {rank} is taken: two processes call themselves so, as two jobs do "
            "that share MASTER_ADDR and MASTER_PORT; give each job a port of its own"
        )
    try:
        opened, word, note = prepare(rank, size)
    except Exception as error:
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        store.set(str(rank), f"error {said}")
        raise
    store.set(str(rank), f"{word} {note}")
    notes = []
    for peer in range(size):
        try:
            store.wait([str(peer)], timedelta(seconds=timeout))
        except RuntimeError:
            rule = f"has not opened the graph within {timeout:g} s"
            raise PeerError(f"rank {peer} {rule}") from None
        said = store.get(str(peer)).decode(errors="replace")
        if said.startswith("error "):
            raise PeerError(f"rank {peer} could not open the graph: {said[6:]}")
        theirs, _, note = said.partition(" ")
        if theirs != word:
            raise PeerError(f"rank {peer} has opened another graph than rank {rank}")
        notes.append(note)
    try:
        return Exchange(store, rank, size, timeout), opened, notes
    except RuntimeError as error:
        said = f"{error}".splitlines()[0]
        rule = f"could not reach the others within {timeout:g} s"
        raise PeerError(f"rank {rank} {rule}: {said}") from None
