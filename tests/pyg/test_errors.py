"""Every wrong argument gets the kind of error that PyG raises, in one sentence."""

from functools import partial

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


def refused(error, good, match, **bad):
    return {**good, **bad}, error, match


wrong, mistyped = partial(refused, ValueError), partial(refused, TypeError)
DATED, BOTH = dated(), both()
NODE = {"data": KARATE, "num_neighbors": [2]}
TYPED = {"data": TOY, "num_neighbors": [2], "input_nodes": "item"}

ERRORS = [
    wrong(NODE, "conflicting 'input_time' and 'time_", input_time=TIMES),
    wrong(NODE, "'bad' is not a valid SubgraphType", subgraph_type="bad"),
    wrong(NODE, "Expected a 'Data', 'HeteroData', or a tuple", data=EDGES),
    mistyped(NODE, r"'num_neighbors' must be a list .*got 5", num_neighbors=5),
    mistyped(NODE, "'num_neighbors' must be a list", num_neighbors={}),
    mistyped(TYPED, r"'num_neighbors' must be .*got 5", num_neighbors=5),
    wrong(
        TYPED,
        "Number of hops must be the same across all edge types",
        num_neighbors={**{kind: [1] for kind in KINDS}, KINDS[0]: [1, 2]},
    ),
    wrong(
        TYPED,
        "Missing number of neighbors for edge type",
        num_neighbors={KINDS[0]: [1]},
    ),
    wrong(
        TYPED,
        "'num_neighbors' must use the edge types of the data",
        num_neighbors={**{kind: [1] for kind in KINDS}, ("a", "b", "c"): [1]},
    ),
    refused(
        AssertionError, TYPED, "'input_nodes' must be a node type", input_nodes=None
    ),
    wrong(TYPED, "'input_nodes' must be a node type", input_nodes=None),
    wrong(TYPED, "'input_nodes' must be a node type", input_nodes=("item",)),
    wrong(TYPED, "'input_nodes' must name .*'film'", input_nodes="film"),
    mistyped(NODE, "'num_neighbors' must hold integers", num_neighbors=[3.0]),
    mistyped(
        TYPED,
        "'num_neighbors' must hold one list per edge type .got 3",
        num_neighbors=dict.fromkeys(KINDS, 3),
    ),
    mistyped(NODE, "'bias' must be callable in", bias={"a": len}),
    wrong(NODE, "must name edges where seeds are nodes .got True", exclude_edges=True),
    mistyped(NODE, "must be ids or a mask .got 'x'", exclude_edges="x"),
    mistyped(NODE, "'replace' must be True or False .got 'yes'", replace="yes"),
    mistyped(NODE, "'generator' must be a torch.Generator .got 5", generator=5),
    mistyped(NODE, "'seed' must be an integer .got 'x'", seed="x"),
    wrong(
        NODE,
        r"'input_nodes' must be a mask \[34\] or ids .got bool \[3\]",
        input_nodes=torch.ones(3, dtype=torch.bool),
    ),
    wrong(
        NODE,
        r"'input_time' must have one entry per seed, 3 in all .got shape \[34\]",
        **{"data": DATED, "time_attr": "time", "input_time": torch.arange(34)},
        input_nodes=torch.arange(34) < 3,
    ),
    wrong(TYPED, "'input_nodes' must be a node type", input_nodes=3),
    wrong(TYPED, "'input_nodes' must name some of", input_nodes={"a": 1}),
    wrong(NODE, r"in \[0, 156\) .got -1 to -1", exclude_edges=[-1]),
    wrong(NODE, r"must be integer ids .*float32 \[1\]", exclude_edges=[0.5]),
    mistyped(NODE, "not one per edge type", exclude_edges={KINDS[0]: [0]}),
    mistyped(TYPED, "must map edge types to edges here", exclude_edges=[0]),
    wrong(
        TYPED,
        "'exclude_edges' must use the edge types of the data",
        exclude_edges={("a", "b", "c"): [0]},
    ),
    wrong(
        NODE,
        "'time_window' must be finite and not negative",
        data=DATED,
        time_attr="time",
        time_window=-1,
    ),
    refused(KeyError, NODE, "time", time_attr="time"),
    refused(KeyError, NODE, "w", weight_attr="w"),
    refused(KeyError, TYPED, "w", weight_attr="w"),
    wrong(
        NODE,
        "'time_attr' must name a node-level or edge-level attribute .got 'graph'",
        data=DATED,
        time_attr="graph",
    ),
    refused(KeyError, TYPED, "'time_attr' must name .*got 'time'", time_attr="time"),
    wrong(TYPED, "'time_attr' must name .*there are", time_attr="time"),
    wrong(TYPED, "'time_attr' must name .*both", data=BOTH, time_attr="time"),
    wrong(
        NODE,
        "'temporal_strategy' must be one of 'uniform', 'last' .got 'bad'",
        data=DATED,
        time_attr="time",
        temporal_strategy="bad",
    ),
    wrong(
        NODE,
        "'input_time' must be given where the edges have times",
        data=DATED,
        time_attr="edge_time",
    ),
    wrong(
        NODE,
        "'temporal_strategy' must be 'uniform' together with 'weight_attr'",
        data=DATED,
        time_attr="time",
        weight_attr="w",
        temporal_strategy="last",
    ),
    wrong(
        NODE,
        "'temporal_strategy' must be 'uniform' together with 'bias'",
        data=DATED,
        time_attr="time",
        bias=len,
        temporal_strategy="last",
    ),
    wrong(NODE, "'time_window' needs times", time_window=3),
    wrong(NODE, "'is_sorted' must only be set for", is_sorted=True),
    mistyped(NODE, "'bias' must be callable .got 7", bias=7),
    wrong(TYPED, "'bias' must use the edge", bias={("a", "b", "c"): len}),
    wrong(NODE, "'prefetch' must not be negative .got -1", prefetch=-1),
    mistyped(NODE, "'prefetch' must be an integer", prefetch=True),
    wrong(
        NODE,
        "'prefetch' must be 0 beside workers, .*prefetch_factor",
        prefetch=2,
        num_workers=1,
    ),
    wrong(
        NODE,
        "'normalize' must be None unless the 'neighbor_sampler' is .*got object",
        normalize="paper",
        neighbor_sampler=object(),
    ),
    wrong(
        NODE,
        "'seed' must be None beside a 'generator' .got 1",
        seed=1,
        generator=torch.Generator(),
    ),
    wrong(NODE, "'normalize' must be one of .*'bad'", normalize="bad"),
    wrong(
        TYPED,
        "'normalize' must be None unless the data is a 'Data' .*HeteroData",
        normalize="paper",
    ),
    wrong(
        NODE,
        "'normalize' must be None unless neighbours are .* with 'weight_attr'",
        data=DATED,
        normalize="paper",
        weight_attr="w",
    ),
    wrong(
        NODE,
        "'normalize' must be None unless neighbours are .* with 'subgraph_type'",
        normalize="paper",
        subgraph_type="induced",
    ),
    wrong(
        NODE,
        "'normalize' must be None where the data has a 'edge_weight'",
        data=Data(edge_index=EDGES, edge_weight=torch.ones(156), num_nodes=34),
        normalize="unbiased",
    ),
    wrong(
        NODE,
        "'bias' must be told to the 'neighbor_sampler'",
        neighbor_sampler=GTTFSampler(KARATE, [2]),
        bias=len,
    ),
    wrong(
        NODE,
        "'seeds' must hold ids below the number of nodes 34 .got 34",
        input_nodes=torch.tensor([34]),
    ),
    wrong(NODE, "'edge_weight' must not", data=negative(), weight_attr="w"),
]


@pytest.mark.parametrize(("given", "error", "match"), ERRORS)
def test_loader_validate(given, error, match):
    with pytest.raises(error, match=match):
        next(iter(GTTFLoader(**given)))


LINK = {"data": KARATE, "num_neighbors": [2]}
LINKS = [
    wrong(
        LINK,
        "conflicting 'edge_label_time' and 'time_attr'",
        data=DATED,
        time_attr="time",
    ),
    wrong(LINK, "conflicting 'edge_label_time'", edge_label_time=torch.zeros(156)),
    wrong(
        LINK,
        "'edge_label' needs to be undefined",
        neg_sampling="triplet",
        edge_label=torch.ones(156),
    ),
    wrong(LINK, "'bad' is not a valid", neg_sampling="bad"),
    wrong(
        LINK,
        r"'edge_label_index' must be a tensor \[2, k\] of pairs .got int64 \[3, 4\]",
        edge_label_index=torch.zeros(3, 4, dtype=torch.int64),
    ),
    wrong(
        LINK,
        r"'edge_label' must have one entry per seed, 4 in all .got shape \[5\]",
        edge_label_index=np.zeros((2, 4), int),
        edge_label=torch.ones(5),
    ),
    wrong(
        LINK,
        "'src_weight' must have one entry per node, 34 in all .got 3",
        neg_sampling=NegativeSampling("binary", src_weight=torch.ones(3)),
    ),
    wrong(
        LINK,
        "'temporal_strategy' must be 'uniform' together with 'exclude_edges'",
        data=DATED,
        time_attr="time",
        edge_label_time=torch.ones(156, dtype=torch.int64),
        temporal_strategy="last",
        exclude_edges=True,
    ),
    wrong(
        LINK,
        "'normalize' must be None unless .* with 'exclude_edges'",
        normalize="unbiased",
        exclude_edges=True,
    ),
]


@pytest.mark.parametrize(("given", "error", "match"), LINKS)
def test_link_loader_validate(given, error, match):
    with pytest.raises(error, match=match):
        next(iter(GTTFLinkLoader(**given)))


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
