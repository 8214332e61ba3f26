"""Kills, crowds and long runs, with what was seen as a Markdown table.

    make stress                          # all of it, some minutes
    make stress ARGS="save --rounds 500"
    make stress ARGS="soak --batches 2000"
    make stress ARGS="workers"

save: processes save two graphs to one directory at once, or are killed at random
moments; whoever opens it, also meanwhile, must get one of the two, whole.
soak: memory of the process over many batches of both loaders.
workers: a worker of a DataLoader is killed in the middle of an epoch; the loader must
raise, not hang, and its next epoch must be whole.
"""

import argparse
import gc
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "adapters")]

import psutil  # noqa: E402
import torch  # noqa: E402

from gttf_sampler import CompactAdj  # noqa: E402

Row = tuple[str, str, str]


def graph(seed: int) -> CompactAdj:
    """One of the graphs that are saved; its weights are its seed."""
    torch.manual_seed(seed)
    edges = torch.randint(2000, (2, 20_000 + 1000 * seed))
    weight = torch.full((edges.shape[1],), float(seed))
    return CompactAdj.from_edge_index(edges, 2000, edge_weight=weight)


def is_whole(adj: CompactAdj) -> bool:
    """True if a graph is one of those that were saved."""
    seed = int(adj.edge_weight[0])  # type: ignore[index]
    same = graph(seed)
    return all(map(torch.equal, adj.arrays().values(), same.arrays().values()))


def write(folder: Path, seed: int, turns: int) -> None:
    """Saves one graph again and again."""
    made = graph(seed)
    for _ in range(turns):
        made.save(folder)


def outcome(folder: Path) -> str:
    """The graph or error that opening the directory now gives."""
    try:
        return "whole" if is_whole(CompactAdj.open(folder)) else "broken"
    except ValueError:
        return "refused"


def save(rounds: int) -> Iterator[Row]:
    """Two who save at once, others who open it meanwhile, and one who is killed."""
    context = multiprocessing.get_context("fork")
    seen: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "graph"
        for _ in range(rounds):
            pair = [context.Process(target=write, args=(folder, s, 1)) for s in (1, 2)]
            for process in pair:
                process.start()
            for process in pair:
                process.join()
            seen["failed"] += any(process.exitcode for process in pair)
            seen[outcome(folder)] += 1
        faults = told(seen, "failed", "broken", "refused")
        yield "two save at once", f"{rounds} rounds", faults
        seen.clear()
        busy = [context.Process(target=write, args=(folder, s, 10**6)) for s in (1, 2)]
        for process in busy:
            process.start()
        for _ in range(10 * rounds):
            seen[outcome(folder)] += 1
        seen["failed"] += any(process.exitcode is not None for process in busy)
        for process in busy:
            process.kill()
            process.join()
        faults = told(seen, "failed", "broken", "refused")
        yield "opened while two save", f"{10 * rounds} times", faults
        seen.clear()
        draw = random.Random(0)
        for turn in range(rounds):
            process = context.Process(target=write, args=(folder, 1 + turn % 2, 10**6))
            process.start()
            time.sleep(draw.random() * 0.05)
            os.kill(process.pid, signal.SIGKILL)  # type: ignore[arg-type]
            process.join()
            seen[outcome(folder)] += 1
        left = len(list(folder.iterdir()))
        write(folder, 1, 1)
        kept = len(list(folder.iterdir()))
        note = f"; {left} files before the next save, {kept} after it"
        faults = told(seen, "broken", "refused") + note
        yield "killed while it saves", f"{rounds} kills", faults


def told(seen: Counter[str], *names: str) -> str:
    """Counts in words."""
    return ", ".join(f"{seen[name]} {name}" for name in names)


def pyg_loader(**options: object) -> object:
    """A loader of PyG's manners over a graph of 50,000 nodes."""
    from torch_geometric.data import Data

    from gttf_pyg import GTTFLoader

    torch.manual_seed(0)
    edges = torch.randint(50_000, (2, 600_000))
    data = Data(x=torch.rand(50_000, 32), edge_index=edges)
    return GTTFLoader(data, [10, 5], batch_size=256, shuffle=True, **options)


def dgl_loader(**options: object) -> object:
    """The same of DGL's."""
    import dgl

    from gttf_dgl import DataLoader, GTTFSampler

    torch.manual_seed(0)
    g = dgl.rand_graph(50_000, 600_000)
    g.ndata["x"] = torch.rand(50_000, 32)
    sampler = GTTFSampler([5, 10], prefetch_node_feats=["x"])
    nodes = torch.arange(50_000)
    how = {"batch_size": 256, "shuffle": True, **options}
    return DataLoader(g, nodes, sampler, **how)


LOADERS: dict[str, Callable[..., object]] = {"PyG": pyg_loader, "DGL": dgl_loader}


def batches(loader: object, count: int) -> Iterator[int]:
    """The numbers of so many batches, epoch after epoch."""
    number = 0
    while number < count:
        for _ in loader:  # type: ignore[attr-defined]
            number += 1
            yield number
            if number == count:
                return


def soak(count: int) -> Iterator[Row]:
    """Growth of memory from a tenth of the batches to the last of them."""
    process = psutil.Process()
    for name, number_of_workers in product(LOADERS, (0, 2)):
        loader, sizes = LOADERS[name](num_workers=number_of_workers), []
        for number in batches(loader, count):
            if number >= count // 10 and number % (count // 20) == 0:
                gc.collect()
                sizes.append(process.memory_info().rss)
        growth = (max(sizes[len(sizes) // 2 :]) / max(sizes[: len(sizes) // 2])) - 1
        result = f"{growth:+.1%} of {sizes[0] / 1e6:.0f} MB"
        how = f"{count} batches, num_workers={number_of_workers}"
        yield f"memory, {name} loader", how, result
        del loader


def with_processes(name: str, **options: object) -> object:
    """A loader whose workers can be killed."""
    loader = LOADERS[name](num_workers=2, timeout=120, **options)
    loader.thread_workers = False  # type: ignore[attr-defined]
    return loader


def killed(name: str, **options: object) -> str:
    """The fate of an epoch whose worker is killed, and of the next one."""
    loader = with_processes(name, **options)
    iterator = iter(loader)  # type: ignore[call-overload]
    next(iterator)
    workers = multiprocessing.active_children()
    os.kill(workers[0].pid, signal.SIGKILL)  # type: ignore[arg-type]
    begin = time.monotonic()
    try:
        for _ in iterator:
            pass
        outcome = "the epoch ended"
    except (RuntimeError, OSError, EOFError) as error:  # torch's, or of its queue
        kind = type(error).__name__
        outcome = f"{kind} after {time.monotonic() - begin:.1f} s"
    del iterator
    if options.get("persistent_workers"):  # torch keeps what is broken with the loader
        loader = with_processes(name, **options)
    whole = sum(1 for _ in loader)  # type: ignore[attr-defined]
    missing = -(-50_000 // 256) - whole
    return f"{outcome}; next epoch {f'lacks {missing}' if missing else 'whole'}"


def workers() -> Iterator[Row]:
    """Kills a worker of every kind."""
    kinds: dict[str, dict[str, object]] = {
        "fork": {"multiprocessing_context": "fork"},
        "spawn": {"multiprocessing_context": "spawn"},
        "persistent": {"persistent_workers": True},
    }
    for name in LOADERS:
        for kind, options in kinds.items():
            yield f"worker killed, {name}", kind, killed(name, **options)


def main() -> None:
    """Runs what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("what", nargs="*", default=[], help="save, soak, workers; all by default")
    add("--rounds", type=int, default=150, help="of save")
    add("--batches", type=int, default=2000, help="of soak")
    args = parser.parse_args()
    warnings.filterwarnings("ignore", message="Dataloader CPU affinity")
    parts: dict[str, Callable[[], Iterator[Row]]] = {
        "save": lambda: save(args.rounds),
        "soak": lambda: soak(args.batches),
        "workers": workers,
    }
    print("| what | how often | seen |\n|---|---|---|")
    for name in args.what or parts:
        for row in parts[name]():
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
