"""Settings of embeddings, chosen on splits of the edges that are in no table.

    python -m examples.reproduce.links_search --edges DIR --trials 12

Of the training edges of each cell a tenth is hidden once more, and settings are drawn
at random from `SPACE`, after those of `FIRST`. The best `FINAL` of them, by the ROC-AUC
of these edges, are tried on two more splits; the best mean wins. Every trial is kept in
the JSON files of `--results`; what is there already is not run again. What has won is
in `links_settings.py`.
"""

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any

from examples.reproduce.config import METHODS
from examples.reproduce.links_settings import FIRST, SPACE, as_fields

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # steady times on a busy machine
VALID = 0.1  # of the training edges
FINAL, SPLITS = 3, (100, 101, 102)  # seeds from 100 on are in no table


def drawn(method: str, number: int) -> dict[str, Any]:
    """Settings number `number` of a method, the same ones whenever it is asked."""
    random = Random(f"{method} {number}")
    return {name: random.choice(values) for name, values in SPACE[method].items()}


def trial(cell: str, data: Any, settings: dict[str, Any], seed: int) -> dict[str, Any]:
    """One training, and the ROC-AUC of hidden training edges."""
    from examples.reproduce.links import halved, train
    from gttf_sampler.embedding import link_auc, split_links

    method, _ = cell.split("-")
    half = halved(data, seed).train
    split = split_links(half, data.num_nodes, VALID, generator=1000 + seed)
    how = replace(METHODS[method], **as_fields(settings))
    model, costs = train(method, split, how, "walks", seed)
    kept = {"valid": 100 * link_auc(model.score, split)}
    kept["train seconds"] = costs["train seconds"]
    return {"settings": settings, "split": seed, **kept}


def best(trials: list[dict[str, Any]], splits: int) -> list[dict[str, Any]]:
    """Settings that were tried on so many splits, the best mean first."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for one in trials:
        groups.setdefault(json.dumps(one["settings"]), []).append(one)
    full = [group for group in groups.values() if len(group) >= splits]
    scored = [(mean(one["valid"] for one in group), group) for group in full]
    scored.sort(key=lambda pair: -pair[0])
    return [{"settings": g[0]["settings"], "valid": score} for score, g in scored]


def search(cell: str, data: Any, trials: int, path: Path) -> dict[str, Any]:
    """All trials of a cell; the file is written after each of them."""
    from examples.reproduce.provenance import provenance

    method, _ = cell.split("-")
    command = f"python -m examples.reproduce.links_search --edges DIR --only {cell}"
    made = {"command": f"{command} --trials {trials}", **provenance()}
    found: dict[str, Any] = {"cell": cell, "trials": []}
    if path.exists():
        found = json.loads(path.read_text("utf-8"))

    def run(settings: dict[str, Any], seed: int) -> None:
        known = ((one["settings"], one["split"]) for one in found["trials"])
        if (settings, seed) in known:
            return
        found["trials"].append(trial(cell, data, settings, seed))
        found.update(made)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, indent=1) + "\n", "utf-8")

    every = [drawn(method, number) for number in range(trials)]
    for settings in [*FIRST.get(method, []), *every]:
        run(settings, SPLITS[0])
    first = [one for one in found["trials"] if one["split"] == SPLITS[0]]
    for one in best(first, 1)[:FINAL]:
        for seed in SPLITS[1:]:
            run(one["settings"], seed)
    found["chosen"] = best(found["trials"], len(SPLITS))[0]
    path.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    return found["chosen"]


def main() -> None:
    import torch

    from examples.reproduce.data import load

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    cells = [f"{method}-{data}" for method in SPACE for data in ("ppi", "hepth")]
    add("--edges", required=True, help="the folder of ppi.edgelist and ca-HepTh.txt")
    add("--only", nargs="+", default=cells, choices=cells)
    add("--trials", type=int, default=12, help="settings that are drawn")
    add("--results", default="reproduce-results/search", help="folder of what is found")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for cell in args.only:
        data = load(cell.split("-")[1], edges=args.edges)
        path = Path(args.results) / f"{cell}.json"
        won = search(cell, data, args.trials, path)
        print(f"{cell}: {won['valid']:.2f} {json.dumps(won['settings'])}", flush=True)


if __name__ == "__main__":
    main()
