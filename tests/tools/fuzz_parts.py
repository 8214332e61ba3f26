"""Forges parts and messages, and kills whoever cuts: a sentence each time, no crash.

    PYTHONPATH=.:adapters:tests/core python tests/tools/fuzz_parts.py --times 300

headers: any field of any header is replaced, with sound checksums; the part is refused
by a ValueError, or opens and draws. answers, requests, heads: rank 1 of two sends other
arrays, bytes or numbers once, in a typed graph; whoever ends in an error ends in a
PeerError that names a rank, nobody dies. kills: SIGKILL at a random moment of
`partition(overwrite=True)`; the old graph or the new one is there, whole. typed: graphs
of several types, with features in every encoding, are cut at random, and two processes
draw from them what one draws from the whole.
"""

import argparse
import multiprocessing
import random
import re
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch

from distributed_tasks import typed_rows
from forged import forge, forged_answers, mutate
from gttf_sampler import CompactAdj, FeatureFile, sample_rooted
from gttf_sampler.distributed import PartitionedGraph, partition
from gttf_sampler.distributed.part import open_part
from worlds import World


def graph(seed, typed=True):
    """A small graph, whose weights are its seed."""
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(0, 20, (2, 120), generator=generator)
    to = CompactAdj.from_edge_index(
        ends, 20, edge_weight=torch.full((120,), 1.0 + seed)
    )
    by = CompactAdj.from_edge_index(ends[:, :50] % 12, (12, 20))
    return {("a", "to", "a"): to, ("b", "by", "a"): by} if typed else to


def try_header(path, seed):
    """Opens a part whose header was changed anywhere, and draws from it."""
    choice = random.Random(seed)
    where = choice.choice(["whole", "part", "relation"])
    said = []
    forge(path, where, lambda content: said.append(mutate(content, choice)))
    try:
        with PartitionedGraph.open(path) as opened:
            sample_rooted(opened.adjs, {"a": range(20)}, [2, -1], generator=1)
            for values in opened.features.values():
                values[torch.arange(len(values))]
    except ValueError as error:
        sentence = re.match(r"'[^\n]*' must .*\(got ", str(error), re.DOTALL)
        return "refused" if sentence else f"finding: {where} {said}: {error!r}"
    except BaseException as error:
        return f"finding: {where} {said}: {error!r}"
    return "opened"


def headers(times, folder):
    """Every case in a process of its own, as a crash would end this one."""
    context, seen = multiprocessing.get_context("spawn"), Counter()
    for method in ("range", "hash"):
        x = {("a", "x"): torch.rand(20, 3)}
        partition(graph(0), folder / method, 1, method=method, features=x)
    with context.Pool(1) as pool:
        for seed in range(times):
            path = folder / "case"
            shutil.copytree(folder / ("range", "hash")[seed % 2], path)
            try:
                found = pool.apply_async(try_header, (path, seed)).get(60)
            except multiprocessing.TimeoutError:
                found = f"finding: seed {seed} hangs, or ends the process"
            seen[found] += 1
            shutil.rmtree(path)
    return seen


def messages(what, times, folder):
    """Rank 1 speaks wrongly, once per time."""
    seen, world = Counter(), World(2, tempfile.mkdtemp(dir=folder))
    x = {("a", "x"): torch.rand(20, 3)}
    partition(graph(0), folder / what, 2, method="hash", features=x)
    for seed in range(times):
        for rank, (kind, value) in enumerate(
            world.outcomes(forged_answers, folder / what, seed, what)
        ):
            forged, said = value if kind == "ok" else (False, value)
            seen["messages forged"] += forged
            if kind != "ok" or (said and not re.search(r"rank \d", said)):
                seen[f"finding: seed {seed}, rank {rank}: {kind} {said}"] += 1
                if kind == "dead":
                    return seen
            else:
                seen[re.sub(r"rank \d|:.*", "", said).strip() or "no error"] += 1
    world.close()
    return seen


def cut_again(path, number):
    """Cuts one graph over the other, again and again."""
    torch.set_num_threads(1)
    for turn in range(number, number + 10**6):
        partition(graph(turn % 2), path, 2, method="hash", overwrite=True)


def kills(times, folder):
    """SIGKILL at any moment, then a look at what is there."""
    context, seen, choice = (
        multiprocessing.get_context("spawn"),
        Counter(),
        random.Random(0),
    )
    path = folder / "killed"
    partition(graph(1), path, 2, method="hash")
    for number in range(times):
        run = context.Process(target=cut_again, args=(path, number))
        before = (path / "header.json").stat().st_ino
        run.start()
        while (path / "header.json").stat().st_ino == before:
            time.sleep(0.01)
        time.sleep(choice.random() * 0.3)
        run.kill()
        run.join()
        try:
            parts = [open_part(path, part) for part in range(2)]
            weights = torch.cat(
                [p.relations["a", "to", "a"].adj.edge_weight for p in parts]
            )
            seen[
                "whole" if weights.unique().numel() == 1 else "finding: a mixture"
            ] += 1
        except ValueError as error:
            seen[f"finding: {error}"] += 1
    return seen


def several(choice, generator):
    """Relations between some types, and how many nodes each type has."""
    sizes = {
        name: choice.choice([1, 2, 9, 30]) for name in "abc"[: choice.choice((1, 2, 3))]
    }
    adjs, names, marked = {}, list(sizes), choice.random() < 0.5
    for number in range(choice.choice([1, 2, 4])):
        by, to = choice.choice(names), choice.choice(names)
        count = choice.choice([0, 1, 40, 200])
        ends = [
            torch.randint(sizes[x], (count,), generator=generator) for x in (by, to)
        ]
        how = {}
        if marked:
            how["edge_weight"] = torch.rand(count, generator=generator) + 0.1
            how["edge_time"] = torch.randint(5, (count,), generator=generator)
        size = sizes[by], sizes[to]
        made = CompactAdj.from_edge_index(torch.stack(ends), size, **how)
        adjs[by, f"r{number}", to] = made
    return adjs, {name: sizes[name] for kind in adjs for name in (kind[0], kind[2])}


def typed(times, folder):
    """Random typed graphs in two parts, with features as feature files store them."""
    seen, world = Counter(), World(2, tempfile.mkdtemp(dir=folder))
    for seed in range(times):
        choice, generator = random.Random(seed), torch.Generator().manual_seed(seed)
        adjs, sizes = several(choice, generator)
        stored = choice.choice([None, "float16", "bfloat16", "int8"])
        values = {}
        for name, count in sizes.items():
            x = torch.randn(count, choice.choice([1, 3, 200]), generator=generator)
            with FeatureFile.from_array(
                folder / f"{seed}{name}", x, stored=stored
            ) as f:
                values[name] = f[:]
        rows = {(name, name): x for name, x in values.items()}
        how = {"method": choice.choice(["range", "hash"]), "stored": stored}
        how["replicate"] = choice.choice([0.0, 0.3])
        partition(adjs, folder / f"{seed}", 2, features=rows, **how)
        seeds = {
            name: [choice.randrange(n) for _ in range(4)] for name, n in sizes.items()
        }
        at = torch.arange(4 * len(seeds)) % 4
        task = (folder / f"{seed}", adjs, seeds, at, values, choice.randrange(1 << 40))
        for kind, value in world.outcomes(typed_rows, *task):
            if kind == "ok":
                seen["batches compared"] += value
            else:
                seen[f"finding: seed {seed}: {kind} {value}"] += 1
                return seen
    world.close()
    return seen


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = ("headers", "answers", "requests", "heads", "kills", "typed")
    parser.add_argument("what", nargs="*", default=kinds)
    parser.add_argument("--times", type=int, default=100)
    args = parser.parse_args()
    for what in args.what:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            if what == "headers":
                seen = headers(args.times, folder)
            elif what in ("kills", "typed"):
                seen = {"kills": kills, "typed": typed}[what](args.times, folder)
            else:
                seen = messages(what, args.times, folder)
        print(f"{what}: {args.times} times", flush=True)
        for said, count in seen.most_common():
            print(f"{count:6} {said}", flush=True)


if __name__ == "__main__":
    main()
