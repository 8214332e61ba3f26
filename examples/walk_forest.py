"""Prints Figure 1 of the GTTF paper, from a graph to its walk forest; two seconds.

`--png figure1.png` draws it as well, which takes matplotlib.
"""

import argparse

from gttf_sampler import CompactAdj, traverse

EDGES = [[0, 1, 1, 1, 1, 2, 3, 3, 4, 4], [1, 0, 2, 3, 4, 1, 1, 4, 1, 3]]
PICTURE = "0 ─── 1 ─── 2     ", "     ╱ ╲          ", "    3 ─ 4"
PLACES = [(0.5, 2.4), (1.5, 2.4), (2.5, 2.4), (0.92, 1.4), (2.08, 1.4)]  # of the nodes
NAMES = "Graph G", "Adjacency matrix", "CompactAdj: Â and δ", "Walk forest"
FIGURE_1 = [[[4], [0]], [[3, 1], [1, 1]], [[4, 1, 2, 0], [0, 2, 4, 2]]]
CENTRED = {"ha": "center", "va": "center_baseline", "size": 13}
ARROW = {"arrowstyle": "->", "shrinkA": 11, "shrinkB": 11, "lw": 1.2}
ORANGE, GREEN, GREY = ("#fed5a9", "#fd9727"), ("#b9dfbb", "#50ae55"), "#c4c4c4"


def cells(adj):
    """The rows of the adjacency matrix, of Â and of δ; "·" where there is no entry."""
    rows = [row.tolist() for row in adj.col.split(adj.degree.tolist())]
    matrix = [["1" if v in row else "·" for v in range(adj.num_cols)] for row in rows]
    compact = [([*map(str, row)] + ["·"] * 4)[: adj.max_degree] for row in rows]
    return matrix, compact, [[str(len(row))] for row in rows]


def show(adj, forest):
    print("(a) Graph G and its edge_index\n")
    for line, ends in zip(PICTURE, (*EDGES, []), strict=True):
        print("    " + line, *ends)
    print("\n(b) Adjacency matrix   (c) CompactAdj: Â and δ\n")
    for row in zip(*cells(adj), strict=True):
        a, compact, degree = (" ".join(part) for part in row)
        print(f"    {a:22} {compact}    {degree}")
    print("\n(d) Walk forest: seeds [4, 0], fanouts [2, 2]\n")
    print("    " + forest.text().replace("\n", "\n    "))


def circle(axes, x, y, label, colors):
    axes.scatter(x, y, s=480, c=colors[0], edgecolors=colors[1], lw=1.6, zorder=2)
    axes.text(x, y, label, **CENTRED)


def brackets(axes, rows, left, step=0.35):
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            x, y, color = left + j * step, 2.6 - i * step, GREY if cell == "·" else "k"
            axes.text(x, y, cell, color=color, **CENTRED)
    for x, inwards in ((left - 0.25, 0.08), (left + step * len(rows[0]) - 0.1, -0.08)):
        axes.plot([x + inwards, x, x, x + inwards], [2.8, 2.8, 1, 1], "k", lw=1.3)


def draw(adj, forest, path):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.2, 3.2))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, 13.2), ylim=(0, 3.2))
    axes.set_axis_off()
    for x, letter, name in zip((1.5, 4.3, 7.0, 10.8), "abcd", NAMES, strict=True):
        axes.text(x, 0.4, f"({letter}) {name}", ha="center", size=13)
    for u, v in zip(*EDGES, strict=True):
        axes.plot(*zip(PLACES[u], PLACES[v], strict=True), "k", lw=1.3, zorder=1)
    for node, place in enumerate(PLACES):
        circle(axes, *place, node, ORANGE)
    for left, rows in zip((3.6, 6.15, 8), cells(adj), strict=True):
        brackets(axes, rows, left)
    for depth, level in enumerate(forest.nodes):
        spread, y = 1.9 / level.shape[1], 2.7 - 0.8 * depth
        for tree, nodes in enumerate(level.tolist()):
            for i, node in enumerate(nodes):
                places = i + 0.5, i // 2 * 2 + 1
                x, parent = (8.8 + 2.1 * tree + spread * at for at in places)
                circle(axes, x, y, node, GREEN)
                if depth:
                    axes.annotate("", (x, y), (parent, y + 0.8), arrowprops=ARROW)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Prints Figure 1 of the GTTF paper.")
    parser.add_argument("--png", metavar="FILE", help="draw it as well")
    args = parser.parse_args()
    adj = CompactAdj.from_edge_index(EDGES)
    forest = traverse(adj, seeds=[4, 0], fanouts=[2, 2], generator=21874)
    show(adj, forest)
    if args.png:
        draw(adj, forest, args.png)
    same = [level.tolist() for level in forest.nodes] == FIGURE_1
    print(f"\nThe forest of the paper's figure: {same} (expected: True)")
