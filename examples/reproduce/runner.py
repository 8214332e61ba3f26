"""Runs tasks one after another, each in a process of its own, and keeps the results."""

import importlib
import multiprocessing
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from tqdm import tqdm

from examples.reproduce.config import METHODS, Method
from examples.reproduce.data import as_graph, load
from examples.reproduce.provenance import provenance
from examples.reproduce.store import Store
from examples.reproduce.tasks import Task
from examples.reproduce.train import Report
from gttf_sampler import CompactAdj, sample_rooted
from gttf_sampler.bench.machine import PeakMemory


def impossible(task: Task) -> str | None:
    """Why a task cannot be run here, or None."""
    try:
        host = importlib.import_module(f"examples.reproduce.host_{task.host}")
    except ImportError as error:
        return str(error)
    return host.missing(task.way)


def method_of(task: Task, epochs: int | None = None) -> Method:
    """The training settings of a task; `epochs` replaces the usual limit."""
    method = METHODS[task.method].on(task.dataset)
    return method if epochs is None else replace(method, epochs=epochs)


def run(
    task: Task,
    root: str | None = None,
    edges: str | None = None,
    report: Report = lambda epoch, point: None,
    epochs: int | None = None,
) -> dict[str, Any]:
    """Trains one model, here and now; returns what is to be kept."""
    method = method_of(task, epochs)
    data = load(task.dataset, root, edges, split=task.seed)
    with PeakMemory() as memory:
        begin = time.perf_counter()
        result = _fit(task, method, data, report)
        result["seconds"] = time.perf_counter() - begin
    result["peak MB"] = memory.beyond / 2**20
    return {"settings": method.settings(), **result}


def _fit(task: Task, method: Method, data: Any, report: Report) -> dict[str, Any]:
    """Trains as the kind of the method asks."""
    if method.kind == "links":
        from examples.reproduce import links

        graph = as_graph(data)
        return links.fit(task.method, graph, method, task.way, task.seed, report)
    if method.kind == "infomax":
        from examples.reproduce import infomax

        return infomax.fit(data, method, task.way, task.seed, report)
    from examples.reproduce import train

    host = importlib.import_module(f"examples.reproduce.host_{task.host}")
    learner = host.learner(task.method, method, data, task.way, task.seed)
    return train.fit(learner, data, method, report)


def run_all(
    tasks: Sequence[Task],
    store: Store,
    root: str | None = None,
    edges: str | None = None,
    epochs: int | None = None,
) -> None:
    """Runs what is not in the store yet; may be killed and started again."""
    left = [
        task
        for task in tasks
        if not store.has(task, method_of(task, epochs).settings())
    ]
    made = provenance()  # before the first run: the tree may change during the others
    _warm_up()
    with tqdm(left, "runs", disable=None if left else True) as bar:
        for task in bar:
            bar.set_description(str(task))
            reason = impossible(task)
            if reason is not None:
                store.add(task, {"missing": reason})
                continue
            result = _in_process(bar, task, root, edges, epochs)
            store.add(task, {**result, "command": task.command, **made})


def _in_process(bar: Any, task: Task, *options: Any) -> dict[str, Any]:
    """The result of a run in a process of its own, whose peak memory is its own."""
    ways = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("fork" if "fork" in ways else "spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_child, args=(theirs, task, *options))
    process.start()
    theirs.close()
    try:
        while True:
            kind, content = ours.recv()
            if kind == "result":
                return content
            epoch, point = content
            bar.set_postfix(epoch=epoch, val=f"{point['val']:.1f}", refresh=False)
            bar.update(0)
    except EOFError:
        raise RuntimeError(f"the run of {task} has failed; see above") from None
    finally:
        process.join()


def _child(
    pipe: Any, task: Task, root: str | None, edges: str | None, epochs: int | None
) -> None:
    """Sends the progress and the result of a run."""
    torch.set_num_threads(1)

    def report(epoch: int, point: dict[str, float]) -> None:
        pipe.send(("progress", (epoch, point)))

    pipe.send(("result", run(task, root, edges, report, epochs)))


def _warm_up() -> None:
    """Loads once what is slow to load; processes that are forked later have it."""
    torch.set_num_threads(1)
    torch.optim.Adam([torch.zeros(1, requires_grad=True)]).zero_grad()
    ring = CompactAdj.from_edge_index([[0, 1, 2], [1, 2, 0]])
    sample_rooted(ring, [0, 1], [2, 2], generator=0)
