"""Blocks of a partitioned graph are those of the whole one."""

import pytest
import torch
from dgl.nn import GraphConv

import gttf_dgl
from dgl_tasks import blocks, plain_graph, resumed, typed_graph
from gttf_dgl import PartitionedLoader, partition
from gttf_sampler.distributed import PartitionedGraph
from worlds import World


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    found = World(2, tmp_path_factory.mktemp("world"))
    yield found
    found.close()


@pytest.mark.parametrize(
    "options",
    [{}, {"replace": True}, {"prob": "w"}, {"rooted": True}, {"fanouts": [0, -1]}],
)
def test_blocks(world, tmp_path, options):
    partition(plain_graph(), tmp_path, 2, method="hash", prob=options.get("prob"))
    made = world.run(blocks, tmp_path, plain_graph, None, options)
    assert min(made) >= 8


@pytest.mark.parametrize(
    ("seeds", "options"),
    [
        ("paper", {}),
        (["author", "paper"], {"prob": "w"}),
        (["paper", "author"], {"rooted": True}),
        ("author", {"fanouts": [{"wrote": 1, "cites": 2, "by": 3}, 4]}),
    ],
)
def test_blocks_of_types(world, tmp_path, seeds, options):
    partition(typed_graph(), tmp_path, 2, method="hash", prob=options.get("prob"))
    assert min(world.run(blocks, tmp_path, typed_graph, seeds, options)) >= 4


def test_blocks_continue_where_a_loader_was(world, tmp_path):
    partition(plain_graph(), tmp_path, 2)
    assert min(world.run(resumed, tmp_path)) >= 3


def test_unbiased_is_told(tmp_path):
    partition(plain_graph(), tmp_path, 1)
    model = gttf_dgl.unbiased(GraphConv(7, 2))
    with PartitionedGraph.open(tmp_path) as graph:
        _, _, (block,) = next(iter(PartitionedLoader(graph, [2])))
    with pytest.raises(ValueError, match=r"blocks with degrees .* the whole graph"):
        model(block, block.srcdata["x"])


def test_given_features_replace_node_data(tmp_path):
    g = plain_graph()
    x = torch.arange(2.0 * g.num_nodes()).view(-1, 2)
    for number, key in enumerate(("x", ("", "x"))):
        facts = partition(g, tmp_path / str(number), 1, features={key: x})
        assert facts["features"].count("x") == 1
        with PartitionedGraph.open(tmp_path / str(number)) as graph:
            assert torch.equal(graph.features["", "x"][range(3)], x[:3])


def test_validate(tmp_path):
    with pytest.raises(TypeError, match="'graph' must be a PartitionedGraph"):
        PartitionedLoader(plain_graph(), [2])
    with pytest.raises(TypeError, match="'g' must be a DGLGraph"):
        partition(torch.eye(3), tmp_path, 1)
    with pytest.raises(ValueError, match="'prob' must be the name of edge data"):
        partition(plain_graph(), tmp_path, 1, prob="v")
    partition(plain_graph(), tmp_path / "plain", 1)
    partition(typed_graph(), tmp_path / "typed", 1)
    graph = PartitionedGraph.open(tmp_path / "plain")
    for options, match in (
        ({"nodes": [100]}, "'nodes' must hold ids below"),
        ({"prob": "w"}, "'prob' must be None unless the graph was cut with weights"),
        ({"num_workers": 2}, r"'num_workers' must be 0 .* use 'prefetch'"),
        ({"prefetch": -1}, "'prefetch' must"),
        ({"fanouts": [{"odd": 2}]}, "'fanouts' must name"),
    ):
        how = {"fanouts": [2], **options}
        with pytest.raises((ValueError, TypeError), match=match):
            next(iter(PartitionedLoader(graph, **how)))
    loader = PartitionedLoader(graph, [2], range(10), batch_size=4, drop_last=True)
    assert [out.numel() for _, out, _ in loader] == [4, 4]
    assert len(loader) == 2
    graph = PartitionedGraph.open(tmp_path / "typed")
    with pytest.raises(ValueError, match="'nodes' must name the seeds"):
        PartitionedLoader(graph, [2])
    with pytest.raises(ValueError, match="'nodes' must name node types"):
        PartitionedLoader(graph, [2], "odd")
