"""Features on disk in DGL's blocks: those of the graph's own data, bit for bit."""

import dgl
import pytest
import torch

from gttf_dgl import DataLoader, GTTFSampler
from gttf_sampler import FeatureFile

NODES = 200


@pytest.fixture
def graph():
    torch.manual_seed(0)
    g = dgl.graph((torch.randint(0, NODES, (1500,)), torch.randint(0, NODES, (1500,))))
    g.ndata["x"], g.ndata["y"] = (
        torch.rand(g.num_nodes(), 6),
        torch.arange(g.num_nodes()),
    )
    return g


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"num_workers": 2},
        pytest.param(
            {"num_workers": 2, "thread_workers": False}, marks=pytest.mark.process
        ),
    ],
    ids=str,
)
def test_blocks_have_rows_of_files(graph, tmp_path, how):
    files = {
        name: FeatureFile.from_array(tmp_path / f"{name}.npy", graph.ndata[name])
        for name in ("x", "y")
    }
    bare = dgl.graph(graph.edges(), num_nodes=graph.num_nodes())
    marks = {"prefetch_node_feats": ["x"], "prefetch_labels": ["y"], "seed": 0}
    ids = torch.arange(graph.num_nodes())
    samplers = (
        GTTFSampler([3, 4], **marks),
        GTTFSampler([3, 4], **marks, features=files),
    )
    loaders = [
        DataLoader(g, ids, sampler, batch_size=32, **how)
        for g, sampler in zip((graph, bare), samplers, strict=True)
    ]
    count = 0
    for (a, b, left), (c, d, right) in zip(*loaders, strict=True):
        assert torch.equal(a, c)
        assert torch.equal(b, d)
        assert torch.equal(left[0].srcdata["x"], right[0].srcdata["x"])
        assert torch.equal(left[-1].dstdata["y"], right[-1].dstdata["y"])
        count += 1
    assert count == 7


@pytest.mark.process
def test_features_of_a_sampler_of_yours_are_its_own(graph):
    class Mine(dgl.dataloading.NeighborSampler):
        features = torch.ones(3)

    loader = DataLoader(
        graph, torch.arange(8), Mine([2]), batch_size=4, num_workers=1,
        thread_workers=True,
    )  # fmt: skip
    assert len(list(loader)) == 2


def test_typed_blocks_have_rows_of_files(tmp_path):
    torch.manual_seed(0)
    ends = torch.randint(0, 30, (200,)), torch.randint(0, 20, (200,))
    back = torch.randint(0, 20, (200,)), torch.randint(0, 30, (200,))
    g = dgl.heterograph(
        {("a", "to", "b"): ends, ("b", "of", "a"): back}, {"a": 30, "b": 20}
    )
    x = torch.rand(30, 3)
    g.nodes["b"].data["z"] = torch.rand(20, 2)
    file = FeatureFile.from_array(tmp_path / "x.npy", x)
    wanted = {"a": ["x"], "b": ["z"]}
    sampler = GTTFSampler(
        [2, 2], prefetch_node_feats=wanted, features={"a": {"x": file}}
    )
    loader = DataLoader(g, {"b": torch.arange(20)}, sampler, batch_size=5)
    for nodes, _, blocks in loader:
        assert torch.equal(blocks[0].srcnodes["a"].data["x"], x[nodes["a"]])
        held = g.nodes["b"].data["z"][nodes["b"]]
        assert torch.equal(blocks[0].srcnodes["b"].data["z"], held)


def test_features_validate(graph, tmp_path):
    file = FeatureFile.from_array(tmp_path / "x.npy", torch.rand(3, 2))
    for features, match in [
        ([file], "'features' must map names"),
        ({"x": graph.ndata["x"]}, "'features' must hold feature files"),
    ]:
        with pytest.raises(TypeError, match=match):
            GTTFSampler([2], features=features)
    sampler = GTTFSampler([2], prefetch_node_feats=["x"], features={"x": file})
    with pytest.raises(ValueError, match="must have one row per node, 200"):
        sampler.sample(graph, torch.tensor([0]))
