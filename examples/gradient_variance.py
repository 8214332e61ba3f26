"""When branching walks pay: the variance of a gradient against what it costs.

    python examples/gradient_variance.py --edges ca-HepTh.txt

The gradient of a tree varies between seeds (`between`) and, given a seed, between its
walks and negatives (`within`). Of what f walkers per seed save, only `within` gets
smaller; seeds that come once per epoch cancel `between` out as an epoch goes on. So
compare costs × both, for large steps, and cost × `within`, for small ones: below 1,
f walkers are worth more than f seeds. Both tables are told relative to plain walks.
Without `--edges` a planted partition is made, and it takes half a minute.
"""

import argparse
import json
import time
from pathlib import Path

import torch

from bench_embedding import load
from gttf_sampler import CompactAdj, traverse
from gttf_sampler.embedding import DeepWalk, WatchYourStep, split_links

DEPTH = 10
FANOUTS = {
    "1": [1] * DEPTH,
    "2 at first": [2] + [1] * (DEPTH - 1),
    "3 at first": [3] + [1] * (DEPTH - 1),
    "2, three times": [2] * 3 + [1] * (DEPTH - 3),
    "3, three times": [3] * 3 + [1] * (DEPTH - 3),
}
MODELS = {
    "Watch Your Step": lambda adj: WatchYourStep(adj, 128, [1] * DEPTH, 5),
    "DeepWalk": lambda adj: DeepWalk(adj, 128, DEPTH, contrast="logistic", halves=True),
}


def gradient(model, seeds, fanouts, generator):
    """The gradient of the loss per seed, as one vector, and its CPU seconds."""
    start = time.process_time()
    forest = traverse(model.adj, seeds, fanouts, generator=generator)
    tables = [p for name, p in model.named_parameters() if name.endswith("weight")]
    found = torch.autograd.grad(model.loss(forest), tables)
    seconds = time.process_time() - start
    return torch.cat([table.view(-1) for table in found]).double(), seconds


def measure(model, fanouts, batches, size):
    """Variances of the gradient of one tree, between and within seeds, and µs."""
    generator = torch.Generator().manual_seed(0)
    total, own, square, cross, spent = 0.0, 0.0, 0.0, 0.0, []
    for _ in range(batches):
        seeds = torch.randint(model.adj.num_rows, (size,), generator=generator)
        first, one = gradient(model, seeds, fanouts, generator)
        second, two = gradient(model, seeds, fanouts, generator)
        mean = (first + second) / 2
        total, own = total + mean, own + float(mean @ mean)
        square += float(first @ first + second @ second) / (2 * batches)
        cross += float(first @ second) / batches
        spent += [one, two]
    expected = (float(total @ total) - own) / (batches * (batches - 1))  # its square
    micro = 1e6 * sorted(spent)[len(spent) // 2] / size
    return size * (cross - expected), size * (square - cross), micro


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edges", help="file with lines 'source target'")
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--size", type=int, default=512, help="seeds of a batch")
    parser.add_argument("--json")
    args = parser.parse_args()
    torch.set_num_threads(1)
    edges, nodes = load(args.edges)
    split = split_links(edges, nodes, hide=0.5, generator=0)
    adj = CompactAdj.from_edge_index(split.train, nodes, direction="out")
    rows, base = [], None
    print(f"{'':16} {'fanouts':15}  µs a tree  between  within  × both  × within")
    for name, make in MODELS.items():
        torch.manual_seed(0)
        model = make(adj)
        model.fit(10, lr=0.03, generator=0)  # neither at the start nor at the end
        for title, fanouts in FANOUTS.items():
            between, within, cost = measure(model, fanouts, args.batches, args.size)
            now = cost * (between + within), cost * within
            base = base if title != "1" else now
            ratios = [value / plain for value, plain in zip(now, base, strict=True)]
            rows.append([name, title, cost, between, within, *ratios])
            told = f"{cost:9.1f}  {between:7.3g}  {within:6.3g}"
            print(f"{name:16} {title:15}  {told}  {ratios[0]:6.2f}  {ratios[1]:8.2f}")
    if args.json:
        Path(args.json).write_text(json.dumps(rows))
    print("Expected on the planted partition: × both above 1, × within below for WYS.")
