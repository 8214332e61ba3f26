"""Our DataLoader with our samplers continues from a state, bit by bit."""

from functools import partial

import dgl
import pytest
import torch
from dgl.dataloading import as_edge_prediction_sampler, negative_sampler

from all_pairs import all_pairs
from gttf_dgl import DataLoader, GTTFSampler, GTTFSubgraphSampler
from resumed import run as run_of
from resumed import through_a_file

NODES, EPOCHS = 23, 3


def make_graph():
    torch.manual_seed(0)
    g = dgl.graph(torch.randint(NODES, (2, 200)).unbind(), num_nodes=NODES)
    g.ndata["feat"] = torch.rand(NODES, 3)
    return g


GRAPH = make_graph()


def digest(batch):
    """Everything in a batch, comparable."""
    found = []
    for part in batch:
        if isinstance(part, torch.Tensor):
            found.append(part.tolist())
        for graph in part if isinstance(part, list) else [part]:
            if isinstance(graph, dgl.DGLGraph):
                ends = [end.tolist() for end in graph.edges()]
                data = {**graph.srcdata, **graph.edata}
                found.append((ends, {name: data[name].tolist() for name in data}))
    return found


run = partial(run_of, told=digest)


def nodes(sampler=None, **options):
    if sampler is None:
        sampler = GTTFSampler([2, 2], prefetch_node_feats=["feat"])
    options = {"batch_size": 4, "shuffle": True, **options}
    return DataLoader(GRAPH, torch.arange(NODES), sampler, **options)


def seeded(**options):
    sampler = GTTFSampler([2, 2], prefetch_node_feats=["feat"], seed=5)
    return nodes(sampler, **options)


def replaced(**options):
    sampler = GTTFSampler([2], replace=True, prefetch_node_feats=["feat"])
    return nodes(sampler, drop_last=True, shuffle=False, **options)


def subgraphs(**options):
    sampler = GTTFSubgraphSampler([3, 2], prefetch_node_feats=["feat"])
    return nodes(sampler, **options)


def links(**options):
    inner = GTTFSampler([2, 2], prefetch_node_feats=["feat"])
    sampler = as_edge_prediction_sampler(inner, exclude="self")
    how = {"batch_size": 32, "shuffle": True, **options}
    return DataLoader(GRAPH, torch.arange(200), sampler, **how)


MAKERS = [nodes, seeded, replaced, subgraphs, links]
WAYS = [
    {},
    {"num_workers": 1},
    {"num_workers": 4},
    {"num_workers": 2, "thread_workers": False},
]


@pytest.mark.process
@all_pairs
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("make", MAKERS)
def test_resumed_is_uninterrupted(make, way, after):
    whole = run(lambda: make(**way))
    each = len(whole) // EPOCHS
    stops = {1, each // 2, each, each + 2}
    if way.get("thread_workers") is False:  # processes take their time
        stops = {each if after else each + 2}
    for stop in stops:
        assert run(lambda: make(**way), stop, after=after) == whole, stop


def test_negatives_without_workers():
    """They come from torch's default generator, which the state has."""

    def make():
        inner = GTTFSampler([2], prefetch_node_feats=["feat"])
        how = {"negative_sampler": negative_sampler.Uniform(2)}
        sampler = as_edge_prediction_sampler(inner, **how)
        return DataLoader(GRAPH, torch.arange(200), sampler, batch_size=64)

    whole = run(make)
    assert run(make, 3) == whole


def test_state_of_another_seed():
    match = r"with seed None, like this one \(got seed 5\)"
    with pytest.raises(ValueError, match="'state_dict' must be of a .*" + match):
        nodes().load_state_dict(seeded().state_dict())


@pytest.mark.parametrize("begun", [0, 2])
@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("fanouts", {"fanouts": [3, 2]}),
        ("replace", {"replace": True}),
        ("rooted", {"rooted": True}),
        ("edge_dir", {"edge_dir": "out"}),
        ("seeds", {"nodes": torch.arange(1, 13)}),
        ("graph", {"graph": dgl.rand_graph(NODES, 90)}),
    ],
)
def test_states_are_of_loaders_that_draw_alike(name, how, begun):
    """In the middle of an epoch and before it; the error has both values."""

    def make(fanouts=(2, 2), nodes=None, graph=GRAPH, **options):
        nodes = torch.arange(12) if nodes is None else nodes
        sampler = GTTFSampler(list(fanouts), **options)
        return DataLoader(graph, nodes, sampler, batch_size=3)

    loader = make()
    for _, _ in zip(range(begun), loader, strict=False):
        pass
    state = through_a_file(loader.state_dict())
    make().load_state_dict(state)
    sentence = f"'state_dict' must be of a loader with {name} .* .got {name} "
    with pytest.raises(ValueError, match=sentence):
        make(**how).load_state_dict(state)


def test_samplers_of_dgl_have_no_state():
    sampler = dgl.dataloading.NeighborSampler([2])
    loader = DataLoader(GRAPH, torch.arange(NODES), sampler)
    with pytest.raises(ValueError, match="'graph_sampler' must be one of gttf_dgl"):
        loader.state_dict()
    assert not hasattr(
        dgl.dataloading.DataLoader(GRAPH, torch.arange(NODES), sampler), "state_dict"
    )


class Seeds(torch.utils.data.IterableDataset):
    """A dataset of a user."""

    device = torch.device("cpu")

    def __iter__(self):
        yield torch.arange(3)


def test_datasets_of_a_user_have_no_state():
    loader = DataLoader(GRAPH, Seeds(), GTTFSampler([2]))
    with pytest.raises(ValueError, match=r"'indices' must be a tensor.*\(got Seeds\)"):
        loader.state_dict()
