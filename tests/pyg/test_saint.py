"""GraphSAINT's samplers: exact frequencies, coefficients, and batches as PyG's."""

import pytest
import torch
from torch_geometric import loader as theirs
from torch_geometric.data import Data

from gttf_pyg import (
    GraphSAINTEdgeSampler,
    GraphSAINTNodeSampler,
    GraphSAINTRandomWalkSampler,
    GraphSAINTSampler,
)

COUNT = 1000
ENDS = torch.tensor([[0, 0, 0, 1, 3, 3, 4, 1], [1, 2, 3, 0, 0, 4, 4, 0]])
MAKERS = {
    "node": GraphSAINTNodeSampler,
    "edge": GraphSAINTEdgeSampler,
    "walk": lambda data, batch_size, **how: GraphSAINTRandomWalkSampler(
        data, batch_size, 2, **how
    ),
}


def graph():
    """Six nodes: a hub, a pair of equal edges, a self-loop, a dead end, a lone node."""
    nodes, edges = torch.arange(6), torch.arange(ENDS.shape[1])
    return Data(edge_index=ENDS, n_id=nodes, e_id=edges, name="six", num_nodes=6)


def touched(weight):
    """Per node, the share of the weight that is on edges with an end there."""
    ends = [(node == ENDS).any(0) for node in range(6)]
    return torch.stack([weight[there].sum() for there in ends]) / weight.sum()


def exact(kind, scheme="unbiased"):
    """Probabilities of the nodes in a batch of two nodes, edges or walks."""
    row, col = ENDS
    leave, arrive = (end.bincount(minlength=6).double() for end in ENDS)
    if kind == "node":
        one = leave / leave.sum()
    elif kind == "edge":
        weight = 1 / leave[row] + 1 / arrive[col]
        if scheme == "pyg":
            weight = arrive[row] + leave[col]
        one = touched(weight)
    else:
        step = torch.zeros(6, 6).double()
        step.index_put_((row, col), 1 / leave[row], accumulate=True)
        step[leave == 0] = torch.eye(6).double()[leave == 0]
        one = torch.empty(6).double()
        for node in range(6):  # that a walk of two steps never comes there
            away = step.clone()
            away[:, node] = 0
            start = torch.ones(6).double() / 6
            start[node] = 0
            one[node] = 1 - (start @ away @ away).sum()
    return 1 - (1 - one) ** 2


@pytest.mark.parametrize("scheme", ["unbiased", "pyg"])
@pytest.mark.parametrize("kind", MAKERS)
def test_frequencies_are_exact(kind, scheme):
    loader = MAKERS[kind](graph(), 2, num_steps=COUNT, scheme=scheme, seed=1)
    hits = torch.zeros(6)
    for batch in loader:
        hits[batch.n_id] += 1
    chance = exact(kind, scheme)
    error = (chance * (1 - chance) / COUNT) ** 0.5
    assert ((hits / COUNT - chance).abs() <= 4.5 * error + 1e-9).all()


@pytest.mark.parametrize("kind", MAKERS)
def test_batch_is_the_induced_graph_in_order(kind):
    data = graph()
    for batch in MAKERS[kind](data, 3, num_steps=20, seed=2):
        node = batch.n_id
        assert node.tolist() == sorted(set(node.tolist()))
        assert batch.num_nodes == node.numel()
        assert torch.equal(node[batch.edge_index], ENDS[:, batch.e_id])
        code = (batch.edge_index[0] * 6 + batch.edge_index[1]).tolist()
        assert code == sorted(code)
        inside = torch.isin(ENDS, node).all(0).nonzero().view(-1)
        assert sorted(batch.e_id.tolist()) == inside.tolist()
        assert batch.name == "six"


def test_node_norm_is_the_exact_one():
    coverage = 400
    how = {"num_steps": 1, "sample_coverage": coverage, "log": False, "seed": 3}
    for kind, make in MAKERS.items():
        chance = exact(kind)
        seen, samples = chance > 0, 6 * coverage / chance.sum()
        norm = make(graph(), 2, **how).node_norm
        error = ((1 - chance[seen]) / chance[seen] / samples) ** 0.5
        assert ((norm[seen] * 6 * chance[seen] - 1).abs() <= 5 * error + 1e-3).all()
        assert (norm[~seen] > norm[seen].max()).all()


@pytest.mark.parametrize("scheme", ["unbiased", "pyg"])
def test_edge_norm_counts_receivers_or_as_pyg_does(scheme):
    """Counts of a node per count of its edge."""
    how = {"sample_coverage": 400, "log": False, "seed": 4, "scheme": scheme}
    loader = GraphSAINTNodeSampler(graph(), 2, **how)
    leave = torch.bincount(ENDS[0], minlength=6).double() / ENDS.shape[1]
    (row, col), both = ENDS, torch.zeros(ENDS.shape[1]).double()
    here = 1 - (1 - leave) ** 2
    for edge, (u, v) in enumerate(ENDS.T.tolist()):
        union = leave[u] + leave[v] if u != v else leave[u]
        both[edge] = here[u] + here[v] - (1 - (1 - union) ** 2)
    at = row if scheme == "pyg" else col
    seen = both > 0
    expected = (here[at] / both)[seen]
    error = ((1 - both) / both * here.sum() / (6 * 400))[seen] ** 0.5
    assert ((loader.edge_norm[seen] / expected - 1).abs() <= 5 * error).all()
    never = torch.where(here[at][~seen] > 0, 1e4, 0.1)
    assert torch.allclose(loader.edge_norm[~seen].double(), never.double())


def test_aggregation_by_edge_norm_is_unbiased():
    """Given that a node is there, the expectation is its sum over all neighbours."""
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(12, (2, 60), generator=generator)
    x = torch.rand(12, generator=generator)
    data = Data(edge_index=ends, n_id=torch.arange(12), num_nodes=12)
    how = {"num_steps": 1500, "sample_coverage": 600, "log": False, "seed": 5}
    loader = GraphSAINTEdgeSampler(data, 4, **how)
    total, times = torch.zeros(12), torch.zeros(12)
    for batch in loader:
        row, col = batch.edge_index
        message = x[batch.n_id[row]] * batch.edge_norm
        total.index_add_(0, batch.n_id[col], message)
        times[batch.n_id] += 1
    full = torch.zeros(12).index_add_(0, ends[1], x[ends[0]])
    assert ((total / times - full).abs() <= 0.15 * full.max()).all()


@pytest.mark.parametrize("kind", MAKERS)
def test_coefficients_are_kept(kind, tmp_path):
    how = {"sample_coverage": 5, "save_dir": tmp_path, "log": False}
    first = MAKERS[kind](graph(), 2, seed=1, **how)
    second = MAKERS[kind](graph(), 2, seed=2, **how)
    assert torch.equal(first.node_norm, second.node_norm)
    assert torch.equal(first.edge_norm, second.edge_norm)
    assert len(list(tmp_path.iterdir())) == 1
    other = Data(edge_index=ENDS, num_nodes=7)
    with pytest.raises(ValueError, match="'save_dir' must hold coefficients of 7"):
        MAKERS[kind](other, 2, **how)
    theirs_too = MAKERS[kind](graph(), 2, scheme="pyg", **how)
    assert (tmp_path / f"{type(theirs_too).__name__.lower()}").parent.is_dir()
    assert len(list(tmp_path.iterdir())) == 2


def test_classes_are_the_hosts_and_can_be_extended():
    for name in ("Node", "Edge", "RandomWalk"):
        ours = globals()[f"GraphSAINT{name}Sampler"]
        assert issubclass(ours, getattr(theirs, ours.__name__))
        assert issubclass(ours, theirs.GraphSAINTSampler)

    class Two(GraphSAINTSampler):
        def _sample_nodes(self, batch_size):
            return torch.tensor([3, 0, 3])

    (batch,) = Two(graph(), 1)
    assert batch.n_id.tolist() == [0, 3]
    assert batch.e_id.tolist() == [2, 4]
    assert Two(graph(), 1)[0].num_nodes == 2


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"batch_size": 0}, "'batch_size' must be at least 1"),
        ({"num_steps": -1}, "'num_steps' must not be negative"),
        ({"sample_coverage": "a"}, "'sample_coverage' must be an integer"),
        ({"save_dir": 3}, "'save_dir' must be a path or None"),
        ({"scheme": "mine"}, "'scheme' must be"),
        ({"data": None}, "'data' must be a Data"),
        ({"data": Data(num_nodes=3)}, "'data' must have an edge_index"),
        ({"data": Data(edge_index=ENDS, node_norm=ENDS[0])}, "'node_norm' already"),
        ({"data": Data(edge_index=ENDS[:, :0], num_nodes=3)}, "at least one edge"),
        ({"data": Data(edge_index=ENDS, num_nodes=3)}, "'data.edge_index'"),
    ],
)
def test_validate(change, match):
    with pytest.raises((ValueError, TypeError), match=match):
        GraphSAINTNodeSampler(**{"data": graph(), "batch_size": 2, **change})


def test_walks_need_a_node_and_may_stay():
    nobody = Data(edge_index=ENDS[:, :0], num_nodes=0)
    with pytest.raises(ValueError, match="at least one node to start from"):
        GraphSAINTRandomWalkSampler(nobody, 2, 2)
    lone = Data(edge_index=ENDS[:, :0], num_nodes=3)
    (batch,) = GraphSAINTRandomWalkSampler(lone, 9, 2, sample_coverage=1, log=False)
    assert batch.num_edges == batch.edge_norm.numel() == 0
    (batch,) = GraphSAINTRandomWalkSampler(lone, 1, 0)
    assert batch.num_nodes == 1
