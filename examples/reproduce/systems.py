"""Everyone's sampler on the same GCN, data and budget: accuracy against seconds.

    python -m examples.reproduce.systems --root DIR --dataset computers

Each trains the two layers of `gcn` for so many seconds of one thread's processor time,
which a busy machine does not stretch. Making the sampler is paid from the same budget;
looking at the validation nodes is not. The test nodes are read once, with the weights
that were best on the validation nodes.
"""

import argparse
import copy
import json
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

from examples.reproduce import host_pyg, samplers
from examples.reproduce.config import METHODS, Method
from examples.reproduce.data import Dataset, load, planted
from examples.reproduce.provenance import provenance
from examples.reproduce.train import judge, optimizer_of
from gttf_sampler.bench import machine

LABELS = {
    "full": "full batch",
    "gttf": "GTTF",
    "nodewise": "GraphSAGE",
    "fastgcn": "FastGCN",
    "ladies": "LADIES",
    "saint": "GraphSAINT",
    "cluster": "ClusterGCN",
}
# The same for all; sizes of samples such that steps see about as many nodes.
SETTINGS = {
    "cora": {"fanouts": (3, 3), "options": {"layer": 512, "walk": 4}},
    "citeseer": {"fanouts": (3, 3), "options": {"layer": 512, "walk": 4}},
    "computers": {
        **{"fanouts": (5, 5), "hidden": 64, "lr": 0.01, "weight_decay": 5e-4},
        "options": {"layer": 2048, "walk": 16, "parts": 40, "together": 10},
    },
    "physics": {
        **{"fanouts": (5, 5), "hidden": 64, "lr": 0.01, "weight_decay": 5e-4},
        "options": {"layer": 2048, "walk": 16, "parts": 80, "together": 10},
    },
}


def method_on(dataset: str) -> Method:
    """The GCN of a dataset, for every system."""
    return replace(METHODS["gcn"].on(dataset), **SETTINGS.get(dataset, {}))


def marks(budget: float, points: int = 12) -> Iterator[float]:
    """When to look: after the budget's 1/64, …, evenly on a logarithmic scale."""
    for place in range(points):
        yield budget * 2 ** (6 * place / (points - 1) - 6)


def race(
    way: str, data: Dataset, method: Method, seed: int, budget: float
) -> dict[str, Any]:
    """One system's run: what was seen of the validation nodes, and one test score."""
    begun = time.process_time()
    learner = host_pyg.learner("gcn", method, data, way, seed)
    optimizer = optimizer_of(learner, method)
    spent, first = time.process_time() - begun, 0.0
    curve, best, weights = [], -1.0, learner.model.state_dict()
    steps = nodes = 0
    for mark in marks(budget):
        begun = time.process_time()
        learner.model.train()
        while not steps or spent + time.process_time() - begun < mark:
            for step in learner.steps():
                optimizer.zero_grad()
                F.cross_entropy(step.logits, data.y[step.seeds]).backward()
                optimizer.step()
                steps, nodes = steps + 1, nodes + step.nodes
                first = first or spent + time.process_time() - begun
        spent += time.process_time() - begun
        val = judge(learner, data, data.val, "val")["val"]
        curve.append([round(spent, 4), round(val, 3)])
        if val > best:
            best, weights = val, copy.deepcopy(learner.model.state_dict())
    learner.model.load_state_dict(weights)
    return {
        **{"way": way, "seed": seed, "val": best},
        "test": judge(learner, data, data.test, "test")["test"],
        **{"first step": first, "seconds": spent, "steps": steps},
        **{"nodes per step": nodes / max(1, steps), "curve": curve},
    }


def run(
    dataset: str, root: str | None, budget: float, seeds: int, ways: list[str]
) -> dict[str, Any]:
    """All systems with all seeds, a seed of everyone before the next one."""
    method, busy = method_on(dataset), machine.busy()
    made, runs, left_out = provenance(), [], {}
    for way in ways:  # loads what is slow to load, once for all
        if samplers.missing(way) is None:
            race(way, planted(), METHODS["gcn"], 0, 0.1)
    for seed in range(seeds):
        data = load(dataset, root, split=seed)
        for way in ways:
            reason = samplers.missing(way)
            if reason is not None:
                left_out[way] = reason
                continue
            runs.append(race(way, data, method, seed, budget))
    return {
        "command": f"python -m examples.reproduce.systems --root DIR "
        f"--dataset {dataset} --seconds {budget:g} --seeds {seeds}",
        **{"dataset": dataset, "budget": budget, **made},
        "notes": [busy] if busy else [],
        **{"settings": method.settings(), "left out": left_out, "runs": runs},
    }


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.reproduce.systems",
        description=__doc__.splitlines()[0],
    )
    add = parser.add_argument
    add("--root", help="the folder of the datasets")
    add("--dataset", default="planted", choices=["planted", *SETTINGS])
    add("--seconds", type=float, default=20.0, help="budget of every run (20)")
    add("--seeds", type=int, default=5)
    add("--ways", nargs="+", default=list(LABELS), choices=LABELS)
    add("--results", default="reproduce-results", help="folder of what is found")
    return parser


def main() -> None:
    parser = arguments()
    args = parser.parse_args()
    warnings.filterwarnings("ignore", "Sparse invariant checks")
    torch.set_num_threads(1)
    try:
        found = run(args.dataset, args.root, args.seconds, args.seeds, args.ways)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    from examples.reproduce import race_chart

    folder = Path(args.results)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"systems_{args.dataset}.json"
    path.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    race_chart.draw([found], path.with_suffix(".png"))
    print(race_chart.markdown(found))


if __name__ == "__main__":
    main()
