"""Canaries: what this package reads behind the public interfaces of torch and PyG.

When a test fails here after an update, the host has changed, and its name says what the
adapter has to be taught.
"""

import importlib
import inspect

import pytest
import torch
from torch.utils.data import DataLoader
from torch_geometric import nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import (
    ClusterData,
    ClusterLoader,
    GraphSAINTSampler,
    ShaDowKHopSampler,
)
from torch_geometric.loader.base import DataLoaderIterator
from torch_geometric.sampler import (
    EdgeSamplerInput,
    NegativeSampling,
    NodeSamplerInput,
)
from torch_geometric.sampler.neighbor_sampler import edge_sample, node_sample

from gttf_pyg import _compat

# Names that are not in the reference of PyG or torch, by where they are imported from.
IMPORTED = {
    "torch_geometric.data.data": "DataEdgeAttr DataTensorAttr",
    "torch_geometric.data.lightning.datamodule": "LightningData",
    "torch_geometric.data.remote_backend_utils": "num_nodes",
    "torch_geometric.data.storage": "BaseStorage EdgeStorage GlobalStorage NodeStorage",
    "torch_geometric.index": "index2ptr",
    "torch_geometric.loader.base": "DataLoaderIterator",
    "torch_geometric.loader.neighbor_sampler": "Adj EdgeIndex",
    "torch_geometric.loader.utils": "index_select",
    "torch_geometric.sampler.base": "DataType NumNeighbors SubgraphType",
    "torch_geometric.sampler.neighbor_sampler": "edge_sample node_sample",
    "torch_geometric.utils.num_nodes": "maybe_num_nodes",
}


@pytest.mark.parametrize("module", IMPORTED)
def test_undocumented_names_are_where_they_were(module):
    found = pytest.importorskip(module) if "lightning" in module else None
    found = found or importlib.import_module(module)
    missing = [name for name in IMPORTED[module].split() if not hasattr(found, name)]
    assert not missing, f"{module} has lost {missing}"


def test_stores_keep_their_attributes_in_a_mapping():
    data = Data(x=torch.ones(3, 1), edge_index=torch.zeros(2, 2, dtype=torch.int64))
    store = _compat.store_of(data)
    assert _compat.mapping_of(store)["x"] is data.x
    _compat.mapping_of(store)["n_id"] = data.x
    assert data.n_id is data.x
    stores = _compat.stores_of(data)
    assert stores.nodes == stores.edges == {None: store}
    assert _compat.mappings(stores).edges[None] is _compat.mapping_of(store)
    _compat.set_original_edges(data, None, data.x)
    assert data._orig_edge_index is data.x
    assert "_orig_edge_index" not in data
    assert _compat.type_of(store) is None


def test_stores_of_types_are_in_dictionaries():
    data = HeteroData()
    data["a"].x = torch.ones(3, 1)
    data["a", "to", "b"].edge_index = torch.zeros(2, 2, dtype=torch.int64)
    stores = _compat.stores_of(data)
    assert stores.nodes["a"] is data["a"]
    assert stores.edges["a", "to", "b"] is data["a", "to", "b"]
    assert _compat.type_of(data["a"]) == "a"
    assert _compat.type_of(data["a", "to", "b"]) == ("a", "to", "b")


def test_views_of_tensors_are_known():
    base = torch.zeros(4)
    view = base[1:3]
    assert _compat.base_of(view) is base
    assert _compat.base_of(base) is None


def test_subclasses_can_be_treated_as_plain_tensors():
    class Counted(torch.Tensor):
        calls = 0

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.calls += 1
            return super().__torch_function__(func, types, args, kwargs or {})

    value = torch.zeros(2).as_subclass(Counted)
    before = Counted.calls
    with _compat.without_torch_function():
        value + 1
    assert Counted.calls == before


def test_backward_is_told_from_forward():
    seen = []
    x = torch.ones(1, requires_grad=True)
    y = x * 2
    y.register_hook(lambda grad: seen.append(_compat.in_backward()))
    assert not _compat.in_backward()
    y.backward()
    assert seen == [True]


def test_forward_pre_hooks_are_listed():
    module = torch.nn.Linear(1, 1)

    def hook(module, args, kwargs):
        return None

    module.register_forward_pre_hook(hook, with_kwargs=True)
    assert _compat.forward_pre_hooks(module) == [hook]


def test_shadows_hide_methods_and_modules_and_show_them_again():
    layer = nn.GCNConv(2, 2)
    shadows = _compat.Shadows()
    shadows.put(layer, "propagate", "other")
    shadows.put(layer, "aggr_module", None)
    assert layer.propagate == "other"
    assert layer.aggr_module is None
    shadows.restore(1)
    assert isinstance(layer.aggr_module, nn.SumAggregation)
    shadows.restore()
    assert inspect.ismethod(layer.propagate)


def test_explainers_leave_their_mask_on_layers():
    layer = nn.SimpleConv()
    assert layer._edge_mask is None
    assert not layer.explain
    assert _compat.edge_mask(layer) is None
    layer.explain, layer._edge_mask = True, torch.zeros(2)
    layer._apply_sigmoid = True
    assert _compat.edge_mask(layer).tolist() == [0.5, 0.5]


def test_layers_have_the_parts_that_are_patched():
    layer = nn.GATConv(2, 2)
    for name in ("aggr_module", "edge_updater", "flow", "node_dim", "propagate"):
        assert hasattr(layer, name), f"MessagePassing has lost {name!r}"
    several = nn.MultiAggregation(["mean", "sum"])
    assert hasattr(several, "fused_aggr")
    for name in ("message", "edge_update"):
        code = inspect.unwrap(getattr(nn.GATConv, name)).__globals__
        assert "softmax" in code
    assert list(inspect.signature(nn.Aggregation.reduce).parameters) == (
        ["self", "x", "index", "ptr", "dim_size", "dim", "reduce"]
    )


def test_layers_call_softmax_and_scatter_by_name():
    """Of which a copy of a method can be given others."""
    attends = _compat.methods_with(nn.GATConv, "softmax", "scatter")
    assert attends == ["edge_update"]
    own = _compat.with_globals(nn.GATConv.edge_update, {"softmax": None, "other": 1})
    assert own.__globals__["softmax"] is None
    assert "other" not in own.__globals__
    assert nn.GATConv.edge_update.__globals__["softmax"] is not None
    assert _compat.methods_with(nn.GCNConv, "softmax") == []


def test_samplers_call_back_with_seeds_and_times():
    nodes = NodeSamplerInput(None, torch.tensor([1]))
    assert list(inspect.signature(node_sample).parameters) == ["inputs", "sample_fn"]
    assert list(inspect.signature(edge_sample).parameters) == (
        ["inputs", "sample_fn", "num_nodes", "disjoint", "node_time", "neg_sampling"]
    )
    assert {"input_id", "node", "time", "input_type"} <= set(vars(nodes))
    row = torch.tensor([1])
    edges = EdgeSamplerInput(None, row, row)
    assert {"input_id", "row", "col", "label", "time", "input_type"} <= set(vars(edges))
    assert list(inspect.signature(NegativeSampling.sample).parameters) == (
        ["self", "num_samples", "endpoint", "num_nodes"]
    )


def test_clusters_and_loaders_have_the_methods_that_are_overridden():
    assert hasattr(ClusterData, "_metis")
    assert hasattr(ClusterLoader, "_collate")
    for name in ("_batch_size", "_compute_norm", "_filename", "_sample_nodes"):
        assert name in inspect.getsource(GraphSAINTSampler)
    assert hasattr(ShaDowKHopSampler, "__collate__")
    assert "transform_fn" in inspect.getsource(DataLoaderIterator)
    assert hasattr(DataLoader, "_get_iterator")
    assert hasattr(DataLoader, "_index_sampler")


def test_subclass_without_numbers():
    class Kind(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "asked"

        __torch_dispatch__ = __torch_function__

    made = _compat.without_numbers(Kind, (2, 3), torch.float64)
    with _compat.without_torch_function():
        assert (type(made), made.shape, made.dtype) == (Kind, (2, 3), torch.float64)
    assert made + 1 == made.numpy() == made.data_ptr() == "asked"
    given = {"a": [1, (2,)], "b": None}
    assert _compat.tree_map(str, given) == {"a": ["1", ("2",)], "b": "None"}
