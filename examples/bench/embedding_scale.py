"""Epochs of embeddings on graphs of all sizes, up to LiveJournal's: time, memory, AUC.

    python -m examples.bench.embedding_scale --scale 1 --rounds 1

Made graphs with planted communities; a process per size. Half an hour at scale 1, where
LiveJournal has 4,847,571 nodes and 69 million edges; seconds at the default of 0.02.
"""

import argparse

import torch

from examples.bench.tables import show
from gttf_sampler.bench import embedding
from gttf_sampler.bench.machine import ChildError, Missing, PeakMemory, run_job
from gttf_sampler.embedding import DeepWalk, WatchYourStep, link_auc

HERE = "examples.bench.embedding_scale"  # however it was started
NODES, EDGES, SMALLEST, SHARE = 4_847_571, 68_993_773, 4_000, 0.02
FIT = {"batch_size": 2048, "progress": False}
STEPS = [1] * embedding.STEPS
MODELS = {
    "DeepWalk": (DeepWalk, (embedding.STEPS,), {}, {"lr": 0.05}),
    "WatchYourStep": (
        *(WatchYourStep, (STEPS,)),
        {"symmetric": True, "negative_weight": 0.15},
        {"lr": 0.1},
    ),
}


def steps(scale):
    """The numbers of nodes: LiveJournal's times `scale`, a tenth, … some thousand."""
    found = [round(NODES * scale)]
    while found[-1] / 10 >= SMALLEST:
        found.append(found[-1] // 10)
    return found[::-1]


def job(nodes, name, rounds, report):
    """One size in a process of its own."""
    kind, shape, how, training = MODELS[name]
    whole = embedding.planted(nodes, round(EDGES * nodes / NODES), 0)
    split = embedding.hide(whole, 0, SHARE)
    adj = type(whole).from_edge_index(split.train, nodes, direction="out")
    torch.manual_seed(0)
    aucs, times = [], []
    with PeakMemory() as memory:
        model = kind(adj, embedding.SIZE, *shape, **how)
        for table in model.children():  # few steps are enough to forget small vectors
            torch.nn.init.normal_(table.weight, std=0.01)
        for number in range(rounds):
            (epoch,) = model.fit(1, generator=number, **training, **FIT)
            aucs.append(link_auc(model.score, split))
            times.append(epoch.seconds)
    row = {"peer": f"gttf {name}.fit", "nodes": nodes, "edges": adj.num_edges}
    row |= {"best": min(times), "per_node": min(times) / nodes * 1e6}
    row |= {"rate": epoch.pairs / min(times) / 1e6, "peak": memory.beyond}
    return {**row, "count": rounds, "first": aucs[0], "auc": aucs[-1]}


def main(args):
    rows, missing = [], Missing()
    for name in MODELS:
        mine = []
        for nodes in steps(args.scale):
            wanted = {"nodes": nodes, "name": name, "rounds": args.rounds}
            try:
                mine.append(run_job({"run": f"{HERE}:job", **wanted}))
            except ChildError as error:  # the memory did not hold it
                missing.add(f"{name}, {nodes:,} nodes", str(error).splitlines()[0])
        for row in mine:
            row["ratio"] = row["per_node"] / mine[0]["per_node"]
        rows += mine
    title = f"one walk of {embedding.STEPS} steps per node, {embedding.SIZE} dimensions"
    show("embedding scale", [{"title": title, "rows": rows}], missing, args)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--scale", type=float, default=0.02)
    add("--rounds", type=int, default=1)
    add("--json", help="numbers as JSON")
    main(parser.parse_args())
