"""DGL on two processes with the whole graph each: DDP, and a process that dies."""

import os
import pathlib
import subprocess
import sys

import pytest
import torch

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def launch(*words, restarts=0):
    """What two processes of an example print."""
    run = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    run += ["--standalone", "--max-restarts", str(restarts)]
    path = os.pathsep.join([str(ROOT), str(ROOT / "adapters")])
    done = subprocess.run(
        [*run, *map(str, words)],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX, gloo on Linux")
def test_restarted_run_ends_like_one_that_was_not(tmp_path):
    """Two processes; the second is killed in an epoch: the same parameters."""
    files = tmp_path / "whole", tmp_path / "killed"
    script = EXAMPLES / "dgl_ddp.py"
    whole = launch(script, "--epochs", 2, "--checkpoint", files[0])
    how = ("--epochs", 2, "--checkpoint", files[1], "--kill", 14)
    killed = launch(script, *how, restarts=1)
    assert whole == killed
    assert [line.split()[0] for line in whole] == ["epoch", "epoch", "Expected"]
    one, other = (torch.load(file, weights_only=True) for file in files)
    assert len(one["processes"]) == 2
    for name, value in one["model"].items():
        assert torch.equal(value, other["model"][name]), name
    assert str(one["processes"]) == str(other["processes"])
