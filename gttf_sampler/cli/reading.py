"""Options of every command that reads a graph, that graph, and a bar of progress."""

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from gttf_sampler import CompactAdj, _check, _files
from gttf_sampler.graph.cells import SEPARATORS, SPACE
from gttf_sampler.graph.edgelist import NONE, EdgeList, TableOptions
from gttf_sampler.graph.io import is_table, read_edges, read_graph, read_table

KINDS = "edge list (text, also .gz), .parquet, .npz, CompactAdj directory"
# what errors of the library advise, and the option that does it
CURES = {
    "name the separator:": "--separator names it:",
    "say that it has no heading if this is an edge": "--no-header reads an edge",
    "name other columns": "--columns names others",
    "or the format of dates": "--dates their format",
    "name their format": "--dates FORMAT names their format",
}

Report = Callable[[str, int], None]  # called with what is done, and how much more of it


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say how a table is read."""
    add = parser.add_argument_group("tables of edges").add_argument
    what = "the columns of source, target, weight and time: names in the heading, or "
    what += f"numbers from 1 on where there is none; {NONE} for no weight"
    add("--columns", nargs="+", metavar="NAME", help=what)
    heading = parser.add_mutually_exclusive_group().add_argument
    what = "the first line names the columns (by default recognised)"
    heading("--header", action="store_const", const=True, default=None, help=what)
    what, how = "the first line is an edge", "store_const"
    heading("--no-header", action=how, const=False, dest="header", help=what)
    what = f"between cells: a character, or {', '.join((*SEPARATORS, SPACE))}"
    add("--separator", metavar="CHAR", help=what)
    what = "of times, as '%%d.%%m.%%Y %%H:%%M'; ISO dates and numbers need none"
    add("--dates", metavar="FORMAT", help=what)


def asked(args: argparse.Namespace) -> TableOptions:
    """Returns the options of `add_arguments` as a record."""
    return TableOptions(args.columns, args.header, args.separator, args.dates)


@contextmanager
def called(args: argparse.Namespace, path: str) -> Iterator[None]:
    """Errors name what was typed: the argument of the path, options with dashes."""
    words = {"path": path, "header": "--header" if args.header else "--no-header"}
    words |= {name: f"--{name}" for name in ("columns", "separator", "dates")}
    try:
        yield
    except (ValueError, TypeError) as error:
        text = str(error)
        found = re.match(r"'(\w+)'", text)
        if found is None or found[1] not in words:
            raise
        text = f"'{words[found[1]]}'{text[found.end() :]}"
        for advice, option in CURES.items():
            text = text.replace(advice, option)
        raise type(error)(text) from error


def read(
    args: argparse.Namespace, name: str, *, direction: str = "in"
) -> tuple[CompactAdj, list[str]]:
    """The graph of argument `name`, with weights and times, and what was taken of it.

    A directory keeps the direction of its own rows.
    """
    path = getattr(args, name)
    with called(args, name):
        if not is_table(path):
            return read_graph(path, direction=direction, **asked(args)._asdict()), []
        edges = table(args, name)
        return CompactAdj.from_edges(edges, direction=direction), read_as(edges)


def table(args: argparse.Namespace, name: str, values: bool = True) -> EdgeList:
    """The edges of a table, without weights and times if not `values`."""
    with called(args, name):
        return read_table(Path(getattr(args, name)), asked(args), values)


def read_ends(args: argparse.Namespace, name: str) -> tuple[EdgeList, list[str]]:
    """The edges of a file for which weights and times do not matter; see `read`."""
    path = getattr(args, name)
    with called(args, name):
        if Path(path).is_dir():
            rule = "must be a file with edges, not a directory"
            _check.fail(name, rule, path, "gttf convert writes one")
        if not is_table(path):
            return read_edges(path, **asked(args)._asdict()), []
    edges = table(args, name, values=False)
    return edges, read_as(edges, "weights and times are not used")


def heading(columns: dict[str, str]) -> str:
    """The columns that were taken, in a line."""
    line = f"heading: {columns['source']} → {columns['target']}"
    for role in ("time", "weight"):
        line += f", {role} {columns[role]!r}" if role in columns else ""
    return line


def read_as(edges: EdgeList, others: str = "") -> list[str]:
    """The line about a heading, if there was one, and about its weights and times."""
    if not edges.columns:
        return []
    more = f"; {others}" if others and len(edges.columns) > 2 else ""
    return [heading(edges.columns) + more]


def line(name: str, value: Any) -> str:
    """A fact by its name; of several by theirs."""
    if isinstance(value, dict):
        value = ", ".join(f"{key} {each}" for key, each in value.items())
    return f"{name:14s}{value:,}" if isinstance(value, int) else f"{name:14s}{value}"


def must_exist(name: str, paths: Iterable[str], what: str) -> None:
    """Refuses paths that are no files."""
    for path in paths:
        if not Path(path).is_file():
            _check.fail(name, f"must be {what}", repr(path))


def check_plot(
    args: argparse.Namespace, ours: Callable[[Path], bool] = lambda file: False
) -> None:
    """Refuses `--plot` where it cannot be written, or where matplotlib is missing."""
    _files.check_free("--plot", args.plot, args.force, ours)
    if find_spec("matplotlib") is None:
        cure = "install it with: pip install matplotlib"
        _check.fail("--plot", "needs matplotlib", "none", cure)


def array(name: str, file: str) -> Any:
    """An .npy file, mapped into memory."""
    must_exist(name, [file], "an .npy file that is there")
    return np.load(file, mmap_mode="r", allow_pickle=False)


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
