"""PyG on two processes with the whole graph each: DDP, and a process that dies."""

import os
import pathlib
import subprocess
import sys

import pytest
import torch
from torch.utils.data import DistributedSampler
from torch_geometric.datasets import KarateClub

from gttf_pyg import GTTFLoader

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
    script = EXAMPLES / "pyg_ddp.py"
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


def test_lightning_on_two_processes():
    pytest.importorskip("lightning", reason="no extra of ours installs Lightning")
    path = os.pathsep.join([str(ROOT), str(ROOT / "adapters"), *sys.path])
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "lightning_sage.py"), "--epochs", "2"],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    first, second, expected = done.stdout.splitlines()
    assert first.startswith("epoch  1  test accuracy")
    assert float(second.split()[-2]) > 80
    assert expected.startswith("Expected after 6 epochs")


def test_lightning_example_is_short():
    text = (EXAMPLES / "lightning_sage.py").read_text("utf-8")
    assert len(text.splitlines()) <= 90


@pytest.mark.parametrize("shuffle", [False, True])
def test_shares_of_a_sampler_are_all_seeds(shuffle):
    """Every process draws its own seeds, of its own key."""
    data, found = KarateClub()[0], []
    for rank in range(2):
        share = DistributedSampler(range(34), 2, rank, shuffle=shuffle)
        how = {"batch_size": 5, "sampler": share, "seed": rank}
        loader = GTTFLoader(data, [3], **how)
        found += [id_ for batch in loader for id_ in batch.input_id.tolist()]
    assert sorted(found) == list(range(34))
