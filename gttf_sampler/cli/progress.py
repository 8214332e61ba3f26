"""A bar on the terminal, for commands that read and write much."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec

Report = Callable[[str, int], None]  # told what is done, and how much more of it


@contextmanager
def progress(total: int | None = None, unit: str = "B") -> Iterator[Report | None]:
    """Yields a callback that updates a bar, if tqdm is installed and on a terminal."""
    if find_spec("tqdm") is None or not sys.stderr.isatty():
        yield None
        return
    how = {"unit": unit, "unit_scale": True, "leave": False, "total": total}
    with import_module("tqdm").tqdm(**how) as bar:

        def report(what: str, done: int) -> None:
            bar.set_description(what, refresh=False)
            bar.update(done)

        yield report
