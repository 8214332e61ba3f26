"""ExcludeBias and edges_between: edges found, and edges left out before drawing."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import strategies as many
from exact import assert_frequencies, graph
from gttf_sampler import (
    CompactAdj,
    EdgeWeightBias,
    ExcludeBias,
    sample_rooted,
    traverse,
    use_backend,
)

# Row 0 has six entries, two of them parallel; row 1 leads back; row 5 is empty.
ROWS = [[1, 2, 2, 3, 4, 5], [0, 3], [0], [4, 4, 0], [1], []]


@given(many.graphs(), st.data())
def test_edges_between_finds_every_copy(drawn, data):
    adj, (rows, cols) = drawn.adj(), drawn.sizes()
    if not rows or not cols:
        return
    pairs = data.draw(
        st.lists(st.tuples(st.integers(0, rows - 1), st.integers(0, cols - 1)))
    )
    which, edge = adj.edges_between([u for u, _ in pairs], [v for _, v in pairs])
    expected = [
        (i, id_)
        for i, (u, v) in enumerate(pairs)
        for neighbor, id_ in drawn.rows()[u]
        if neighbor == v
    ]
    found = zip(which.tolist(), adj.original_edge(edge).tolist(), strict=True)
    assert list(found) == expected


def test_edges_between_validate():
    adj = graph(ROWS)
    with pytest.raises(ValueError, match="'node' must hold ids below the number"):
        adj.edges_between([6], [0])
    with pytest.raises(ValueError, match="'neighbor' must not hold negative"):
        adj.edges_between([0], [-1])
    with pytest.raises(TypeError, match="'neighbor' must have dtype"):
        adj.edges_between([0], [0.5])


@pytest.mark.parametrize("backend", many.BACKENDS)
@pytest.mark.parametrize("replace", [False, True])
def test_exclude_draws_uniformly_among_the_rest(backend, replace):
    adj, gone, runs = graph(ROWS), [1, 4], 20_000
    with use_backend(backend):
        forest = traverse(
            *(adj, [0] * runs, [3]),
            bias=ExcludeBias(gone),
            replace=replace,
            generator=5,
        )
    drawn = forest.edges[1]
    if replace:
        exact = {(edge,): 1 / 4 for edge in (0, 2, 3, 5)}
        assert_frequencies(drawn.view(-1, 1), exact)
    else:
        triples = [(0, 2, 3), (0, 2, 5), (0, 3, 5), (2, 3, 5)]
        assert_frequencies(drawn.sort(1).values, dict.fromkeys(triples, 1 / 4))


@given(many.graphs(bipartite=False), st.data())
def test_exclude_keeps_the_full_fanout(drawn, data):
    """The excluded ones never, and of the others as many as there are to draw."""
    adj = drawn.adj()
    if not adj.num_edges or not adj.num_rows:
        return
    edge = data.draw(st.lists(st.integers(0, adj.num_edges - 1)))
    fanout = data.draw(st.integers(0, 4))
    seeds = data.draw(st.lists(st.integers(0, adj.num_rows - 1), max_size=4))
    bias = ExcludeBias(torch.tensor(edge, dtype=torch.int64))
    found = sample_rooted(adj, seeds, [fanout], bias=bias, generator=1)
    every = sample_rooted(adj, seeds, [-1], bias=bias, generator=1)
    assert not set(found.edge.tolist()) & set(edge)
    assert not set(every.edge.tolist()) & set(edge)
    left = every.col.bincount(minlength=len(seeds))
    assert found.col.bincount(minlength=len(seeds)).equal(left.clamp(max=fanout))
    for slot in range(len(seeds)):
        taken = found.edge[found.col == slot]
        assert taken.unique().numel() == taken.numel()


def test_exclude_everything_leaves_a_row_empty():
    adj = graph(ROWS)
    edge = adj.edges_between([0] * 5, [1, 2, 3, 4, 5])[1]
    assert sample_rooted(adj, [0], [3, 3], bias=ExcludeBias(edge)).num_edges == 0


@given(many.graphs(), st.data())
def test_exclude_nothing_is_uniform_sampling(drawn, data):
    """The general loop and the fused one draw the same, bit for bit."""
    adj, (rows, cols) = drawn.adj(), drawn.sizes()
    if rows != cols:
        return
    seeds, fanouts = data.draw(many.seeds(rows)), data.draw(many.fanouts())
    how = {"replace": data.draw(st.booleans()), "generator": 3}
    with use_backend(data.draw(many.backends())):
        bare = sample_rooted(adj, seeds, fanouts, **how)
        general = sample_rooted(adj, seeds, fanouts, bias=ExcludeBias([]), **how)
    for part in ("node", "row", "col", "edge"):
        assert getattr(bare, part).equal(getattr(general, part))
    assert bare.num_sampled_nodes == general.num_sampled_nodes
    assert bare.num_sampled_edges == general.num_sampled_edges


def test_exclude_times_weights():
    weight = torch.tensor([1.0, 2.0, 3.0])
    adj = CompactAdj.from_edge_index([[1, 2, 3], [0, 0, 0]], edge_weight=weight)
    bias = ExcludeBias([1]) * EdgeWeightBias()
    edges = traverse(adj, [0] * 20_000, [1], bias=bias, generator=9).edges[1]
    assert_frequencies(edges, {(0,): 1 / 4, (2,): 3 / 4})


def test_exclude_validate():
    adj = graph(ROWS)
    with pytest.raises(ValueError, match="'edge' must hold ids below the number of"):
        sample_rooted(adj, [0], [1], bias=ExcludeBias([adj.num_edges]))
    with pytest.raises(TypeError, match="'edge' must have dtype"):
        ExcludeBias([0.5])
    assert repr(ExcludeBias([3, 3, 1])) == "ExcludeBias(2 edges)"
