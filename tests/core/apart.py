"""Scripts that join a process group run apart from the tests.

What gloo leaves behind in a process, its forked children cannot clean up: the collector
ends them.
"""

import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[2]


def forks() -> Any:
    """Starts processes as forks of one that has imported torch and the hosts.

    Each is as clean as a new one, and begins seconds earlier.
    """
    context = multiprocessing.get_context("forkserver")
    hosts = {"torch_geometric": "gttf_pyg", "dgl": "gttf_dgl"}
    found = [adapter for host, adapter in hosts.items() if find_spec(host)]
    context.set_forkserver_preload(["torch.distributed", "gttf_sampler", *found])
    return context


def joins_a_group(script: Path) -> bool:
    """Whether a script is one of these."""
    return "from processes import" in script.read_text()


def start_script(script: Path, *words: object, out: Path) -> Any:
    """A fork that runs a script, as Python does it; `out` gets what it prints."""
    words = (str(script), *map(str, words))
    run = forks().Process(target=_script, args=(words, str(out)))
    run.start()
    return run


def _script(words: tuple[str, ...], out: str) -> None:
    with open(out, "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout.reconfigure(encoding="utf-8", line_buffering=True)
    sys.argv = list(words)
    sys.path.insert(0, str(Path(words[0]).parent))
    torch.set_num_threads(1)
    runpy.run_path(words[0], run_name="__main__")


def run_script(script: Path, *words: object) -> list[str]:
    """The lines that a script prints in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out")
        run = start_script(script, *words, out=out)
        run.join(300)
        told = out.read_text("utf-8")
        assert run.exitcode == 0, told
        return told.splitlines()


def run_apart(*words: object, **environment: str) -> list[str]:
    """The lines that Python, called with these words, prints in another process."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "adapters"), *sys.path])
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def run_twice(*words: object, restarts: int = 0) -> list[str]:
    """The lines that two processes of a script print, started as users start them."""
    run = "-m", "torch.distributed.run", "--nproc-per-node", 2, "--standalone"
    return run_apart(*run, "--max-restarts", restarts, *words, OMP_NUM_THREADS="1")


def check_restart(script: Path, folder: Path) -> list[str]:
    """Two processes; the second is killed in an epoch: the same parameters.

    Returns what is told of the epochs.
    """
    files = folder / "whole", folder / "killed"
    whole = run_twice(script, "--epochs", 2, "--checkpoint", files[0])
    how = ("--epochs", 2, "--checkpoint", files[1], "--kill", 14)
    killed = run_twice(script, *how, restarts=1)
    assert whole == killed
    assert [line.split()[0] for line in whole] == ["epoch", "epoch", "Expected"]
    one, other = (torch.load(file, weights_only=True) for file in files)
    assert len(one["processes"]) == 2
    for name, value in one["model"].items():
        assert torch.equal(value, other["model"][name]), name
    assert str(one["processes"]) == str(other["processes"])
    return whole[:-1]
