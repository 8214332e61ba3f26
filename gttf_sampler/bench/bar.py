"""How far a measurement has come: a bar for those who look, lines for those who log."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from gttf_sampler.bench.children import Progress

RARELY = 20  # seconds between two lines


def _lines() -> Progress:
    """What writes a line now and then, for those who read it later."""
    last = time.monotonic()

    def show(what: str, share: float) -> None:
        nonlocal last
        if time.monotonic() - last > RARELY:
            last = time.monotonic()
            sys.stderr.write(f"{time.strftime('%H:%M:%S')} {what} {share:.0%}\n")

    return show


@contextmanager
def progress() -> Iterator[Progress]:
    """A bar on stderr if that is a terminal, with tqdm; else a line now and then."""
    if find_spec("tqdm") is None or not sys.stderr.isatty():
        yield _lines()
        return
    from tqdm import tqdm  # type: ignore[import-untyped,unused-ignore]

    with tqdm(total=100, leave=False, bar_format="{desc} {bar} {elapsed}") as bar:

        def show(what: str, share: float) -> None:
            bar.set_description_str(f"{what[:50]:50s}")
            bar.n = round(100 * share)
            bar.refresh()

        yield show
