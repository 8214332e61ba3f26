"""Batches made ahead, by a thread in the background."""

import os
import subprocess
import sys
import time

import pytest
from torch_geometric.datasets import KarateClub

from gttf_pyg import GTTFLoader


def test_prefetch_works_ahead():
    made = []

    def note(data):
        made.append(int(data.input_id))
        return data

    loader = GTTFLoader(KarateClub()[0], [2], prefetch=2, transform=note)
    batches = iter(loader)
    time.sleep(0.05)
    assert made == []  # as without workers, nothing happens before it is asked for
    next(batches)
    deadline = time.monotonic() + 5
    while len(made) < 3 and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.05)
    assert made == [0, 1, 2]
    assert [int(batch.input_id) for batch in batches] == list(range(1, 34))
    assert list(batches) == []


LEAVING = """
import torch
from torch_geometric.data import Data
from gttf_pyg import GTTFLoader
index = torch.randint(20_000, (2, 400_000))
data = Data(x=torch.rand(20_000, 200), edge_index=index)
loader = GTTFLoader(data, [10, 10], batch_size=512, prefetch=2)
for batch in loader:
    break
held = iter(loader)
next(held), next(held)
print("end of the script")
"""


@pytest.mark.process
def test_prefetch_lets_the_interpreter_go():
    """Even if it goes in the middle of a batch that nobody will ask for."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    child = subprocess.run(
        [sys.executable, "-c", LEAVING],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    assert child.stdout == "end of the script\n"
