"""States of loaders: plain dictionaries, and whether one fits the loader it is for."""

from typing import Any

from torch import Tensor

from gttf_sampler import _check

VERSION = 1
RESTORED = "must be what 'state_dict()' of such a loader has given"


def checked(state: Any, mine: dict[str, Any], also: tuple[str, ...]) -> dict[str, Any]:
    """A copy of a state, which must be of a loader like this one.

    Args:
        state: as the user gives it.
        mine: what this loader is known by: name → value.
        also: names of everything else that a state holds.
    """
    if not isinstance(state, dict):
        _check.mistyped("state_dict", RESTORED, _check.shown(state))
    if "version" not in state:
        _check.fail("state_dict", RESTORED, f"the keys {sorted(map(str, state))[:4]}")
    if state["version"] != VERSION:
        cure = "load it with the version of gttf-sampler that has written it"
        rule = f"must have version {VERSION}"
        _check.fail("state_dict", rule, f"version {state['version']}", cure)
    for name, value in mine.items():
        if name not in state:
            _check.fail("state_dict", RESTORED, f"none with {name!r}")
        if state[name] != value:
            rule = f"must be of a loader with {name} {value}, like this one"
            _check.fail("state_dict", rule, f"{name} {state[name]}")
    missing = [name for name in also if name not in state]
    if missing:
        _check.fail("state_dict", RESTORED, f"none with {missing[0]!r}")
    return dict(state)


def same_number(now: list[Tensor], then: list[Tensor]) -> None:
    """Refuses a state of samplers with more or fewer generators than these."""
    if len(now) != len(then):
        rule = f"must be of samplers with {len(now)} generators, like these"
        _check.fail("state_dict", rule, len(then))
