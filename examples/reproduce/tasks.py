"""Task: one training run, and the list of those that were asked for."""

from collections.abc import Sequence
from typing import NamedTuple

from examples.reproduce.cells import BY_NAME
from examples.reproduce.config import EDGE_LISTS, HOSTS, METHODS
from examples.reproduce.protocol import seeds_of

EVERYTHING = ("planted", "cora", "citeseer", "ppi", "hepth")  # all methods are run here


class Task(NamedTuple):
    """A training run: model, dataset, host, mode and seed."""

    method: str
    dataset: str
    host: str
    way: str
    seed: int

    @property
    def cell(self) -> str:
        """The name of a cell of the table, `--only` chooses by it."""
        return f"{self.method}-{self.dataset}"

    @property
    def command(self) -> str:
        """The command of this cell's runs for a host and mode; DIR holds the data."""
        folder = "--edges DIR " if self.dataset in EDGE_LISTS else "--root DIR "
        which = f"--only {self.cell} --hosts {self.host} --ways {self.way}"
        asked = "" if self.dataset == "planted" else folder
        return f"python -m examples.reproduce {asked}{which}"

    def __str__(self) -> str:
        return f"{self.cell} {self.host} {self.way} seed {self.seed}"


def tasks(
    datasets: Sequence[str],
    only: Sequence[str] = (),
    hosts: Sequence[str] = HOSTS,
    ways: Sequence[str] = (),
    seeds: int | None = None,
) -> list[Task]:
    """All runs, those of a cell together; `only` holds cells or methods.

    All ways of a seed come before the next seed, so that what is there when it is
    stopped can be compared in pairs. Without `seeds` there are those of the protocol.
    """
    found = [
        Task(name, dataset, host, way, seed)
        for name, method in METHODS.items()
        for dataset in datasets
        if method.kind == "links" or dataset not in EDGE_LISTS
        if dataset in EVERYTHING or f"{name}-{dataset}" in BY_NAME
        for host in hosts
        for seed in range(seeds_of(dataset) if seeds is None else seeds)
        for way in method.on(dataset).ways.get(host, ())
    ]
    if ways:
        found = [task for task in found if task.way in ways]
    if not only:
        return found
    known = {task.cell for task in found} | set(METHODS)
    for name in only:
        if name not in known:
            raise ValueError(f"'only' must be one of {sorted(known)} (got {name!r})")
    return [task for task in found if task.cell in only or task.method in only]
