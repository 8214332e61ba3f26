"""Promises of the sampler that hold for any graph, any seeds and any fanouts."""

from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data, HeteroData

from gttf_pyg import GTTFLoader
from reference import assert_consistent, assert_same, neighborhood
from strategies import Graph, Hetero, fanouts, graphs, hetero, seeds

OPTIONS = st.fixed_dictionaries(
    {
        "replace": st.booleans(),
        "disjoint": st.booleans(),
        "subgraph_type": st.sampled_from(["directional", "induced"]),
        "seed": st.integers(0, 1 << 40),
    }
)


def as_data(graph: Graph) -> Data:
    return Data(
        x=torch.arange(2 * graph.num_nodes).view(-1, 2),
        edge_index=graph.edge_index,
        edge_attr=torch.arange(graph.edge_index.shape[1]),
        num_nodes=graph.num_nodes,
    )


def as_hetero_data(case: Hetero) -> HeteroData:
    data = HeteroData()
    for name, size in case.sizes.items():
        data[name].num_nodes = size
        data[name].x = torch.arange(size)
    for kind, graph in case.graphs.items():
        data[kind].edge_index = graph.edge_index
    return data


def first_batch(data: Any, plan: Any, nodes: Any, size: int, **options: Any) -> Any:
    loader = GTTFLoader(data, plan, nodes, batch_size=max(size, 1), **options)
    return loader(list(range(size)))


@st.composite
def inputs(draw: st.DrawFn) -> tuple[Data, list[int]]:
    graph = draw(graphs(weighted=False, timed=False))
    return as_data(graph), draw(seeds(graph.num_nodes))


@given(inputs(), st.integers(0, 3), st.booleans())
def test_any_graph_in_full(case, hops, disjoint):
    data, start = case
    batch = first_batch(
        data, [-1] * hops, torch.tensor(start).long(), len(start), disjoint=disjoint
    )
    expected = neighborhood(data, {"": start}, hops, disjoint=disjoint)
    assert_same(batch, expected, disjoint)
    assert_consistent(batch, data)


@given(inputs(), fanouts(), OPTIONS)
def test_any_graph_in_part(case, plan, options):
    data, start = case
    nodes = torch.tensor(start).long()
    batch = first_batch(data, plan, nodes, len(start), **options)
    again = first_batch(data, plan, nodes, len(start), **options)
    assert torch.equal(batch.e_id, again.e_id)
    assert torch.equal(batch.edge_index, again.edge_index)
    assert_consistent(batch, data)
    assert batch.n_id[: len(start)].tolist() == start
    col = batch.edge_index[1]
    assert bool((col[1:] >= col[:-1]).all())
    if options["disjoint"]:
        assert batch.batch[: len(start)].tolist() == list(range(len(start)))
        row = batch.edge_index[0]
        assert torch.equal(batch.batch[row], batch.batch[col])


@given(hetero(), st.integers(0, 2), st.booleans())
def test_any_types_in_full(case, hops, disjoint):
    data = as_hetero_data(case)
    for name, start in case.seeds.items():
        nodes = (name, torch.tensor(start).long())
        batch = first_batch(data, [-1] * hops, nodes, len(start), disjoint=disjoint)
        expected = neighborhood(data, {name: start}, hops, disjoint=disjoint)
        assert_same(batch, expected, disjoint)
        assert_consistent(batch, data)
