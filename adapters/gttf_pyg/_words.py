"""The words and numbers that arguments may be, and how to refuse others."""

from math import inf
from numbers import Real
from typing import Any

import numpy as np

DIRECTIONS = ("forward", "backward")
SCHEMES = ("unbiased", "paper")
STRATEGIES = ("uniform", "last")


def one_of(name: str, value: str, options: tuple[str, ...]) -> None:
    """Refuses what is not among the options."""
    if value not in options:
        choices = ", ".join(map(repr, options))
        raise ValueError(f"'{name}' must be one of {choices} (got {value!r})")


def yes_or_no(name: str, value: Any) -> None:
    """Refuses what is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"'{name}' must be True or False (got {value!r})")


def check_window(time_window: Any, time_attr: str | None) -> None:
    """Refuses a span of time that is none, or that there are no times for."""
    if time_window is None:
        return
    if not isinstance(time_window, Real):
        raise TypeError(f"'time_window' must be a number (got {time_window!r})")
    if not 0 <= float(time_window) < inf:
        raise ValueError(
            f"'time_window' must be finite and not negative (got {time_window})"
        )
    if time_attr is None:
        raise ValueError(
            f"'time_window' needs times (got {time_window}); set 'time_attr'"
        )
