"""Measures the cost of sampled degrees: accuracy of GCN, SGC, GCNII and APPNP.

By default on a planted partition that is made here, in a minute; `--root DIR` takes
Cora and CiteSeer (DIR/planetoid), Amazon Computers (DIR/amazon) and Coauthor Physics
(DIR/coauthor) from folders of PyG's datasets, in an hour or two. Stop it whenever you
like: it goes on where it was. What it finds is in `--results`, a JSON file per graph
and model, beside a table and a chart.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from examples.degrees import table
from examples.degrees.data import FOLDERS, STEPS, load
from examples.degrees.models import MODELS
from examples.degrees.train import WAYS, missing, quiet, run


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.degrees", description=__doc__.splitlines()[0]
    )
    add = parser.add_argument
    add("--root", help="the folder of planetoid/, amazon/ and coauthor/")
    add("--graphs", nargs="+", choices=[*FOLDERS, "planted"])
    add("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    add("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    add("--splits", type=int, default=5)
    add("--steps", type=int, help="instead of 200, or 100 for physics")
    add("--results", default="degrees-results", help="folder of what is found")
    return parser


def read(folder: Path) -> list[dict[str, Any]]:
    """All runs that are done."""
    files = sorted(folder.glob("*-*.json"))
    return [run for path in files for run in json.loads(path.read_text("utf-8"))]


def keep(folder: Path, one: dict[str, Any]) -> None:
    """Adds a run to its file, which is whole at every moment."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{one['graph']}-{one['model']}.json"
    runs = json.loads(path.read_text("utf-8")) if path.exists() else []
    same = ("way", "split", "steps")
    runs = [run for run in runs if any(run[key] != one[key] for key in same)]
    runs = sorted(
        [*runs, one], key=lambda run: (list(WAYS).index(run["way"]), run["split"])
    )
    part = path.with_suffix(".part")
    lines = ",\n".join(json.dumps(run) for run in runs)
    part.write_text(f"[\n{lines}\n]\n", "utf-8")
    part.replace(path)


def main() -> None:
    parser = arguments()
    args = parser.parse_args()
    names = args.graphs or (list(FOLDERS) if args.root else ["planted"])
    folder = Path(args.results)
    quiet()
    torch.set_num_threads(1)
    same = ("graph", "model", "way", "split", "steps")
    done = {tuple(run[key] for key in same) for run in read(folder)}
    for name in names:
        try:
            graph = load(name, args.root)
        except (OSError, ValueError) as error:
            parser.error(str(error))
        asked = [
            (name, model, way, split, args.steps or STEPS.get(name, 200))
            for split in range(args.splits)
            for model in args.models
            for way in args.ways
            if missing(model, way) is None
        ]
        left = [task for task in asked if task not in done]
        for task in tqdm(left, name, disable=None if left else True):
            found = run(graph, *task[1:])
            keep(folder, {**dict(zip(same, task, strict=True)), **found})
    runs = read(folder)
    print(table.markdown(runs))
    (folder / "table.md").write_text(table.markdown(runs), "utf-8")
    table.draw(runs, folder / "accuracy.png")


if __name__ == "__main__":
    main()
