"""Induced batches hold all edges among their nodes that may be seen, and no other."""

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.datasets import KarateClub

from gttf_pyg import GTTFLinkLoader, GTTFLoader

KARATE = KarateClub()[0]


def pairs(index):
    return set(map(tuple, index.t().tolist()))


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("kind", ["directional", "bidirectional", "induced"])
def test_excluded_edges_are_in_no_batch(kind, disjoint):
    loader = GTTFLinkLoader(
        *(KARATE, [-1, -1]),
        exclude_edges=True,
        subgraph_type=kind,
        disjoint=disjoint,
        batch_size=6,
    )
    for batch in loader:
        asked = pairs(batch.n_id[batch.edge_label_index])
        asked |= {(b, a) for a, b in asked}
        shown = batch.n_id[batch.edge_index]
        if disjoint:  # other trees have other seed edges, and hide all of them, too
            assert (batch.batch[batch.edge_index[0]]).equal(
                batch.batch[batch.edge_index[1]]
            )
        assert not pairs(shown) & asked


def test_excluded_edges_have_reverses_within_one_type():
    data = HeteroData()
    data["a"].num_nodes = 6
    edge_index = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    data["a", "to", "a"].edge_index = edge_index
    data["a", "rev_to", "a"].edge_index = edge_index.flip(0)
    label = (("a", "to", "a"), torch.tensor([[1], [2]]))
    (batch,) = GTTFLinkLoader(
        *(data, [-1, -1], label), exclude_edges=True, batch_size=1
    )
    n_id = batch["a"].n_id
    for kind in data.edge_types:
        assert not pairs(n_id[batch[kind].edge_index]) & {(1, 2), (2, 1)}
    assert batch["a", "rev_to", "a"].edge_index.shape[1] > 0


@pytest.mark.parametrize("window", [None, 2])
def test_induced_batches_do_not_show_other_times(window):
    generator = torch.Generator().manual_seed(0)
    edge_index = torch.randint(20, (2, 150), generator=generator)
    time = torch.randint(10, (150,), generator=generator)
    data = Data(edge_index=edge_index, num_nodes=20, edge_time=time)
    (batch,) = GTTFLoader(
        *(data, [-1, -1], torch.arange(5), torch.full((5,), 4)),
        time_attr="edge_time",
        time_window=window,
        subgraph_type="induced",
        batch_size=5,
    )
    assert batch.edge_time.max() == 4
    assert batch.edge_time.min() == (0 if window is None else 2)
    allowed = (time <= 4) & (time >= (0 if window is None else 2))
    for tree in range(5):  # all that may be seen are there
        nodes = batch.n_id[batch.batch == tree]
        inside = torch.isin(edge_index, nodes).all(0) & allowed
        assert (batch.batch[batch.edge_index[1]] == tree).sum() == inside.sum()


def test_induced_batches_do_not_show_edges_of_weight_zero():
    edge_index = torch.tensor([[1, 2, 2], [0, 0, 1]])
    data = Data(edge_index=edge_index, num_nodes=3, w=torch.tensor([1.0, 1.0, 0.0]))
    (batch,) = GTTFLoader(
        *(data, [-1], torch.tensor([0])), weight_attr="w", subgraph_type="induced"
    )
    assert sorted(batch.e_id.tolist()) == [0, 1]
