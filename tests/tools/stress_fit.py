"""Interrupts at every line of `fit` and of loaders, and kills of `fit`, as a table.

    python tests/tools/stress_fit.py                      # all of it, some minutes
    python tests/tools/stress_fit.py fit --every 10
    python tests/tools/stress_fit.py kill --rounds 50

fit, hogwild, forests, pyg, dgl, cluster, padded: a KeyboardInterrupt at the k-th line
of our code that the main thread comes to, for many k. Afterwards the same object must
do the same work undisturbed, with the same result; a checkpoint, if there is one, must
lead there, too.
kill: a process that trains with a checkpoint is killed at random moments and started
again until it is done; its table must be that of a run without a break.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("", "adapters", "tests/core")]

import torch  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

from gttf_sampler import CompactAdj, Subgraph, sample_rooted  # noqa: E402
from gttf_sampler.embedding import DeepWalk  # noqa: E402
from interrupted import Interrupt  # noqa: E402

OURS = (str(ROOT / "gttf_sampler"), str(ROOT / "adapters"))
Row = tuple[str, str, str]
EPOCHS = 200  # of runs that are killed
CHILD = """
import sys
sys.path[:0] = sys.argv[1:3]
from stress_fit import model, train
train(model(), sys.argv[3], resume=sys.argv[4] == "1", epochs=int(sys.argv[5]))
"""


def interrupted(
    work: Callable[[], Any], every: int, first: int = 1, after: Any = None
) -> Counter[str]:
    """Outcomes of interrupts at line `first`, and every so many lines after it."""
    expected = work()
    with Interrupt(0, OURS, KeyboardInterrupt) as counted:
        work()
    seen: Counter[str] = Counter()
    for at in range(first, counted.seen + 1, every):
        with suppress(KeyboardInterrupt), Interrupt(at, OURS, KeyboardInterrupt):
            work()
        seen["interrupts"] += 1
        seen["threads left"] += sum("hogwild" in t.name for t in threading.enumerate())
        try:
            seen["other results"] += after is not None and after() != expected
            seen["other results"] += work() != expected
        except Exception as error:
            seen["errors"] += 1
            print(f"line {at}: {type(error).__name__}: {error}", file=sys.stderr)
    return seen


def model() -> DeepWalk:
    """A model of 200 nodes, always with the same vectors."""
    draw = torch.Generator().manual_seed(0)
    edges = torch.randint(200, (2, 1000), generator=draw)
    adj = CompactAdj.from_edge_index(edges, 200, direction="out")
    made = DeepWalk(adj, 16, 2, contrast="logistic")
    made.embedding.weight.data.normal_(std=0.1, generator=draw)
    return made


def train(made: DeepWalk, file: str, epochs: int = 3, **how: Any) -> int:
    """A checksum of the table after some epochs."""
    made.fit(epochs, batch_size=64, generator=0, checkpoint=file, **how)
    return table(made)


def table(made: DeepWalk) -> int:
    """A checksum of the vectors."""
    return zlib.crc32(made.embedding.weight.detach().numpy().tobytes())


def fit(every: int, first: int = 1, hogwild: bool = False) -> Iterator[Row]:
    """Interrupts `fit`, with checkpoints; or with threads, of which none may stay."""
    made = model()
    start = made.embedding.weight.detach().clone()
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "run"

        def work() -> int:
            made.embedding.weight.data.copy_(start)
            if hogwild:  # what comes out is another table each time
                made.fit(2, batch_size=64, generator=0, hogwild=True)
                return bool(made.embedding.weight.isfinite().all())
            return train(made, str(file))

        def go_on() -> int:
            if hogwild:
                before = table(made)
                time.sleep(0.002)
                return before == table(made)
            made.embedding.weight.data.zero_()
            found = train(made, str(file), resume=True) if file.exists() else work()
            file.unlink(missing_ok=True)
            return found

        seen = interrupted(work, every, first, go_on)
        left = sum(1 for _ in Path(place).glob(".gttf-*"))
    name = "`fit(hogwild=True)`" if hogwild else "`fit` with checkpoints"
    yield name, f"{seen['interrupts']} interrupts", told(seen, left)


def told(seen: Counter[str], files: int = 0) -> str:
    """Counts in words."""
    names = "errors", "other results", "threads left"
    return ", ".join([*(f"{seen[name]} {name}" for name in names), f"{files} drafts"])


def digest(batch: Any) -> Any:
    """The nodes of a batch of any loader."""
    if isinstance(batch, Subgraph):
        return batch.node.tolist(), batch.edge.tolist()
    if hasattr(batch, "n_id"):
        return batch.n_id.tolist(), batch.e_id.tolist()
    if hasattr(batch, "nodes"):
        return [level.tolist() for level in batch.nodes]
    return batch[0].tolist(), [block.edges()[0].tolist() for block in batch[2]]


def epoch_of(loader: Any) -> Callable[[], Any]:
    """An epoch of a loader, under the same seed each time."""

    def work() -> Any:
        torch.manual_seed(0)
        return [digest(batch) for batch in loader]

    return work


def loaders(name: str) -> Iterator[tuple[str, Any]]:
    """Loaders without workers, and with a thread for them."""
    torch.manual_seed(0)
    edges = torch.randint(60, (2, 300))
    if name == "padded":
        adj, seeds = CompactAdj.from_edge_index(edges, 60), range(60)

        def padded(ids: list[int]) -> Subgraph:
            found: Any = sample_rooted(adj, ids, [3, 2], padded=True).unpadded()
            return found

        yield "padded samples", DataLoader(seeds, 16, shuffle=True, collate_fn=padded)
        return
    for workers in (0, 2):
        how: dict[str, Any] = {"batch_size": 16, "num_workers": workers}
        if name == "forests":
            yield f"`loader()`, {workers} workers", model().loader(shuffle=True, **how)
        elif name == "pyg":
            from torch_geometric.data import Data

            from gttf_pyg import GTTFLoader

            data = Data(x=torch.rand(60, 2), edge_index=edges)
            found = GTTFLoader(data, [3, 2], shuffle=True, **how)
            yield f"`GTTFLoader`, {workers} workers", found
        elif name == "cluster":
            from torch_geometric.data import Data

            from gttf_pyg import ClusterData, ClusterLoader

            ids = {"n_id": torch.arange(60), "e_id": torch.arange(300)}
            cut = ClusterData(Data(edge_index=edges, **ids), 9, log=False)
            made = ClusterLoader(cut, **{**how, "batch_size": 2}, shuffle=True)
            yield f"`ClusterLoader`, {workers} workers", made
        else:
            import dgl

            import gttf_dgl

            g = dgl.graph((edges[0], edges[1]), num_nodes=60)
            sampler = gttf_dgl.GTTFSampler([3, 2])
            made = gttf_dgl.DataLoader(g, torch.arange(60), sampler, **how)
            yield f"DGL's `DataLoader`, {workers} workers", made


def loading(name: str, every: int, first: int = 1) -> Iterator[Row]:
    """Interrupts epochs of loaders, which then give a whole one."""
    for title, loader in loaders(name):
        seen = interrupted(epoch_of(loader), every, first)
        yield title, f"{seen['interrupts']} interrupts", told(seen)


def kill(rounds: int) -> Iterator[Row]:
    """Kills a process that trains, and has others go on, until one is done."""
    draw, seen = random.Random(0), Counter[str]()
    with tempfile.TemporaryDirectory() as place:
        expected = train(model(), str(Path(place) / "whole"), epochs=EPOCHS)
        file = Path(place) / "run"
        while seen["kills"] < rounds:
            command = [sys.executable, "-c", CHILD, str(Path(__file__).parent), OURS[1]]
            command += [str(file), str(int(file.exists())), str(EPOCHS)]
            process = subprocess.Popen(command)
            before = stamp(file)
            while stamp(file) == before and process.poll() is None:
                time.sleep(0.001)  # until it trains
            time.sleep(draw.random() * 0.2)
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
                seen["kills"] += 1
            seen["errors"] += process.wait() not in (0, -signal.SIGKILL)
            if process.returncode == 0:
                seen["runs"] += 1
                seen["other results"] += ended(file) != expected
                file.unlink()
        if file.exists():
            made = model()
            seen["runs"] += 1
            seen["other results"] += (
                train(made, str(file), epochs=EPOCHS, resume=True) != expected
            )
        left = sum(1 for _ in Path(place).glob(".gttf-*"))
    how = f"{seen['kills']} kills, {seen['runs']} runs"
    yield "`fit` killed and resumed", how, told(seen, left)


def stamp(file: Path) -> int:
    """The file's number and when it was written; 0 if there is none."""
    try:
        return hash((file.stat().st_ino, file.stat().st_mtime_ns))
    except FileNotFoundError:
        return 0


def ended(file: Path) -> int:
    """A checksum of the table in the last checkpoint."""
    found = torch.load(file, weights_only=True)["model"]["embedding.weight"]
    return zlib.crc32(found.numpy().tobytes())


def main() -> None:
    """Runs what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("what", nargs="*", default=[], help="see above; all by default")
    add("--every", type=int, default=5, help="lines between interrupts")
    add("--first", type=int, default=1, help="the first line that is interrupted")
    add("--rounds", type=int, default=20, help="of kill")
    args = parser.parse_args()
    warnings.filterwarnings("ignore", message="Dataloader CPU affinity")
    lines = args.every, args.first
    parts: dict[str, Callable[[], Iterator[Row]]] = {
        "fit": lambda: fit(*lines),
        "hogwild": lambda: fit(*lines, hogwild=True),
        "forests": lambda: loading("forests", *lines),
        "pyg": lambda: loading("pyg", *lines),
        "dgl": lambda: loading("dgl", *lines),
        "cluster": lambda: loading("cluster", *lines),
        "padded": lambda: loading("padded", *lines),
        "kill": lambda: kill(args.rounds),
    }
    print("| what | how often | seen |\n|---|---|---|")
    for name in args.what or parts:
        for row in parts[name]():
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
