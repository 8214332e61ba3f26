"""PPRAcc and ppr_neighbors: exact personalised PageRank of small graphs."""

import pytest
import torch

from exact import assert_means, graph, transition_matrix
from exact import one_thread as one_thread
from gttf_sampler import CompactAdj, EdgeWeightBias, PPRAcc, ppr_neighbors, traverse

# Node 5 is a dead end, where walks stay; 4 has a loop and a double edge.
ROWS = [[1, 2, 3], [0, 2], [0, 1, 3], [4, 5], [4, 0, 0], [], [0, 1]]
WEIGHT = [1.0, 3.0, 2.0, 1.0, 0.0, 5.0, 1.0, 1.0, 2.0, 1.0, 1.0, 2.0, 1.0, 1.0, 4.0]


def weights_by_row():
    parts = torch.tensor(WEIGHT).split([len(row) for row in ROWS])
    return [part.tolist() for part in parts]


def exact_rank(step, restart, length):
    """Σ α (1 − α)ᵏ 𝒯ᵏ, all that is left at the last depth."""
    found, power = torch.zeros_like(step), torch.eye(len(step), dtype=step.dtype)
    for depth in range(length + 1):
        last = (1 - restart) ** depth * (1.0 if depth == length else restart)
        found, power = found + last * power, power @ step
    return found


def step_of(weighted):
    """𝒯, with a dead end that leads to itself."""
    step = torch.zeros(7, 7, dtype=torch.float64)
    for u, (row, own) in enumerate(zip(ROWS, weights_by_row(), strict=True)):
        for v, weight in zip(row, own, strict=True):
            step[u, v] += weight if weighted else 1
    step[5, 5] = 1
    return step / step.sum(1, keepdim=True)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fanouts", [[1, 1, 1, 1], [3, 1, 2, 1]])
def test_every_row_has_the_mean_of_exact_ppr(weighted, fanouts):
    """Rows of 4,000 seeds at every node, in standard errors."""
    count, restart = 4_000, 0.3
    adj = graph(ROWS, edge_weight=WEIGHT)
    seeds = torch.arange(7).repeat_interleave(count)
    acc, bias = PPRAcc(restart), EdgeWeightBias() if weighted else None
    traverse(adj, seeds, fanouts, bias, acc, generator=1)
    rank = acc.result().to_dense().double()
    assert torch.allclose(rank.sum(1), torch.ones_like(rank[:, 0]))
    exact = exact_rank(step_of(weighted), restart, len(fanouts))
    for u in range(7):
        assert_means(rank[u * count : (u + 1) * count], exact[u])


@pytest.mark.parametrize("weighted", [False, True])
def test_neighbours_are_those_of_exact_ppr(weighted):
    adj = graph(ROWS, edge_weight=WEIGHT)
    bias = EdgeWeightBias() if weighted else None
    near = ppr_neighbors(
        adj, 2, restart=0.3, walks=20_000, length=12, bias=bias, generator=0
    )
    exact = exact_rank(step_of(weighted), 0.3, 12).fill_diagonal_(0)
    assert near.direction == adj.direction
    assert near.degree.tolist() == [2, 2, 2, 2, 2, 0, 2]
    for u in (0, 1, 2, 3, 4, 6):
        part = slice(int(near.rowptr[u]), int(near.rowptr[u + 1]))
        best, _ = exact[u].sort(descending=True)
        own = exact[u][near.col[part].long()]
        assert torch.allclose(own, best[:2], atol=0.01)  # ties in either order
        assert torch.allclose(near.edge_weight[part].double(), own, atol=0.01)


def test_transition_matrix_is_the_one_of_other_tests():
    rows = [row or [u] for u, row in enumerate(ROWS)]
    assert torch.allclose(step_of(False), transition_matrix(rows).double())


def test_follows_its_key_and_takes_awkward_graphs():
    adj = graph(ROWS)
    one, same, other = (
        ppr_neighbors(adj, 3, walks=2, generator=key).edge_weight.tolist()
        for key in (1, 1, 2)
    )
    assert one == same != other
    empty = CompactAdj.from_edge_index(torch.empty(2, 0, dtype=torch.long), 0)
    assert ppr_neighbors(empty, 3).num_edges == 0
    alone = CompactAdj.from_edge_index([[0], [0]], 2)
    assert ppr_neighbors(alone, 3, length=1).num_edges == 0


@pytest.mark.parametrize(
    ("how", "error", "match"),
    [
        ({"k": 0}, ValueError, "'k' must be"),
        ({"restart": 1.0}, ValueError, r"'restart' must be in \(0, 1\)"),
        ({"walks": 0}, ValueError, "'walks' must be"),
        ({"length": 0}, ValueError, "'length' must be"),
        ({"generator": "x"}, TypeError, "'generator' must be"),
    ],
)
def test_validate(how, error, match):
    with pytest.raises(error, match=match):
        ppr_neighbors(graph(ROWS), **({"k": 2} | how))
    with pytest.raises(TypeError, match="'adj' must be"):
        ppr_neighbors(ROWS, 2)
