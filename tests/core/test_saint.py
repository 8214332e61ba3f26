import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gttf_sampler import CompactAdj, traverse
from gttf_sampler.rooted import walk_subgraph


@given(st.data())
def test_walk_subgraph_is_all_edges_between_the_visited(data):
    n = data.draw(st.integers(1, 8))
    node = st.integers(0, n - 1)
    edges = data.draw(st.lists(st.tuples(node, node), max_size=20))
    seeds = data.draw(st.lists(node, max_size=4))
    fanouts = data.draw(st.lists(st.integers(1, 2), min_size=1, max_size=3))
    index = torch.tensor(edges, dtype=torch.long).view(-1, 2).T
    adj = CompactAdj.from_edge_index(index, n)
    forest = traverse(adj, seeds, fanouts, generator=data.draw(st.integers(0, 99)))
    sub = walk_subgraph(forest)
    visited = [u for level in forest.nodes for u in level.view(-1).tolist()]
    assert sub.node.tolist() == list(dict.fromkeys(visited))
    ends = zip(sub.node[sub.row].tolist(), sub.node[sub.col].tolist(), strict=True)
    inside = [(u, v) for u, v in edges if u in visited and v in visited]
    assert sorted(ends) == sorted(inside)
    taken = adj.original_edge(sub.edge).tolist()
    assert sorted(taken) == sorted(set(taken))


def test_walk_subgraph_leaves_out_walkers_that_stopped(toy):
    stop = lambda path, node, hood: torch.zeros(hood.edge.numel())  # noqa: E731
    sub = walk_subgraph(traverse(toy, [4, 4, 3], [1, 1], stop))
    assert sub.node.tolist() == [4, 3]
    assert sub.num_edges == 2


def test_walk_subgraph_validate():
    with pytest.raises(TypeError, match="'forest'"):
        walk_subgraph(None)
