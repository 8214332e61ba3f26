"""Calls everything public with odd arguments: a right result, or one of our errors.

    make fuzz CASES=50000 ARGS="--seed 1"
    python tests/tools/fuzz.py --only traverse --cases 500
    python tests/tools/fuzz.py --run "walk(adj=toy(), seeds=[4], fanouts=None)"

A case is a line of Python, written at random from the rules in `fuzz_words`. It runs in
a child process with a cap on memory, and must end within some seconds in a result that
passes the checks in `fuzz_checks`, or in an error of ours: one that names the quoted
argument and what was received. Everything else is printed, with the line.
"""

import argparse
import array
import collections
import decimal
import faulthandler
import fractions
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

import fuzz_calls
import fuzz_features
import fuzz_hosts
import fuzz_tables
import fuzz_twists
import gttf_sampler
from fuzz_twists import ARRAYS, NUMBERS, OBJECTS, TWISTS
from fuzz_words import RULES, STARTS
from gttf_sampler import embedding, graph, objectives, plot, rooted

ODD = 0.14  # how likely an argument is replaced or twisted
OPTIONAL = 0.3  # how likely an argument that may be left out is there
KINDS = (ValueError, TypeError, ImportError, KeyError, NotImplementedError)
SENTENCE = re.compile(r"\"?'[^\n]*?' .*\(got .*\)", re.DOTALL)
NOT_OURS = [
    # Python, of a function that was passed and takes other arguments
    r"\w+\(?\)? takes .* argument",
    # torch, of features that it cannot gather, and its DataLoader
    r"\"index_\w+\" not implemented for|Could not run 'aten::index_select'",
    r"batch_size should be a positive integer value",
    r"num_samples should be a positive integer value",
    # PyG, of data, of arguments that contradict each other, and of its own words
    r"Expected a 'Data', 'HeteroData', or a tuple",
    r"conflicting '(input|edge_label)_time' and 'time_attr'",
    r"'edge_label' needs to be undefined",
    r"is not a valid (SubgraphType|NegativeSamplingMode)",
    r"Number of hops must be the same|Missing number of neighbors",
    r"Cannot convert the edge type '.*' to a tuple",
    r"Encountered invalid feature tensor type",
    r"can't convert np.ndarray of type",
    # DGL
    r"([Nn]ode|[Ee]dge) type .* does not exist",
]


class Writer:
    """Writes lines of Python from the rules."""

    def __init__(self, draw: random.Random, odd: float, optional: float) -> None:
        self.draw, self.odd, self.optional = draw, odd, optional

    def line(self, rule: str) -> str:
        """One of the alternatives of a rule, everything in it written out."""
        return self.written(self.draw.choice(RULES[rule]))

    def written(self, text: str) -> str:
        """An alternative with some of its optional arguments, and no `$name` left."""
        while ";" in text:
            before, after = text.rsplit(";", 1)
            optional, rest = after.split(")", 1)
            parts = [part.strip() for part in optional.split(",")]
            parts = [part for part in parts if self.draw.random() < self.optional]
            given = ", " * (bool(parts) and not before.endswith("("))
            text = f"{before}{given}{', '.join(parts)}){rest}"
        return re.sub(r"\$(\w+)([.!]?)", self._argument, text)

    def _argument(self, place: re.Match[str]) -> str:
        """The text for `$name`; nothing odd for `$name!` and `$name.`."""
        if place[2]:
            return self.line(place[1]) + place[2].strip("!")
        chance = self.draw.random()
        if chance < self.odd / 2:
            return self.draw.choice(self.draw.choice([NUMBERS, OBJECTS, ARRAYS]))
        written = self.line(place[1])
        if chance < self.odd:
            return f"twist({self.draw.choice(list(TWISTS))!r}, {written})"
        return written


def case(seed: int, number: int, only: str | None) -> tuple[str, str]:
    """The rule and the line of one case."""
    draw = random.Random(f"{seed} {number}")
    rule = only or draw.choice(STARTS)
    backend = draw.choice(["auto", "torch"])
    line = Writer(draw, ODD, OPTIONAL).line(rule)
    start = f"random.seed({number}); torch.manual_seed({number})"
    return rule, f"set_backend('{backend}'); {start}; check({line})"


def words() -> dict[str, Any]:
    """Everything that a line may name."""
    rooms = (embedding, graph, objectives, plot, rooted, gttf_sampler)
    found = {name: getattr(room, name) for room in rooms for name in room.__all__}
    for module in (fuzz_twists, fuzz_features, fuzz_hosts, fuzz_tables, fuzz_calls):
        found.update(vars(module))
    own = (array, collections, decimal, fractions, os, random, time, torch)
    return {**found, **{module.__name__: module for module in own}, "np": np}


def judged(line: str, names: dict[str, Any]) -> tuple[str, str]:
    """A line's outcome ("result", "error" or "finding"), and the report on it."""
    try:
        exec(line, names)
    except (*KINDS, *fuzz_hosts.ERRORS) as error:
        text = error.args[0] if error.args and isinstance(error.args[0], str) else ""
        if SENTENCE.match(text) or re.search("|".join(NOT_OURS), text):
            return "error", text
        return "finding", told(error)
    except OSError as error:
        return ("error" if "path" in line else "finding"), told(error)
    except BaseException as error:
        return "finding", told(error)
    return "result", ""


def told(error: BaseException) -> str:
    """The error in a line, and where in the library it was raised."""
    traceback.print_exception(error)
    trace = traceback.extract_tb(error.__traceback__)
    files = [(Path(frame.filename), frame.lineno) for frame in trace]
    ours = [place for place in files if place[0].parent.name.startswith("gttf_")]
    place = f"{ours[-1][0].name}:{ours[-1][1]}" if ours else "no code of ours"
    return f"{type(error).__name__} in {place}: {' '.join(str(error).split())[:160]}"


def child(options: argparse.Namespace) -> None:
    """Runs cases one by one, and tells on stdout what it does."""
    faulthandler.enable()
    limit = int(options.memory * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    names = words()
    for number in range(options.first, options.cases):
        if time.time() > options.until:
            return
        rule, line = case(options.seed, number, options.only)
        line = options.run.splitlines()[number] if options.run else line
        tell(case=number, rule=rule, line=line)
        faulthandler.dump_traceback_later(options.seconds, exit=True)
        end, text = judged(line, names)
        faulthandler.cancel_dump_traceback_later()
        tell(case=number, rule=rule, line=line, end=end, text=text)


def tell(**fact: Any) -> None:
    """Writes one line that the other process reads at once."""
    print(json.dumps(fact), flush=True)


def watched(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The reports of one child until it was done, crashed or hung."""
    passed = {name: value for name, value in vars(options).items() if value is not None}
    arguments = [f"--{name}={value}" for name, value in passed.items()]
    command = [sys.executable, str(Path(__file__).resolve()), *arguments, "--child=1"]
    facts: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory() as folder,  # lines may write where they like
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=folder
        ) as process,
    ):
        for text in process.stdout or ():
            if text.startswith("{"):
                facts.append(json.loads(text))
        process.wait()
        errors.seek(0)
        said = errors.read()
    if options.run:
        print(said, end="")
    if process.returncode:
        if not facts:
            raise RuntimeError(f"the fuzzer itself ends with\n{said}")
        places = re.findall(r'File ".*?(gttf_\w+/\w+\.py)", line (\d+)', said)
        where = ":".join(places[0]) if places else "no code of ours"
        what = "Hang" if "Timeout" in said else f"Crash ({process.returncode})"
        facts.append({**facts[-1], "end": "finding", "text": f"{what} in {where}"})
    return facts


def main() -> int:
    """Runs cases in children until all are done; prints what was found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=sorted(set(STARTS)))
    parser.add_argument("--memory", type=float, default=6.0, help="in GiB")
    parser.add_argument("--seconds", type=float, default=10.0, help="of one case")
    parser.add_argument("--run", help="lines to run, instead of all others")
    parser.add_argument("--first", type=int, default=0, help="case to begin with")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds of all cases")
    parser.add_argument("--until", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.cases = len(options.run.splitlines()) if options.run else options.cases
    if options.child:
        child(options)
        return 0
    ends: collections.Counter[str] = collections.Counter()
    groups: dict[str, list[dict[str, Any]]] = {}
    begin, options.until = options.first, time.time() + options.limit
    while options.first < options.cases and time.time() < options.until:
        facts = watched(options)
        if not facts:  # the time was over
            break
        options.first = facts[-1]["case"] + 1
        for fact in facts:
            ends[fact.get("end", "")] += 1
            if fact.get("end") == "finding":
                kind = re.sub(r"\d+|got .*", "", fact["text"])[:90]
                groups.setdefault(f"{fact['rule']} {kind}", []).append(fact)
    for _, found in sorted(groups.items()):
        first = min(found, key=lambda fact: len(fact["line"]))
        print(f"{first['rule']}: {first['text']} ({len(found)} times)")
        print(f"    {first['line']}")
    print(
        f"{options.first - begin:,} cases with seed {options.seed}: {ends['result']:,} "
        f"results, {ends['error']:,} errors, {len(groups)} findings"
    )
    return 1 if groups else 0


if __name__ == "__main__":
    sys.exit(main())
