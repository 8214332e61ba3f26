"""A sampled neighbourhood as one HTML page, to zoom, to move and to point at."""

from __future__ import annotations

import html
import json
import re
from importlib.resources import files
from typing import Any

from gttf_sampler.plot.layers import Layers
from gttf_sampler.plot.subgraph import COLOURS, shade

MOST = 200  # nodes of a column


def page(subgraph: Any, adj: Any = None, title: str = "") -> str:
    """The page as text; it asks for no other file."""
    layers = Layers.of(subgraph, adj, MOST)
    nodes = len(layers.spots) + sum(layers.missing)
    title = title or f"{nodes:,} nodes sampled in {layers.hops - 1} hops"
    data = {
        "spots": [list(spot) for spot in layers.spots],
        "links": [
            [link.sender, link.receiver, link.kind, link.time, _grey(link.time, layers)]
            for link in layers.links
        ],
        "kinds": layers.kinds,
        "relations": layers.relations,
        "missing": layers.missing,
        "times": layers.times,
        "ends": [_grey(time, layers) for time in layers.times or ()],
        "colours": COLOURS,
    }
    # no '<' may end the script early, whatever nodes are called
    plain = json.dumps(data, ensure_ascii=True).replace("<", "\\u003c")
    text = files("gttf_sampler.plot").joinpath("page.html").read_text("utf-8")
    # at once: a node may be called like one of the places
    parts = {"__TITLE__": html.escape(title), "__DATA__": plain}
    return re.sub("__TITLE__|__DATA__", lambda place: parts[place[0]], text)


def _grey(time: float | None, layers: Layers) -> str:
    """The colour of an edge."""
    part = round(255 * shade(time, layers.times))
    return f"#{part:02x}{part:02x}{part:02x}"
