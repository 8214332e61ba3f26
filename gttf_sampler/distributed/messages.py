"""Messages between two processes: records as bytes, without pickle, and the link.

A Link has two threads, one that answers a peer and one that takes its answers.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import cache
from itertools import count
from types import NoneType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import torch
from torch import Tensor

from gttf_sampler._backends.memory import FEATURES
from gttf_sampler.random import signed

if TYPE_CHECKING:
    from gttf_sampler.distributed.exchange import Arrays, Exchange


DTYPES = (
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.complex64, torch.complex128),
)
CODES = {dtype: code for code, dtype in enumerate(DTYPES)}
MOST_ARRAYS = 1 << 20  # in a message
ALIGNED = 8  # bytes; complex numbers are read as two of these
NONE = 0  # stands for the place of a tensor that there is none of

T = TypeVar("T")


def encode(record: Any) -> list[Tensor]:
    """A record as arrays: its numbers in the order of its fields, then its tensors.

    A record is a NamedTuple or dataclass of integers, tensors, lists and records.
    """
    facts: list[int] = []
    arrays: list[Tensor] = []
    places: dict[int, int] = {}

    def add(value: Any) -> None:
        if value is None:
            facts.append(NONE)
        elif isinstance(value, Tensor):
            if id(value) not in places:  # relations share times
                arrays.append(value)
                places[id(value)] = len(arrays)
            facts.append(places[id(value)])
        elif isinstance(value, int):
            facts.append(signed(value))
        elif isinstance(value, list):
            facts.append(len(value))
            for each in value:
                add(each)
        else:
            kind: Any = type(value)
            for name in _fields(kind):
                add(getattr(value, name))

    add(record)
    return [torch.tensor(facts), *arrays]


def decode(kind: type[T], arrays: Sequence[Tensor]) -> T:
    """The record of a declared kind that arrays are; refuses what `encode` never makes.

    Its fields have the declared types; what is in them is for the reader to check.
    """
    try:
        if arrays[0].dtype != torch.int64:
            raise TypeError(arrays[0].dtype)
        found: T = _decoded(kind, iter(arrays[0].tolist()), arrays)
    except (StopIteration, IndexError, TypeError) as error:
        raise ValueError(f"a request that breaks off: {error!r}") from None
    return found


def _decoded(kind: Any, facts: Iterator[int], arrays: Sequence[Tensor]) -> Any:
    """A value of a declared type, from the next numbers."""
    if kind in (int, bool):
        return kind(next(facts))
    if get_origin(kind) is list:
        (inner,) = get_args(kind)
        return [_decoded(inner, facts, arrays) for _ in range(next(facts))]
    if kind is Tensor or Tensor in get_args(kind):
        place = next(facts)
        if place == NONE and NoneType in get_args(kind):
            return None
        if not 0 < place < len(arrays):
            raise IndexError(place)
        return arrays[place]
    own = _fields(kind).items()
    return kind(**{name: _decoded(field, facts, arrays) for name, field in own})


@cache
def _fields(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind).items()
    return {name: hint for name, hint in hints if get_origin(hint) is not ClassVar}


def narrow(ids: Tensor, upper: int) -> Tensor:
    """Ids below `upper`, in half of the bytes if they fit."""
    return ids.to(torch.int32) if upper < 1 << 31 else ids.to(torch.int64)


def pack(arrays: Sequence[Tensor]) -> Tensor:
    """uint8 [b]: how many arrays, the type and length of each, and their bytes."""
    message, views = blank([(array.dtype, array.numel()) for array in arrays])
    for view, array in zip(views, arrays, strict=True):
        view.copy_(array.reshape(-1))
    return message


def blank(about: Sequence[tuple[torch.dtype, int]]) -> tuple[Tensor, list[Tensor]]:
    """A message of arrays with these types and lengths, and where to write them."""
    head = [len(about)]
    for dtype, length in about:
        head += [CODES[dtype], length]
    used = [8 * len(head), *(length * dtype.itemsize for dtype, length in about)]
    message = FEATURES.make(sum(map(_padded, used)))
    message[: used[0]].view(torch.int64).copy_(torch.tensor(head))
    return message, _views(message, used[0], about)


def unpack(message: Tensor) -> list[Tensor]:
    """The arrays of a message, without copies; refuses one that `pack` did not make."""
    size = message.numel()
    count = int(message[:8].view(torch.int64)) if size >= 8 else -1
    head = 8 * (1 + 2 * count)
    if not 0 <= count <= MOST_ARRAYS or head > size:
        raise ValueError(f"a message of {size} bytes that names {count} arrays")
    said = message[8:head].view(torch.int64).tolist()
    about = []
    for code, length in zip(said[::2], said[1::2], strict=True):
        if not (0 <= code < len(DTYPES) and 0 <= length <= size):
            raise ValueError(f"an array of type {code} and length {length}")
        about.append((DTYPES[code], length))
    used = head + sum(_padded(length * dtype.itemsize) for dtype, length in about)
    if used != size:
        raise ValueError(f"a message of {size} bytes for arrays of {used}")
    return _views(message, head, about)


def need(arrays: Sequence[Tensor], count: int) -> Sequence[Tensor]:
    """The arrays of a message, of which there must be `count`."""
    if len(arrays) != count:
        raise ValueError(f"{len(arrays)} arrays where there must be {count}")
    return arrays


def need_ids(what: str, ids: Tensor, low: int, upper: int, size: int) -> Tensor:
    """Ids [size] from another process, which must lie in [low, upper); as int64."""
    if ids.dtype not in (torch.int32, torch.int64) or ids.numel() != size:
        got = f"{ids.numel()} of {ids.dtype}"
        raise ValueError(f"{what} must be {size} integers (got {got})")
    if size:
        least, most = (int(bound) for bound in ids.aminmax())
        if least < low or most >= upper:
            got = f"{least} to {most}"
            raise ValueError(f"{what} must lie in [{low}, {upper}) (got {got})")
    return ids.to(torch.int64)


def _views(
    message: Tensor, first: int, about: Sequence[tuple[torch.dtype, int]]
) -> list[Tensor]:
    """The arrays inside a message, from byte `first` on."""
    arrays = []
    for dtype, length in about:
        used = length * dtype.itemsize
        arrays.append(message[first : first + used].view(dtype))
        first += _padded(used)
    return arrays


def _padded(size: int) -> int:
    """The next size at which another array may begin."""
    return -(-size // ALIGNED) * ALIGNED


REQUEST, DONE, BYE, FAILED = KINDS = range(4)
CALLS, REPLIES, FIRST = range(3)  # the tags of heads; those of bodies come behind
HEAD, REPLY_HEAD = 6, 2  # how many numbers they have
AGES = timedelta(days=3650)  # a process that has nothing to ask is not a failure
FAREWELL = 0  # stands for the tag of an answer where there are no more


class Slot:
    """A request on its way: where its answer will be."""

    def __init__(self, task: str, nbytes: int) -> None:
        self.task, self.nbytes, self.sent = task, nbytes, time.monotonic()
        self.arrived = threading.Event()  # there is an answer, or never will be
        self.answer: Tensor | None = None
        self.words = ""  # why there is none, if the other process said so
        self.handles: list[Any] = []  # a message lives as long as its handle


class Link:
    """A peer, with a thread that answers it and one that takes its answers.

    No message is waited for with a time limit: gloo ends all links of a process that
    has waited too long for one of them.
    """

    def __init__(self, exchange: Exchange, group: Any, peer: int) -> None:
        self.exchange, self.group, self.peer = exchange, group, peer
        self.heard = ""  # what the peer has asked for last
        self.done = threading.Event()  # it has nothing more to ask
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
        except RuntimeError:
            self._lost()
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
        except RuntimeError:
            self._lost()
        except ValueError as error:
            self._refuse(error)

    def _refuse(self, error: ValueError) -> None:  # it is not listened to again
        self.exchange.fail(f"rank {self.peer} has sent a malformed message: {error}")

    def _lost(self) -> None:
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
    plain = bytearray(words.encode())
    return torch.frombuffer(plain, dtype=torch.uint8) if plain else torch.empty(0)


def _as_text(message: Tensor) -> str:
    return bytes(message.tolist()).decode(errors="replace")
