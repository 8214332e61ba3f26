"""Pass: how far a pass over the data has come, in batches that were handed out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple

from torch import Tensor

from gttf_sampler._loading.order import fingerprint


class Drawn(NamedTuple):
    """Indices of a batch, and the state of a sampler that has one when it gave them."""

    index: Any
    sampler: Any


class Pass:
    """One pass over the data of a loader.

    Workers and threads draw indices ahead, so three counts go up one after the other:
    indices drawn, indices given to whoever makes batches, batches handed out.

    Args:
        epoch: how many passes there were before.
        start: where the generators stood when it began.
        before: the state of a sampler that has one, from then.
        resumed: the state of a loader that it continues; None if it is new.
        back: where the generators are put after what was drawn is drawn again.

    Attributes:
        key: of the epoch; None before it is drawn.
        ended: whether the sampler has said that there is no more.
        over: whether the user has seen the end.
        seen: a fingerprint of all indices that were handed out.
        last: the indices that were handed out last.
    """

    def __init__(
        self,
        epoch: int,
        start: list[Tensor],
        before: Any = None,
        resumed: dict[str, Any] | None = None,
        back: list[Tensor] | None = None,
    ) -> None:
        self.epoch, self.start, self.before = epoch, start, before
        self.resumed, self.back = resumed, back or []
        self.key: int | None = None if resumed is None else resumed["key"]
        self.drawn = self.given = self.position = self._taken = 0
        self.ended = self.over = False
        self.seen = self._seen = 0
        self.last: Drawn | None = None
        self._ahead: deque[Drawn | None] = deque()
        if resumed is not None:
            self.start_at(resumed["position"])
            self.seen = self._seen = resumed["seen"]

    def start_at(self, position: int) -> None:
        """Has so many batches handed out already."""
        self.position = self.given = self._taken = position

    def give(self, drawn: Drawn | None) -> int:
        """Notes what is given to whoever makes batches; its number in the pass."""
        self._ahead.append(drawn)
        self.given += 1
        return self.given - 1

    def take(self, failed: bool = False) -> None:
        """Notes that the batch whose turn it is was handed out, or could not be made.

        The position stays before one that failed until another one is handed out.
        """
        self._taken += 1
        drawn = self._ahead.popleft() if self._ahead else None
        if drawn is not None:
            self._seen = fingerprint(self._seen, drawn.index)
        if not failed:
            self.position, self.seen, self.last = self._taken, self._seen, drawn

    def state(self) -> dict[str, Any]:
        """How far it has come, as part of the state of a loader."""
        last = self.last
        return {
            "position": self.position,
            "key": self.key,
            "start": [state.clone() for state in self.start],
            "drawn": self.drawn,
            "ended": self.ended,
            "seen": self.seen,
            "sampler": deepcopy(self.before if last is None else last.sampler),
        }


# The same of a pass that has not begun.
NOTHING = {
    "position": 0,
    "key": None,
    "start": None,
    "drawn": 0,
    "ended": False,
    "seen": 0,
}


class Counted(Iterator[Any]):
    """The batches of an iterator, counted as they are handed out.

    It keeps their loader alive, so that what is inside need not do so.
    """

    def __init__(self, batches: Any, under_way: Pass, loader: Any) -> None:
        self._batches, self._pass, self._loader = batches, under_way, loader

    def __iter__(self) -> Counted:
        return self

    def __next__(self) -> Any:
        try:
            batch = next(self._batches)
        except StopIteration:
            self._pass.over = True
            raise
        except Exception:
            self._pass.take(failed=True)
            raise
        self._pass.take()
        return batch

    def __len__(self) -> int:
        return len(self._batches)

    def __getattr__(self, name: str) -> Any:  # of torch's iterator, or a host's
        if name == "_batches":  # in a copy that is still empty
            raise AttributeError(name)
        return getattr(self._batches, name)
