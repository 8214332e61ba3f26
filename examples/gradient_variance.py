"""When branching walks pay: the variance of a gradient against what it costs.

    python examples/gradient_variance.py --edges ca-HepTh.txt

The gradient of a tree varies between seeds, and for one seed between its walks and
negatives. Branching lessens the latter alone, and costs more. Cost × variance, beside
plain walks, is what an equal CPU time leaves: below 1 branching pays. The best fanout
of the first step is that of two-stage sampling, √(c₀ w₁ / (c₁ w₀)): a tree costs
c₀ + c₁ f and varies by w₀ + w₁ / f. Half a minute, on a planted partition by default.
"""

import argparse
import json
import time
from pathlib import Path

import torch

from bench_embedding import load
from gttf_sampler import CompactAdj, traverse
from gttf_sampler.embedding import DeepWalk, WatchYourStep, split_links

FANOUTS = [[1] * 10, [2] + [1] * 9, [3] + [1] * 9, [2] * 3 + [1] * 7, [3] * 3 + [1] * 7]
SKIP_GRAM = {"contrast": "logistic", "halves": True}
MODELS = {  # rows that were touched, and no others, as `fit` does it
    "Watch Your Step": lambda adj: WatchYourStep(adj, 128, sparse=True),
    "DeepWalk": lambda adj: DeepWalk(adj, 128, 10, sparse=True, **SKIP_GRAM),
}


def gradient(model, seeds, fanouts, generator):
    """The gradient of the loss per seed, as one vector, and its CPU seconds."""
    start = time.process_time()
    forest = traverse(model.adj, seeds, fanouts, generator=generator)
    tables = [p for name, p in model.named_parameters() if name.endswith("weight")]
    found = torch.autograd.grad(model.loss(forest), tables)
    seconds = time.process_time() - start
    return torch.cat([t.to_dense().view(-1) for t in found]).double(), seconds


def measure(model, fanouts, batches, size=512):
    """µs of a tree, and variances of its gradient, between and within seeds."""
    generator, total = torch.Generator().manual_seed(0), 0.0
    own, square, cross, spent = 0.0, 0.0, 0.0, []
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
    return micro, size * (cross - expected), size * (square - cross)


def best_fanout(found):
    """That of the first step, from what fanouts 1 and 3 cost and vary by."""
    (cost, between, within), _, (cost3, _, within3), *_ = found
    c1, w1 = (cost3 - cost) / 2, (within - within3) * 1.5
    return max(0.0, (cost - c1) * w1 / (c1 * (between + within - w1))) ** 0.5


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edges", help="file with lines 'source target'")
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--json")
    args = parser.parse_args()
    torch.set_num_threads(1)
    split = split_links(*load(args.edges), hide=0.5, generator=0)
    adj = CompactAdj.from_edge_index(split.train, split.num_nodes, direction="out")
    kept = {}
    for name, make in MODELS.items():
        torch.manual_seed(0)
        model = make(adj)
        model.fit(10, lr=0.03, generator=0)  # neither at the start nor at the end
        print(f"{name}, fanouts             µs  between  within  cost × variance")
        found = [measure(model, fanouts, args.batches) for fanouts in FANOUTS]
        for fanouts, (cost, between, within) in zip(FANOUTS, found, strict=True):
            ratio = cost * (between + within) / (found[0][0] * sum(found[0][1:]))
            told = f"{cost:7.1f}  {between:7.3g}  {within:6.3g}  {ratio:15.2f}"
            print(f"{' '.join(map(str, fanouts)):{len(name) + 19}} {told}")
        print(f"best fanout of the first step: {best_fanout(found):.1f}")
        kept[name] = {"fanouts": FANOUTS, "measured": found}
    if args.json:
        Path(args.json).write_text(json.dumps(kept))
    print("Expected: a best fanout between 1 and 5.")
