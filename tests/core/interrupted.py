"""Interrupts at every line of some modules, as Ctrl-C may come at any of them."""

import ast
import contextlib
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any


@cache
def _contexts(file: str) -> frozenset[int]:
    """The lines with a `with` statement."""
    tree = ast.parse(Path(file).read_text())
    return frozenset(
        node.lineno for node in ast.walk(tree) if isinstance(node, ast.With)
    )


class Interrupt:
    """Raises `error` at line event number `at` in files whose path has one of `parts`.

    Python reports a `with` statement a second time when it is left, where no signal is
    looked at before `__exit__` has run: that event does not count.

    Attributes:
        place: where it was raised; None if there were fewer lines.
    """

    def __init__(
        self, at: int, parts: tuple[str, ...], error: type[BaseException]
    ) -> None:
        self.at, self.parts, self.error = at, parts, error
        self.seen, self.place = 0, None

    def __enter__(self) -> "Interrupt":
        self._before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(self._before)

    def _call(self, frame: Any, event: str, arg: object) -> Any:
        file = frame.f_code.co_filename
        if not any(part in file for part in self.parts):
            return None
        entered: set[int] = set()

        def line(frame: Any, event: str, arg: object) -> Any:
            number = frame.f_lineno
            if event == "line" and self.place is None:
                if number in _contexts(file) and number in entered:
                    entered.discard(number)
                    return line
                if number in _contexts(file):
                    entered.add(number)
                self.seen += 1
                if self.seen == self.at:
                    self.place = f"{Path(file).name}:{number}"
                    raise self.error
            return line

        return line


def at_every_line(
    make: Callable[[], Any],
    work: Callable[[Any], Any],
    parts: tuple[str, ...],
    error: type[BaseException] = KeyboardInterrupt,
    step: int = 1,
) -> Iterator[tuple[str, Any]]:
    """(place, what `make` made) after `work` on it was interrupted there, line by line.

    Ends when `work` gets through.
    """
    at = 1
    while True:
        made = make()
        interrupt = Interrupt(at, parts, error)
        with contextlib.suppress(error), interrupt:
            work(made)
        if interrupt.place is None:
            return
        yield interrupt.place, made
        at += step
