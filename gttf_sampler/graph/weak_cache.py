"""Caches results on objects of a host, as long as the objects live."""

import weakref
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, TypeVar

from torch import Tensor

T = TypeVar("T")
MOST = 128  # results of one object


class Kept:
    """Cache of results by name, each with the tensors that it was made of.

    A result is found again for the same tensors, if torch has counted no change of them
    in place since. Where it does not count, as in inference mode, it is made anew.
    """

    def __init__(self) -> None:
        self._made: dict[Hashable, tuple[Any, tuple[Tensor, ...], list[Any]]] = {}

    def get(self, name: Hashable, make: Callable[[], T], *made_of: Tensor) -> T:
        """Returns the result for these tensors; calls `make` if they are others."""
        changes = [None if x.is_inference() else x._version for x in made_of]
        if name in self._made:
            found: T = self._made[name][0]
            before, changes_before = self._made[name][1:]
            same = all(x is y for x, y in zip(before, made_of, strict=True))
            if same and None not in changes and changes == changes_before:
                return found
        if len(self._made) >= MOST:  # names that keep changing must not pile up
            self._made.clear()
        result = make()
        self._made[name] = result, made_of, changes
        return result


_kept: dict[int, tuple[weakref.ref[Any], Kept]] = {}  # by id: not all can be hashed


def _forget(place: int, _: Any, kept: dict[int, Any] = _kept) -> None:
    """Bound to the table itself: the collector may come after the module has gone."""
    kept.pop(place, None)


def kept_of(owner: Any) -> Kept:
    """Returns the cache of `owner`, which is forgotten together with it."""
    place = id(owner)
    if place not in _kept:  # forgotten with its owner, before the id is used again
        _kept[place] = weakref.ref(owner, partial(_forget, place)), Kept()
    return _kept[place][1]
