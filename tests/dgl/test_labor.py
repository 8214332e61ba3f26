"""LaborSampler and sample_labors: shared neighbours, weights, dependence, keys."""

from itertools import pairwise

import dgl
import pytest
import torch

from gttf_dgl import GTTFSampler, LaborSampler, sample_labors


def crowd(nodes=300, edges=6000):
    generator = torch.Generator().manual_seed(2)
    ends = [torch.randint(nodes, (edges,), generator=generator) for _ in "ab"]
    g = dgl.graph(tuple(ends), num_nodes=nodes)
    g.edata["w"] = torch.rand(edges, generator=generator)
    g.ndata["x"] = torch.rand(nodes, 3, generator=generator)
    return g


def typed():
    kinds = {
        ("a", "r", "b"): (torch.arange(40) % 20, torch.arange(40) // 20),
        ("a", "s", "b"): (torch.arange(40) % 20, torch.arange(40) // 20),
    }
    return dgl.heterograph(kinds)


def edges_of(batch):
    return [block.edata[dgl.EID].tolist() for block in batch[2]]


def test_nodes_are_fewer_for_as_many_edges():
    g, seeds = crowd(), torch.arange(60)
    counts = {}
    for name, sampler in {
        "plain": GTTFSampler([5, 5], seed=0),
        "labor": LaborSampler([5, 5], seed=0),
        "labor *": LaborSampler([5, 5], importance_sampling=-1, seed=0),
        "one layer's": LaborSampler([5, 5], layer_dependency=True, seed=0),
    }.items():
        batches = [sampler.sample(g, seeds) for _ in range(20)]
        last = sum(blocks[1].num_edges() for *_, blocks in batches) / 20
        counts[name] = sum(len(batch[0]) for batch in batches) / 20
        if name != "labor *":  # which takes more edges, of fewer nodes
            assert last == pytest.approx(300, rel=0.06)
    assert counts["labor"] < 0.9 * counts["plain"]
    assert counts["labor *"] < counts["labor"]
    assert counts["one layer's"] < counts["labor"]


def test_relations_share_a_node_type():
    g = typed()
    for seed in range(10):
        _, _, (block,) = LaborSampler([3], seed=seed).sample(g, {"b": [0, 1]})
        first, second = (block.edges[kind].data[dgl.EID].tolist() for kind in "rs")
        assert first == second
    frontier, _ = sample_labors(g, {"b": [0, 1]}, {"r": 3, "s": -1})
    assert frontier.num_edges("s") == 40


@pytest.mark.parametrize("how", [{"prob": "w"}, {"importance_sampling": 1}])
def test_weights_have_mean_one_and_estimate_the_mean(how):
    g, seeds = crowd(), torch.arange(30)
    weight = g.edata["w"] if "prob" in how else torch.ones(g.num_edges())
    ends = g.edges()
    top = torch.zeros(300, 3).index_add_(
        0, ends[1], weight[:, None] * g.ndata["x"][ends[0]]
    )
    exact = top / torch.zeros(300).index_add_(0, ends[1], weight)[:, None]
    found = []
    for _, _, (block,) in (
        LaborSampler([8], seed=i, **how).sample(g, seeds) for i in range(400)
    ):
        row, col = block.edges()
        own = block.edata["edge_weights"]
        count = block.in_degrees().clamp(min=1)
        mean = torch.zeros(30).index_add_(0, col, own) / count
        assert torch.allclose(mean[block.in_degrees() > 0], torch.ones(()))
        x = g.ndata["x"][block.srcdata[dgl.NID]]
        sums = torch.zeros(30, 3).index_add_(0, col, own[:, None] * x[row])
        found.append(sums / count[:, None])
    # a ratio of two sums: consistent, and here within a hundredth
    assert (torch.stack(found).mean(0) - exact[:30]).abs().max() < 0.03


def test_plain_blocks_have_no_weights():
    block = LaborSampler([3]).sample(crowd(), torch.arange(5))[2][0]
    assert "edge_weights" not in block.edata


def test_dependent_batches_share_nodes():
    """The same seeds batch after batch: numbers that turn slowly keep most edges."""
    g, seeds = crowd(), torch.arange(40)
    kept = {}
    for span in (1, 2, 16, 0):
        torch.manual_seed(0)
        sampler = LaborSampler([5], batch_dependency=span)
        batches = [set(edges_of(sampler.sample(g, seeds))[0]) for _ in range(32)]
        shares = [len(a & b) / len(a | b) for a, b in pairwise(batches)]
        kept[span] = sum(shares) / len(shares)
    assert kept[1] < kept[2] < kept[16] < kept[0] == 1


def test_numbers_in_between_are_uniform():
    g, seeds = crowd(), torch.arange(60)
    sampler = LaborSampler([5], batch_dependency=7, seed=0)
    sizes = [len(edges_of(sampler.sample(g, seeds))[0]) for _ in range(70)]
    assert sum(sizes) / 70 == pytest.approx(300, rel=0.05)


def test_set_seed_joins_samplers():
    g, ids = crowd(), torch.arange(20)
    one, other = LaborSampler([3]), LaborSampler([3])
    one.set_seed(5)
    other.set_seed(5)
    assert edges_of(one.sample(g, ids)) == edges_of(other.sample(g, ids))
    one.set_seed()
    torch.manual_seed(3)
    first = edges_of(one.sample(g, ids))
    torch.manual_seed(3)
    assert edges_of(one.sample(g, ids)) == first


@pytest.mark.parametrize("edge_dir", ["in", "out"])
def test_exclude_mask_and_direction(edge_dir):
    g = crowd()
    g.edata["m"] = torch.arange(g.num_edges()) % 3 == 0
    sampler = LaborSampler([-1, -1], edge_dir, mask="m", seed=1)
    hidden = torch.arange(0, 3000)
    batch = sampler.sample(g, torch.arange(20), hidden)
    for eids in edges_of(batch):
        assert all(eid % 3 == 0 and eid >= 3000 for eid in eids)
    frontier, weights = sample_labors(
        g, [3, 4], -1, edge_dir, prob="w", exclude_edges=hidden, random_seed=4
    )
    assert frontier.edata[dgl.EID].min() >= 3000
    ends = frontier.edges()[1 if edge_dir == "in" else 0]
    assert set(ends.tolist()) <= {3, 4}
    assert len(weights[0]) == frontier.num_edges()


def test_sample_labors_by_seed():
    g = crowd()
    ids = torch.arange(20)
    again = [
        sample_labors(g, ids, 3, random_seed=seed)[0].edata[dgl.EID].tolist()
        for seed in (7, torch.tensor([7]), 8)
    ]
    assert again[0] == again[1] != again[2]
    turned = sample_labors(
        g, ids, 3, random_seed=torch.tensor([7, 8]), seed2_contribution=0.5
    )[0]
    assert turned.edata[dgl.EID].tolist() not in again


def test_validate():
    g = crowd()
    with pytest.raises(TypeError, match="'importance_sampling'"):
        LaborSampler([2], importance_sampling="much")
    with pytest.raises(TypeError, match="'layer_dependency' must be True or False"):
        LaborSampler([2], layer_dependency="yes")
    with pytest.raises(TypeError, match="'batch_dependency'"):
        LaborSampler([2], batch_dependency=1.5)
    with pytest.raises(ValueError, match="'seed2_contribution' must be a number from"):
        sample_labors(g, [0], 1, seed2_contribution=1.0)
    with pytest.raises(ValueError, match="'random_seed' must be one number, or two"):
        sample_labors(g, [0], 1, random_seed=[1, 2])
    with pytest.raises(TypeError, match="'random_seed'"):
        sample_labors(g, [0], 1, random_seed="no")
    with pytest.raises(ValueError, match="'fanout' must hold integers"):
        sample_labors(g, [0], 1.5)
