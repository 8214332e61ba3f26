"""Times `pip install` and the first batch, given a Python.

    python tests/tools/first_batch.py            # what pip has downloaded before counts
    python tests/tools/first_batch.py --cold     # nothing that pip keeps is used
    python tests/tools/first_batch.py --here     # in this environment, without pip

In a new environment it installs this checkout with the extras "pyg" and "fast", as pip
installs a release, and then runs a script of ten lines twice: the first run has another
process compile the kernels, which the second finds. With --peer it installs PyG and
what is named, such as pyg-lib, in a second environment, and asks PyG's own loader for
the same batch.

With --here it times what a process does, behind PyG's own import: the import of
`gttf_pyg`, the loader, its first batch and its second; on an empty cache of kernels,
and on a full one, in the thread that asks and with `num_workers=2`, which is a thread
beside it; by a clock, and by the processor's time for the thread that asks.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import torch
from torch_geometric.data import Data
from {package} import NeighborLoader

data = Data(x=torch.rand(10_000, 16), edge_index=torch.randint(10_000, (2, 100_000)))
batch = next(iter(NeighborLoader(data, [10, 5], batch_size=256)))
print(batch.num_nodes, "nodes")
"""

STEPS = """
import sys, time
import torch, torch_geometric.loader, torch_geometric.nn, torch_geometric.sampler
from torch_geometric.data import Data

data = Data(x=torch.rand({n}, 16), edge_index=torch.randint({n}, (2, 10 * {n})))
clock = []

def tick():
    clock.append((time.perf_counter(), time.thread_time()))

tick()
import gttf_pyg
tick()
loader = gttf_pyg.NeighborLoader(data, [10, 5], batch_size=256, num_workers={workers})
tick()
batches = iter(loader)
next(batches)
tick()
next(batches)
tick()
pairs = zip(clock, clock[1:])
print(*(f"{{b[0] - a[0]:8.3f}} ({{b[1] - a[1]:.3f}})" for a, b in pairs))
"""


@contextlib.contextmanager
def kernels_in(folder: str) -> Iterator[dict[str, str]]:
    """An environment whose kernels are in a folder; waits for who compiles there."""
    names = ("PYTHONPATH", "GTTF_COMPILE", "PYTHONDONTWRITEBYTECODE")
    clean = {name: value for name, value in os.environ.items() if name not in names}
    try:
        yield clean | {"NUMBA_CACHE_DIR": folder}
    finally:
        wait_for_compilers(folder)


def wait_for_compilers(folder: str) -> None:
    """Returns when no process that a script has left behind compiles any more."""
    import fcntl

    for path in Path(folder).rglob("*.lock"):
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)


def measure_here(nodes: int) -> None:
    """The steps of a process on an empty cache of kernels and on a full one."""
    titles = ("import", "loader", "first batch", "second batch")
    print(" " * 22, *(f"{title:>16}" for title in titles))
    code = {workers: STEPS.format(n=nodes, workers=workers) for workers in (0, 2)}
    for workers, script in code.items():
        with tempfile.TemporaryDirectory() as folder, kernels_in(folder) as own:
            own |= {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'adapters'}"}
            for what in ("empty", "full"):
                command = [sys.executable, "-W", "ignore", "-c", script]
                told = subprocess.run(
                    command, check=True, env=own, stdout=subprocess.PIPE, text=True
                )
                print(f"{what:>6}, {workers} workers     ", told.stdout.strip())
                wait_for_compilers(folder)
                warm = [sys.executable, "-m", "gttf_sampler.cli", "warm"]
                subprocess.run(warm, check=True, env=own, capture_output=True)


def timed(what: str, command: list[str], environment: dict[str, str]) -> None:
    """Runs a command and prints its seconds; raises if it fails."""
    start = time.monotonic()
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    print(f"{time.monotonic() - start:7.1f} s  {what}", flush=True)


def measure(title: str, package: str, wanted: list[str], cold: bool) -> None:
    """One new environment, from nothing to its first batch and to its second."""
    print(title, flush=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        kernels_in(str(Path(folder, "kernels"))) as clean,
    ):
        python = str(Path(folder, "bin", "python"))
        timed("python -m venv", [sys.executable, "-m", "venv", folder], clean)
        pip = [python, "-m", "pip", "install", "-q"]
        pip += ["-c", str(ROOT / "constraints.txt")]
        pip += ["--no-cache-dir"] if cold else []
        told = " ".join(wanted).replace(str(ROOT), ".")
        timed(f"pip install {told}", [*pip, *wanted], clean)
        script = Path(folder, "script.py")
        script.write_text(SCRIPT.format(package=package))
        timed("the first batch", [python, str(script)], clean)
        wait_for_compilers(clean["NUMBA_CACHE_DIR"])
        timed("the same script again", [python, str(script)], clean)


def main() -> None:
    """Prints what each step takes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cold", action="store_true", help="without pip's cache")
    parser.add_argument("--peer", nargs="+", metavar="PACKAGE", help="beside PyG")
    parser.add_argument("--here", action="store_true", help="in this environment")
    parser.add_argument("--nodes", type=int, default=100_000, help="with --here")
    options = parser.parse_args()
    if options.here:
        measure_here(options.nodes)
        return
    ours = [f"{ROOT}[pyg,fast]"]
    measure("gttf-sampler", "gttf_pyg", ours, options.cold)
    if options.peer is not None:
        theirs = ["torch-geometric", "torch", "numpy", *options.peer]
        measure("PyG's own", "torch_geometric.loader", theirs, options.cold)


if __name__ == "__main__":
    main()
