"""Whatever `gttf_pyg` cannot read is refused in a sentence that names the argument."""

import re

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.sampler import (
    EdgeSamplerInput,
    NegativeSampling,
    NodeSamplerInput,
)

from gttf_pyg import (
    DeepWalk,
    GTTFLinkLoader,
    GTTFLoader,
    GTTFNorm,
    GTTFSampler,
    Node2Vec,
    ToCompact,
    WatchYourStep,
    layerwise_inference,
    sampled_inference,
)
from gttf_sampler import EdgeWeightBias
from odd_values import HUGE, IGNORED, refused, refused_if_odd, sentence
from reference import hetero_toy

ENDS = torch.tensor([[0, 1, 1, 1, 1, 2, 3, 3, 4, 4], [1, 0, 2, 3, 4, 1, 1, 4, 1, 3]])
IDS, FIVE, TEN = torch.tensor([0, 1]), torch.arange(5), torch.arange(10)
TYPED = hetero_toy()


def data(**changes):
    given = {"edge_index": ENDS, "x": torch.rand(5, 2), "time": FIVE, "t": TEN}
    return Data(num_nodes=5, **{**given, "w": TEN, **changes})


def node_batch(**options):
    return next(iter(GTTFLoader(**{"data": data(), "num_neighbors": [1], **options})))


def link_batch(**options):
    given = {"data": data(), "num_neighbors": [1], "neg_sampling": "binary"}
    return next(iter(GTTFLinkLoader(**{**given, **options})))


def from_nodes(**fields):
    """The sampler's output for seeds that were put together by hand."""
    inputs = NodeSamplerInput(None, IDS)
    inputs.__dict__.update(fields)
    return GTTFSampler(data(), [1]).sample_from_nodes(inputs)


def from_edges(neg_sampling=None, **fields):
    inputs = EdgeSamplerInput(None, IDS, IDS)
    inputs.__dict__.update(fields)
    return GTTFSampler(data(), [1]).sample_from_edges(inputs, neg_sampling)


def full_loader():
    return GTTFLoader(data(), [-1], batch_size=5)


TENSORS = {
    "edge_index": (lambda x: Node2Vec(x, 2, 3, 2, num_nodes=5), ENDS),
    r"data.edge_index": (lambda x: node_batch(data=data(edge_index=x)), ENDS),
    "edge_weight": (lambda x: Node2Vec(ENDS, 2, 3, 2, edge_weight=x), TEN),
    "batch": (lambda x: Node2Vec(ENDS, 2, 3, 2).sample(x), IDS),
    r"data.time": (lambda x: node_batch(data=data(time=x), time_attr="time"), FIVE),
    "num_neighbors": (lambda x: GTTFSampler(data(), x), IDS),
    "input_nodes": (lambda x: node_batch(input_nodes=x), IDS),
    "input_time": (lambda x: node_batch(input_time=x, time_attr="time"), FIVE),
    "edge_label_index": (lambda x: link_batch(edge_label_index=x), ENDS),
    "edge_label_time": (
        lambda x: link_batch(edge_label_time=x, time_attr="time"),
        TEN,
    ),
    "exclude_edges": (lambda x: node_batch(exclude_edges=x), IDS),
    r"inputs.node": (lambda x: from_nodes(node=x), IDS),
    r"inputs.row": (lambda x: from_edges(row=x), IDS),
    r"inputs.col": (lambda x: from_edges(col=x), IDS),
    "dst_weight": (
        lambda x: from_edges(NegativeSampling("binary", 1, dst_weight=x)),
        FIVE,
    ),
    "x": (lambda x: layerwise_inference([lambda x, b: x], x, full_loader()), FIVE),
}


@IGNORED
@pytest.mark.parametrize("name", TENSORS)
def test_pyg_messages_of_odd_tensors(name):
    alike = {"data.edge_index": "(data.)?edge_index", "data.time": "data.time"}
    alike |= {"input_time": "(input_time|seed_time)", "edge_label_index": "[a-z._]+"}
    alike |= {"edge_label_time": "(edge_label_time|seed_time)"}
    but = ["float8", "complex"] if name == "x" else []  # features are not compared
    refused_if_odd(TENSORS[name], alike.get(name, name), but)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (
            lambda: from_nodes(node=[0, 1]),
            TypeError,
            r"'inputs.node' must be a tensor \(got \[0, 1\]\)",
        ),
        (
            lambda: from_edges(row=[0, 1]),
            TypeError,
            r"'inputs.row' must be a tensor \(got \[0, 1\]\)",
        ),
        (
            lambda: from_edges(col=torch.tensor([0])),
            ValueError,
            r"'inputs.col' must have one entry per entry of 'inputs.row', 2 .*\(got 1",
        ),
        (
            lambda: from_nodes(time=[1, 2]),
            TypeError,
            r"'inputs.time' must be a tensor \(got \[1, 2\]\)",
        ),
        (
            lambda: from_edges(label=torch.tensor([1])),
            ValueError,
            r"'inputs.label' must have one entry per seed, 2 in all \(got shape \[1\]",
        ),
        (
            lambda: from_edges(NegativeSampling("triplet"), label=IDS),
            ValueError,
            r"'inputs.label' must be None beside triplets \(got a tensor\)",
        ),
        (
            lambda: from_edges("binary"),
            TypeError,
            r"'neg_sampling' must be a NegativeSampling \(got 'binary'\)",
        ),
        (
            lambda: GTTFSampler(data(), [1]).sample_from_nodes(IDS),
            TypeError,
            r"'inputs' must be a NodeSamplerInput \(got tensor\(\[0, 1\]\)\)",
        ),
        (
            lambda: GTTFSampler(data(), [1]).sample_from_edges(None),
            TypeError,
            r"'inputs' must be an EdgeSamplerInput \(got None\)",
        ),
        (lambda: node_batch(device="zz"), TypeError, sentence("device", "must be a")),
        (
            lambda: node_batch(device="xpu:9"),
            ValueError,
            r"'device' must be a device that is there \(got 'xpu:9'\)",
        ),
        (
            lambda: layerwise_inference([], FIVE, full_loader(), "zz"),
            TypeError,
            r"'device' must be a device \(got 'zz'\)",
        ),
        (
            lambda: link_batch(edge_label_time=IDS, time_attr="time"),
            ValueError,
            r"'edge_label_time' must have one entry per seed, 10 in all \(got shape",
        ),
        (
            lambda: node_batch(input_nodes=3),
            ValueError,
            r"'input_nodes' must be ids \[k\] or a mask \(got 3\)",
        ),
        (
            lambda: node_batch(input_nodes=[0.5]),
            TypeError,
            r"'input_nodes' must have dtype int32 or int64 \(got torch.float32\)",
        ),
        (
            lambda: node_batch(is_sorted=[1]),
            TypeError,
            r"'is_sorted' must be True or False \(got \[1\]\)",
        ),
        (
            lambda: GTTFNorm(data())(data(edge_index=ENDS + 1)),
            ValueError,
            r"'data.edge_index' must hold ids below the number of nodes 5 \(got 5\)",
        ),
        (
            lambda: sampled_inference(lambda b: b.x, full_loader(), 6),
            ValueError,
            r"'num_nodes' must be that of the graph, 5 \(got 6\)",
        ),
        (
            lambda: sampled_inference(lambda b: b.x[:1], full_loader(), 5),
            ValueError,
            r"'model' must give a row for each of the 5 nodes \(got shape \[1, 2\]",
        ),
        (
            lambda: layerwise_inference([lambda x, b: x], IDS, full_loader()),
            ValueError,
            r"'x' must have one row per node, 5 in all \(got shape \[2\]\)",
        ),
        (
            lambda: GTTFSampler((data(), data()), [1]),
            ValueError,
            r"'data' must know how many nodes its edges have \(got edges without a si",
        ),
    ],
)
def test_pyg_messages_of_other_things(call, error, match):
    with pytest.raises(error, match=match):
        call()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: Node2Vec(ENDS, 2, HUGE, 2), "walk_length"),
        (lambda: Node2Vec(ENDS, 2, 1 << 40, 2), "walk_length"),
        (lambda: Node2Vec(ENDS, 2, HUGE, HUGE), "context_size"),
        (lambda: Node2Vec(ENDS, HUGE, 3, 2), "embedding_dim"),
        (lambda: Node2Vec(ENDS, 1 << 50, 3, 2), "embedding_dim"),
        (lambda: Node2Vec(ENDS, 2, 3, 2, num_nodes=HUGE), "num_nodes"),
        (lambda: Node2Vec(ENDS, 2, 3, 2, walks_per_node=HUGE), "walks_per_node"),
        (lambda: DeepWalk(ENDS, 2, HUGE, 2), "walk_length"),
        (lambda: DeepWalk(ENDS, 2, 1 << 40, 2), "walk_length"),
        (lambda: DeepWalk(ENDS, 2, 3, HUGE), "context_size"),
        (lambda: DeepWalk(ENDS, 2, 3, 2, num_nodes=HUGE), "num_nodes"),
        (lambda: WatchYourStep(ENDS, 2, HUGE), "walk_length"),
        (lambda: WatchYourStep(ENDS, 2, 1 << 40), "walk_length"),
        (lambda: node_batch(time_attr="time", time_window=10**400), "time_window"),
        (lambda: node_batch(seed=HUGE), "seed"),
        (lambda: link_batch(neg_sampling_ratio=10**400), "neg_sampling_ratio"),
        (lambda: link_batch(neg_sampling_ratio=float(HUGE)), "neg_sampling"),
        (lambda: sampled_inference(len, full_loader(), HUGE), "num_nodes"),
    ],
)
def test_pyg_messages_of_huge_numbers(call, name):
    refused(call, name)


def test_pyg_messages_of_huge_windows_of_time():
    batch = node_batch(time_attr="time", time_window=HUGE, input_nodes=[4])
    assert batch.num_nodes == 2


@pytest.mark.parametrize(
    ("call", "name", "known"),
    [
        (lambda: node_batch(weight_attr="v"), "weight_attr", "'w'"),
        (lambda: node_batch(time_attr="when"), "time_attr", "'time'"),
        (lambda: link_batch(weight_attr="v"), "weight_attr", "'w'"),
        (lambda: ToCompact(weight_attr="v")(data()), "weight_attr", "'w'"),
        (lambda: ToCompact("when")(data()), "time_attr", "'time'"),
        (
            lambda: GTTFSampler(TYPED, [1], weight_attr="v"),
            "weight_attr",
            "'edge_index'",
        ),
        (lambda: GTTFSampler(TYPED, [1], time_attr="v"), "time_attr", "'edge_index'"),
    ],
)
def test_pyg_messages_of_missing_attributes(call, name, known):
    """A KeyError, as from PyG, whose text says what there is."""
    with pytest.raises(KeyError) as caught:
        call()
    told = str(caught.value)
    assert re.match(f"'{name}' must name an attribute .*got '(v|when)'", told)
    assert known in told.partition("there are")[2]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: node_batch(bias=EdgeWeightBias), "bias"),
        (lambda: node_batch(num_neighbors=list), "num_neighbors"),
        (lambda: node_batch(replace=bool), "replace"),
        (lambda: node_batch(input_nodes=torch.Tensor), "input_nodes"),
        (lambda: node_batch(subgraph_type=str), "subgraph_type"),
        (lambda: node_batch(temporal_strategy=str), "temporal_strategy"),
        (lambda: node_batch(time_attr=str), "time_attr"),
        (lambda: node_batch(weight_attr=str), "weight_attr"),
        (lambda: node_batch(normalize=str), "normalize"),
        (lambda: node_batch(seed=int), "seed"),
        (lambda: node_batch(generator=torch.Generator), "generator"),
        (lambda: node_batch(prefetch=int), "prefetch"),
        (lambda: node_batch(exclude_edges=list), "exclude_edges"),
        (lambda: node_batch(device=torch.device), "device"),
        (lambda: link_batch(edge_label_index=torch.Tensor), "edge_label_index"),
        (lambda: link_batch(neg_sampling=NegativeSampling), "neg_sampling"),
        (lambda: link_batch(neg_sampling=np.zeros(2)), "neg_sampling"),
        (lambda: from_nodes(node=torch.Tensor), r"inputs.node"),
        (lambda: Node2Vec(torch.Tensor, 2, 3, 2), "edge_index"),
        (lambda: Node2Vec(ENDS, int, 3, 2), "embedding_dim"),
        (lambda: Node2Vec(ENDS, 2, 3, 2, sparse=bool), "sparse"),
        (lambda: DeepWalk(ENDS, 2, int, 2), "walk_length"),
        (lambda: WatchYourStep(ENDS, 2, int), "walk_length"),
        (lambda: GTTFNorm(Data), "data"),
        (lambda: layerwise_inference([len], Data, full_loader()), "x"),
        (lambda: layerwise_inference([dict], FIVE, full_loader()), "layers"),
        (lambda: layerwise_inference(list, FIVE, full_loader()), "layers"),
        (lambda: sampled_inference(dict, full_loader(), 5), "model"),
        (lambda: sampled_inference(len, GTTFLoader, 5), "loader"),
    ],
)
def test_pyg_messages_of_classes(call, name):
    refused(call, name)


def test_pyg_messages_of_a_missing_negative():
    """No seeds, no negatives: nothing is drawn, by weight neither."""
    none = torch.empty(0, dtype=torch.int64)
    weighted = NegativeSampling("binary", 1, dst_weight=torch.ones(5))
    assert from_edges(weighted, row=none, col=none).node.numel() == 0


@pytest.mark.parametrize("name", ["time", "t"])
def test_pyg_messages_of_edges_without_shape(name):
    with pytest.raises(ValueError, match=r"'data.edge_index' must have shape \[2, k\]"):
        ToCompact(time_attr=name)(data(edge_index=torch.tensor(0)))


def test_pyg_messages_of_a_device_without_memory():
    with pytest.raises(ValueError, match="'device' must be a device with memory"):
        GTTFLoader(data(), [1], device="meta")


@pytest.mark.parametrize("name", ["walks_per_node", "num_negative_samples"])
def test_pyg_messages_of_walks_beyond_memory(name):
    model = Node2Vec(ENDS, 2, 4, 3, **{name: 2**40})
    with pytest.raises(ValueError, match=f"'{name}' must ask for no more than fits"):
        model.sample(IDS)


def test_pyg_messages_of_nodes_beyond_memory():
    batches = [next(iter(full_loader()))]
    with pytest.raises(ValueError, match="'num_nodes' must ask for no more than fits"):
        sampled_inference(lambda batch: batch.x, batches, 2**45)
