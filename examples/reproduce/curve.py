"""Accuracy on training, validation and test nodes, epoch by epoch, to see what goes on.

`python -m examples.reproduce.curve --root DIR --only gat-cora` trains one seed, in no
table, in full batches and with GTTF, and draws both. Nothing is chosen by it.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from examples.reproduce import host_pyg, train
from examples.reproduce.config import METHODS
from examples.reproduce.data import Dataset, load
from examples.reproduce.protocol import RESERVED
from examples.reproduce.provenance import provenance
from examples.reproduce.search import with_values

WAYS = {"full": "full batch", "gttf": "GTTF"}
COLORS = {"train": "#9aa5b1", "val": "#e08214", "test": "#2a7f62"}
FOLDER = Path(__file__).parent / "results" / "curves"


def curve(
    name: str, data: Dataset, way: str, other: dict[str, float]
) -> list[dict[str, float]]:
    """Accuracies in percent at every look at the validation nodes."""
    method = with_values(METHODS[name].on(data.name), other)
    learner = host_pyg.learner(name, method, data, way, RESERVED)
    points: list[dict[str, float]] = []
    parts = {"train": data.train, "test": data.test}

    def report(epoch: int, point: dict[str, float]) -> None:
        more = {
            key: train.judge(learner, data, node, key)[key]
            for key, node in parts.items()
        }
        points.append(
            {"epoch": epoch, "loss": point["loss"], "val": point["val"], **more}
        )

    train.train(learner, data, method, report)
    return points


def draw(found: dict[str, Any], path: Path) -> None:
    """A panel per way of training; what its authors publish as a line."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.2), layout="constrained")
    name, dataset = found["cell"].split("-")
    panels = figure.subplots(1, len(found["curves"]), sharey=True, squeeze=False)[0]
    for axes, (way, points) in zip(panels, found["curves"].items(), strict=True):
        for key, color in COLORS.items():
            scores = [point[key] for point in points]
            epochs = [point["epoch"] for point in points]
            axes.plot(epochs, scores, color=color, lw=1, label=key)
        if dataset in METHODS[name].published:
            goal = METHODS[name].published[dataset]
            axes.axhline(
                goal, color="#b2182b", lw=1, ls="--", label="its authors, test"
            )
        own = "".join(f", {key} {value}" for key, value in found["set"].items())
        title = f"{found['cell']}{own}, {WAYS[way]}"
        axes.set_title(title, loc="left", fontsize=9)
        axes.set_xlabel("epoch")
        axes.set_ylim(50, 101)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("accuracy, %")
    panels[0].legend(frameon=False, fontsize=8)
    figure.savefig(path)


def _pair(text: str) -> list[str]:
    return text.split("=", 1)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", help="the folder of datasets")
    parser.add_argument("--only", nargs="+", required=True, help="cells: gat-citeseer")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument(
        "--set", nargs="+", default=[], help="other settings: lr=0.25 l2=0.05"
    )
    parser.add_argument("--results", type=Path, default=FOLDER)
    args = parser.parse_args(arguments)
    other = {name: json.loads(value) for name, value in map(_pair, args.set)}
    for cell in args.only:
        name, _, dataset = cell.partition("-")
        try:
            data = load(dataset, args.root)
        except (OSError, ValueError) as error:
            parser.error(str(error))
        curves = {way: curve(name, data, way, other) for way in args.ways}
        command = f"python -m examples.reproduce.curve --root DIR --only {cell}"
        command += f" --set {' '.join(args.set)}" if args.set else ""
        found = {"command": command, **provenance(), "cell": cell, "set": other}
        found["curves"] = curves
        args.results.mkdir(parents=True, exist_ok=True)
        text = json.dumps(found) + "\n"
        (args.results / f"{cell}.json").write_text(text, "utf-8")
        draw(found, args.results / f"{cell}.svg")


if __name__ == "__main__":
    main()
