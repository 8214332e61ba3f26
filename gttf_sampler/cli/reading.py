"""Options of every command that reads a graph, and the graph that they name."""

import argparse
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gttf_sampler import CompactAdj, _check
from gttf_sampler.graph.cells import SEPARATORS, SPACE
from gttf_sampler.graph.edgelist import EdgeList
from gttf_sampler.graph.files import is_table, read_edges, read_graph, read_table
from gttf_sampler.graph.headings import NONE, TableOptions

KINDS = "edge list (text, also .gz), .parquet, .npz, CompactAdj directory"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that say how a table is read."""
    add = parser.add_argument_group("tables of edges").add_argument
    what = "the columns of source, target, weight and time: names in the heading, or "
    what += f"numbers from 1 on where there is none; {NONE} for no weight"
    add("--columns", nargs="+", metavar="NAME", help=what)
    headings = parser.add_mutually_exclusive_group()
    what = "the first line names the columns (by default recognised)"
    headings.add_argument(
        "--header", action="store_const", const=True, default=None, help=what
    )
    what = "the first line is an edge"
    headings.add_argument(
        "--no-header", action="store_const", const=False, dest="header", help=what
    )
    what = f"between cells: a character, or {', '.join((*SEPARATORS, SPACE))}"
    add("--separator", metavar="CHAR", help=what)
    what = "of times, as '%%d.%%m.%%Y %%H:%%M'; ISO dates and numbers need none"
    add("--dates", metavar="FORMAT", help=what)


def asked(args: argparse.Namespace) -> TableOptions:
    """Returns the options of `add_arguments` as a record."""
    return TableOptions(args.columns, args.header, args.separator, args.dates)


@contextmanager
def called(args: argparse.Namespace, path: str, **others: str) -> Iterator[None]:
    """Errors name what was typed: the argument of the path, options with dashes."""
    words = {"path": path, "header": "--header" if args.header else "--no-header"}
    words |= {name: f"--{name}" for name in ("columns", "separator", "dates")}
    words |= others
    try:
        yield
    except (ValueError, TypeError) as error:
        text = str(error)
        found = re.match(r"'(\w+)'", text)
        if found is None or found[1] not in words:
            raise
        text = f"'{words[found[1]]}'{text[found.end() :]}"
        raise type(error)(_with_options(text)) from error


def _with_options(text: str) -> str:
    """Cures that name options, in the place of what they are."""
    for what, option in (
        ("name the separator:", "--separator names it:"),
        ("say that it has no heading if this is an edge", "--no-header reads an edge"),
        ("name other columns", "--columns names others"),
        ("or the format of dates", "--dates their format"),
        ("name their format", "--dates FORMAT names their format"),
    ):
        text = text.replace(what, option)
    return text


def read(
    args: argparse.Namespace, path: str, name: str, *, direction: str = "in"
) -> tuple[CompactAdj, list[str]]:
    """The graph of a file, with weights and times, and what was taken of it.

    Args:
        args: with the options of `add_arguments`.
        path: the file, or a directory.
        name: the argument that it was given as.
        direction: of the rows; a directory has its own.
    """
    with called(args, name):
        if not is_table(path):
            return read_graph(path, direction=direction, **asked(args)._asdict()), []
        edges = read_table(Path(path), asked(args))
        return CompactAdj.from_edges(edges, direction=direction), told(edges)


def read_ends(
    args: argparse.Namespace, path: str, name: str
) -> tuple[EdgeList, list[str]]:
    """The edges of a file for which weights and times do not matter; see `read`."""
    with called(args, name):
        if Path(path).is_dir():
            rule = "must be a file with edges, not a directory"
            _check.fail(name, rule, path, "gttf convert writes one")
        if not is_table(path):
            return read_edges(path, **asked(args)._asdict()), []
        edges = read_table(Path(path), asked(args), values=False)
        return edges, told(edges, "weights and times are not used")


def heading(columns: dict[str, str]) -> str:
    """The columns that were taken, in a line."""
    line = f"heading: {columns['source']} → {columns['target']}"
    for role in ("time", "weight"):
        line += f", {role} {columns[role]!r}" if role in columns else ""
    return line


def told(edges: EdgeList, others: str = "") -> list[str]:
    """Returns the line that a command prints about a heading, if there was one.

    Args:
        edges: what was read.
        others: what becomes of weights and times that the heading names.
    """
    if not edges.columns:
        return []
    more = f"; {others}" if others and len(edges.columns) > 2 else ""
    return [heading(edges.columns) + more]
