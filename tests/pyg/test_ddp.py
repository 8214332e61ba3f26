"""PyG on two processes, with the whole graph or a part each: DDP, and one that dies."""

import re
import sys

import pytest
from torch.utils.data import DistributedSampler
from torch_geometric.datasets import KarateClub

from apart import ROOT, check_restart, fork_twice, run_apart, run_twice
from gttf_pyg import GTTFLoader

EXAMPLES = ROOT / "examples"


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX, gloo on Linux")
@pytest.mark.parametrize(
    ("script", "twice"),
    [("pyg_ddp.py", fork_twice), ("pyg_distributed.py", run_twice)],
)
def test_restarted_run_ends_like_one_that_was_not(tmp_path, script, twice):
    """By ourselves, and as users start it."""
    epochs = check_restart(EXAMPLES / script, tmp_path, twice)
    accuracy = float(re.fullmatch(r"epoch  2 .* (\d+\.\d) %", epochs[-1])[1])
    assert accuracy > 80  # as much is learned as in one process


def test_lightning_on_two_processes():
    pytest.importorskip("lightning", reason="only the extra 'dev' has Lightning")
    words = EXAMPLES / "lightning_sage.py", "--epochs", 2
    first, second, expected = run_apart(*words, OMP_NUM_THREADS="1")
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
