"""Budgets of typed graphs against the chances worked out by enumeration."""

from collections import Counter

import pytest
import torch

from exact import assert_frequencies, successive
from exact import one_thread as one_thread
from gttf_sampler import CompactAdj, use_backend
from gttf_sampler.rooted import BudgetSampler, sample_budget

WROTE, CITES = ("author", "wrote", "paper"), ("paper", "cites", "paper")
# rows are papers: who wrote them, and what is cited by them; 1 has a parallel edge
AUTHORS = [[0, 1], [1, 1, 2], [3], []]
CITED = [[1, 2], [0], [1, 3], [3]]


def rows(kind, lists, size):
    pairs = [(v, u) for u, row in enumerate(lists) for v in row]
    index = torch.tensor(pairs).t()
    return {kind: CompactAdj.from_edge_index(index, (size, len(lists)))}


def shop():
    return {**rows(WROTE, AUTHORS, 5), **rows(CITES, CITED, 4)}


def given_by(papers, seen):
    """The papers' budgets: per type, node → the sum of 1 / δ over its entries."""
    budget = {"author": Counter(), "paper": Counter()}
    for paper in papers:
        for name, lists in (("author", AUTHORS), ("paper", CITED)):
            for v in lists[paper]:
                budget[name][v] += 1 / len(lists[paper])
    for name, known in seen.items():
        for v in known:
            budget[name].pop(v, None)
    return budget


def chances(seeds, steps, size):
    """Every (papers, authors) that can be drawn, in all steps, and its probability."""
    start = {"paper": frozenset(seeds), "author": frozenset()}
    worlds = [(start, given_by(seeds, start), 1.0)]
    for _ in range(steps):
        following = []
        for seen, budget, chance in worlds:
            names = {name: sorted(budget[name]) for name in budget}
            drawn = {
                name: successive([budget[name][v] ** 2 for v in names[name]], size)
                for name in names
            }
            for papers, p in drawn["paper"].items():
                for authors, q in drawn["author"].items():
                    new = {
                        "paper": {names["paper"][i] for i in papers},
                        "author": {names["author"][i] for i in authors},
                    }
                    now = {name: seen[name] | new[name] for name in seen}
                    more = given_by(new["paper"], now)
                    left = {
                        name: Counter(
                            {
                                v: budget[name][v] + more[name][v]
                                for v in {**budget[name], **more[name]}
                                if v not in now[name]
                            }
                        )
                        for name in seen
                    }
                    following.append((now, left, chance * p * q))
        worlds = following
    exact = Counter()
    for seen, _, chance in worlds:
        exact[mask(seen["paper"], seen["author"])] += chance
    return exact


def mask(papers, authors):
    """A set of nodes as numbers that can be counted."""
    return sum(1 << v for v in papers), sum(1 << v for v in authors)


@pytest.mark.parametrize(("steps", "size"), [(1, 1), (1, 2), (2, 1)])
def test_budget_draws_by_squared_shares(steps, size):
    """Every backend draws the same: the faster one shows the law."""
    adjs = shop()

    def draws(backend, count):
        sampler = BudgetSampler(adjs, [size] * steps)
        with use_backend(backend):
            for i in range(count):
                sub = sampler({"paper": [0]}, i)
                yield mask(sub.node["paper"].tolist(), sub.node["author"].tolist())

    found = list(draws("auto", 600))
    assert_frequencies(torch.tensor(found), chances([0], steps, size))
    assert list(draws("torch", 40)) == found[:40]


def test_budget_takes_all_where_there_is_room_and_every_edge_between():
    sub = sample_budget(shop(), {"paper": [2, 2]}, [9, 9, 9])
    assert sub.node["paper"].tolist() == [2, 2, 1, 3, 0]
    assert sub.node["author"].tolist()[:1] == [3]
    assert sorted(sub.node["author"].tolist()) == [0, 1, 2, 3]
    # the edges of 2 are there for both of its copies
    assert sub.edge[CITES].numel() == sum(map(len, CITED)) + len(CITED[2])
    for kind, lists in ((WROTE, AUTHORS), (CITES, CITED)):
        send = sub.node[kind[0]][sub.row[kind]].tolist()
        take = sub.node["paper"][sub.col[kind]].tolist()
        assert all(v in lists[u] for v, u in zip(send, take, strict=True))


def test_budget_of_rows_longer_than_max_neighbors():
    """A node shares its unit among as many neighbours as it is allowed to ask."""
    star = CompactAdj.from_edge_index([[1, 2, 3, 4], [0, 0, 0, 0]])
    seen = Counter()
    for i in range(400):
        sub = sample_budget(
            {("v", "", "v"): star}, {"v": [0]}, [4], max_neighbors=2, generator=i
        )
        assert sub.node["v"].numel() == 3
        seen.update(sub.node["v"][1:].tolist())
    error = (400 * 0.25) ** 0.5
    assert all(abs(seen[v] - 200) < 5 * error for v in (1, 2, 3, 4))


def test_budget_is_the_same_on_both_backends():
    pytest.importorskip("numba", reason="numba is not installed")
    torch.manual_seed(0)
    adjs = {
        ("a", "r", "b"): CompactAdj.from_edge_index(
            torch.randint(50, (2, 400)), (50,) * 2
        ),
        ("b", "s", "a"): CompactAdj.from_edge_index(
            torch.randint(50, (2, 400)), (50,) * 2
        ),
    }
    found = []
    for backend in ("torch", "numba"):
        with use_backend(backend):
            found.append(
                sample_budget(adjs, {"a": [1, 2]}, [5, 5], max_neighbors=3, generator=7)
            )
    for part in ("node", "row", "col", "edge"):
        ours, theirs = (getattr(one, part) for one in found)
        assert all(torch.equal(ours[kind], theirs[kind]) for kind in ours)


def test_budget_of_no_seeds_and_of_no_neighbors():
    sub = sample_budget(shop(), {}, [3])
    assert all(node.numel() == 0 for node in sub.node.values())
    sub = sample_budget(shop(), {"author": [4]}, {"paper": [3, 3]})
    assert sub.node["author"].tolist() == [4]
    assert sub.node["paper"].tolist() == []


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"num_samples": {"venue": [1]}}, "'num_samples' must use the node types"),
        ({"num_samples": {"paper": [1], "author": [1, 2]}}, "as many steps"),
        ({"num_samples": 3}, "'num_samples' must hold lists of integers"),
        ({"num_samples": [-1]}, "'num_samples' must not be negative"),
        ({"num_samples": [1], "max_neighbors": 0}, "'max_neighbors' must be"),
        ({"num_samples": [1], "seeds": {"paper": [4]}}, "seeds"),
    ],
)
def test_validate(options, match):
    given = {"seeds": {"paper": [0]}, **options}
    with pytest.raises((ValueError, TypeError), match=match):
        sample_budget(shop(), **given)
