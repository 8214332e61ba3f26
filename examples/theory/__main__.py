"""The paper's propositions, measured on made graphs; a minute or two, offline.

What it finds is written to `--json`; `python -m docs.pictures FILE` makes the pictures
and tables of docs/paper.md of it. `--root DIR` adds Cora, from DIR/planetoid.
Nothing is timed: a busy machine changes no number.
"""

import argparse
import json
import re
import time
from pathlib import Path

import torch
from tqdm import tqdm

from examples.theory import convolution, gradients, importance, powers, storage
from examples.theory.convex import minimizers
from examples.theory.graphs import cora, made
from examples.theory.objectives import BIASED
from examples.theory.strata import strata
from gttf_sampler import __version__


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.theory", description=__doc__.splitlines()[0]
    )
    add = parser.add_argument
    add("--root", help="the folder of planetoid/, with Cora as PyG stores it")
    add("--rounds", type=int, default=40, help="batches per mean; 200 in the docs")
    add("--json", help="file of what is found")
    return parser


def main() -> None:
    args = arguments().parse_args()
    torch.set_num_threads(1)
    began, rounds = time.perf_counter(), args.rounds
    graphs = [made()] + ([cora(args.root)] if args.root else [])
    tasks = {
        "convergence": lambda: {g.name: powers.convergence(g) for g in graphs},
        "fork": powers.fork,
        "spread": lambda: {g.name: powers.spread(g) for g in graphs},
        "gradients": lambda: gradients.bias(rounds),
        "star": convolution.star,
        "layers": lambda: {g.name: convolution.layers(g, rounds) for g in graphs},
        "minimizers": lambda: {g.name: minimizers(g, rounds) for g in graphs},
        "storage": storage.sizes,
        "strata": lambda: strata(rounds),
        "labor": lambda: importance.labor(rounds),
        "attention": lambda: importance.attention(rounds),
    }
    found = {}
    for name, run in tqdm(tasks.items(), disable=None):
        found[name] = run()
    seconds = time.perf_counter() - began
    root = " --root DIR" if args.root else ""
    result = {
        "task": "theory",
        "command": f"python -m examples.theory{root} --rounds {rounds}",
        "versions": {"gttf-sampler": __version__, "torch": torch.__version__},
        "seconds": round(seconds),
        **found,
    }
    if args.json:
        Path(args.json).write_text(_text(result), "utf-8")
    worst = max(
        row["bias"] / row["chance"]
        for row in found["gradients"]
        if row["objective"] not in BIASED
    )
    print(f"Largest bias of a gradient, in units of chance: {worst:.1f} (about 1)")


def _text(result: dict[str, object]) -> str:
    """JSON with a line per row, its numbers to six digits."""
    rounded = json.loads(
        json.dumps(result), parse_float=lambda digits: float(f"{float(digits):.6g}")
    )
    text = json.dumps(rounded, indent=1, ensure_ascii=False)
    inner = re.compile(r"\{[^{}\[\]]*(?:\[[^\[\]{}]*\][^{}\[\]]*)*\}")
    return inner.sub(lambda row: re.sub(r"\n\s*", " ", row[0]), text) + "\n"


if __name__ == "__main__":
    main()
