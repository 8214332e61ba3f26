"""Draws the diagrams of docs/ as SVG that is readable on light and dark pages.

`python -m docs.diagrams` writes two files into docs/images: a tree from tasks to
samplers (cookbook.md), and the versions that the tests have run with, read from the
table in robustness.md.
"""

import html
import re
from pathlib import Path

HERE = Path(__file__).parent
STYLE = """
  text { font: 13px sans-serif; fill: #1b1f24; }
  .small { font-size: 11.5px; } .code { font-family: monospace; font-size: 12px; }
  .head { font-weight: bold; }
  .box { fill: #eef2f6; stroke: #8795a5; } .leaf { fill: #dff1e8; stroke: #2a7f62; }
  .part { fill: #fff3d1; stroke: #b58900; } .line { stroke: #8795a5; fill: none; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .box { fill: #263040; } .leaf { fill: #16392c; }
    .part { fill: #43370f; }
  }
"""
# question → what to use where the answer is yes; the last line is for everybody else
TREE = (
    ("No GNN: vectors of nodes, or walks?", "Node2Vec, WatchYourStep, gttf embed"),
    ("Links to predict?", "LinkNeighborLoader, exclude_edges=True"),
    ("Times that must not leak?", "NeighborLoader, time_attr=, “last”"),
    ("Many node types, few nodes of some?", "HGTLoader"),
    (
        "Deep model, few hops of context?",
        "ShaDowKHopSampler, ClusterLoader, GraphSAINT…",
    ),
    ("Batches reach too many nodes?", "labor=True (PyG), LaborSampler (DGL)"),
    ("A rule of your own?", "traverse(…, bias=your_function)"),
    ("Anything else", "NeighborLoader; GCN: unbiased(model)"),
)


def svg(width: int, height: int, title: str, parts: list[str]) -> str:
    """An SVG file of these parts."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
    lines = [
        f'{head} role="img">',
        f"<title>{title}</title>",
        f"<style>{STYLE}</style>",
    ]
    return "\n".join([*lines, *parts, "</svg>", ""])


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """Words that start at a place."""
    return f'<text x="{x}" y="{y}" class="{kind}">{html.escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, kind: str) -> str:
    """A rectangle with round corners."""
    place = f'x="{x}" y="{y}" width="{width}" height="{height}"'
    return f'<rect {place} rx="5" class="{kind}"/>'


def tree() -> str:
    """The questions, one below the other, each with the sampler to its right."""
    step, parts = 46, list[str]()
    for number, (question, sampler) in enumerate(TREE):
        y, last = 10 + step * number, number == len(TREE) - 1
        parts.append(box(10, y, 270, 30, "box"))
        parts.append(text(20, y + 20, question))
        parts.append(f'<path class="line" d="M280 {y + 15} H330"/>')
        parts.append(box(330, y, 360, 30, "leaf"))
        parts.append(text(340, y + 20, sampler, "code"))
        if not last:
            parts.append(text(295, y + 11, "yes", "small"))
            parts.append(f'<path class="line" d="M40 {y + 30} V{y + step}"/>')
            parts.append(text(48, y + 43, "no", "small"))
    return svg(700, 16 + step * len(TREE), "Which sampler to use, by task", parts)


def rows(page: str) -> list[list[str]]:
    """The rows of the table of versions in robustness.md."""
    section = page.split("\n## Versions\n")[1]
    table = re.search(r"^\| Python \|.*\n\|[-|]+\n((?:\|.*\n)+)", section, re.MULTILINE)
    if table is None:
        raise ValueError("robustness.md must have a table under 'Versions'")
    lines = table[1].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def versions(page: str) -> str:
    """A box per run, torch by Python, with its PyG, DGL and numba."""
    found: dict[tuple[str, str], list[list[str]]] = {}
    for row in rows(page):
        found.setdefault((row[1], row[0]), []).append(row)
    number = lambda version: tuple(map(int, version.split(".")))  # noqa: E731
    torches = sorted({torch for torch, _ in found}, key=number)
    pythons = sorted({python for _, python in found}, key=number)
    wide, high, left, y = 205, 26, 70, 34
    parts = [
        text(left + wide * i + 8, 22, f"Python {python}", "head")
        for i, python in enumerate(pythons)
    ]
    for torch in torches:
        parts.append(text(6, y + 16, torch, "head"))
        for i, python in enumerate(pythons):
            for n, row in enumerate(found.get((torch, python), [])):
                _, _, _, numba, pyg, dgl, result = row
                words = f"PyG {pyg}, " + ("no DGL" if dgl == "–" else f"DGL {dgl}")
                words += ", no numba" if numba == "–" else ""
                x, top = left + wide * i, y + high * n
                kind = "part" if "skipped" in result else "leaf"
                parts.append(box(x, top, wide - 8, high - 4, kind))
                parts.append(text(x + 8, top + 15, words, "small"))
        most = max(len(found.get((torch, python), ())) for python in pythons)
        y += high * most + 8
    parts.append(box(left, y + 6, 14, 14, "leaf"))
    parts.append(text(left + 20, y + 18, "all passed", "small"))
    parts.append(box(left + 110, y + 6, 14, 14, "part"))
    parts.append(text(left + 130, y + 18, "passed, some tests skipped", "small"))
    parts.append(text(left + 320, y + 18, "empty: not run", "small"))
    parts.append(text(6, 22, "torch", "head"))
    width = left + wide * len(pythons)
    return svg(width, y + 28, "Versions that the tests have run with", parts)


def main() -> None:
    """Writes both files."""
    page = (HERE / "robustness.md").read_text("utf-8")
    for name, drawn in {"samplers": tree(), "versions": versions(page)}.items():
        (HERE / "images" / f"{name}.svg").write_text(drawn, "utf-8")


if __name__ == "__main__":
    main()
