"""Scripts that join a process group run apart from the tests.

What gloo leaves behind in a process, its forked children cannot clean up: the collector
ends them.
"""

import os
import subprocess
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).parents[2]


def joins_a_group(script: Path) -> bool:
    """Whether a script is one of these."""
    return "from processes import" in script.read_text()


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


def check_restart(script: Path, folder: Path) -> None:
    """Two processes; the second is killed in an epoch: the same parameters."""
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
