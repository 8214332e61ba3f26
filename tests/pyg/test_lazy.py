"""Lazy features: a tensor to everybody, and no copy of it for fused layers."""

import copy
import gc
import io
import multiprocessing
import pickle

import numpy as np
import pytest
import torch
from torch_geometric import nn
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.transforms import NormalizeFeatures
from torch_geometric.utils import trim_to_layer

from gttf_pyg import LinkNeighborLoader, NeighborLoader, fused
from gttf_pyg._lazy import PATIENCE, LazyRows, product

NODES, WIDTH, SEEDS = 80, 8, 27


def make_data(dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(NODES, WIDTH, generator=generator).to(dtype)
    edges = torch.randint(0, NODES, (2, 400), generator=generator)
    return Data(x=x, edge_index=edges, y=torch.arange(NODES))


def batch_of(data=None, **options):
    loader = NeighborLoader(
        make_data() if data is None else data,
        [3, 2],
        batch_size=SEEDS,
        seed=0,
        **{"lazy": True} | options,
    )
    return next(iter(loader))


@pytest.fixture
def batch():
    return batch_of()


@pytest.fixture
def x(batch):
    assert type(batch.x) is LazyRows
    assert batch.x.waiting
    return batch.x


@pytest.fixture
def rows(batch):
    return make_data().x[batch.n_id]


def saved(x, **how):
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    return torch.load(file, **how)


def through_queue(x):
    queue = multiprocessing.get_context("fork").SimpleQueue()
    queue.put(x)
    return queue.get()


def added_out(x):
    return torch.add(torch.zeros(x.shape), x, out=torch.empty(x.shape))


def in_inference_mode(x):
    with torch.inference_mode():
        x + 1
    return (x * torch.ones(WIDTH, requires_grad=True)).detach()


def checkpointed(x):
    weight = torch.eye(WIDTH, requires_grad=True)
    run = torch.utils.checkpoint.checkpoint
    return run(torch.matmul, x, weight, use_reentrant=False).detach()


READS = {  # what gives the rows again, whoever asks
    "numpy": lambda x: torch.from_numpy(x.numpy()),
    "asarray": lambda x: torch.from_numpy(np.asarray(x)),
    "tolist": lambda x: torch.tensor(x.tolist()),
    "iteration": lambda x: torch.stack(list(x)),
    "tensor": lambda x: x.clone(),
    "as_tensor": torch.as_tensor,
    "dlpack": torch.from_dlpack,
    "numpy-dlpack": lambda x: torch.from_numpy(np.from_dlpack(x)),
    "storage": lambda x: torch.empty(0).set_(x.untyped_storage()).view(x.shape),
    "share_memory": lambda x: x.share_memory_(),
    "contiguous": lambda x: x.contiguous(),
    "cpu": lambda x: x.cpu(),
    "to": lambda x: x.to("cpu", torch.float32, non_blocking=True),
    "to-copy": lambda x: x.to("cpu", copy=True),
    "to-other": lambda x: x.to(torch.zeros(1)),
    "double": lambda x: x.double().float(),
    "half": lambda x: x.half().float(),
    "type": lambda x: x.type(torch.float32),
    "clone": torch.clone,
    "detach": lambda x: x.detach(),
    "data": lambda x: x.data,
    "transposed": lambda x: x.T.T,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "save": lambda x: saved(x, weights_only=False),
    "save-weights": saved,
    "queue": through_queue,
    "out": added_out,
    "cat": lambda x: torch.cat([x[:5], x[5:]]),
    "stack": lambda x: torch.stack([x, x])[0],
    "mask": lambda x: x[torch.ones(len(x), dtype=torch.bool)],
    "index": lambda x: x[torch.arange(len(x))],
    "index_select": lambda x: x.index_select(0, torch.arange(len(x))),
    "split": lambda x: torch.cat(x.split(10)),
    "narrow": lambda x: x.narrow(0, 0, len(x)),
    "checkpoint": checkpointed,
    "inference_mode": in_inference_mode,
    "vmap": lambda x: torch.func.vmap(lambda row: row * 1)(x),
    "script": lambda x: torch.jit.script(torch.nn.Identity())(x) + 0,
    "script-sum": lambda x: torch.jit.script(torch.nn.ReLU())(x) - (-x).relu(),
    "parameter": lambda x: torch.nn.Parameter(x).data,
    "list-op": lambda x: torch._foreach_add([x], 0.0)[0],
    "repr": lambda x: x if repr(x) == repr(x.clone()) else None,
    "embedding": lambda x: torch.nn.functional.embedding(torch.arange(len(x)), x),
}


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize("name", READS)
def test_lazy_reads(x, rows, name):
    tolerance = {"rtol": 1e-2, "atol": 1e-3} if name == "half" else {}
    torch.testing.assert_close(READS[name](x).clone(), rows, **tolerance)
    torch.testing.assert_close(x.clone(), rows)  # and it is still what it was


def set_item(x):
    x[0] = 0


def subtract(x):
    x -= x.clone()


WRITES = {
    "add_": lambda x: x.add_(1),
    "zero_": lambda x: x.zero_(),
    "out": lambda x: torch.add(torch.ones(x.shape), 1, out=x),
    "setitem": set_item,
    "in-place": subtract,
    "prefix": lambda x: x[:5].mul_(2),
    "narrow": lambda x: x.narrow(0, 0, 4).fill_(7),
    "detached": lambda x: x.detach().mul_(3),
    "contiguous": lambda x: x.contiguous().mul_(3),
    "numpy": lambda x: x.numpy().fill(2),
    "numpy-prefix": lambda x: x[:6].numpy().fill(2),
    "dlpack": lambda x: torch.from_dlpack(x).fill_(2),
    "copy_": lambda x: x.copy_(torch.ones(x.shape)),
    "foreach": lambda x: torch._foreach_mul_([x], 2.0),
    "normal_": lambda x: torch.nn.init.constant_(x, 3.0),
    "data": lambda x: x.data.mul_(2),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("looked_at", [False, True])
def test_lazy_writes(batch, x, rows, name, looked_at):
    if looked_at:
        x.sum()
    before = make_data().x
    WRITES[name](x)
    WRITES[name](rows)
    torch.testing.assert_close(x.clone(), rows)
    torch.testing.assert_close(batch.x[:6].clone(), rows[:6])
    assert x.data_ptr() == x[:5].data_ptr() == x.detach().data_ptr() != 0
    torch.testing.assert_close(make_data().x, before)


SHAPES = {
    "shape": lambda x: x.shape,
    "size": lambda x: (x.size(), x.size(0), x.size(-1), len(x), x.dim(), x.ndim),
    "dtype": lambda x: (x.dtype, x.device, x.layout, x.is_cuda, x.requires_grad),
    "numel": lambda x: (x.numel(), x.nbytes, x.element_size(), x.stride()),
    "float": lambda x: (x.is_floating_point(), torch.is_floating_point(x)),
    "leaf": lambda x: (x.is_leaf, x.grad_fn, x.is_contiguous()),
    "tensor": lambda x: (torch.is_tensor(x), isinstance(x, torch.Tensor)),
    "prefix": lambda x: (x[:5].shape, x.narrow(0, 0, 3).shape, x[:0].shape),
    "casts": lambda x: (x.to(torch.float64).dtype, x.half().dtype, x.cpu().shape),
    "rows": lambda x: x[torch.tensor([1, 2])].tolist(),
}


@pytest.mark.parametrize("name", SHAPES)
def test_lazy_shapes(x, rows, name):
    assert SHAPES[name](x) == SHAPES[name](rows)
    assert x.waiting


def test_lazy_gradients(x, rows):
    assert x.requires_grad_() is x
    assert x.is_leaf
    (x * x).sum().backward()
    torch.testing.assert_close(x.grad, 2 * rows)
    refused = pytest.raises(RuntimeError, match="lazy=False")
    with refused, torch._C.DisableTorchFunctionSubclass():
        torch.add(x, 1)
    x.requires_grad = False
    assert not x.requires_grad


@pytest.mark.parametrize("of", [torch.detach, lambda x: x[:], lambda x: x[:5]])
def test_lazy_aliases_have_gradients_of_their_own(x, rows, of):
    own = of(x)
    assert own.waiting
    own = own.requires_grad_()
    assert own.requires_grad
    assert not x.requires_grad
    (own * own).sum().backward()
    torch.testing.assert_close(own.grad, 2 * rows[: len(own)])
    assert x.grad is None
    assert own.data_ptr() == x.data_ptr()


def test_lazy_product_under_autocast(x, rows):
    weight = torch.randn(WIDTH, 2, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        found, expected = product(x, weight), rows @ weight
    assert x.waiting
    found, expected = (
        torch.autograd.grad(out.float().sin().sum(), weight)[0]
        for out in (found, expected)
    )
    torch.testing.assert_close(found, expected, rtol=0.05, atol=0.05)


def test_lazy_autocast(x, rows):
    layer = torch.nn.Linear(WIDTH, 3)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(layer(x), layer(rows))


def test_lazy_dispatch(x, rows):
    with torch._C.DisableTorchFunctionSubclass():
        torch.testing.assert_close(torch.add(x, 1), rows + 1)


DATA = {
    "num_nodes": lambda data: data.num_nodes,
    "num_features": lambda data: data.num_features,
    "sizes": lambda data: (data.is_cuda, str(data), data.size(0)),
    "to": lambda data: data.to("cpu").x.tolist(),
    "clone": lambda data: data.clone().x.tolist(),
    "copy": lambda data: copy.copy(data).x.tolist(),
    "deepcopy": lambda data: copy.deepcopy(data).x.tolist(),
    "pickle": lambda data: pickle.loads(pickle.dumps(data)).x.tolist(),
    "share": lambda data: data.share_memory_().x.tolist(),
    "subgraph": lambda data: data.subgraph(torch.arange(10)).x.tolist(),
    "batch": lambda data: Batch.from_data_list([data, data]).x.tolist(),
    "transform": lambda data: NormalizeFeatures()(data).x.tolist(),
    "dict": lambda data: data.to_dict()["x"].tolist(),
    "detach": lambda data: data.detach().x.tolist(),
    "contiguous": lambda data: data.contiguous().x.tolist(),
}


@pytest.mark.parametrize("name", DATA)
def test_lazy_data(batch, name):
    eager = batch_of(lazy=False)
    assert type(eager.x) is torch.Tensor
    assert DATA[name](batch) == DATA[name](eager)


def test_lazy_trim_to_layer(batch, rows):
    hops = batch.num_sampled_nodes, batch.num_sampled_edges
    kept = trim_to_layer(1, *hops, batch.x, batch.edge_index)[0]
    assert isinstance(kept, LazyRows)
    assert kept.waiting
    torch.testing.assert_close(kept + 0, rows[: len(kept)])


def test_lazy_changed_features():
    data = make_data()
    batch = batch_of(data)
    data.x.add_(1)
    for look in (lambda: batch.x + 1, lambda: batch.x[torch.tensor([0])]):
        with pytest.raises(RuntimeError, match=r"must not be changed .* lazy=False"):
            look()
    assert batch.x.shape == (batch.num_nodes, WIDTH)
    batch = batch_of(data)
    wanted = batch.x.clone()
    data.x.add_(1)  # too late to matter
    torch.testing.assert_close(batch.x.clone(), wanted)


MODELS = {
    "sage": lambda: nn.GraphSAGE(WIDTH, 16, 2, 4),
    "sage-max": lambda: nn.GraphSAGE(WIDTH, 16, 2, 4, aggr="max"),
    "gcn": lambda: nn.GCN(WIDTH, 16, 2, 4),
    "gin": lambda: nn.GIN(WIDTH, 16, 2, 4),
    "gat": lambda: nn.GAT(WIDTH, 16, 2, 4, heads=2),
    "gatv2": lambda: nn.GAT(WIDTH, 16, 2, 4, v2=True),
    "project": lambda: nn.GraphSAGE(WIDTH, 16, 2, 4, project=True),
    "appnp": lambda: nn.Sequential("x, e", [(nn.APPNP(2, 0.1), "x, e -> x")]),
}
IN_PLACE = ("sage", "sage-max", "gcn", "gin", "gat")


def gradients(model, out):
    model.zero_grad()
    out.sin().sum().backward()
    return [p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize("name", MODELS)
def test_lazy_models(name):
    torch.manual_seed(0)
    model = fused(MODELS[name]())
    data = make_data()
    lazy, eager = (
        NeighborLoader(data, [3, 2], batch_size=SEEDS, lazy=lazy, seed=0)
        for lazy in (True, False)
    )
    for number, (ours, theirs) in enumerate(zip(lazy, eager, strict=True)):
        given = ours.x
        found, wanted = (model(b.x, b.edge_index) for b in (ours, theirs))
        torch.testing.assert_close(found, wanted)
        if wanted.requires_grad:
            after, before = (gradients(model, out) for out in (found, wanted))
            torch.testing.assert_close(after, before)
        if number > 0:  # the first pass is recorded, on all rows
            assert given.waiting == (name in IN_PLACE)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_lazy_narrow_features(dtype):
    torch.manual_seed(0)
    model = fused(nn.GraphSAGE(WIDTH, 16, 2, 4))
    loader = NeighborLoader(make_data(dtype), [3, 2], batch_size=SEEDS, lazy=True)
    for number, batch in enumerate(loader):
        assert batch.x.dtype == dtype
        x = batch.x.float()
        found = model(x, batch.edge_index)
        assert x.dtype == torch.float32
        assert number == 0 or x.waiting
        wanted = model(x.clone(), batch.edge_index)
        torch.testing.assert_close(found, wanted)


def test_lazy_by_default():
    gc.collect()  # fused models of other tests
    data = make_data()
    loader = NeighborLoader(data, [3, 2], batch_size=5)
    links = LinkNeighborLoader(data, [3, 2], batch_size=50)
    assert type(next(iter(loader)).x) is torch.Tensor
    model = fused(nn.GraphSAGE(WIDTH, 16, 2, 4))
    for batch in loader:
        model(batch.x, batch.edge_index)
        assert type(batch.x) is LazyRows
        assert batch.x.waiting
    for batch in links:
        model(batch.x, batch.edge_index)
        assert type(batch.x) is LazyRows
        assert batch.x.waiting
    kinds = []
    for batch in loader:  # of no use to somebody who looks at them
        kinds.append(type(batch.x))
        batch.x.sum()
    assert set(kinds[PATIENCE + 20 :]) <= {torch.Tensor}
    del model
    gc.collect()
    assert type(next(iter(loader)).x) is torch.Tensor


def test_lazy_typed():
    data = HeteroData()
    generator = torch.Generator().manual_seed(0)
    data["user"].x = torch.randn(40, WIDTH, generator=generator)
    data["item"].x = torch.randn(30, WIDTH, generator=generator)
    for kind in (("item", "of", "user"), ("user", "rev", "item")):
        sizes = [data[end].x.size(0) for end in kind[::2]]
        data[kind].edge_index = torch.stack(
            [torch.randint(0, n, (150,), generator=generator) for n in sizes]
        )
    model = fused(nn.to_hetero(nn.GraphSAGE((-1, -1), 16, 2, 4), data.metadata()))
    options = {"input_nodes": "user", "batch_size": 9, "seed": 0}
    lazy, eager = (
        NeighborLoader(data, [3, 2], lazy=lazy, **options) for lazy in (True, False)
    )
    for ours, theirs in zip(lazy, eager, strict=True):
        found = model(ours.x_dict, ours.edge_index_dict)["user"]
        wanted = model(theirs.x_dict, theirs.edge_index_dict)["user"]
        torch.testing.assert_close(found, wanted)
        assert ours["item"].x.waiting
        assert ours["user"].x.waiting


@pytest.mark.parametrize("options", [{"num_workers": 1}, {"prefetch": 2}, {}], ids=str)
@pytest.mark.parametrize("shuffle", [False, True])
def test_lazy_loaders(options, shuffle):
    data = make_data()
    found = [
        (batch.x.clone(), batch.n_id)
        for batch in NeighborLoader(
            data, [3, 2], lazy=True, batch_size=9, shuffle=shuffle, **options
        )
    ]
    for x, nodes in found:
        torch.testing.assert_close(x, data.x[nodes])


@pytest.mark.process
def test_lazy_processes():
    data = make_data()
    options = {"num_workers": 1, "thread_workers": False}
    for batch in NeighborLoader(data, [3], lazy=True, batch_size=40, **options):
        assert type(batch.x) is torch.Tensor
        torch.testing.assert_close(batch.x, data.x[batch.n_id])


def test_lazy_left_alone():
    data = make_data()
    data.x.requires_grad_()
    data.counts = torch.arange(NODES)[:, None].expand(-1, 3).contiguous()
    data.cube = torch.zeros(NODES, 2, 2)
    batch = batch_of(data)
    assert {type(batch[name]) for name in ("x", "counts", "cube")} == {torch.Tensor}
    with pytest.raises(TypeError, match="'lazy' must be"):
        batch_of(lazy="yes")


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
@pytest.mark.parametrize("name", ["sage", "gcn"])
def test_lazy_compiled(name):
    torch.manual_seed(0)
    model = fused(MODELS[name]())
    compiled = torch.compile(model, backend="eager")
    layer = torch.compile(torch.nn.Linear(WIDTH, 3), backend="eager")
    for batch in NeighborLoader(make_data(), [3, 2], batch_size=SEEDS, lazy=True):
        x = batch.x.clone()
        wanted = model(x, batch.edge_index)
        torch.testing.assert_close(compiled(batch.x, batch.edge_index), wanted)
        torch.testing.assert_close(layer(batch.x), layer(x))
