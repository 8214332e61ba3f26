import io
import sys
from itertools import pairwise

import pytest
import torch

from gttf_sampler import CompactAdj, NoRevisitBias, WalkForest, traverse

FIGURE_1 = """\
4
├─ 3
│  ├─ 4
│  └─ 1
└─ 1
   ├─ 2
   └─ 0
0
├─ 1
│  ├─ 0
│  └─ 2
└─ 1
   ├─ 4
   └─ 2"""


@pytest.fixture
def figure_1(toy):
    return traverse(toy, [4, 0], [2, 2], generator=21874)


@pytest.fixture
def ring():
    node = torch.arange(1000)
    edges = torch.stack([node, (node + 1) % 1000])
    return CompactAdj.from_edge_index(edges, direction="out")


def forest_of(adj, fanouts, *levels):
    return WalkForest(adj, fanouts, [torch.tensor(level) for level in levels])


def test_text_figure_1(figure_1):
    assert figure_1.text() == FIGURE_1


@pytest.mark.parametrize(("tree", "lines"), [(0, slice(0, 7)), (1, slice(7, 14))])
def test_text_one_tree(figure_1, tree, lines):
    assert figure_1.text(tree).splitlines() == FIGURE_1.splitlines()[lines]


@pytest.mark.parametrize(
    ("fanouts", "levels", "expected"),
    [
        ((), [[[7], [8]]], "7\n8"),
        ((2,), [[[7]], [[3, -1]]], "7\n├─ 3\n└─ ·"),
        ((3,), [[[7]], [[3, -1, -1]]], "7\n├─ 3\n└─ · ×2"),
        ((2, 2), [[[7]], [[-1, -1]], [[-1] * 4]], "7\n└─ · ×2"),
        ((2, 1), [[[7]], [[3, 4]], [[5, -1]]], "7\n├─ 3 ─ 5\n└─ 4 ─ ·"),
        ((1, 2), [[[7]], [[3]], [[5, 6]]], "7\n└─ 3\n   ├─ 5\n   └─ 6"),
    ],
    ids=["seeds", "stopped", "stopped_twice", "all_stopped", "walks", "late_split"],
)
def test_text_shapes(toy, fanouts, levels, expected):
    assert forest_of(toy, fanouts, *levels).text() == expected


def test_text_walks_one_line_each(ring):
    forest = traverse(ring, [0, 7], [1, 1, 1])
    assert forest.text() == "0 ─ 1 ─ 2 ─ 3\n7 ─ 8 ─ 9 ─ 10"


def test_text_after_norevisit(ring):
    forest = traverse(ring, [0], [2, 1], bias=NoRevisitBias())
    assert forest.text() == "0\n├─ 1 ─ 2\n└─ 1 ─ ·"


def test_text_cuts_trees(ring):
    text = traverse(ring, range(900), [1]).text()
    assert text.splitlines()[:2] == ["0 ─ 1", "1 ─ 2"]
    assert text.splitlines()[8:] == ["… (+892 more trees)"]


def test_text_cuts_families(ring):
    lines = traverse(ring, [0, 1], [100, 3]).text().splitlines()
    assert len(lines) < 100
    assert lines[-2:] == ["└─ … (+81 more)", "… (+1 more tree)"]


def test_text_cuts_steps(ring):
    lines = traverse(ring, [0], [1] * 25).text().splitlines()
    assert lines[0].endswith("9 ─ 10")
    assert lines[1:] == ["… (+15 more steps)"]


@pytest.mark.parametrize("fanouts", [[7, 5, 4], [60], [61], [8, 8], [2] * 10])
def test_text_is_never_long(ring, fanouts):
    lines = traverse(ring, [0], fanouts).text().splitlines()
    assert len(lines) <= 121  # 60 leaves, fewer inner walkers, and the seed
    width = torch.tensor(fanouts).prod()
    assert any("more)" in line for line in lines) == (width > 60)


@pytest.mark.parametrize(
    ("tree", "error", "match"),
    [
        (-1, ValueError, r"'tree' must not be negative \(got -1\)"),
        (2, ValueError, r"'tree' must be below the number of trees 2 \(got 2\)"),
        ("a", TypeError, r"'tree' must be an integer \(got 'a'\)"),
    ],
)
def test_validate(figure_1, tree, error, match):
    with pytest.raises(error, match=match):
        figure_1.text(tree)


def labels(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_draw_figure_1(figure_1):
    figure = pytest.importorskip("matplotlib.figure").Figure
    picture = figure_1.draw()
    assert isinstance(picture, figure)
    nodes = [label for label in labels(picture) if label.isdigit()]
    assert sorted(nodes) == sorted("43141200110242")
    depths = [label.get_text() for label in picture.axes[0].get_yticklabels()]
    assert depths == [f"depth {k}" for k in range(3)]
    assert picture.axes[0].get_title() == "Walk forest: 2 trees"


def test_draw_is_a_tidy_tree(figure_1):
    """Parents stand above the middle of their children, and no nodes touch."""
    pytest.importorskip("matplotlib")
    picture = figure_1.draw(0)
    picture.draw_without_rendering()
    rows = {}
    for text in picture.axes[0].texts:
        box = text.get_bbox_patch().get_window_extent()
        x, y = text.get_position()
        rows.setdefault(y, []).append((x, box))
    assert [len(rows[y]) for y in sorted(rows)] == [1, 2, 4]
    for row in rows.values():
        row.sort(key=lambda node: node[0])
        for (_, box), (_, other) in pairwise(row):
            assert other.x0 > box.x1
    root, children, leaves = (rows[y] for y in sorted(rows))
    assert root[0][0] == pytest.approx((children[0][0] + children[1][0]) / 2)
    assert children[0][0] == pytest.approx((leaves[0][0] + leaves[1][0]) / 2)


@pytest.mark.parametrize(
    ("seeds", "fanouts", "tree", "title"),
    [
        ([], [2], None, "Walk forest: 0 trees"),
        ([5], [], None, "Walk forest: 1 tree"),
        ([1, 2, 3], [2, 2], 1, "Walk forest: tree 1"),
        (range(30), [1, 2], None, "Walk forest: 8 trees (+22 more trees)"),
        (range(2), [15, 10], None, "Walk forest: 1 tree (+1 more tree)"),
        ([1], [1] * 12, None, "Walk forest: 1 tree (+2 more steps)"),
    ],
)
def test_draw_title(ring, seeds, fanouts, tree, title):
    pytest.importorskip("matplotlib")
    picture = traverse(ring, seeds, fanouts).draw(tree)
    assert picture.axes[0].get_title() == title
    assert max(picture.get_size_inches()) < 25
    file = io.BytesIO()
    picture.savefig(file, format="png")
    assert file.getvalue().startswith(b"\x89PNG")


def test_draw_stopped_walkers(toy):
    pytest.importorskip("matplotlib")
    forest = forest_of(toy, (3, 1), [[4]], [[3, -1, -1]], [[-1, -1, -1]])
    found = labels(forest.draw())
    assert "•" in found
    assert "•×2" in found


def test_draw_without_matplotlib(figure_1, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.figure", raising=False)
    assert figure_1.draw() == FIGURE_1


def test_draw_leaves_pyplot_alone(figure_1):
    pytest.importorskip("matplotlib")
    before = "matplotlib.pyplot" in sys.modules
    figure_1.draw()
    assert ("matplotlib.pyplot" in sys.modules) == before
