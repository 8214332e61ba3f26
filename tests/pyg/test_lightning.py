"""PyG's data modules for Lightning, on our sampler."""

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch_geometric.data import lightning as theirs
from torch_geometric.datasets import KarateClub
from torch_geometric.sampler import NegativeSampling

from gttf_pyg import (
    GTTFLinkLoader,
    GTTFLoader,
    GTTFSampler,
    LightningLinkData,
    LightningNodeData,
)

lightning = pytest.importorskip("lightning", reason="lightning is not installed")
import lightning_tasks as tasks  # noqa: E402

KARATE = KarateClub()[0]
HERE = Path(__file__).parent
# what Lightning says of small data, of workers, and of a script that is a test
pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning:lightning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.mark.parametrize("name", ["LightningNodeData", "LightningLinkData"])
def test_modules_have_the_arguments_of_pyg(name):
    ours, host = (globals()[name], getattr(theirs, name))
    mine, given = (inspect.signature(cls.__init__).parameters for cls in (ours, host))
    assert list(mine) == list(given)
    assert [p.default for p in mine.values()] == [p.default for p in given.values()]
    assert issubclass(ours, host)


def test_node_module_makes_our_loaders():
    data = tasks.module(
        input_val_nodes=torch.tensor([3, 4]),
        eval_loader_kwargs={"num_neighbors": [-1, -1], "batch_size": 2},
        max_nodes=20,
    )
    train, val = data.train_dataloader(), data.val_dataloader()
    assert type(train) is type(val) is GTTFLoader
    assert train.node_sampler.num_neighbors.values == [3, 2]
    assert train.node_sampler.max_nodes == 20
    (batch,) = val
    assert batch.n_id[:2].tolist() == [3, 4]
    around = torch.isin(KARATE.edge_index[1], torch.tensor([3, 4])).sum()
    assert batch.num_sampled_edges[0] == around
    torch.manual_seed(0)
    first = [batch.n_id.tolist() for batch in tasks.module().train_dataloader()]
    torch.manual_seed(0)
    plain = GTTFLoader(KARATE, [3, 2], torch.arange(34), batch_size=4, shuffle=True)
    assert first == [batch.n_id.tolist() for batch in plain]


def test_link_module_makes_our_loaders():
    data = LightningLinkData(
        KARATE,
        KARATE.edge_index[:, :20],
        num_neighbors=[3],
        exclude_edges=True,
        neg_sampling=NegativeSampling("binary"),
        batch_size=5,
    )
    loader = data.train_dataloader()
    assert type(loader) is GTTFLinkLoader
    assert loader.link_sampler.exclude_edges is True
    for batch in loader:
        assert batch.edge_label.tolist() == [1] * 5 + [0] * 5


def test_modules_take_a_sampler_of_the_user():
    sampler = GTTFSampler(KARATE, [2])
    data = LightningNodeData(KARATE, torch.arange(4), node_sampler=sampler)
    assert data.train_dataloader().node_sampler is sampler
    full = LightningNodeData(KARATE, torch.arange(4), loader="full")
    assert full.loader == "full"


def fit(model, path=None, **how):
    lightning.seed_everything(1, verbose=False)
    trainer = lightning.Trainer(max_epochs=2, **how, **tasks.QUIET)
    trainer.fit(model, datamodule=tasks.module(), ckpt_path=path)
    return model.seen


@pytest.mark.parametrize("stop", [3, 12])
def test_checkpoint_in_the_middle_of_an_epoch(stop, tmp_path):
    """A run that stops and goes on sees the batches of one that does not."""
    whole = fit(tasks.Model())
    assert len(whole) == 18
    path = tmp_path / "stopped.ckpt"
    head = fit(tasks.Model(stop, path), max_steps=stop)
    assert head == whole[:stop]
    assert fit(tasks.Model(), path) == whole[stop:]


@pytest.mark.process
def test_two_processes_share_the_seeds(tmp_path):
    """Lightning gives each its part of every epoch, and no seed to both."""
    places = [HERE, HERE.parents[1], HERE.parents[1] / "adapters"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))}
    env |= {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, HERE / "lightning_tasks.py", tmp_path]
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    seen = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)]
    for epoch in range(2):
        batches = [part[5 * epoch : 5 * epoch + 5] for part in seen]
        seeds = [node for part in batches for batch in part[:4] for node in batch[:4]]
        seeds += [part[4][0] for part in batches]
        assert len(batches[0]) == len(batches[1]) == 5
        assert sorted(seeds) == list(range(34))
    assert seen[0][:5] != seen[0][5:]


@pytest.mark.process
def test_lightning_is_imported_by_who_asks_for_it():
    code = "import sys, gttf_pyg; print('pytorch_lightning' in sys.modules)"
    env = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "adapters")}
    env["PYTHONPATH"] += os.pathsep + str(HERE.parents[1])
    run = [sys.executable, "-c", code]
    assert subprocess.check_output(run, env=env, text=True).strip() == "False"
