"""The tables of docs/reproduce.md and README.md, from what the runs have left.

`python -m docs.pictures` writes them there; no number of these tables is typed.
"""

from collections.abc import Iterable
from statistics import mean, stdev
from typing import Any

from examples.reproduce.compare import Comparison, paired
from examples.reproduce.config import HOSTS, METHODS
from examples.reproduce.protocol import MARGIN, seeds_of

NAMES = {
    **{"gcn": "GCN", "gat": "GAT", "gcnii": "GCNII", "mixhop": "MixHop", "sgc": "SGC"},
    **{"sage": "SAGE", "dgi": "DGI", "cora": "Cora", "citeseer": "CiteSeer"},
    **{"pyg": "PyG", "dgl": "DGL"},
}
CLASSIFIED = ("cora", "citeseer")
HEAD = (
    *("model, graph, host", "full batch", "its authors", "GTTF", "paper, GTTF"),
    *("difference", "95 % interval", f"verdict, {MARGIN:g} points", "seeds"),
)
SHORT = ("gcn", "gat", "gcnii", "mixhop", "sgc")  # those of the README


def comparison(runs: Iterable[dict[str, Any]]) -> str:
    """A line per model, graph and host: GTTF against full batches of the same seeds."""
    runs = list(runs)
    lines = [_line(HEAD), "|---|---:|---:|---:|---:|---:|---:|---|---:|"]
    for method, recipe in METHODS.items():
        for dataset in CLASSIFIED:
            for host in HOSTS:
                own = of_cell(runs, method, dataset, host)
                found = paired(own)
                if found is None:
                    continue
                own = _of_both(own)
                who = ", ".join(NAMES[name] for name in (method, dataset, host))
                cells = [
                    *(_spread(own, "full"), _known(recipe.published.get(dataset))),
                    *(_spread(own, "gttf"), _known(recipe.paper.get(dataset))),
                    *(_signed(found.difference), interval(found)),
                    *(found.verdict, _seeds(found, dataset)),
                ]
                lines.append(_line([who, *cells]))
    return "\n".join([*lines, ""])


def summary(runs: Iterable[dict[str, Any]], host: str = "pyg") -> str:
    """A line per model: the differences with their intervals, and the verdicts."""
    runs = list(runs)
    names = [NAMES[dataset] for dataset in CLASSIFIED]
    lines = [_line(["GTTF − full batch", *names]), "|---|---:|---:|"]
    for method in SHORT:
        cells = []
        for dataset in CLASSIFIED:
            found = paired(of_cell(runs, method, dataset, host))
            cells.append("" if found is None else _short(found, dataset))
        if any(cells):
            lines.append(_line([NAMES[method], *cells]))
    return "\n".join([*lines, ""])


def _short(found: Comparison, dataset: str) -> str:
    """Interval and verdict, and how many seeds if some are missing."""
    few = "" if found.pairs == seeds_of(dataset) else f" (n={found.pairs})"
    return f"{interval(found).replace(' ', '')} {found.verdict}{few}"


def interval(found: Comparison) -> str:
    """The interval of the mean difference, in points."""
    return f"{_signed(found.low)} … {_signed(found.high)}"


def _signed(number: float) -> str:
    return f"{number:+.1f}".replace("-", "−")


def of_cell(
    runs: list[dict[str, Any]], method: str, dataset: str, host: str
) -> list[dict[str, Any]]:
    """The runs of one cell and host that came to an end."""
    key = (method, dataset, host)
    found = (run for run in runs if "test" in run)
    return [r for r in found if (r["method"], r["dataset"], r["host"]) == key]


def _of_both(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The runs whose seeds were trained both ways, as in the difference."""
    full, gttf = ({r["seed"] for r in runs if r["way"] == w} for w in ("full", "gttf"))
    return [run for run in runs if run["seed"] in full & gttf]


def _spread(runs: list[dict[str, Any]], way: str) -> str:
    """Mean ± standard deviation over seeds."""
    scores = [run["test"] for run in runs if run["way"] == way]
    return f"{mean(scores):.1f} ± {stdev(scores):.1f}"


def _known(number: float | None) -> str:
    return "" if number is None else f"{number:.1f}"


def _seeds(found: Comparison, dataset: str) -> str:
    asked = seeds_of(dataset)
    return str(asked) if found.pairs == asked else f"{found.pairs} of {asked}"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
