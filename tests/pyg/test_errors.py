"""Every wrong argument gets the kind of error that PyG raises, in one sentence."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.datasets import KarateClub
from torch_geometric.sampler import NegativeSampling

from gttf_pyg import GTTFLinkLoader, GTTFLoader, GTTFSampler
from reference import hetero_toy

KARATE = KarateClub()[0]
TOY = hetero_toy()
KINDS = TOY.edge_types
EDGES = KARATE.edge_index
TIMES = torch.arange(34)


def dated() -> Data:
    data = KARATE.clone()
    data.time, data.edge_time = TIMES, torch.arange(EDGES.shape[1])
    data.w = torch.ones(EDGES.shape[1])
    data.graph = torch.ones(1, 9)
    return data


def both() -> HeteroData:
    data = hetero_toy()
    data["user"].time, data[KINDS[0]].time = torch.arange(4), torch.arange(7)
    return data


def negative() -> Data:
    data = dated()
    data.w[3] = -1
    return data


DATED, BOTH = dated(), both()
NODE = {"data": KARATE, "num_neighbors": [2]}
TYPED = {"data": TOY, "num_neighbors": [2], "input_nodes": "item"}

ERRORS = [
    (NODE, {"input_time": TIMES}, ValueError, "conflicting 'input_time' and 'time_"),
    (NODE, {"subgraph_type": "bad"}, ValueError, "'bad' is not a valid SubgraphType"),
    (NODE, {"data": EDGES}, ValueError, "Expected a 'Data', 'HeteroData', or a tuple"),
    (NODE, {"num_neighbors": 5}, TypeError, r"'num_neighbors' must be a list .*got 5"),
    (NODE, {"num_neighbors": {}}, TypeError, "'num_neighbors' must be a list"),
    (TYPED, {"num_neighbors": 5}, TypeError, r"'num_neighbors' must be .*got 5"),
    (
        TYPED,
        {"num_neighbors": {**{kind: [1] for kind in KINDS}, KINDS[0]: [1, 2]}},
        ValueError,
        "Number of hops must be the same across all edge types",
    ),
    (
        TYPED,
        {"num_neighbors": {KINDS[0]: [1]}},
        ValueError,
        "Missing number of neighbors for edge type",
    ),
    (
        TYPED,
        {"num_neighbors": {**{kind: [1] for kind in KINDS}, ("a", "b", "c"): [1]}},
        ValueError,
        "'num_neighbors' must use the edge types of the data",
    ),
    (TYPED, {"input_nodes": None}, AssertionError, "'input_nodes' must be a node type"),
    (TYPED, {"input_nodes": None}, ValueError, "'input_nodes' must be a node type"),
    (
        TYPED,
        {"input_nodes": ("item",)},
        ValueError,
        "'input_nodes' must be a node type",
    ),
    (TYPED, {"input_nodes": "film"}, ValueError, "'input_nodes' must name .*'film'"),
    (NODE, {"num_neighbors": [3.0]}, TypeError, "'num_neighbors' must hold integers"),
    (
        TYPED,
        {"num_neighbors": dict.fromkeys(KINDS, 3)},
        TypeError,
        "'num_neighbors' must hold one list per edge type .got 3",
    ),
    (NODE, {"bias": {"a": len}}, TypeError, "'bias' must be callable in"),
    (
        NODE,
        {"exclude_edges": True},
        ValueError,
        "must name edges where seeds are nodes .got True",
    ),
    (NODE, {"exclude_edges": "x"}, TypeError, "must be ids or a mask .got 'x'"),
    (NODE, {"replace": "yes"}, TypeError, "'replace' must be True or False .got 'yes'"),
    (NODE, {"generator": 5}, TypeError, "'generator' must be a torch.Generator .got 5"),
    (NODE, {"seed": "x"}, TypeError, "'seed' must be an integer .got 'x'"),
    (
        NODE,
        {"input_nodes": torch.ones(3, dtype=torch.bool)},
        ValueError,
        r"'input_nodes' must be a mask \[34\] or ids .got bool \[3\]",
    ),
    (
        NODE,
        {
            **{"data": DATED, "time_attr": "time", "input_time": torch.arange(34)},
            "input_nodes": torch.arange(34) < 3,
        },
        ValueError,
        r"'input_time' must have one entry per seed, 3 in all .got shape \[34\]",
    ),
    (TYPED, {"input_nodes": 3}, ValueError, "'input_nodes' must be a node type"),
    (TYPED, {"input_nodes": {"a": 1}}, ValueError, "'input_nodes' must name some of"),
    (NODE, {"exclude_edges": [-1]}, ValueError, r"in \[0, 156\) .got -1 to -1"),
    (
        NODE,
        {"exclude_edges": [0.5]},
        ValueError,
        r"must be integer ids .*float32 \[1\]",
    ),
    (NODE, {"exclude_edges": {KINDS[0]: [0]}}, TypeError, "not one per edge type"),
    (TYPED, {"exclude_edges": [0]}, TypeError, "must map edge types to edges here"),
    (
        TYPED,
        {"exclude_edges": {("a", "b", "c"): [0]}},
        ValueError,
        "'exclude_edges' must use the edge types of the data",
    ),
    (
        NODE,
        {"data": DATED, "time_attr": "time", "time_window": -1},
        ValueError,
        "'time_window' must be finite and not negative",
    ),
    (NODE, {"time_attr": "time"}, KeyError, "time"),
    (NODE, {"weight_attr": "w"}, KeyError, "w"),
    (TYPED, {"weight_attr": "w"}, KeyError, "w"),
    (
        NODE,
        {"data": DATED, "time_attr": "graph"},
        ValueError,
        "'time_attr' must name a node-level or edge-level attribute .got 'graph'",
    ),
    (TYPED, {"time_attr": "time"}, KeyError, "'time_attr' must name .*got 'time'"),
    (TYPED, {"time_attr": "time"}, ValueError, "'time_attr' must name .*there are"),
    (
        TYPED,
        {"data": BOTH, "time_attr": "time"},
        ValueError,
        "'time_attr' must name .*both",
    ),
    (
        NODE,
        {"data": DATED, "time_attr": "time", "temporal_strategy": "bad"},
        ValueError,
        "'temporal_strategy' must be one of 'uniform', 'last' .got 'bad'",
    ),
    (
        NODE,
        {"data": DATED, "time_attr": "edge_time"},
        ValueError,
        "'input_time' must be given where the edges have times",
    ),
    (
        NODE,
        {
            "data": DATED,
            "time_attr": "time",
            "weight_attr": "w",
            "temporal_strategy": "last",
        },
        ValueError,
        "'temporal_strategy' must be 'uniform' together with 'weight_attr'",
    ),
    (
        NODE,
        {
            "data": DATED,
            "time_attr": "time",
            "bias": len,
            "temporal_strategy": "last",
        },
        ValueError,
        "'temporal_strategy' must be 'uniform' together with 'bias'",
    ),
    (NODE, {"time_window": 3}, ValueError, "'time_window' needs times"),
    (NODE, {"is_sorted": True}, ValueError, "'is_sorted' must only be set for"),
    (NODE, {"bias": 7}, TypeError, "'bias' must be callable .got 7"),
    (TYPED, {"bias": {("a", "b", "c"): len}}, ValueError, "'bias' must use the edge"),
    (NODE, {"prefetch": -1}, ValueError, "'prefetch' must not be negative .got -1"),
    (NODE, {"prefetch": True}, TypeError, "'prefetch' must be an integer"),
    (
        NODE,
        {"prefetch": 2, "num_workers": 1},
        ValueError,
        "'prefetch' must be 0 beside workers, .*prefetch_factor",
    ),
    (
        NODE,
        {"normalize": "paper", "neighbor_sampler": object()},
        ValueError,
        "'normalize' must be None unless the 'neighbor_sampler' is .*got object",
    ),
    (
        NODE,
        {"seed": 1, "generator": torch.Generator()},
        ValueError,
        "'seed' must be None beside a 'generator' .got 1",
    ),
    (NODE, {"normalize": "bad"}, ValueError, "'normalize' must be one of .*'bad'"),
    (
        TYPED,
        {"normalize": "paper"},
        ValueError,
        "'normalize' must be None unless the data is a 'Data' .*HeteroData",
    ),
    (
        NODE,
        {"data": DATED, "normalize": "paper", "weight_attr": "w"},
        ValueError,
        "'normalize' must be None unless neighbours are .* with 'weight_attr'",
    ),
    (
        NODE,
        {"normalize": "paper", "subgraph_type": "induced"},
        ValueError,
        "'normalize' must be None unless neighbours are .* with 'subgraph_type'",
    ),
    (
        NODE,
        {
            "data": Data(edge_index=EDGES, edge_weight=torch.ones(156), num_nodes=34),
            "normalize": "unbiased",
        },
        ValueError,
        "'normalize' must be None where the data has a 'edge_weight'",
    ),
    (
        NODE,
        {"neighbor_sampler": GTTFSampler(KARATE, [2]), "bias": len},
        ValueError,
        "'bias' must be told to the 'neighbor_sampler'",
    ),
    (
        NODE,
        {"input_nodes": torch.tensor([34])},
        ValueError,
        "'seeds' must hold ids below the number of nodes 34 .got 34",
    ),
    (
        NODE,
        {"data": negative(), "weight_attr": "w"},
        ValueError,
        "'edge_weight' must not",
    ),
]


@pytest.mark.parametrize(("good", "bad", "error", "match"), ERRORS)
def test_loader_validate(good, bad, error, match):
    with pytest.raises(error, match=match):
        next(iter(GTTFLoader(**{**good, **bad})))


LINK = {"data": KARATE, "num_neighbors": [2]}
LINKS = [
    (
        {"data": DATED, "time_attr": "time"},
        ValueError,
        "conflicting 'edge_label_time' and 'time_attr'",
    ),
    (
        {"edge_label_time": torch.zeros(156)},
        ValueError,
        "conflicting 'edge_label_time'",
    ),
    (
        {"neg_sampling": "triplet", "edge_label": torch.ones(156)},
        ValueError,
        "'edge_label' needs to be undefined",
    ),
    ({"neg_sampling": "bad"}, ValueError, "'bad' is not a valid"),
    (
        {"edge_label_index": torch.zeros(3, 4, dtype=torch.int64)},
        ValueError,
        r"'edge_label_index' must be a tensor \[2, k\] of pairs .got int64 \[3, 4\]",
    ),
    (
        {"edge_label_index": np.zeros((2, 4), int), "edge_label": torch.ones(5)},
        ValueError,
        r"'edge_label' must have one entry per seed, 4 in all .got shape \[5\]",
    ),
    (
        {"neg_sampling": NegativeSampling("binary", src_weight=torch.ones(3))},
        ValueError,
        "'src_weight' must have one entry per node, 34 in all .got 3",
    ),
    (
        {
            "data": DATED,
            "time_attr": "time",
            "edge_label_time": torch.ones(156, dtype=torch.int64),
            "temporal_strategy": "last",
            "exclude_edges": True,
        },
        ValueError,
        "'temporal_strategy' must be 'uniform' together with 'exclude_edges'",
    ),
    (
        {"normalize": "unbiased", "exclude_edges": True},
        ValueError,
        "'normalize' must be None unless .* with 'exclude_edges'",
    ),
]


@pytest.mark.parametrize(("bad", "error", "match"), LINKS)
def test_link_loader_validate(bad, error, match):
    with pytest.raises(error, match=match):
        next(iter(GTTFLinkLoader(**{**LINK, **bad})))


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (("binary", 0), "'amount' needs to be positive"),
        (("triplet", 1.5), "'amount' needs to be an integer"),
    ],
)
def test_negatives_validate(arguments, match):
    with pytest.raises(ValueError, match=match):
        NegativeSampling(*arguments)


def test_exclude_validate():
    """Of two relations that lead back, it cannot be known which holds the reverses."""
    data = hetero_toy()
    del data["item", "rev_buys", "user"]
    for name in ("one", "other"):
        data["item", name, "user"].edge_index = torch.tensor([[0], [0]])
    loader = GTTFLinkLoader(data, [1], ("user", "buys", "item"), exclude_edges=True)
    with pytest.raises(ValueError, match=r"'exclude_edges' must know which .*rev_buys"):
        next(iter(loader))


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"sample_direction": "up"}, ValueError, "'sample_direction' must be one of"),
        (
            {"data": DATED, "sample_direction": "backward", "time_attr": "time"},
            NotImplementedError,
            "'time_attr' must be None when sampling backward",
        ),
    ],
)
def test_sampler_validate(options, error, match):
    with pytest.raises(error, match=match):
        GTTFSampler(**{"data": KARATE, "num_neighbors": [1], **options})


def test_device_that_workers_cannot_use(device):
    with device():
        options = {"num_neighbors": [2], "device": "cuda"}
        with pytest.raises(ValueError, match=r"'num_workers' must be 0 .*cuda.*prefet"):
            GTTFLoader(KARATE, num_workers=2, **options)
        GTTFLoader(KARATE, num_workers=0, **options)


@pytest.mark.parametrize("wrong", [10**9, 34, -1])
@pytest.mark.parametrize("row", [0, 1])
def test_sorted_edges_are_checked_like_others(wrong, row):
    """`is_sorted` says that they are in order, not that they are right."""
    edge_index = torch.tensor([[0, 1, 2], [0, 1, 2]])
    edge_index[row, 0 if wrong < 0 else 2] = wrong
    data = Data(edge_index=edge_index, num_nodes=34)
    for options in ({"is_sorted": True}, {"is_sorted": False}):
        with pytest.raises(ValueError, match="' must "):
            GTTFLoader(data, [2], **options)
