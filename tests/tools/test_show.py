"""`gttf show`: text, pictures, and a page that is used in a browser."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from browser import Page, chromium
from gttf_sampler import CompactAdj, sample_rooted
from gttf_sampler.cli.main import main
from gttf_sampler.plot.subgraph import layers as layers_of

EDGES = "source,target,time\n" + "".join(
    f"friend {i},ann,{i}\nfriend of {i},friend {i},{i + 10}\n" for i in range(4)
)


@pytest.fixture
def edges(tmp_path):
    file = tmp_path / "edges.csv"
    file.write_text(EDGES)
    return str(file)


def typed():
    adjs = {
        ("item", "by", "user"): CompactAdj.from_edge_index(
            [[0, 1, 2, 3, 1], [0, 0, 1, 1, 2]], (4, 3), edge_time=[1, 2, 3, 4, 5]
        ),
        ("user", "bought", "item"): CompactAdj.from_edge_index(
            [[0, 0, 1, 1, 2], [0, 1, 2, 3, 1]], (3, 4), edge_time=[1, 2, 3, 4, 5]
        ),
    }
    return adjs, sample_rooted(adjs, {"item": [0]}, [-1, -1, -1])


def test_show_tells_hops_by_name(edges, capsys):
    assert main(["show", edges, "--seed", "ann", "--fanouts", "2", "1"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"seeds  ann\nhop 1  friend \d, friend \d\nhop 2  friend of", said)
    assert main(["show", edges, "--seed", "friend 1", "--direction", "out"]) == 0
    assert "hop 1  ann" in capsys.readouterr().out
    assert main(["show", edges, "--seed", "friend 1", "--direction", "both"]) == 0
    assert re.search(
        "hop 1  (ann, friend of 1|friend of 1, ann)", capsys.readouterr().out
    )


def test_show_says_why_hops_are_empty(edges, capsys):
    for words, reason in (
        (["friend of 1"], "friend of 1 has no in-edges; try --direction out or both"),
        (["ann", "--direction", "out"], "ann has no out-edges; try --direction in or"),
    ):
        assert main(["show", edges, "--seed", *words]) == 0
        assert reason in capsys.readouterr().out
    assert main(["show", edges, "--seed", "ann"]) == 0
    assert "has no" not in capsys.readouterr().out


def test_show_refuses(edges, tmp_path, capsys):
    for words, reason in (
        (["--seed", "zoe"], "'--seed' must be ids of the graph, like ann"),
        (["--seed", "ann", "--out", "a.doc"], "'--out' must end in one of .html"),
        (["--seed", "ann", "--out", edges], "'--out' must end in one of"),
    ):
        assert main(["show", edges, *words]) == 2
        assert reason in capsys.readouterr().err
    (tmp_path / "a.html").write_text("mine")
    there = ["show", edges, "--seed", "ann", "--out", str(tmp_path / "a.html")]
    assert main(there) == 2
    assert (tmp_path / "a.html").read_text() == "mine"
    assert main([*there, "--force"]) == 0


@pytest.mark.parametrize("end", ["png", "svg", "pdf"])
def test_show_draws(edges, tmp_path, end):
    pytest.importorskip("matplotlib")
    out = tmp_path / f"ann.{end}"
    assert main(["show", edges, "--seed", "ann", "--out", str(out)]) == 0
    assert out.stat().st_size > 1000
    if end == "svg":  # text is drawn as paths, with the text itself as a comment
        assert "friend of 3" in out.read_text()


def test_layers_are_the_sample():
    adjs, sub = typed()
    layers = layers_of(sub, adjs, 100)
    assert layers.kinds == ["item", "user"]
    assert len(layers.links) == sum(len(x) for x in sub.edge.values())
    assert [spot.hop for spot in layers.spots] == sorted(s.hop for s in layers.spots)
    assert layers.times == (1, 5)
    assert set(layers.missing) == {0}
    for link in layers.links:
        kinds = [layers.spots[end].kind for end in (link.sender, link.receiver)]
        assert sorted(kinds) == [0, 1]


def test_layers_are_cut_evenly():
    adj = CompactAdj.from_edge_index(torch.randint(500, (2, 5000)), 500)
    sub = sample_rooted(adj, [0, 1], [10, 10])
    layers = layers_of(sub, None, 12)
    for hop, count in enumerate(sub.num_sampled_nodes):
        shown = sum(spot.hop == hop for spot in layers.spots)
        assert shown == min(12, count)
        assert layers.missing[hop] == count - shown
    senders = {link.sender for link in layers.links}
    assert senders >= {i for i, spot in enumerate(layers.spots) if spot.hop}
    parents = {link.receiver for link in layers.links if link.sender > 14}
    assert len(parents) > 6  # of twelve: the choice is even
    with pytest.raises(ValueError, match="'subgraph' must know its hops"):
        sub.induced(adj).draw()


def test_figures_have_types_and_times():
    pytest.importorskip("matplotlib")
    adjs, sub = typed()
    figure = sub.draw(adjs)
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words == ["item", "user", "time 1", "time 5"]
    empty = sample_rooted(CompactAdj.from_edge_index([[0], [1]]), [], [2])
    empty.draw()
    assert "<svg" in empty.html()


def test_page_holds_whatever_nodes_are_called():
    pytest.importorskip("matplotlib")
    odd = '</script><script>alert("x")</script>'
    adj = CompactAdj.from_pandas({"source": [odd], "target": ["& <b>"]})
    page = sample_rooted(adj, [0, 1], [1]).html(adj, title="<i>")
    assert page.count("</script>") == 1
    assert "<title>&lt;i&gt;</title>" in page
    named = adj.named(np.array(["__TITLE__", "__FIGURE__"]))
    page = sample_rooted(named, [0, 1], [1]).html(named, title="__FIGURE__")
    assert page.count("<title>__FIGURE__</title>") == 1
    assert page.count("__FIGURE__</text>") == 1
    assert not re.search(r'(?:src|href)="(?!#)|https?://(?!www\.w3\.org/)', page)


@pytest.fixture(params=[(1280, 800), (390, 780)], ids=["wide", "narrow"])
def page(request, tmp_path, edges):
    pytest.importorskip("matplotlib")
    if chromium() is None:
        pytest.skip("no chromium or chrome is installed to look at the page with")
    out = tmp_path / "ann.html"
    assert main(["show", edges, "--seed", "ann", "--out", str(out)]) == 0
    window = Page(out, *request.param, tmp_path / "profile")
    yield window
    kept = os.environ.get("GTTF_SCREENSHOTS")  # a directory, for who wants to look
    if kept:
        window.screenshot(Path(kept) / f"{request.node.callspec.id}.png")
    window.close()


SPOTS = (
    "[...document.querySelectorAll('[id^=spot_]')].map(s => s.getBoundingClientRect())"
    ".map(b => [b.x + b.width / 2, b.y + b.height / 2])"
)
FADED = "document.querySelectorAll('.faded').length"


def test_page_in_a_browser(page):
    spots, size = page.value(SPOTS), page.value("[innerWidth, innerHeight]")
    assert len(spots) == 9
    assert all(0 < x < size[0] and 0 < y < size[1] for x, y in spots)
    across = [x for x, _ in spots]  # hops to the right
    assert across[0] < min(across[1:5])
    assert max(across[1:5]) < min(across[5:])
    assert page.value("document.documentElement.scrollWidth") <= size[0]
    tip = page.value("document.querySelector('#spot_1 title').textContent")
    assert re.match(r"friend \d · hop 1 · 1 in, 1 out · time \d", tip)

    page.mouse("mouseMoved", *spots[1])
    assert page.value(FADED) == 6 + 6 + 6  # spots, their names, and edges
    page.mouse("mouseMoved", 2, size[1] - 2)
    assert page.value(FADED) == 0

    page.mouse("mouseWheel", *spots[1], deltaX=0, deltaY=-400)
    zoomed = page.value(SPOTS)
    assert zoomed[1] == pytest.approx(spots[1], abs=1)  # what is pointed at stays
    gap = spots[2][1] - spots[1][1]
    assert zoomed[2][1] - zoomed[1][1] == pytest.approx(gap * 2.718, rel=0.05)
    page.mouse("mouseMoved", 200, 300)
    page.mouse("mousePressed", 200, 300, button="left", clickCount=1)
    page.mouse("mouseMoved", 230, 310, button="left", buttons=1)
    page.mouse("mouseReleased", 230, 310, button="left", clickCount=1)
    moved = [zoomed[1][0] + 30, zoomed[1][1] + 10]
    assert page.value(SPOTS)[1] == pytest.approx(moved, abs=1)
    page.value("svg.dispatchEvent(new MouseEvent('dblclick'))")
    assert page.value(SPOTS)[1] == pytest.approx(spots[1], abs=1)
    assert not [e for e in page.events if e["method"] == "Runtime.exceptionThrown"]


def test_page_tells_nodes_and_has_their_parts():
    """Groups of the picture by which its script finds a node, its name and edges."""
    pytest.importorskip("matplotlib")
    adjs, sub = typed()
    page = sub.html(adjs, "item 0")
    tips = re.findall(r'id="spot_\d"><title>(.*?)</title>', page)
    assert tips[:2] == [
        "0 · item · seed · 1 in, 1 out · time 1",
        "0 · user · hop 1 · 2 in, 2 out · time 1, 2",
    ]
    names = re.findall(r'id="name_(\d)"', page)
    assert names == list(map(str, range(len(tips))))
    assert len(re.findall(r'id="link_\d_\d_\d"', page)) == 5
    for word in ("item", "user", "time 1", "time 5", "hop 3"):
        assert f">{word}</text>" in page


def test_names_are_no_mathematics(tmp_path):
    """Of matplotlib, for which $ begins some."""
    pytest.importorskip("matplotlib")
    adj = CompactAdj.from_pandas({"source": ["$x_{"], "target": ["$a$"]})
    sub = sample_rooted(adj, [0, 1], [1])
    assert ">$x_{</text>" in sub.html(adj)
    sub.draw(adj).savefig(tmp_path / "odd.png")
