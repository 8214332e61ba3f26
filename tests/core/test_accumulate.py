"""RootedAdjAcc and TransitionAcc: what they record of a forest."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from gttf_sampler import (
    CompactAdj,
    NoRevisitBias,
    RootedAdjAcc,
    TransitionAcc,
    sample_rooted,
    traverse,
)
from strategies import Graph, graphs, positive_fanouts, seeds
from test_traverse import cases


@given(graphs(weighted=False), st.integers(0, 3), st.data())
def test_rooted_acc_with_all_neighbours_is_sample_rooted(graph, hops, data):
    start = data.draw(seeds(graph.num_nodes))
    assume(len(start) == len(set(start)))
    adj, rooted = graph.adj(), RootedAdjAcc()
    plan = [max(adj.max_degree, 1)] * hops
    traverse(adj, start, plan, NoRevisitBias(), rooted, replace=False)
    mine, fused = rooted.result(), sample_rooted(adj, start, [-1] * hops)
    assert mine.node.tolist() == fused.node.tolist()
    assert mine.row.tolist() == fused.row.tolist()
    assert mine.col.tolist() == fused.col.tolist()
    assert mine.edge.tolist() == fused.edge.tolist()
    assert mine.num_sampled_nodes == fused.num_sampled_nodes
    assert mine.num_sampled_edges == fused.num_sampled_edges
    assert mine.batch is None


@given(cases())
def test_rooted_acc_records_every_step(case):
    """Whatever the bias: one edge per step taken, between the right nodes."""
    rooted = RootedAdjAcc()
    _, forest = case.walk(rooted)
    sub = rooted.result()
    steps = forest.edge_index()
    assert torch.equal(sub.node[sub.col], steps[0])  # the parent receives
    assert torch.equal(sub.node[sub.row], steps[1])
    taken = [level[level >= 0] for level in forest.edges[1:]]
    assert sub.edge.tolist() == [edge for level in taken for edge in level.tolist()]
    assert sub.num_sampled_edges == [level.numel() for level in taken]
    assert sum(sub.num_sampled_nodes) == sub.num_nodes
    later = sub.node[len(case.seeds) :].tolist()
    assert len(later) == len(set(later))
    assert not set(later) & set(case.seeds)
    assert sub.node[: len(case.seeds)].tolist() == case.seeds


def test_rooted_acc_starts_over(toy):
    rooted = RootedAdjAcc()
    traverse(toy, [4, 0], [2], accumulate=rooted, generator=1)
    first = rooted.result()
    traverse(toy, [1], [2], accumulate=rooted, generator=2)
    traverse(toy, [4, 0], [2], accumulate=rooted, generator=1)
    assert rooted.result().edge_index.tolist() == first.edge_index.tolist()
    assert rooted.result().node.tolist() == first.node.tolist()


def test_rooted_acc_of_no_steps(toy):
    rooted = RootedAdjAcc()
    traverse(toy, [4, 4], [], accumulate=rooted)
    assert rooted.result().node.tolist() == [4, 4]
    assert rooted.result().num_edges == 0
    traverse(toy, [], [2], accumulate=rooted)
    assert rooted.result().num_nodes == 0


def transition(graph: Graph) -> torch.Tensor:
    """𝒯 [n, n]: uniform over the row, and a dead end leads to itself."""
    matrix = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.float64)
    for node, row in enumerate(graph.rows()):
        for there, _ in row:
            matrix[node, there] += 1 / len(row)
        if not row:
            matrix[node, node] = 1
    return matrix


@given(graphs(weighted=False, max_nodes=6, max_edges=10), st.integers(0, 3), st.data())
def test_transition_acc_with_all_neighbours_is_exact(graph, k, data):
    start = data.draw(seeds(graph.num_nodes))
    adj, acc = graph.adj(), TransitionAcc(k)
    plan = [max(adj.max_degree, 1)] * k
    assume(plan == [] or plan[0] ** k < 2000)
    traverse(adj, start, plan, accumulate=acc, replace=False)
    exact = torch.linalg.matrix_power(transition(graph), k)[start]
    found = acc.result()
    assert found.shape == (len(start), graph.num_nodes)
    assert torch.allclose(found.to_dense().double(), exact, atol=1e-6)


@given(graphs(weighted=False), positive_fanouts(), st.booleans(), st.data())
def test_transition_acc_rows_sum_to_one(graph, plan, replace, data):
    start = data.draw(seeds(graph.num_nodes))
    accs = [TransitionAcc(k) for k in range(len(plan) + 1)]
    traverse(graph.adj(), start, plan, accumulate=accs, replace=replace)
    for acc in accs:
        dense = acc.result().to_dense()
        assert dense.sum(1).tolist() == pytest.approx([1.0] * len(start))
        assert (dense >= 0).all()


def test_acc_stays_where_the_graph_is(toy):
    rooted, transition_acc = RootedAdjAcc(), TransitionAcc(2)
    with torch.device("meta"):
        start = torch.tensor([4, 0], device="cpu")
        traverse(toy, start, [2, 2], accumulate=[rooted, transition_acc])
        assert rooted.result().row.device.type == "cpu"
        assert transition_acc.result().device.type == "cpu"


def test_transition_acc_is_coalesced(toy):
    acc = TransitionAcc(1)
    traverse(toy, [0], [8], accumulate=acc)
    assert acc.result().is_coalesced()
    assert acc.result().indices().tolist() == [[0], [1]]
    assert acc.result().values().tolist() == pytest.approx([1.0])


@pytest.mark.parametrize(
    ("k", "error", "match"),
    [
        (-1, ValueError, r"'k' must not be negative \(got -1\)"),
        (1.0, TypeError, r"'k' must be an integer \(got 1.0\)"),
        ("1", TypeError, r"'k' must be an integer \(got '1'\)"),
        (True, TypeError, r"'k' must be an integer \(got True\)"),
        (None, TypeError, r"'k' must be an integer \(got None\)"),
        (3, ValueError, r"'k' must not exceed the number of fanouts 2 \(got 3\)"),
    ],
)
def test_transition_acc_validate(toy, k, error, match):
    with pytest.raises(error, match=f"^{match}"):
        traverse(toy, [1], [1, 1], accumulate=TransitionAcc(k))


@pytest.mark.parametrize("acc", [RootedAdjAcc(), TransitionAcc(1)])
def test_acc_result_before_a_traversal(acc):
    """Says what is missing instead of naming a private attribute."""
    with pytest.raises((ValueError, RuntimeError), match="traverse"):
        acc.result()


def test_transition_acc_of_two_sets_of_nodes():
    """At k = 0 the walkers stand on rows, of which there may be more than columns."""
    adj = CompactAdj.from_edge_index([[0, 1], [0, 4]], (2, 6))
    start, step = TransitionAcc(0), TransitionAcc(1)
    traverse(adj, [4, 0], [1], accumulate=[start, step])
    assert step.result().to_dense().tolist() == [[0.0, 1.0], [1.0, 0.0]]
    indices = start.result().indices()
    shape = torch.tensor(start.result().shape)[:, None]
    assert (indices < shape).all()
