"""PinSAGESampler and RandomWalkNeighborSampler."""

import dgl
import pytest
import torch

from gttf_dgl import PinSAGESampler, RandomWalkNeighborSampler


def shop():
    bought = {
        ("item", "by", "user"): ([0, 0, 1, 1, 2, 2, 3, 3], [0, 1, 0, 1, 2, 3, 2, 3]),
        ("user", "bought", "item"): (
            [0, 1, 0, 1, 2, 3, 2, 3],
            [0, 0, 1, 1, 2, 2, 3, 3],
        ),
    }
    return dgl.heterograph(bought)


def test_visits_are_counted_and_the_most_kept():
    g, seeds = shop(), torch.tensor([0, 2, 0])
    near = PinSAGESampler(g, "item", "user", 3, 0.0, 10, 5, generator=1)(seeds)
    assert near.ntypes == ["item"]
    assert near.num_nodes() == 4
    row, col = near.edges()
    count = near.edata["weights"]
    assert count.sum() == 3 * 10 * 3  # seeds, walks, traversals: none has ended
    for u, v in zip(row.tolist(), col.tolist(), strict=True):
        assert u // 2 == v // 2  # items of the same buyers
    best = PinSAGESampler(g, "item", "user", 3, 0.0, 10, 1, generator=1)(seeds)
    for own, u, v in zip(best.edata["weights"], *best.edges(), strict=True):
        assert own == count[(col == v)].max() or own in count[(col == v) & (row == u)]
    assert best.num_edges() == 3


def test_termination_shortens_walks():
    """A walk takes part in traversal i with probability (1 - p)ⁱ."""
    g = shop()
    near = PinSAGESampler(g, "item", "user", 2, 0.25, 20_000, 4, generator=3)([0])
    mean = near.edata["weights"].sum().item() / 20_000
    assert abs(mean - 1.75) < 4 * (0.25 * 0.75 / 20_000) ** 0.5


def test_ties_are_for_chance():
    g = dgl.graph(([0, 0], [1, 2]))
    kept = [
        RandomWalkNeighborSampler(g, 1, 0.0, 2, 1, generator=i)([0]) for i in range(400)
    ]
    tied = [near.edges()[0].item() for near in kept if near.edata["weights"] == 1]
    share = tied.count(1) / len(tied)
    assert abs(share - 0.5) < 4 * (0.25 / len(tied)) ** 0.5


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
def test_follows_the_seed_and_the_id_type(idtype):
    g = shop().astype(idtype)

    def visits(seed):
        torch.manual_seed(seed)
        near = RandomWalkNeighborSampler(
            g, 4, 0.5, 3, 2, ["by", "bought"], weight_column="n"
        )(torch.tensor([0, 2], dtype=idtype))
        assert near.idtype == idtype
        return [*(x.tolist() for x in near.edges()), near.edata["n"].tolist()]

    assert visits(1) == visits(1)
    assert len({str(visits(seed)) for seed in range(6)}) > 1


def test_nobody_to_visit():
    g = dgl.graph(([0], [1]), num_nodes=3)
    sampler = RandomWalkNeighborSampler(g, 2, 0.0, 3, 2)
    assert sampler([1, 2]).num_edges() == 0
    assert sampler([]).num_edges() == 0
    assert sampler(0).edata["weights"].tolist() == [3]


def test_validate():
    g = shop()
    with pytest.raises(dgl.DGLError, match="'metapath' must be given"):
        RandomWalkNeighborSampler(g, 1, 0.5, 1, 1)
    with pytest.raises(dgl.DGLError, match="'metapath' must start and end"):
        RandomWalkNeighborSampler(g, 1, 0.5, 1, 1, ["by"])
    with pytest.raises(TypeError, match="'metapath' must be a list"):
        RandomWalkNeighborSampler(g, 1, 0.5, 1, 1, "by")
    with pytest.raises(ValueError, match="'termination_prob' must be a number from 0"):
        PinSAGESampler(g, "item", "user", 1, 1.5, 1, 1)
    with pytest.raises(TypeError, match="'num_random_walks'"):
        PinSAGESampler(g, "item", "user", 1, 0.5, "two", 1)
    with pytest.raises(dgl.DGLError, match="'G' must have edges from 'ntype'"):
        PinSAGESampler(g, "item", "shop", 1, 0.5, 1, 1)
    with pytest.raises(ValueError, match="'seed_nodes' must hold ids below"):
        PinSAGESampler(g, "item", "user", 1, 0.5, 1, 1)([9])
