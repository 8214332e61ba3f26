"""Files of edges as people have them, written at random, and what pandas reads there.

A file is made from a table that is known: so is what must be read. Where pandas is
installed, it must read the same edges from the same bytes. Commands get such files as
well, also damaged ones, and must end in a result or in one sentence.
"""

import contextlib
import csv
import datetime
import gzip
import io
import random
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fuzz_checks import hold
from gttf_sampler.graph import EdgeList, read_edge_list

UTC = datetime.timezone.utc
HEADINGS = (
    ("source", "target"),
    ("from_account", "to_account"),
    ("src", "dst"),
    ("Sender ID", "Receiver ID"),
    ("buyer", "item"),
    ("who, now", "whom"),
    ('the "one"', "the other"),
)
TIMES = ("time", "timestamp", "Date", "ts")
WEIGHTS = ("weight", "amount")
OTHERS = ("note", "note", "Type", "kind; of")  # the first name twice
SEPARATORS = {",": ".csv", ";": ".csv", "|": ".csv", "\t": ".tsv", " ": ".txt"}
NOTES = ("", "x", "a, b", 'said "no"', "two\nlines", "# none", "NaN", "é")


class Made(NamedTuple):
    """A file, and what it holds.

    Attributes:
        content: bytes.
        name: of the file.
        separator: between cells.
        headed: whether the first line is a heading.
        ends: ids [m], [m], as words or integers.
        weight: numbers [m], or None.
        time: seconds since 1970 [m], or None.
        broken: whether a cell is missing that must be there.
    """

    content: bytes
    name: str
    separator: str
    headed: bool
    ends: tuple[list[Any], list[Any]]
    weight: list[float] | None
    time: list[float] | None
    broken: bool


def ids(draw: random.Random, rows: int, separator: str) -> tuple[list[Any], list[Any]]:
    """Senders and receivers: integers, or words that may need quotes."""
    kind = draw.choice(["small", "large", "words", "odd", "mixed"])
    words = {
        "small": list(range(-3, 9)),
        "large": [2**40 + 7 * i for i in range(9)],
        "words": [f"a{i}" for i in range(7)],
        "odd": ["x y", "a, b", 'c "d"', "e;f", "g|h", "é", "NA", "i#", "j"],
        "mixed": ["1", "2", "007", "z", "1.5"],
    }[kind]
    if separator == " " and kind == "odd":
        words = ["x", "é", "NA", "i#", "a;b", "j"]
    sides = (
        [draw.choice(words) for _ in range(rows)],
        [draw.choice(words) for _ in range(rows)],
    )
    if kind == "mixed":
        sides[0][0] = "z"
    return sides


def moment(draw: random.Random, form: str) -> tuple[str, float]:
    """A date as text, and its seconds since 1970."""
    at = datetime.datetime(2024, 1, 1, tzinfo=UTC)
    at += datetime.timedelta(seconds=draw.randrange(10**8))
    if form == "day":
        at = at.replace(hour=0, minute=0, second=0)
        return at.strftime("%Y-%m-%d"), at.timestamp()
    if form == "zone":
        zone = datetime.timezone(
            datetime.timedelta(minutes=30 * draw.randrange(-20, 20))
        )
        return at.astimezone(zone).isoformat(draw.choice("T ")), at.timestamp()
    if form == "fraction":
        at += datetime.timedelta(milliseconds=draw.randrange(1, 1000))
        return at.replace(tzinfo=None).isoformat(" "), at.timestamp()
    end = draw.choice(["", "Z"])
    return at.replace(tzinfo=None).isoformat("T") + end, at.timestamp()


def made(number: Any) -> Made:
    """A file from a table that is known."""
    draw = random.Random(repr(number))
    separator = draw.choice(list(SEPARATORS))
    rows = draw.choice([1, 2, 3, 8, 40])
    ends = ids(draw, rows, separator)
    headed = draw.random() < 0.8
    columns: list[tuple[str, list[str]]] = []
    source, target = draw.choice(HEADINGS[:4] if separator == " " else HEADINGS)
    if separator == " ":
        source, target = source.replace(" ", "_"), target.replace(" ", "_")
    weight = time = None
    if headed and draw.random() < 0.5:
        weight = [draw.choice([0.5, 1, 2e-3, 7]) for _ in range(rows)]
        columns.append((draw.choice(WEIGHTS), [str(value) for value in weight]))
    if headed and draw.random() < 0.5 and separator != " ":
        form = draw.choice(["day", "zone", "fraction", "plain"])
        dates = [moment(draw, form) for _ in range(rows)]
        time = [at for _, at in dates]
        columns.append((draw.choice(TIMES), [text for text, _ in dates]))
    if headed and draw.random() < 0.5 and separator != " ":
        note = ("note", [draw.choice(NOTES) for _ in range(rows)])
        columns.append((draw.choice(OTHERS), note[1]))
        columns += [note] if draw.random() < 0.2 else []
    draw.shuffle(columns)
    both = [(source, [str(x) for x in ends[0]]), (target, [str(x) for x in ends[1]])]
    index = headed and separator != " " and draw.random() < 0.3
    known = (source, target) in HEADINGS[:4] or separator == " "
    lead = draw.randrange(3) if known and columns and headed else 0
    columns = [*columns[:lead], *both, *columns[lead:]]
    if index:
        columns.insert(0, ("", [str(row) for row in range(rows)]))
    broken = draw.random() < 0.08 and separator != " "
    if broken:
        both[draw.randrange(2)][1][draw.randrange(rows)] = draw.choice(["", "  "])
    table = [
        list(cells) for cells in zip(*(cells for _, cells in columns), strict=True)
    ]
    if headed:
        table.insert(0, [name for name, _ in columns])
    content = _bytes(draw, table, separator)
    suffix = SEPARATORS[separator]
    packed = draw.random() < 0.2
    content = gzip.compress(content) if packed else content
    name = f"e{suffix}{'.gz' if packed else ''}"
    return Made(content, name, separator, headed, ends, weight, time, broken)


def _bytes(draw: random.Random, table: list[list[str]], separator: str) -> bytes:
    """Lines as some program writes them: ends, quotes, a mark in front, blank lines."""
    out = io.StringIO()
    end = draw.choice(["\n", "\r\n"])
    if separator == " ":
        for row in table:
            out.write(draw.choice([" ", "  ", "\t"]).join(row) + end)
    else:
        quoting = draw.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
        writer = csv.writer(
            out, delimiter=separator, lineterminator=end, quoting=quoting
        )
        writer.writerows(table)
    text = out.getvalue()
    if draw.random() < 0.2:
        text = text.rstrip("\r\n")
    if draw.random() < 0.2:
        text += f"{end}{end}"
    mark = "\ufeff" if draw.random() < 0.2 else ""
    return (mark + text).encode()


def table(number: Any) -> Any:
    """The table read from such a file, which must be the one written."""
    from fuzz_calls import folder

    file = made(number)
    path = folder(file.name)
    path.write_bytes(file.content)
    how: dict[str, Any] = {}
    if not file.headed:  # where nothing tells a|b;c from a|b;c
        how = {"header": False, "separator": file.separator}
    try:
        found = read_edge_list(path, **how)
    except ValueError:
        hold(file.broken, f"a sound file is refused: {file}")
        raise
    hold(not file.broken, f"a blank node is read: {file}")
    _compare(found, file)
    if find_spec("pandas") and file.separator != " ":
        _compare_with_pandas(found, path, file)
    return found


def _compare(found: EdgeList, file: Made) -> None:
    """The edges, weights and times that were written."""
    named = found.node_id[found.edge_index.numpy()]
    for side, want in zip(named.tolist(), file.ends, strict=True):
        hold([str(x) for x in side] == [str(x) for x in want], f"other nodes: {file}")
    for got, want in ((found.weight, file.weight), (found.time, file.time)):
        hold((got is None) == (want is None), f"other columns: {file}")
        if got is not None and want is not None:
            hold(np.allclose(got.numpy(), want, rtol=1e-12), f"other values: {file}")


def _compare_with_pandas(found: EdgeList, path: Path, file: Made) -> None:
    """The columns that pandas finds under the same names."""
    import pandas

    frame = pandas.read_csv(
        path,
        sep=file.separator,
        header=0 if file.headed else None,
        dtype=str,
        keep_default_na=False,
        skipinitialspace=False,
    )
    names = found.columns or {"source": 0, "target": 1}
    named = found.node_id[found.edge_index.numpy()].astype(str).tolist()
    for side, role in zip(named, ("source", "target"), strict=True):
        hold(side == frame[names[role]].tolist(), f"pandas reads others: {file}")
    if "weight" in names:
        want = pandas.to_numeric(frame[names["weight"]]).to_numpy()
        hold(np.array_equal(found.weight.numpy(), want), f"pandas weighs: {file}")
    if "time" in names:
        moments = pandas.to_datetime(frame[names["time"]], utc=True, format="ISO8601")
        since = moments - pandas.Timestamp(0, tz="UTC")
        want = since.dt.total_seconds().to_numpy()
        hold(np.allclose(found.time.numpy(), want, rtol=1e-15), f"pandas times: {file}")


COMMANDS = {
    "info": [],
    "convert": ["out.npz", "--force"],
    "embed": ["z.npz", "--force", "--dim", "2", "--epochs", "1", "--window", "1"],
    "partition": ["parts", "--parts", "1", "--force"],
    "show": ["--seed", "a1", "--fanouts", "2"],
    "build": ["rows", "--force", "--nodes", "9"],
}
OPTIONS = (
    ["--no-header"],
    ["--header"],
    ["--separator", ";"],
    ["--separator", "space"],
    ["--separator", "::"],
    ["--columns", "source", "target"],
    ["--columns", "2", "1", "-", "3"],
    ["--columns", "1"],
    ["--dates", "%d.%m.%Y"],
    ["--dates", "%"],
)


def damaged(draw: random.Random, content: bytes) -> bytes:
    """The bytes of a file with a cell, a line or a byte that should not be there."""
    if draw.random() < 0.4:
        return content
    place = draw.randrange(len(content) + 1)
    odd = [
        b"",
        b"nan",
        b"NaN,",
        b'"',
        b"\x00",
        b"\xff",
        b";",
        b",,",
        b"\n",
        b"\r",
        b"#",
    ]
    odd += [b"1e999", b"-1", b"99999999999999999999", b" ", b"\n,,\n", b"\xef\xbb\xbf"]
    before, after = content[:place], content[place + draw.randrange(3) :]
    return draw.choice([before, before + draw.choice(odd) + after])


def commanded(number: Any) -> None:
    """A command that is given such a file ends in a result or in one sentence."""
    from fuzz_calls import folder
    from gttf_sampler.cli.main import main

    draw, file = random.Random(repr(number)), made(number)
    path = folder(file.name)
    path.write_bytes(damaged(draw, file.content))
    command = draw.choice(list(COMMANDS))
    words = [command, str(path), *COMMANDS[command]]
    for option in draw.sample(OPTIONS, draw.choice([0, 0, 1, 2])):
        words += [] if option[0] in words or "header" in " ".join(words) else option
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        status = main(words)
    said = errors.getvalue()
    hold(status in (0, 2), f"{words} ends with {status}: {said}")
    hold(bool(said) == bool(status), f"{words} says {said!r}")
    if status:
        hold(
            re.fullmatch(rf"gttf {command}: '[^\n]*\n", said), f"{words} says {said!r}"
        )
        hold("'path'" not in said, f"{words} says {said!r}")
