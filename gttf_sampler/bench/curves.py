"""The pictures of `gttf bench embedding`: epochs, AUC against seconds, growth."""

from typing import Any

from gttf_sampler.bench.growth import OURS, THEIRS

GROWTH = "embedding scale"  # the columns of a table of graphs of all sizes
COLORS = ("#2a7f62", "#30638e", "#7a5195", "#9aa5b1", "#d1495b", "#edae49", "#5b6670")


def draw(result: dict[str, Any], figure: Any) -> Any:
    """`figure` with what was measured: at one size, or while the graph grows."""
    if result["groups"][0]["columns"] == GROWTH:
        _growth(result["groups"][0], figure)
    else:
        upper, lower = figure.subplots(2, 1, height_ratios=[1.1, 1.4])
        _epochs(result["groups"], upper)
        quality(result["groups"][-1], lower)
    plain(figure)
    return figure


def plain(figure: Any) -> None:
    """Takes away from all panels what nobody reads."""
    for axes in figure.axes:
        axes.grid(alpha=0.25)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.title.set_size(10)


def _epochs(groups: list[dict[str, Any]], axes: Any) -> None:
    """Seconds of an epoch as bars, methods below each other."""
    rows = [row for g in groups if g["columns"] == "embedding" for row in g["rows"]]
    names = [row["peer"] for row in rows]
    values = [row["best"] for row in rows]
    colors = [OURS if name.startswith("gttf") else THEIRS for name in names]
    axes.barh(range(len(rows)), values, color=colors)
    for place, row in enumerate(rows):
        ratio = f", {row['ratio']:.1f} ×" if row.get("ratio") else ""
        text = f" {row['best']:.3g} s, {row['rate']:.3g} M pairs/s{ratio}"
        axes.text(row["best"], place, text, va="center", size=7.5)
    axes.set_yticks(range(len(rows)), names, size=8)
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="seconds of an epoch (shorter is better)")
    axes.set_xlim(min(values) / 2, max(values) * 12)
    axes.set_title("an epoch; × the first of the method", loc="left")


def quality(group: dict[str, Any], axes: Any) -> None:
    """AUC of hidden edges against seconds, a line per subject, a dot per epoch."""
    for number, row in enumerate(group["rows"]):
        seconds, _, aucs = zip(*row["curve"], strict=True)
        color = COLORS[number % len(COLORS)]
        values = [100 * auc for auc in aucs]
        dot = 3 if len(values) > 1 else 6
        how = {"ms": dot, "lw": 1.2, "color": color, "label": row["peer"]}
        axes.plot(seconds, values, "o-", **how)
    axes.set(xscale="log", xlabel="seconds of training")
    axes.set(ylabel="ROC-AUC of hidden edges, %")
    axes.set_title("what the seconds are worth", loc="left")
    axes.legend(frameon=False, fontsize=8)


def _growth(group: dict[str, Any], figure: Any) -> None:
    """Seconds of an epoch, and memory, against the number of nodes."""
    left, right = figure.subplots(1, 2)
    for number, name in enumerate(dict.fromkeys(row["peer"] for row in group["rows"])):
        rows = [row for row in group["rows"] if row["peer"] == name]
        nodes = [row["nodes"] for row in rows]
        how = {"color": COLORS[number], "marker": "o", "label": name}
        left.plot(nodes, [row["best"] for row in rows], **how)
        right.plot(nodes, [row["peak"] / 1e6 for row in rows], **how)
        for row in rows:
            note = {"xytext": (0, 6), "textcoords": "offset points", "size": 7.5}
            note["ha"] = "center"
            place = row["nodes"], row["best"]
            left.annotate(f"{row['per_node']:.0f} µs a node", place, **note)
    left.set(xscale="log", yscale="log", xlabel="nodes", ylabel="seconds of an epoch")
    right.set(xscale="log", yscale="log", xlabel="nodes", ylabel="peak MB of training")
    for axes in (left, right):
        axes.margins(x=0.15, y=0.15)
    left.set_title(group["title"], loc="left")
    left.legend(frameon=False, fontsize=8)
