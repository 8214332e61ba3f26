"""`gttf_pyg.DeepWalk` and `WatchYourStep`: the engine's modules in PyG's words."""

import pytest
import torch

import gttf_sampler
from exact import one_thread  # noqa: F401
from gttf_pyg.nn import DeepWalk, WatchYourStep
from gttf_sampler import embedding

EDGES = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])


def test_deepwalk_is_that_of_the_engine():
    torch.manual_seed(0)
    model = DeepWalk(EDGES, 4, 5, 3, 2, 7, num_nodes=6, sparse=True)
    assert model.fanouts == (2, 2, 2, 2)
    assert model.options["window"] == 2
    assert model.options["num_negatives"] == 7
    assert model().shape == (6, 4)
    torch.manual_seed(0)
    adj = gttf_sampler.CompactAdj.from_edge_index(EDGES, 6, direction="out")
    other = embedding.DeepWalk(adj, 4, 2, [2] * 4, 7, sparse=True)
    losses = []
    for each in (model, other):
        torch.manual_seed(1)
        for forest in each.loader(batch_size=3, shuffle=True):
            losses.append(each.loss(forest).item())
            assert forest.nodes[1].max() < 6
    assert losses[:2] == losses[2:]
    model.loss(forest).backward()
    assert model.embedding.weight.grad.is_sparse


def test_watch_your_step_is_that_of_the_engine():
    model = WatchYourStep(EDGES, 4, 4, 3, 9)
    assert model.fanouts == (3, 3, 3)
    assert model.options["num_negatives"] == 9
    assert model.attention.tolist() == pytest.approx([1 / 3] * 3)
    for forest in model.loader(batch_size=4):
        model.loss(forest).backward()
    assert model.context.grad is not None


def test_options_are_those_of_the_engine():
    assert WatchYourStep(EDGES, 4, 4, symmetric=True).options["symmetric"]
    model = DeepWalk(EDGES, 4, 4, 3, halves=True, contrast="logistic")
    assert model.right.weight.shape == (4, 2)
    assert model.fit(1, weight_decay=0.1)[0].pairs > 0


def test_walks_follow_the_edges():
    model = DeepWalk(torch.tensor([[0, 1], [1, 2]]), 2, 3, 2)
    for forest in model.loader(batch_size=3):
        assert forest.path(2).tolist() == [[0, 1, 2], [1, 2, 2], [2, 2, 2]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DeepWalk(EDGES, 4, 3, 4), "'context_size' must lie between 2 and"),
        (lambda: DeepWalk(EDGES, 4, 3, 1), "'context_size' must be at least 2"),
        (lambda: WatchYourStep(EDGES, 4, 1), "'walk_length' must be at least 2"),
        (lambda: WatchYourStep(EDGES, 3, 4), "'embedding_dim' must be even"),
    ],
)
def test_pyg_embedding_validate(make, message):
    with pytest.raises(ValueError, match=message):
        make()
