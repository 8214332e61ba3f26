"""Subgraph: reversed and induced edges, GCN weights, sparse matrices."""

from itertools import combinations
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gttf_sampler import CompactAdj, Subgraph, sample_rooted
from gttf_sampler.subgraph import GCNWeight
from strategies import fanouts, graphs, seeds

SCHEMES = ("unbiased", "paper", "sampled")


@st.composite
def samples(draw: st.DrawFn) -> tuple[Any, CompactAdj, Subgraph]:
    graph = draw(graphs(weighted=False))
    adj = graph.adj()
    sub = sample_rooted(
        adj,
        draw(seeds(graph.num_nodes)),
        draw(fanouts()),
        replace=draw(st.booleans()),
        disjoint=draw(st.booleans()),
        generator=draw(st.integers(0, 1 << 40)),
    )
    return graph, adj, sub


def triples(sub: Subgraph) -> list[tuple[int, int, int]]:
    """(row, col, edge)."""
    columns = (sub.row.tolist(), sub.col.tolist(), sub.edge.tolist())
    return list(zip(*columns, strict=True))


@given(samples())
def test_subgraph_counts(sample):
    _, _, sub = sample
    assert sub.num_nodes == len(sub.node)
    assert sub.num_edges == len(sub.edge)
    assert sub.edge_index.tolist() == [sub.row.tolist(), sub.col.tolist()]


@given(samples())
def test_subgraph_bidirectional(sample):
    _, _, sub = sample
    both = sub.bidirectional()
    pairs = {(row, col) for row, col, _ in triples(sub)}
    expected = sorted(pairs | {(col, row) for row, col in pairs}, key=lambda p: p[::-1])
    assert [(row, col) for row, col, _ in triples(both)] == expected
    known = {(row, col, edge) for row, col, edge in triples(sub)}
    known |= {(col, row, edge) for row, col, edge in known}
    assert set(triples(both)) <= known
    assert torch.equal(both.node, sub.node)
    assert both.num_sampled_nodes is both.num_sampled_edges is None


@given(samples())
def test_subgraph_induced(sample):
    graph, adj, sub = sample
    induced, rows = sub.induced(adj), graph.rows()
    tree = [-1] * sub.num_nodes if sub.batch is None else sub.batch.tolist()
    identity = list(zip(tree, sub.node.tolist(), strict=True))
    expected = [
        (identity.index((root, there)), place, edge)
        for place, (root, node) in enumerate(identity)
        for there, edge in rows[node]
        if (root, there) in identity
    ]
    found = [
        (row, col, int(adj.original_edge(torch.tensor([edge]))[0]))
        for row, col, edge in triples(induced)
    ]
    assert found == expected
    assert induced.col.tolist() == sorted(induced.col.tolist())
    assert set(triples(sub)) <= set(triples(induced))


@given(samples(), st.booleans())
def test_subgraph_to_sparse(sample, weighted):
    _, _, sub = sample
    weight = torch.arange(1.0, sub.num_edges + 1) if weighted else None
    matrix = sub.to_sparse(weight)
    expected = torch.zeros(sub.num_nodes, sub.num_nodes)
    for number, (row, col, _) in enumerate(triples(sub)):
        expected[col, row] += number + 1 if weighted else 1
    assert torch.equal(matrix.to_dense(), expected)
    assert matrix.is_coalesced()


def gcn(graph: Any) -> torch.Tensor:
    """D'^-½ (A + I) D'^-½ of the whole graph, receivers down."""
    matrix = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.float64)
    rows = graph.rows()
    for node, row in enumerate(rows):
        for there, _ in row:
            matrix[node, there] += 1
    matrix += torch.eye(graph.num_nodes)
    root = torch.tensor([len(row) + 1.0 for row in rows], dtype=torch.float64).sqrt()
    return matrix / root[:, None] / root[None, :]


@pytest.mark.parametrize("scheme", SCHEMES)
@given(graph=graphs(weighted=False))
def test_subgraph_gcn_weight_of_all_neighbours_is_exact(scheme, graph):
    """Everything sampled: all schemes give the matrix of the whole graph."""
    adj = graph.adj()
    sub = sample_rooted(adj, range(graph.num_nodes), [-1])
    matrix = sub.to_sparse(sub.gcn_weight(adj, scheme)).to_dense()
    assert torch.allclose(matrix.double(), gcn(graph), atol=1e-6)


@given(samples())
def test_subgraph_gcn_weight_default_is_unbiased(sample):
    _, adj, sub = sample
    default, named = sub.gcn_weight(adj), sub.gcn_weight(adj, "unbiased")
    assert isinstance(default, GCNWeight)
    assert default.edge.shape == sub.edge.shape
    assert default.loop.shape == sub.node.shape
    assert torch.equal(default.edge, named.edge)
    assert torch.equal(default.loop, named.loop)


@pytest.mark.parametrize(
    ("scheme", "self_loop"), [("unbiased", 1 / 5), ("paper", 1 / 3), ("sampled", 1 / 3)]
)
def test_subgraph_gcn_weight_expectation_on_a_star(scheme, self_loop):
    """All pairs of the four leaves, each equally likely: the erratum's example."""
    leaves = torch.arange(1, 5)
    centre = torch.zeros(4, dtype=torch.int64)
    adj = CompactAdj.from_edge_index(
        torch.stack([torch.cat([leaves, centre]), torch.cat([centre, leaves])])
    )
    rows = []
    for pair in combinations(range(4), 2):
        sub = Subgraph(
            torch.arange(5),
            leaves[list(pair)],
            torch.zeros(2, dtype=torch.int64),
            torch.tensor(pair),
        )
        rows.append(sub.to_sparse(sub.gcn_weight(adj, scheme)).to_dense()[0])
    mean = torch.stack(rows).mean(0)
    assert mean[0].item() == pytest.approx(self_loop)
    if scheme == "unbiased":
        exact = [1 / 5] + [1 / (5 * 2) ** 0.5] * 4
        assert mean.tolist() == pytest.approx(exact)


def test_subgraph_stays_where_it_is(toy):
    """Whatever the default device of the script."""
    sub = sample_rooted(toy, [4, 0], [-1, -1])
    with torch.device("meta"):
        weight = sub.gcn_weight(toy)
        matrices = [sub.to_sparse(), sub.to_sparse(weight)]
        others = [sub.bidirectional(), sub.induced(toy)]
    assert {x.device.type for x in (*weight, *matrices)} == {"cpu"}
    assert {x.row.device.type for x in others} == {"cpu"}


def test_subgraph_repr(toy):
    sub = sample_rooted(toy, [4, 0], [-1, -1])
    assert repr(sub) == "Subgraph(5 nodes, hops 2 + 2 + 1, 9 edges on cpu)"
    assert repr(sub.bidirectional()) == "Subgraph(5 nodes, 10 edges on cpu)"
    trees = sample_rooted(toy, [4, 0], [-1], disjoint=True)
    assert repr(trees) == "Subgraph(5 nodes, hops 2 + 3, 3 edges, disjoint on cpu)"


BIPARTITE = CompactAdj.from_edge_index([[0, 4, 5], [0, 1, 1]], (6, 2))


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (
            lambda sub, adj: sub.gcn_weight(adj, "exact"),
            ValueError,
            r"'scheme' must be one of 'unbiased', 'paper', 'sampled' \(got 'exact'\)",
        ),
        (
            lambda sub, adj: sub.gcn_weight(adj, None),
            ValueError,
            r"'scheme' must be one of .*\(got None\)",
        ),
        (
            lambda sub, adj: sub.gcn_weight(BIPARTITE),
            ValueError,
            r"'adj' must have one set of nodes.*\(got 2 rows and 6 columns\)",
        ),
        (lambda sub, adj: sub.gcn_weight("graph"), TypeError, r"'adj' must be a Comp"),
        (lambda sub, adj: sub.induced("graph"), TypeError, r"'adj' must be a CompactA"),
        (
            lambda sub, adj: sub.to_sparse(torch.ones(2)),
            ValueError,
            r"'weight' must have one entry per edge, 3 in all \(got 2\)",
        ),
        (
            lambda sub, adj: sub.to_sparse(torch.ones(3, 1)),
            ValueError,
            r"'weight' must have 1 dimension",
        ),
        (lambda sub, adj: sub.to_sparse("all"), TypeError, r"'weight' must be "),
        (
            lambda sub, adj: sub.to_sparse(GCNWeight(torch.ones(1), torch.ones(1))),
            ValueError,
            r"'weight' must have one entry per ",
        ),
    ],
)
def test_subgraph_validate(toy, call, error, match):
    sub = sample_rooted(toy, [4, 0], [-1])
    assert (sub.num_nodes, sub.num_edges) == (4, 3)
    with pytest.raises(error, match=f"^{match}"):
        call(sub, toy)
