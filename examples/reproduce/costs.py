"""Time per epoch and peak memory of the cells on larger graphs, and nothing else.

    python -m examples.reproduce.costs --root DIR --results FOLDER

Every row comes from a process of its own, which has trained on a tiny graph before, so
that nothing is loaded while it is measured. The peak is the largest resident set of
training, beyond the dataset; validation on the whole graph is not part of it.
"""

import argparse
import importlib
import json
import time
import warnings
from pathlib import Path
from statistics import median
from typing import Any

import torch

from examples.reproduce.config import HOSTS, METHODS, Method
from examples.reproduce.data import Dataset, load, planted
from examples.reproduce.provenance import provenance
from examples.reproduce.runner import impossible
from examples.reproduce.scores import loss_of
from examples.reproduce.tasks import Task
from examples.reproduce.train import optimizer_of
from gttf_sampler.bench import machine
from gttf_sampler.bench.machine import PeakMemory, run_job

HERE = "examples.reproduce.costs"  # however it was started
DATASETS = ("computers", "physics")
MODELS = ("gcn", "gat", "gcnii", "sgc", "sage")
WAYS = ("full", "gttf", "neighbor")


def train(task: Task, method: Method, data: Dataset, epochs: int) -> dict[str, Any]:
    """Some epochs, one of them before the clock starts, without a look at the model."""
    host = importlib.import_module(f"examples.reproduce.host_{task.host}")
    learner = host.learner(task.method, method, data, task.way, task.seed)
    optimizer = optimizer_of(learner, method)
    learner.model.train()
    seconds, nodes = [], []
    for _ in range(epochs + 1):
        begin = time.perf_counter()
        for step in learner.steps():
            optimizer.zero_grad()
            loss_of(step.logits, data.y[step.seeds]).backward()
            optimizer.step()
            nodes.append(step.nodes)
        seconds.append(time.perf_counter() - begin)
    return {
        "s per epoch": median(seconds[1:]),
        "best": min(seconds[1:]),
        "nodes per step": sum(nodes) / len(nodes),
    }


def job(task: list[Any], root: str, epochs: int, report: Any) -> dict[str, Any]:
    """The measurements of one process."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    asked = Task(*task)
    train(asked, METHODS[asked.method], planted(), 1)
    method = METHODS[asked.method].on(asked.dataset)
    data = load(asked.dataset, root)
    report(str(asked), 0.5)
    with PeakMemory() as memory:
        found = train(asked, method, data, epochs)
    return {**asked._asdict(), **found, "peak MB": memory.beyond / 2**20}


def measure(
    root: str, datasets: list[str], hosts: list[str], epochs: int
) -> dict[str, Any]:
    """All rows: methods × datasets × hosts × ways."""
    busy, made, rows, left_out = machine.busy(), provenance(), [], {}
    for dataset in datasets:
        load(dataset, root)  # says at once what is missing
        for method in MODELS:
            for host in hosts:
                for way in WAYS:
                    task = Task(method, dataset, host, way, 0)
                    reason = impossible(task)
                    if reason is not None:
                        left_out[f"{host} {way}"] = reason
                        continue
                    asked = {"task": list(task), "root": root, "epochs": epochs}
                    rows.append(run_job({"run": f"{HERE}:job", **asked}))
    which = f"--datasets {' '.join(datasets)} --hosts {' '.join(hosts)}"
    command = f"python -m {HERE} --root DIR {which} --epochs {epochs}"
    found = {"command": command, **made, "machine": machine.describe()}
    notes = [busy] if busy else []
    return {**found, "notes": notes, "left out": left_out, "rows": rows}


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {HERE}", description=__doc__.splitlines()[0]
    )
    add = parser.add_argument
    add("--root", required=True, help="the folder of the datasets")
    add("--datasets", nargs="+", default=list(DATASETS), choices=DATASETS)
    add("--hosts", nargs="+", default=["dgl"], choices=HOSTS)
    add("--epochs", type=int, default=10, help="that are measured; one more is not")
    add("--results", default="reproduce-results", help="folder of what is found")
    return parser


def main() -> None:
    parser = arguments()
    args = parser.parse_args()
    try:
        found = measure(args.root, args.datasets, args.hosts, args.epochs)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    folder = Path(args.results)
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found, indent=1) + "\n"
    (folder / "costs.json").write_text(text, "utf-8")
    from examples.reproduce import larger_pages

    print(larger_pages.costs(found))


if __name__ == "__main__":
    main()
