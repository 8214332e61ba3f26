"""Results as pictures that need no text beside them."""

from importlib import import_module
from pathlib import Path
from typing import Any

from gttf_sampler import _files
from gttf_sampler.bench import curves, growth, ratios
from gttf_sampler.bench.growth import OURS, THEIRS
from gttf_sampler.bench.tables import graphs_in

BOUND = "#d9dee3"
PARTS = {
    "sampling": ("#d1495b", "sampling"),
    "gather": ("#edae49", "gathering features"),
    "compute": ("#30638e", "forward and backward"),
}
INCH_PER_BAR = 0.42
THICK = 0.7
MEMORY = "the memory"
SIGNATURE = "drawn by gttf bench"  # in the metadata of a picture


def save(result: dict[str, Any], path: str) -> None:
    """Draws a result into a file; its name says the format."""
    kind = Path(path).suffix[1:]
    signed = {"Software" if kind == "png" else "Creator": SIGNATURE}
    with _files.replacing(path) as (out,):
        draw(result).savefig(out, format=kind, dpi=150, metadata=signed)


def is_ours(file: Path) -> bool:
    """Whether `save` has written it."""
    return SIGNATURE.encode() in file.read_bytes()


def draw(result: dict[str, Any]) -> Any:
    """A matplotlib Figure of any result."""
    if result["task"] == "scale":
        return growth.draw(result, empty(result, 9.5, 4.4))
    if result["task"] == "embedding":
        grows = result["groups"][0]["columns"] == curves.GROWTH
        return curves.draw(result, empty(result, 9.5, 4.6 if grows else 8.0))
    if result["task"] == "modes":
        entries = ratios.bars(result)
        figure = empty(result, 9.0, 0.8 + ratios.height(entries))
        ratios.draw(figure.subplots(), entries)
        return figure
    groups = result["groups"]
    heights = [1.0 + INCH_PER_BAR * len(group["rows"]) for group in groups]
    figure = empty(result, 9.0, sum(heights) + 1.1)
    panels = figure.subplots(
        len(groups), 1, squeeze=False, gridspec_kw={"height_ratios": heights}
    )
    for axes, group in zip(panels[:, 0], groups, strict=True):
        kind = group.get("columns", result["task"])
        if kind in UNITS:
            _rate_bars(axes, group["rows"], UNITS[kind])
        else:
            DRAW[kind](axes, group["rows"])
        axes.set_title(group["title"], loc="left", size=10, weight="bold")
        axes.set_yticks(range(len(group["rows"])))
        axes.set_yticklabels([row["peer"] for row in group["rows"]], size=9)
        axes.set_ylim(len(group["rows"]) - 0.4, -0.6)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", alpha=0.25)
        axes.set_axisbelow(True)
        axes.tick_params(axis="x", labelsize=8)
    return figure


def empty(result: dict[str, Any], width: float, height: float) -> Any:
    """An empty figure that says what was measured, on what, and where."""
    figure = import_module("matplotlib.figure").Figure(
        figsize=(width, height), layout="constrained"
    )
    machine, title = result["machine"], TITLES[result["task"]]
    if graphs := graphs_in(result):
        title += "\n" + "\n".join([graphs[0] + _settings(result), *graphs[1:]])
    figure.suptitle(title, size=12)
    backend = machine["backend"].partition(":")[0]
    foot = [f"{machine['cpu']}, {machine['cores']} cores, {backend}"]
    foot += [f"left out: {e['peer']} ({e['why']})" for e in result["left_out"]]
    foot += result.get("notes", [])
    figure.supxlabel("\n".join(foot), size=7, color="#5b6670")
    return figure


def _settings(result: dict[str, Any]) -> str:
    """The fanouts and seeds, where there are any."""
    found = result["settings"]
    if "fanouts" not in found:
        return ""
    return f"; {found['batch']:,} seeds, fanouts {found['fanouts']}"


TITLES = {
    "sampling": "Edges sampled per second (longer is better)",
    "loader": "Batches with features per second (longer is better)",
    "modes": "Times as long as ours that PyG and DGL take (longer is better)",
    "train": "An epoch of GraphSAGE, and memory of a GCN (shorter is better)",
    "walks": "Random walks: steps per second, and epochs of training on them",
    "embedding": "Embeddings: seconds of training, and what they are worth",
    "disk": "Features from a disk: rows, batches, epochs",
    "chunks": "Rows from a stream of edges (longer is better)",
    "distributed": "A batch from a graph in parts (shorter is better)",
    "build": "Edges sorted into rows per second (longer is better)",
    "kernels": "Edges drawn or sorted per second (longer is better)",
    "memory": "Memory to hold the graph and to build it (shorter is better)",
    "scale": "One batch from graphs of all sizes",
}


UNITS = {
    "sampling": "M edges/s",
    "loader": "batches/s",
    "walks": "M steps/s",
    "build": "M edges/s",
    "chunks": "M edges/s",
    "kernels": "M edges/s",
}


def _is_bound(row: dict[str, Any]) -> bool:
    return bool(row["peer"].startswith("reading"))


def _color(name: str) -> str:
    if name.startswith("gttf"):
        return OURS
    return BOUND if name.startswith("reading") else THEIRS


def _end(row: dict[str, Any], value: str, of: str = "the time") -> str:
    """What stands behind a bar: its value, and how it compares."""
    if row.get("differs"):
        return f"{value}  (other work: no ratio)"
    if row.get("ratio") is None or _is_bound(row):
        return value
    return f"{value}  ({row['ratio']:.2f} × {of} of the first)"


def _rate_bars(axes: Any, rows: list[dict[str, Any]], unit: str) -> None:
    """Work per second of the best round as a bar, of the median round as a mark."""
    work = 1e3 if unit == "batches/s" else rows[0]["edges"] / 1e3
    best, middle = ([work / row[key] for row in rows] for key in ("best", "median"))
    racers = [v for row, v in zip(rows, best, strict=True) if not _is_bound(row)]
    room = 2.0 * max(racers)  # a bound may run out of the picture
    for place, (row, value) in enumerate(zip(rows, best, strict=True)):
        beyond = value > room
        axes.barh(place, min(value, room), THICK, color=_color(row["peer"]))
        text = f"{value:.3g} {unit}, {row['best']:.3g} ms"
        if beyond:
            axes.text(room, place, f"{text} → ", ha="right", **SMALL)
        else:
            axes.text(value, place, f"  {_end(row, text)}", **SMALL)
            axes.plot(middle[place], place, "|", color="k", ms=8)
    axes.set_xlim(0, room)
    axes.set_xlabel(f"{unit}, best round;  | median round", size=8)


def _epoch_bars(axes: Any, rows: list[dict[str, Any]]) -> None:
    """The parts of an epoch end to end."""
    left = [0.0] * len(rows)
    for part, (color, name) in PARTS.items():
        values = [row[part] for row in rows]
        axes.barh(range(len(rows)), values, THICK, left=left, color=color, label=name)
        left = [a + b for a, b in zip(left, values, strict=True)]
    ends = [
        _end(row, f"{row['best']:.3g} s, {100 * row['share']:.1f} % sampling")
        for row in rows
    ]
    _write_ends(axes, left, ends)
    axes.set_xlabel("seconds", size=8, loc="left")
    place = {"loc": "upper right", "bbox_to_anchor": (1, -0.1)}
    axes.legend(fontsize=8, ncols=3, frameon=False, **place)


def _memory_bars(axes: Any, rows: list[dict[str, Any]]) -> None:
    """What is kept, and the peak of making it."""
    for place, row in enumerate(rows):
        color = _color(row["peer"])
        axes.barh(place - 0.2, row["held"] / 1e6, 0.38, color=color)
        axes.barh(place + 0.2, row["making"] / 1e6, 0.38, color=color, alpha=0.45)
        share = (
            f"{row['held'] / 1e6:,.0f} MB kept, {row['per_edge']:.1f} bytes per edge"
        )
        axes.text(
            row["held"] / 1e6, place - 0.2, f" {_end(row, share, MEMORY)}", **SMALL
        )
        peak = f" {row['making'] / 1e6:,.0f} MB more than the input while building"
        axes.text(row["making"] / 1e6, place + 0.2, peak, **SMALL)
    most = max(max(row["held"], row["making"]) for row in rows) / 1e6
    axes.set_xlim(0, 2.1 * most)
    axes.set_xlabel("MB", size=8)


def _peak_bars(axes: Any, rows: list[dict[str, Any]]) -> None:
    """The peak beyond the input."""
    values = [row["peak"] / 1e6 for row in rows]
    colors = [_color(row["peer"]) for row in rows]
    axes.barh(range(len(rows)), values, THICK, color=colors)
    ends = [
        _end(row, f"{v:.3g} MB", MEMORY) for row, v in zip(rows, values, strict=True)
    ]
    _write_ends(axes, values, ends)
    axes.set_xlabel("MB beyond the input, peak of training", size=8)


def _training_bars(axes: Any, rows: list[dict[str, Any]]) -> None:
    """The seconds of an epoch."""
    values = [row["best"] for row in rows]
    colors = [_color(row["peer"]) for row in rows]
    axes.barh(range(len(rows)), values, THICK, color=colors)
    ends = [
        _end(row, f"{row['best']:.3g} s, {row['rate']:.3g} M pairs/s") for row in rows
    ]
    _write_ends(axes, values, ends)
    axes.set_xlabel("seconds of an epoch (shorter is better)", size=8)


def _disk_row_bars(axes: Any, rows: list[dict[str, Any]]) -> None:
    """Rows per second."""
    values = [row["rate"] for row in rows]
    colors = [_color(row["peer"]) for row in rows]
    axes.barh(range(len(rows)), values, THICK, color=colors)
    ends = [f"{row['rate']:,.0f} rows/s  ({row['ratio']:.1f} ×)" for row in rows]
    _write_ends(axes, values, ends)
    axes.set_xlabel("rows per second (longer is better)", size=8)


def _time_bars(axes: Any, rows: list[dict[str, Any]]) -> None:
    """The time of a batch or of an epoch, and what part of it was waiting."""
    values = [row["best"] for row in rows]
    colors = [_color(row["peer"]) for row in rows]
    axes.barh(range(len(rows)), values, THICK, color=colors)
    unit = "s" if "batch" in rows[0] else "ms"
    ends = []
    for row in rows:
        text = f"{row['best']:.3g} {unit}"
        if unit == "s":
            text += f", {100 * row['share']:.0f} % waiting"
        ends.append(_end(row, text))
    _write_ends(axes, values, ends)
    axes.set_xlabel(f"{unit} (shorter is better)", size=8)


SMALL = {"va": "center", "size": 7.5}
DRAW = {
    "train": _epoch_bars,
    "training": _training_bars,
    "memory": _memory_bars,
    "gcn": _peak_bars,
    "distributed": _time_bars,
    "disk rows": _disk_row_bars,
    "disk sweep": _disk_row_bars,
    "disk batches": _time_bars,
    "disk epochs": _time_bars,
}


def _write_ends(axes: Any, values: list[float], texts: list[str]) -> None:
    """Words behind the bars, and room for them."""
    for place, (value, text) in enumerate(zip(values, texts, strict=True)):
        axes.text(value, place, f"  {text}", va="center", size=8)
    axes.set_xlim(0, 2.2 * max(values))
