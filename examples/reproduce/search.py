"""Settings that no paper gives, chosen on validation nodes: full batches on PyG.

`python -m examples.reproduce.search --root DIR --only sage-cora` trains every candidate
from seeds that are in no table and keeps their validation scores; test nodes are never
looked at. The best one is what config.py has, which a test watches over.
"""

import argparse
import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

from examples.reproduce import host_pyg, train
from examples.reproduce.config import METHODS, Method
from examples.reproduce.data import Dataset, load
from examples.reproduce.protocol import RESERVED
from examples.reproduce.provenance import provenance

GRIDS: dict[str, dict[str, tuple[Any, ...]]] = {
    "sage": {"lr": (0.01, 0.003), "weight_decay": (5e-4, 5e-3), "dropout": (0.5, 0.8)},
    "mixhop": {"lr": (0.25, 1.0), "l2": (5e-2, 2e-2, 1e-2, 5e-3)},
}
SEEDS = (RESERVED, RESERVED + 1)
FOLDER = Path(__file__).parent / "results" / "search"


def with_values(method: Method, chosen: dict[str, Any]) -> Method:
    """A method with other values of its fields, or of its options."""
    fields = {name: value for name, value in chosen.items() if hasattr(method, name)}
    options = {name: value for name, value in chosen.items() if name not in fields}
    return replace(method, **fields, options={**method.options, **options})


def search(
    name: str, data: Dataset, seeds: Sequence[int] = SEEDS, epochs: int | None = None
) -> dict[str, Any]:
    """Trains all candidates of a method; what was tried, and the best of it.

    The best has the highest mean accuracy on validation nodes, and of those that tie
    the lowest mean loss.
    """
    usual = METHODS[name].on(data.name)
    usual = usual if epochs is None else replace(usual, epochs=epochs)
    grid, tried = GRIDS[name], []
    for values in itertools.product(*grid.values()):
        chosen = dict(zip(grid, values, strict=True))
        method = with_values(usual, chosen)
        scores = []
        for seed in seeds:
            learner = host_pyg.learner(name, method, data, "full", seed)
            scores.append(train.train(learner, data, method)[0])
        found = {key: [best[key] for best in scores] for key in ("val", "val loss")}
        tried.append({"chosen": chosen, **found})
    best = max(tried, key=lambda one: (mean(one["val"]), -mean(one["val loss"])))
    return {
        "cell": f"{name}-{data.name}",
        "seeds": list(seeds),
        "settings": usual.settings(),
        "candidates": tried,
        "chosen": best["chosen"],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", help="the folder of datasets")
    parser.add_argument("--only", nargs="+", required=True, help="cells: sage-cora")
    parser.add_argument("--results", type=Path, default=FOLDER)
    args = parser.parse_args(arguments)
    for cell in args.only:
        name, _, dataset = cell.partition("-")
        if name not in GRIDS:
            parser.error(
                f"'only' must name cells of {sorted(GRIDS)}, whose settings are "
                f"searched (got {cell!r})"
            )
        try:
            data = load(dataset, args.root)
        except (OSError, ValueError) as error:
            parser.error(str(error))
        found = search(name, data)
        command = f"python -m examples.reproduce.search --root DIR --only {cell}"
        args.results.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"command": command, **provenance(), **found}, indent=1)
        (args.results / f"{cell}.json").write_text(text + "\n", "utf-8")
        print(cell, found["chosen"])


if __name__ == "__main__":
    main()
