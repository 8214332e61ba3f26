"""Splits keep graphs connected; AUC and mean rank are what their names say."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from exact import SIGMAS, one_thread  # noqa: F401
from gttf_sampler import CompactAdj
from gttf_sampler.embedding import (
    DeepWalk,
    LinkSplit,
    WatchYourStep,
    largest_component,
    link_auc,
    links,
    mean_rank,
    roc_auc,
    split_links,
)
from gttf_sampler.embedding.links import components, spanning_forest
from gttf_sampler.graph import read_edge_list

DATA = os.environ.get("GTTF_EDGELISTS")
needs_data = pytest.mark.skipif(
    DATA is None, reason="GTTF_EDGELISTS must name a directory with real edge lists"
)


@st.composite
def graphs(draw):
    """Edges [2, m] with copies and self-loops, and the number of nodes."""
    n = draw(st.integers(2, 12))
    ends = st.integers(0, n - 1)
    pairs = draw(st.lists(st.tuples(ends, ends), max_size=30))
    return torch.tensor(pairs, dtype=torch.int64).view(-1, 2).T, n


def plain(edge):
    """The set of undirected edges without self-loops."""
    return {(min(u, v), max(u, v)) for u, v in edge.T.tolist() if u != v}


def groups(pairs, n):
    """The connected components as a set of sets, by plain search."""
    near = {u: {u} for u in range(n)}
    for u, v in pairs:
        near[u].add(v)
        near[v].add(u)
    found = set()
    for u in range(n):
        reached, ahead = set(), [u]
        while ahead:
            node = ahead.pop()
            if node not in reached:
                reached.add(node)
                ahead.extend(near[node])
        found.add(frozenset(reached))
    return found


@given(graph=graphs())
def test_components_are_those_of_a_search(graph):
    edge, n = graph
    label = components(edge, n).tolist()
    named = {frozenset(u for u in range(n) if label[u] == c) for c in label}
    assert named == groups(plain(edge), n)
    assert all(label[label[u]] == label[u] <= u for u in range(n))


@given(graph=graphs(), seed=st.integers(0, 99))
def test_spanning_forest_is_that_of_the_smallest_ranks(graph, seed):
    edge, n = graph
    rank = torch.randperm(edge.shape[1], generator=torch.Generator().manual_seed(seed))
    taken, _ = spanning_forest(edge, rank, n)
    tree, chosen = set(), []  # Kruskal, edge by edge
    for i in rank.argsort().tolist():
        longer = tree | plain(edge[:, i : i + 1])
        if len(groups(longer, n)) < len(groups(tree, n)):
            tree, chosen = longer, [*chosen, i]
    assert taken.nonzero().view(-1).tolist() == sorted(chosen)


@given(graph=graphs(), hide=st.sampled_from([0.1, 0.3, 0.5, 0.9]))
def test_split_hides_edges_and_keeps_parts_connected(graph, hide):
    edge, n = graph
    pairs = plain(edge)
    if len(pairs) == n * (n - 1) // 2:
        with pytest.raises(ValueError, match="'edge_index' must leave pairs"):
            split_links(edge, n, 0.9, generator=0)
        return
    split = split_links(edge, n, hide, generator=0)
    left, hidden = plain(split.train), plain(split.positive)
    assert split.train.shape[1] == 2 * len(left)
    assert torch.equal(*(s.sort().values for s in split.train))  # both directions
    assert len(hidden) == split.positive.shape[1] == round(hide * len(pairs))
    assert not left & hidden
    assert left | hidden == pairs
    assert not plain(split.negative) & pairs
    assert split.negative.shape == split.positive.shape
    assert bool((split.negative[0] < split.negative[1]).all())
    parts = groups(pairs, n)
    needed = n - len(parts)
    if len(left) >= needed:
        assert groups(left, n) == parts
    else:
        assert len(groups(left, n)) == n - len(left)  # no edge of them is wasted


def test_split_is_uniform_beyond_the_tree():
    """On a cycle any edge is hidden equally often, and so are strangers drawn."""
    n, turns = 6, 1000
    cycle = torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])
    hidden, strangers = {}, {}
    for seed in range(turns):
        split = split_links(cycle, n, 1 / 6, generator=seed)
        for found, counts in ((split.positive, hidden), (split.negative, strangers)):
            (pair,) = map(tuple, found.T.tolist())
            counts[pair] = counts.get(pair, 0) + 1
    for counts, kinds in ((hidden, 6), (strangers, 9)):
        assert len(counts) == kinds
        error = (turns / kinds * (1 - 1 / kinds)) ** 0.5
        assert all(abs(c - turns / kinds) < SIGMAS * error for c in counts.values())


def test_split_hides_any_edge_that_may_go():
    """One of a triangle and a ring that share a node: 3 edges and 30, alike."""
    n, turns = 32, 1500
    ring = torch.stack([torch.arange(30), (torch.arange(30) + 1) % 30])
    both = torch.cat([ring, torch.tensor([[0, 30, 31], [30, 31, 0]])], dim=1)
    hidden = (split_links(both, n, 1 / 33, generator=s) for s in range(turns))
    small = sum(bool((split.positive >= 30).any()) for split in hidden)
    share = 3 / 33
    error = (turns * share * (1 - share)) ** 0.5
    assert abs(small - turns * share) < SIGMAS * error


def test_largest_component_renumbers():
    edge, node = largest_component([[7, 1, 2, 5], [1, 2, 7, 6]], num_nodes=9)
    assert node.tolist() == [1, 2, 7]
    assert node[edge].tolist() == [[7, 1, 2], [1, 2, 7]]


@given(
    positive=st.lists(st.integers(-3, 3), min_size=1, max_size=9),
    negative=st.lists(st.integers(-3, 3), min_size=1, max_size=9),
)
def test_roc_auc_counts_pairs(positive, negative):
    wins = sum((p > n) + (p == n) / 2 for p in positive for n in negative)
    found = roc_auc(torch.tensor(positive), torch.tensor(negative))
    assert found == pytest.approx(wins / len(positive) / len(negative))


def test_link_auc_and_mean_rank_in_groups(monkeypatch):
    """A score that knows the truth, one that knows nothing, and one that is wrong."""
    torch.manual_seed(0)
    edges = torch.randint(0, 40, (2, 150))
    split = split_links(edges, 40, generator=0)
    true = plain(split.positive)

    def knows(pairs):
        return torch.tensor([float(tuple(sorted(p)) in true) for p in pairs.T.tolist()])

    monkeypatch.setattr(links, "PAIRS", 500)
    for sign, auc in ((1, 1.0), (0, 0.5), (-1, 0.0)):
        assert link_auc(lambda pairs, s=sign: s * knows(pairs), split) == auc
    blind = mean_rank(lambda pairs: torch.zeros(pairs.shape[1]), split, 100)
    assert blind == 51.0
    found = mean_rank(knows, split, 400, generator=0)
    # Ties with other hidden edges of the source count half; the rest is behind.
    chances = [
        sum(u in pair for pair in true) / 40 for u, _ in split.positive.T.tolist()
    ]
    expected = 1 + 400 * sum(chances) / len(chances) / 2
    variance = 400 * sum(p * (1 - p) for p in chances) / 4
    assert abs(found - expected) < SIGMAS * variance**0.5 / len(chances)
    rank = mean_rank(knows, split, 400, generator=0)
    monkeypatch.setattr(links, "PAIRS", 10**6)
    assert mean_rank(knows, split, 400, generator=0) == rank


def test_link_auc_does_not_need_gradients():
    split = split_links(torch.randint(0, 9, (2, 20)), 9, generator=0)
    adj = CompactAdj.from_edge_index(split.train, 9, direction="out")
    for model in (DeepWalk(adj, 4), WatchYourStep(adj, 4)):
        assert 0 <= link_auc(model.score, split) <= 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: split_links([[0], [1]], hide=0), "'hide' must lie between 0 and 1"),
        (lambda: split_links([[0], [1]], hide=1), "'hide' must lie between 0 and 1"),
        (lambda: split_links([[0], [3]], 2), "'edge_index' must hold ids below"),
        (lambda: split_links([[0, 1, 2]]), r"'edge_index' must have shape \[2, m\]"),
        (lambda: roc_auc(torch.ones(0), torch.ones(1)), "'positive' must hold scores"),
        (
            lambda: roc_auc(torch.ones(1), torch.tensor([1.0, float("nan")])),
            "'negative' must hold finite scores .got nan",
        ),
        (
            lambda: mean_rank(len, LinkSplit(*[torch.zeros(2, 0).long()] * 3, 4)),
            "'split' must hide at least one edge",
        ),
    ],
)
def test_linkpred_validate(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


@needs_data
@pytest.mark.parametrize(
    ("name", "nodes", "edges"),
    [("ppi.edgelist", 3852, 37841), ("ca-HepTh.txt", 8638, 24806)],
)
def test_watch_your_step_finds_hidden_edges_of_real_graphs(name, nodes, edges):
    """At least 88 % after 40 steps; README has the numbers of longer training."""
    file = read_edge_list(Path(DATA) / name)
    edge, node = largest_component(file.edge_index, file.num_nodes)
    assert len(node) == nodes
    split = split_links(edge, nodes, generator=0)
    assert split.train.shape[1] / 2 + split.positive.shape[1] == edges
    adj = CompactAdj.from_edge_index(split.train, nodes, direction="out")
    torch.manual_seed(0)
    model = WatchYourStep(adj, 64)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(40):
        for forest in model.loader(batch_size=nodes):
            optimizer.zero_grad()
            model.loss(forest).backward()
            optimizer.step()
    assert link_auc(model.score, split) > 0.88


@pytest.mark.parametrize("turns", [0, 1, 32])
@pytest.mark.parametrize(("nodes", "gone"), [(4, 1), (60, 1), (60, 5), (400, 3)])
def test_negatives_of_graphs_that_are_nearly_complete(nodes, gone, turns, monkeypatch):
    """All pairs without an edge, each as often: χ² with gone − 1 degrees of freedom."""
    monkeypatch.setattr(links, "TURNS", turns)
    pairs = torch.combinations(torch.arange(nodes)).T
    torch.manual_seed(nodes)
    order = torch.randperm(pairs.shape[1])
    found = split_links(pairs[:, order[gone:]], nodes, hide=0.3, generator=0).negative
    code, count = (found[0] * nodes + found[1]).unique(return_counts=True)
    free = pairs[:, order[:gone]]
    assert torch.equal(code, (free[0] * nodes + free[1]).sort().values)
    mean = found.shape[1] / gone
    assert float(((count - mean) ** 2 / mean).sum()) < 25
