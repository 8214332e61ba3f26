"""The table of embeddings in docs/embeddings.md, from the runs that are kept.

python -m examples.reproduce.links_table
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

from examples.reproduce.config import METHODS
from examples.reproduce.links_settings import FANOUT
from examples.reproduce.store import Store

RESULTS = Path(__file__).parent / "results"
GRAPHS = ("ppi", "hepth")
NAMES = {"deepwalk": "DeepWalk", "node2vec": "Node2Vec", "wys": "WatchYourStep"}
WAYS = {
    "walks": "plain walks",
    "gttf": f"branching by {FANOUT} at the first step",
}


def lines(runs: Sequence[dict[str, Any]]) -> list[str]:
    """The lines of the table: mean ± standard deviation, and median CPU seconds."""
    found = [
        "| | PPI | ca-HepTh | the paper, on its split | CPU s |",
        "|---|---:|---:|---:|---:|",
    ]
    for method, name in NAMES.items():
        paper = METHODS[method].paper
        beside = " / ".join(f"{paper[data]:.1f}" for data in GRAPHS if paper)
        for way, title in WAYS.items():
            cells, seconds = [], []
            for data in GRAPHS:
                same = {"method": method, "dataset": data, "way": way}
                own = [run for run in runs if same.items() <= run.items()]
                if not own:
                    cells.append("not run")
                    continue
                score = [run["test"] for run in own]
                cells.append(f"{mean(score):.1f} ± {stdev(score):.1f}")
                seconds.append(f"{median(run['train seconds'] for run in own):.1f}")
            rest = [*cells, beside, " / ".join(seconds)]
            found.append(f"| `{name}`, {title} | {' | '.join(rest)} |")
    return found


if __name__ == "__main__":
    print("\n".join(lines(Store(RESULTS).all())))
