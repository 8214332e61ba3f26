"""How long it takes from `pip install` to the first batch, where there is a Python.

    python tests/tools/first_batch.py            # what pip has downloaded before counts
    python tests/tools/first_batch.py --cold     # nothing that pip keeps is used

In a new environment it installs this checkout with the extras "pyg" and "fast", as pip
installs a release, and then runs a script of ten lines twice: the first run compiles
the kernels, the second finds them. With --peer it installs PyG and what is named, such
as pyg-lib, in a second environment, and asks PyG's own loader for the same batch.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
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


def timed(what: str, command: list[str], environment: dict[str, str]) -> None:
    """Runs a command and prints its seconds; raises if it fails."""
    start = time.monotonic()
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    print(f"{time.monotonic() - start:7.1f} s  {what}", flush=True)


def measure(title: str, package: str, wanted: list[str], cold: bool) -> None:
    """One new environment, from nothing to its first batch and to its second."""
    print(title, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        python = str(Path(folder, "bin", "python"))
        names = ("PYTHONPATH", "NUMBA_CACHE_DIR")
        clean = {key: v for key, v in os.environ.items() if key not in names}
        clean |= {"NUMBA_CACHE_DIR": str(Path(folder, "kernels"))}
        timed("python -m venv", [sys.executable, "-m", "venv", folder], clean)
        pip = [
            python,
            "-m",
            "pip",
            "install",
            "-q",
            "-c",
            str(ROOT / "constraints.txt"),
        ]
        pip += ["--no-cache-dir"] if cold else []
        told = " ".join(wanted).replace(str(ROOT), ".")
        timed(f"pip install {told}", [*pip, *wanted], clean)
        script = Path(folder, "script.py")
        script.write_text(SCRIPT.format(package=package))
        for what in ("the first batch", "the same script again"):
            timed(what, [python, str(script)], clean)


def main() -> None:
    """Prints what each step takes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cold", action="store_true", help="without pip's cache")
    parser.add_argument("--peer", nargs="+", metavar="PACKAGE", help="beside PyG")
    options = parser.parse_args()
    ours = [f"{ROOT}[pyg,fast]"]
    measure("gttf-sampler", "gttf_pyg", ours, options.cold)
    if options.peer is not None:
        theirs = ["torch-geometric", "torch", "numpy", *options.peer]
        measure("PyG's own", "torch_geometric.loader", theirs, options.cold)


if __name__ == "__main__":
    main()
