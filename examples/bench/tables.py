"""The columns of the scripts of this folder, and how they end: tables and JSON."""

import argparse
import json
import sys
from pathlib import Path

from gttf_sampler.bench import machine, report
from gttf_sampler.bench.report import EPOCHS, TIMES, Table

report.TABLES |= {
    "kernels": Table.of(TIMES + "edges | rate: M / s | ratio: × first"),
    "sums": Table.of(TIMES + "edges: rows | rate: GB/s | ratio: × first"),
    "chunks": Table.of(
        "peer: | edges | best: s | rate: M edges/s | peak: peak MB | MB: MB of rows",
        bar="rate",
    ),
    "disk rows": Table.of(
        "peer: | rate: best rows/s | median: median rows/s | cpu: CPU µs a row | "
        "bytes: bytes a row | ratio: × first",
        bar="rate",
    ),
    "disk sweep": Table.of(
        "peer: | rate: best rows/s | median: median rows/s | cpu: CPU µs a row | "
        "bytes: bytes a row | share: of the best median",
        bar="rate",
    ),
    "disk epochs": Table.of(
        EPOCHS + "batch: ms a batch | share: waiting | peak: peak MB | ratio: × first"
    ),
    "embedding scale": Table.of(
        "peer: | nodes | edges | best: epoch s | per_node: µs a node | "
        "rate: M pairs/s | peak: peak MB | first: AUC, 1 epoch | count: epochs | "
        "auc: AUC | ratio: × first"
    ),
}
report.WRITERS["first"] = report.WRITERS["auc"]


def show(task: str, groups: list, left_out: list, args: argparse.Namespace) -> None:
    """Prints the tables of a script, and writes them as JSON."""
    command = " ".join(["python -m examples.bench." + Path(sys.argv[0]).stem])
    said = [word for word in sys.argv[1:] if word not in ("--json", args.json)]
    result = {"task": task, "groups": groups, "left_out": left_out, "settings": {}}
    busy = machine.busy()
    result |= {"machine": machine.describe(), "notes": [busy] if busy else []}
    result["command"] = " ".join([command, *said])
    print(report.render(result))
    if args.json:
        Path(args.json).write_text(json.dumps(result, indent=1) + "\n", "utf-8")
