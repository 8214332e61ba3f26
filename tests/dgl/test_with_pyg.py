"""Same batch, same numbers: both hosts get the same subgraph from the same seed."""

import dgl
import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.sampler import NodeSamplerInput

import gttf_dgl
import gttf_pyg
from all_pairs import all_pairs


def edges(sources, targets, count):
    generator = torch.Generator().manual_seed(0)
    ends = torch.rand(2, count, generator=generator)
    return (ends * torch.tensor([[sources], [targets]])).long()


@all_pairs
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_hosts_draw_the_same_subgraph(replace, weighted, dtype):
    index = edges(200, 200, 3000)
    weight = torch.rand(3000, generator=torch.Generator().manual_seed(1))
    seeds = torch.tensor([7, 3, 150, 7])
    g = dgl.graph(tuple(index), num_nodes=200, idtype=dtype)
    g.edata["w"] = weight
    data = Data(edge_index=index.to(dtype), num_nodes=200, w=weight)
    theirs = gttf_pyg.GTTFSampler(
        data, [4, 3], replace=replace, weight_attr="w" if weighted else None
    )
    torch.manual_seed(5)
    drawn = theirs.sample_from_nodes(NodeSamplerInput(None, seeds))
    eids = drawn.edge
    if theirs.edge_permutation is not None:
        eids = theirs.edge_permutation[eids]
    options = {"replace": replace, "prob": "w" if weighted else None}
    torch.manual_seed(5)
    subgraph = gttf_dgl.GTTFSubgraphSampler([3, 4], **options)
    _, _, batch = subgraph.sample(g, seeds.to(dtype))
    torch.manual_seed(5)
    rooted = gttf_dgl.GTTFSampler([3, 4], rooted=True, **options)
    _, _, blocks = rooted.sample(g, seeds.to(dtype))
    for nodes, found in (
        (batch.ndata[dgl.NID], batch),
        (blocks[0].srcdata[dgl.NID], blocks[0]),
    ):
        assert nodes.tolist() == drawn.node.tolist()
        assert [x.tolist() for x in found.edges(order="eid")] == [
            drawn.row.tolist(),
            drawn.col.tolist(),
        ]
        assert found.edata[dgl.EID].tolist() == eids.tolist()


def test_hosts_draw_the_same_typed_subgraph():
    kinds = {("a", "r", "b"): edges(50, 40, 400), ("b", "s", "a"): edges(40, 50, 300)}
    sizes = {"a": 50, "b": 40}
    g = dgl.heterograph({kind: tuple(x) for kind, x in kinds.items()}, sizes)
    data = HeteroData()
    for name, count in sizes.items():
        data[name].num_nodes = count
    for kind, index in kinds.items():
        data[kind].edge_index = index
    seeds = torch.tensor([7, 3, 39])
    torch.manual_seed(5)
    theirs = gttf_pyg.GTTFSampler(data, [4, 3])
    drawn = theirs.sample_from_nodes(NodeSamplerInput(None, seeds, input_type="b"))
    torch.manual_seed(5)
    sampler = gttf_dgl.GTTFSubgraphSampler([3, 4])
    _, _, batch = sampler.sample(g, {"b": seeds})
    for name in ("a", "b"):
        assert torch.equal(batch.nodes[name].data[dgl.NID], drawn.node[name])
    for kind in kinds:
        ends = torch.stack(batch.edges(etype=kind))
        assert torch.equal(ends, torch.stack([drawn.row[kind], drawn.col[kind]]))
