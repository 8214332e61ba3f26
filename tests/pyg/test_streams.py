"""Loaders on a device: its rows there, features here or there, streams between them."""

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.datasets import KarateClub
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

from gttf_pyg import GTTFLinkLoader, GTTFLoader, unbiased
from reference import hetero_toy

KARATE = KarateClub()[0]
PLACES = ["cpu", "cuda", "uva"]
HOW = {"batch_size": 5, "shuffle": True, "seed": 1}


def tensors(batch):
    return {
        (str(store._key), name): value
        for store in batch.stores
        for name, value in store.items()
        if isinstance(value, torch.Tensor)
    }


def same(found, expected):
    found, expected = tensors(found.to("cpu")), tensors(expected)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].dtype == value.dtype, name
        assert torch.equal(found[name], value), name


def placed(data, place):
    """The data with features on the CPU or on the device, and the loader's words."""
    data = data.clone()
    if place == "cuda":
        for store in data.node_stores:
            for name in ("x", "y"):
                if name in store:
                    store[name] = store[name].to("cuda")
    return data, {"device": "cuda", "uva": place == "uva"}


def karate(dtype=torch.float32):
    data = KARATE.clone()
    data.x = torch.arange(34 * 3).view(34, 3).to(dtype)
    data.edge_attr = torch.arange(156).to(dtype)
    return data


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("dtype", "prefetch"),
    [
        (torch.float32, 0),
        (torch.float32, 3),
        (torch.bfloat16, 1),
        (torch.float16, 0),
    ],
)
def test_streams_keep_order_and_bits(device, place, dtype, prefetch):
    data = karate(dtype)
    plain = GTTFLoader(data, [3, 2], **HOW)
    expected = [list(plain) for _ in range(2)]
    with device() as gpu:
        there, where = placed(data, place)
        loader = GTTFLoader(there, [3, 2], **HOW, **where, prefetch=prefetch)
        for _ in range(2):  # epochs use the same buffers
            for batch in loader:
                parts = tensors(batch)
                assert all(part.is_cuda for part in parts.values())
                if not device.real:
                    check_streams(gpu.streams, parts.values())
        loader = GTTFLoader(there, [3, 2], **HOW, **where, prefetch=prefetch)
        epochs = [[batch.to("cpu") for batch in loader] for _ in range(2)]
    for one, other in zip(epochs, expected, strict=True):
        for batch, wanted in zip(one, other, strict=True):
            same(batch, wanted)


def check_streams(streams, parts):
    """The stream of the loop has waited, and memory is recorded for it."""
    assert streams.current().name == "main"
    assert all(streams.was_recorded(part, "main") for part in parts)
    last = len(streams.notes) - streams.notes[::-1].index("main waits for copy")
    assert "main waits for work" in streams.notes[:last]


@pytest.mark.parametrize("place", PLACES)
def test_streams_of_types_and_links(device, place):
    data = hetero_toy()
    expected = list(GTTFLoader(data, [2, 2], "item", batch_size=3, seed=2))
    links = {"neg_sampling": "binary", "batch_size": 9, "seed": 3}
    pairs = list(GTTFLinkLoader(karate(), [2], **links))
    with device():
        there, where = placed(data, place)
        how = {"batch_size": 3, "seed": 2, "prefetch": 1, **where}
        found = [b.to("cpu") for b in GTTFLoader(there, [2, 2], "item", **how)]
        there, where = placed(karate(), place)
        loader = GTTFLinkLoader(there, [2], **links, **where, prefetch=2)
        found_pairs = [batch.to("cpu") for batch in loader]
    for batch, wanted in zip(found + found_pairs, expected + pairs, strict=True):
        same(batch, wanted)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_streams_have_arrived_when_a_transform_looks(device, prefetch):
    data = karate()

    def double(batch):
        batch.twice = batch.x * 2
        return batch

    how = {**HOW, "transform": double, "normalize": "unbiased"}
    expected = list(GTTFLoader(data, [3], **how))
    with device():
        loader = GTTFLoader(data, [3], **how, device="cuda", prefetch=prefetch)
        found = [batch.to("cpu") for batch in loader]
    for batch, wanted in zip(found, expected, strict=True):
        same(batch, wanted)


@pytest.mark.parametrize("prefetch", [0, 1])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_streams_after_a_failure(device, error, prefetch):
    """The batch fails in its turn; those around it, and a later pass, are right."""
    data, broken = karate(), [True]

    def fail(batch):
        if broken[0] and int(batch.input_id[0]) == 10:
            raise error("broken transform")
        return batch

    how = {"batch_size": 5, "seed": 1, "transform": fail}
    with device() as gpu:
        loader = GTTFLoader(data, [3], **how, device="cuda", prefetch=prefetch)
        batches, found = iter(loader), []
        found += [next(batches), next(batches)]
        with pytest.raises(error, match="broken transform"):
            next(batches)
        if not device.real:
            assert gpu.streams.current().name == "main"
        found += list(batches)
        found = [batch.to("cpu") for batch in found]
        broken[0] = False
        again = [batch.to("cpu") for batch in loader]
    expected = list(GTTFLoader(data, [3], **how))
    for batch, wanted in zip(found, expected[:2] + expected[3:], strict=True):
        same(batch, wanted)
    second = GTTFLoader(data, [3], **how)
    list(second)
    for batch, wanted in zip(again, second, strict=True):
        same(batch, wanted)


def interrupted(loader):
    """The batches of passes that are left early, and of two at once."""
    for _ in loader:
        break
    held = iter(loader)
    found = [next(held), *loader, *held]
    return [batch.to("cpu") for batch in found]


@pytest.mark.parametrize("prefetch", [0, 2])
def test_streams_after_an_early_stop(device, prefetch):
    data = karate()
    expected = interrupted(GTTFLoader(data, [3], **HOW))
    with device():
        loader = GTTFLoader(data, [3], **HOW, device="cuda", prefetch=prefetch)
        found = interrupted(loader)
    for batch, wanted in zip(found, expected, strict=True):
        same(batch, wanted)


def test_streams_wait_for_what_the_loop_has_changed(device):
    """The batch of an index is made behind all that was started before it was asked."""
    with device() as gpu:
        loader = GTTFLoader(karate(), [3], batch_size=5, device="cuda")
        batches = iter(loader)
        next(batches)
        if device.real:
            pytest.skip("a real device keeps no notes")
        gpu.streams.notes.clear()
        next(batches)
        assert gpu.streams.notes[:3] == [
            *("event on main", "work waits for main", "use work")
        ]


def test_streams_pin_little(device):
    """Memory is used again; features that are there already need none of it."""
    for place, most in (("cpu", 4), ("cuda", 0), ("uva", 0)):
        with device() as gpu:
            data = karate()
            if place == "cuda":
                data.edge_attr = data.edge_attr.to("cuda")
                data.train_mask = data.train_mask.to("cuda")
            data, where = placed(data, place)
            list(GTTFLoader(data, [3, 2], **HOW, **where))
            if not device.real:
                assert len(gpu.streams.made) <= most
                assert (most == 0) == (len(gpu.streams.made) == 0)


def test_streams_of_odd_features(device):
    """Features that pinned memory cannot hold come by PyG's way, as before."""
    data = karate()
    data.x = data.x.t().contiguous().t()  # not contiguous
    data.empty = torch.empty(34, 0)
    data.z = torch.rand(34, 2).numpy()
    expected = list(GTTFLoader(data, [3], **HOW))
    with device():
        loader = GTTFLoader(data, [3], **HOW, device="cuda", prefetch=1)
        found = [batch.to("cpu") for batch in loader]
    for batch, wanted in zip(found, expected, strict=True):
        same(batch, wanted)


@pytest.mark.parametrize("prefetch", [0, 1])
def test_index_dtype_of_edges(device, prefetch):
    """Local ids of half the size; ids of the whole graph stay int64."""
    how = {**HOW, "prefetch": prefetch, "index_dtype": torch.int32}
    expected = list(GTTFLoader(karate(), [3, 2], **HOW))
    with device():
        loader = GTTFLoader(karate(), [3, 2], **how, device="cuda")
        found = [batch.to("cpu") for batch in loader]
    found += list(GTTFLoader(karate(), [3, 2], **how))
    for batch, wanted in zip(found, 2 * expected, strict=True):
        assert batch.edge_index.dtype == torch.int32
        assert batch.n_id.dtype == batch.e_id.dtype == torch.int64
        batch.edge_index = batch.edge_index.long()
        same(batch, wanted)


def test_index_dtype_in_models():
    """PyG's layers, with the degrees of the whole graph, too."""
    outs = []
    for dtype in (torch.int32, torch.int64):
        torch.manual_seed(0)
        data = karate()
        convs = [SAGEConv(3, 2), unbiased(GCNConv(3, 2)), GATConv(3, 2)]
        loader = GTTFLoader(data, [3], batch_size=34, seed=1, index_dtype=dtype)
        (batch,) = loader
        outs.append([conv(batch.x, batch.edge_index) for conv in convs])
        sum(out.sum() for out in outs[-1]).backward()
    for one, other in zip(*outs, strict=True):
        assert torch.equal(one, other)


def test_index_dtype_of_types():
    how = {"batch_size": 3, "index_dtype": torch.int32, "seed": 1}
    batch = next(iter(GTTFLoader(hetero_toy(), [2, 2], "item", **how)))
    assert {s.edge_index.dtype for s in batch.edge_stores} == {torch.int32}


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ({"index_dtype": torch.float32}, "'index_dtype' must be torch.int32, torch.in"),
        ({"index_dtype": "int32"}, "'index_dtype' must be torch.int32"),
        ({"uva": True}, "'uva' must be False unless 'device' is a CUDA device"),
        ({"uva": True, "device": "cpu"}, "'uva' must be False unless"),
        ({"uva": 1}, "'uva' must be True or False"),
    ],
)
def test_validate_device_words(words, match):
    data = Data(x=torch.rand(4, 1), edge_index=torch.tensor([[0], [1]]))
    with pytest.raises((ValueError, TypeError), match=match):
        GTTFLoader(data, [1], **words)
