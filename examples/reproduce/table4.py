"""Table 4 on made graphs of the same sizes: SAGE's epoch and GCN's peak memory.

    python -m examples.reproduce.table4 --results examples/reproduce/results

An epoch is as long as the real one, measured on some of its batches. Memory is the
largest resident set of a process of its own beyond its input. `--scale 0.01` tries it.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from examples.reproduce import gcn_memory
from examples.reproduce.cells import MEMORY, SECONDS, TABLE_4
from examples.reproduce.datasets.catalog import SOURCES
from examples.reproduce.provenance import provenance
from gttf_sampler import CompactAdj
from gttf_sampler.bench import graphs, machine
from gttf_sampler.bench.machine import ChildError, Report, run_job
from gttf_sampler.bench.measure import Options
from gttf_sampler.bench.step import PRODUCTS

HERE = "examples.reproduce.table4"  # however it was started
BATCH = 1024
# name: features, training nodes of the real graph
EPOCHS = {"reddit": (602, 153_431), "products": (100, 196_615)}
# name: nodes, edges in both directions, features
SIZES = {
    "cora": (2_708, 10_556, 1_433),
    "citeseer": (3_327, 9_104, 3_703),
    "pubmed": (19_717, 88_648, 500),
    "reddit": (232_965, 23_213_838, 602),
}
FRAMEWORKS = ("DGL", "PyG", "GTTF")  # in the order of the paper's table


def write_sized(name: str, scale: float, folder: str, report: Any) -> None:
    """The job that makes a graph of the size of a dataset, as `gcn_memory` reads it."""
    nodes, edges, width = SIZES[name]
    nodes, edges = max(64, round(nodes * scale)), max(256, round(edges * scale))
    report(f"making {name}", 0.0)
    graphs.make(Path(folder, "graph"), nodes, edges)
    edge_index = CompactAdj.open(Path(folder, "graph")).to_edge_index()
    x = torch.rand(nodes, width, generator=torch.Generator().manual_seed(0))
    np.save(Path(folder, "edges.npy"), edge_index.numpy())
    np.save(Path(folder, "x.npy"), x.numpy())


def memory(name: str, scale: float, progress: Report) -> dict[str, Any]:
    """Peaks of training a GCN, in GB beyond the input, per framework."""
    names, missing = gcn_memory.subjects()
    row: dict[str, Any] = {"metric": MEMORY, "dataset": name}
    with tempfile.TemporaryDirectory(prefix="gttf-table4-") as folder:
        job = {"run": f"{HERE}:write_sized", "name": name, "scale": scale}
        run_job({**job, "folder": folder}, progress)
        for subject in names:
            job = {"run": "examples.reproduce.gcn_memory:measure", "subject": subject}
            try:
                found = run_job({**job, "folder": folder}, progress)
            except ChildError as error:
                missing.add(subject, str(error).splitlines()[0])
                continue
            row[_framework(subject)] = found["peak"] / 1e9
            row.update({key: found[key] for key in ("nodes", "edges")})
            row["input"] = found["input"] / 1e9
    return {**row, "left out": list(missing)}


def speed(
    name: str, scale: float, batches: int, rounds: int, progress: Report
) -> dict[str, Any]:
    """Seconds of an epoch of GraphSAGE, per framework and loader."""
    features, train = EPOCHS[name]
    size = graphs.scaled(f"{name}-like", scale)
    steps = -(-round(train * scale) // BATCH)
    batches = min(batches, steps)
    with tempfile.TemporaryDirectory(prefix="gttf-table4-") as folder:
        place = str(Path(folder, "graph"))
        job: dict[str, Any] = {"run": "gttf_sampler.bench.graphs:make_job", "seed": 0}
        job |= {"folder": place, "nodes": size.nodes, "edges": size.edges}
        facts = run_job(job, progress)
        options = Options(
            fanouts=size.fanouts,
            batch=BATCH,
            batches=batches,
            rounds=rounds,
            features=features,
            only=["sage"],
        )
        job = {"run": "gttf_sampler.bench.step:run", "options": asdict(options)}
        found = run_job({**job, "graph": place}, progress)
    loaders = [row for group in found["groups"] for row in group["rows"]]
    epochs = {
        row["peer"]: row["best"] / 1e3 * steps
        for row in loaders
        if row["peer"] != PRODUCTS
    }
    row = {"metric": SECONDS, "dataset": name, "loaders": epochs}
    for peer, seconds in epochs.items():  # ours: the quicker of its two adapters
        key = _framework(peer)
        row[key] = min(seconds, row.get(key, seconds))
    sizes = {key: facts[key] for key in ("nodes", "edges")}
    return {**row, **sizes, "batches": batches, "left out": found["left_out"]}


def _framework(subject: str) -> str:
    """The framework that a row of `gttf bench` is about."""
    return next(
        (name for name in FRAMEWORKS if subject.lower().startswith(name.lower())), "?"
    )


def markdown(found: dict[str, Any]) -> str:
    """Ours beside the paper's, as times of GTTF."""
    heads = ["DGL", "PyG", "GTTF", "DGL / GTTF", "paper", "PyG / GTTF", "paper"]
    lines = [["", *heads], ["---", *["---:"] * len(heads)]]
    for row in found["rows"]:
        paper = dict(
            zip(FRAMEWORKS, TABLE_4[row["metric"], row["dataset"]], strict=True)
        )
        mega = row["metric"] == MEMORY
        what = "GCN, peak MB" if mega else "SAGE, s per epoch"
        shown = (lambda x: f"{1000 * x:,.0f}") if mega else (lambda x: f"{x:,.1f}")
        numbers = [
            "" if row.get(name) is None else shown(row[name]) for name in FRAMEWORKS
        ]
        ratios = []
        for name in FRAMEWORKS[:2]:
            ours = _times(row.get(name), row.get("GTTF"))
            theirs = _times(paper[name], paper["GTTF"])
            ratios += [ours, theirs or "out of memory"]
        title = SOURCES[row["dataset"]].title
        size = f"{title}, {row['nodes']:,} nodes, {row['edges']:,} edges"
        lines.append([f"{what}: {size}", *numbers, *ratios])
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    reasons = dict.fromkeys(why for row in found["rows"] for why in _left_out(row))
    notes = [f"Note: {note}." for note in found["notes"]]
    return "\n\n".join([f"`{found['command']}`:", table, *reasons, *notes]) + "\n"


def _left_out(row: dict[str, Any]) -> list[str]:
    """The peers missing in a row, with reasons."""
    return [f"Left out: {entry['peer']}: {entry['why']}." for entry in row["left out"]]


def _times(theirs: float | None, ours: float | None) -> str:
    return "" if not theirs or not ours else f"{theirs / ours:.1f} ×"


def run(
    *,
    scale: float = 1.0,
    batches: int = 20,
    rounds: int = 3,
    only: Sequence[str] = (),
    metrics: Sequence[str] = ("speed", "memory"),
    progress: Report = lambda what, share: None,
) -> dict[str, Any]:
    """All rows of the table, or those of some datasets and metrics."""
    busy, made, rows = machine.busy(), provenance(), []
    for metric, name in TABLE_4:
        if only and name not in only:
            continue
        if metric == SECONDS and "speed" in metrics:
            rows.append(speed(name, scale, batches, rounds, progress))
        if metric == MEMORY and "memory" in metrics:
            rows.append(memory(name, scale, progress))
    words = [] if scale == 1 else [f"--scale {scale:g}"]
    words += [f"--batches {batches} --rounds {rounds}"] if "speed" in metrics else []
    words += [f"--only {' '.join(only)}"] if only else []
    words += [f"--metrics {' '.join(metrics)}"] if len(metrics) < 2 else []
    command = " ".join(["python -m examples.reproduce.table4", *words])
    found = {"command": command, **made, "machine": machine.describe()}
    return {**found, "notes": [busy] if busy else [], "rows": rows}


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.reproduce.table4", description=__doc__.splitlines()[0]
    )
    add = parser.add_argument
    add("--scale", type=float, default=1.0, help="size of the graphs (1: the real one)")
    add("--batches", type=int, default=20, help="of an epoch that are measured (20)")
    add("--rounds", type=int, default=3, help="the best of so many counts (3)")
    add("--only", nargs="+", default=[], choices=[*SIZES, "products"])
    both = ["speed", "memory"]
    add("--metrics", nargs="+", default=both, choices=both)
    add("--results", default="reproduce-results", help="folder of what is found")
    return parser


def main() -> None:
    args = arguments().parse_args()
    asked = {name: value for name, value in vars(args).items() if name != "results"}
    found = run(**asked)
    folder = Path(args.results)
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found, indent=1) + "\n"
    (folder / "table4.json").write_text(text, "utf-8")
    print(markdown(found))


if __name__ == "__main__":
    main()
