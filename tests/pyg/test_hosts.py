"""The sampler and the loaders in the hands of PyG's other classes."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.data.lightning import datamodule
from torch_geometric.datasets import KarateClub
from torch_geometric.loader import (
    CachedLoader,
    ImbalancedSampler,
    LinkLoader,
    NodeLoader,
    PrefetchLoader,
    ZipLoader,
)
from torch_geometric.nn import GAT, GCN, GraphSAGE
from torch_geometric.sampler import (
    NegativeSampling,
    NeighborSampler,
    NodeSamplerInput,
)
from torch_geometric.sampler.base import BaseSampler

from gttf_pyg import GTTFLinkLoader, GTTFLoader, GTTFSampler
from reference import assert_consistent, hetero_toy

KARATE = KarateClub()[0]


@pytest.mark.parametrize("data", [KARATE, hetero_toy()], ids=["karate", "toy"])
@pytest.mark.parametrize("workers", [0, 1])
def test_node_loader(data, workers):
    sampler = GTTFSampler(data, [2, 2])
    nodes = None if isinstance(data, Data) else "item"
    loader = NodeLoader(data, sampler, nodes, batch_size=3, num_workers=workers)
    for batch in loader:
        assert_consistent(batch, data)


@pytest.mark.parametrize("mode", [None, "binary", "triplet"])
def test_link_loader(mode):
    sampler = GTTFSampler(KARATE, [2, 2], exclude_edges=True)
    loader = LinkLoader(KARATE, sampler, neg_sampling=mode, batch_size=30)
    for batch in loader:
        assert_consistent(batch, KARATE)


def test_sampler_follows_the_seed_of_torch():
    """And draws anew in every batch, in loaders that are PyG's own."""
    loader = NodeLoader(KARATE, GTTFSampler(KARATE, [2]), batch_size=34)

    def drawn() -> list[int]:
        torch.manual_seed(0)
        return [e for _ in range(2) for b in loader for e in b.e_id.tolist()]

    first = drawn()
    assert first == drawn()
    assert first[: len(first) // 2] != first[len(first) // 2 :]


def test_sampler_is_what_other_code_asks_for():
    sampler = GTTFSampler(hetero_toy(), [2, 2])
    assert isinstance(sampler, BaseSampler)
    assert isinstance(sampler, NeighborSampler)
    assert sampler.is_hetero
    assert not sampler.is_temporal
    assert not sampler.disjoint
    assert sampler.num_nodes == {"user": 4, "item": 5, "tag": 3, "alone": 2}
    assert sampler.edge_permutation is None  # edges are in the caller's order
    assert (sampler.node_time, sampler.edge_time) == (None, None)
    assert sampler.keep_orig_edges is False
    sampler.disjoint = True
    assert sampler.disjoint


@pytest.fixture
def lightning(monkeypatch):
    """Makes PyG believe that Lightning is there, in the words of 2.7 and of 2.6."""
    monkeypatch.setattr(datamodule, "_pl_is_available", True, raising=False)
    monkeypatch.setattr(datamodule, "no_pytorch_lightning", False, raising=False)


@pytest.mark.usefixtures("lightning")
def test_data_module_of_lightning():
    """PyG's own part of it; where Lightning is missing, its base is a plain object."""
    sampler = GTTFSampler(KARATE, [2])
    module = datamodule.LightningNodeData(
        KARATE,
        input_train_nodes=torch.arange(9),
        input_val_nodes=torch.arange(9, 34),
        loader="custom",
        node_sampler=sampler,
        eval_loader_kwargs={"num_neighbors": [-1, -1], "batch_size": 25},
        batch_size=3,
        pin_memory=False,
    )
    train, val = module.train_dataloader(), module.val_dataloader()
    assert train.node_sampler is sampler
    assert (len(train), len(val)) == (3, 1)
    for loader in (train, val):
        for batch in loader:
            assert_consistent(batch, KARATE)
            assert len(batch.num_sampled_edges) == 1 + (loader is val)
    assert len(sampler.num_neighbors) == 1


@pytest.mark.usefixtures("lightning")
def test_data_module_of_lightning_for_links():
    module = datamodule.LightningLinkData(
        KARATE,
        input_train_edges=KARATE.edge_index[:, :40],
        loader="custom",
        link_sampler=GTTFSampler(KARATE, [2], exclude_edges=True),
        neg_sampling="binary",
        batch_size=20,
        pin_memory=False,
    )
    for batch in module.train_dataloader():
        assert_consistent(batch, KARATE)
        assert batch.edge_label.tolist() == [1] * 20 + [0] * 20


@pytest.mark.parametrize("per_worker", [True, False])
def test_zip_loader(per_worker):
    loaders = [
        GTTFLoader(KARATE, [2], torch.arange(20), seed=0),
        GTTFLoader(KARATE, [2], torch.arange(30), normalize="paper"),
    ]
    both = ZipLoader(loaders, batch_size=5, filter_per_worker=per_worker)
    assert str(both) == "ZipLoader(loaders=[GTTFLoader(), GTTFLoader()])"
    assert len(both) == 4
    for one, other in both:
        assert one.n_id[:5].tolist() == other.n_id[:5].tolist()
        assert_consistent(one, KARATE)


def test_cached_loader():
    cached = CachedLoader(GTTFLoader(KARATE, [2], batch_size=9))
    first, again = list(cached), list(cached)
    assert len(cached) == 4
    assert all(a is b for a, b in zip(first, again, strict=True))
    assert "GTTFLoader()" in str(cached)


def test_prefetch_loader():
    loader = PrefetchLoader(GTTFLoader(KARATE, [2], batch_size=9), device="cpu")
    assert [batch.n_id[0].item() for batch in loader] == [0, 9, 18, 27]


def test_imbalanced_sampler():
    """D3: repeated seeds, which is what this sampler is for."""
    torch.manual_seed(0)
    sampler = ImbalancedSampler(KARATE)
    loader = GTTFLoader(KARATE, [3, 3], batch_size=16, sampler=sampler)
    repeated = 0
    for _ in range(5):
        for batch in loader:
            assert_consistent(batch, KARATE)
            seeds = batch.n_id[: batch.batch_size]
            assert torch.equal(batch.y[: batch.batch_size], KARATE.y[seeds])
            repeated += seeds.numel() - seeds.unique().numel()
    assert repeated > 20


@pytest.mark.parametrize("kind", [GraphSAGE, GAT, GCN])
@pytest.mark.parametrize("cache", [False, True])
def test_inference_layer_by_layer(kind, cache):
    torch.manual_seed(0)
    model = kind(34, 16, 2, 4).eval()
    loader = GTTFLoader(KARATE, [-1], batch_size=10)
    if kind is GCN:  # counts degrees itself, for which a hop of neighbours is too few
        model = kind(34, 16, 2, 4, normalize=False).eval()
    out = model.inference(loader, cache=cache)
    assert torch.allclose(out, model(KARATE.x, KARATE.edge_index), atol=1e-5)


def test_features_may_be_changed_later():
    """`loader.data` is the caller's object, as PyG's examples expect."""
    data = KARATE.clone()
    loader = GTTFLoader(data, [-1], batch_size=5)
    data.x = torch.arange(34.0).view(-1, 1)
    del loader.data.y
    batch = next(iter(loader))
    assert torch.equal(batch.x.view(-1), batch.n_id.float())
    assert "y" not in batch


@pytest.mark.parametrize("kind", [GTTFLoader, GTTFLinkLoader])
def test_loader_made_again_with_its_own_arguments(kind):
    """As Lightning does: what a DataLoader knows about itself goes into a new one."""
    loader = kind(KARATE, [2], batch_size=4, shuffle=True)
    again = kind(
        KARATE,
        [2],
        dataset=loader.dataset,
        collate_fn=loader.collate_fn,
        batch_size=loader.batch_size,
        sampler=loader.sampler,
        generator=loader.generator,
        num_workers=loader.num_workers,
    )
    assert len(again) == len(loader)
    assert_consistent(next(iter(again)), KARATE)


def test_class_of_a_user_gets_plain_indices():
    """As from PyG's loader; workers and keys are none of its business."""
    seen = []

    class Mine(GTTFLoader):
        def collate_fn(self, index):
            seen.append(list(index))
            return super().collate_fn(torch.tensor(index))

    loader = Mine(KARATE, [2], batch_size=20, seed=3)
    ours = [batch.edge_index for batch in loader]
    assert seen == [list(range(20)), list(range(20, 34))]
    plain = [b.edge_index for b in GTTFLoader(KARATE, [2], batch_size=20, seed=3)]
    assert all(torch.equal(a, b) for a, b in zip(ours, plain, strict=True))


@pytest.mark.parametrize("count", [0, 1, 5])
def test_range_is_a_list_of_positions(count):
    nodes, links = GTTFLoader(KARATE, [2]), GTTFLinkLoader(KARATE, [2])
    assert nodes(range(count)).batch_size == count
    assert links(range(count)).input_id.tolist() == list(range(count))


def test_negatives_of_a_user_are_taken():
    class Hard(NegativeSampling):
        def sample(self, num_samples, endpoint, num_nodes=None):
            return torch.full((num_samples,), 33)

    loader = GTTFLinkLoader(KARATE, [2], batch_size=4, neg_sampling=Hard("triplet"))
    batch = next(iter(loader))
    assert batch.n_id[batch.dst_neg_index].tolist() == [33] * 4


@pytest.mark.parametrize("kind", [torch.tensor, np.array])
def test_fanouts_may_be_arrays(kind):
    loader = GTTFLoader(KARATE, kind([2, 1]), batch_size=34)
    assert len(next(iter(loader)).num_sampled_nodes) == 3


def test_bidirectional_neighbor_sampler_runs_out_of_nodes(monkeypatch):
    """PyG's class holds two samplers, and asks them for empty frontiers of floats."""
    theirs = pytest.importorskip("torch_geometric.sampler.neighbor_sampler")
    if not hasattr(theirs, "BidirectionalNeighborSampler"):
        pytest.skip("this PyG has no BidirectionalNeighborSampler")
    monkeypatch.setattr(theirs, "NeighborSampler", GTTFSampler)
    path = Data(edge_index=torch.tensor([[0, 1, 3], [1, 2, 4]]), num_nodes=5)
    sampler = theirs.BidirectionalNeighborSampler(path, [-1] * 4)
    found = sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor([1])))
    assert sorted(found.node.tolist()) == [0, 1, 2]
    assert sorted(found.edge.unique().tolist()) == [0, 1]
