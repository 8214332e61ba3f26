"""Tasks for the processes of a world in tests of partitioned graphs."""

import ctypes
import gc
import time
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from unittest import mock

import numpy as np
import pytest
import torch

from all_pairs import covering
from gttf_sampler import (
    CompactAdj,
    EdgeWeightBias,
    ExcludeBias,
    Node2VecBias,
    TemporalBias,
    sample_rooted,
    traverse,
    use_backend,
)
from gttf_sampler.distributed import PartitionedGraph, PeerError
from gttf_sampler.rooted import RootedSampler
from strategies import BACKENDS

MACHINES = ([0, 1, 2, 3], [0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 1, 0])
"""On which machine every process believes to be."""


@contextmanager
def opened(path, rank, machines, group=None, timeout=120, **how):
    """The graph, as if processes were on these machines."""

    def seen(folder, part):
        return str(part) if machines[part] == machines[rank] else ""

    with mock.patch("gttf_sampler.distributed.graph.whereabouts", seen):
        graph = PartitionedGraph.open(path, group, timeout=timeout, **how)
    with graph:
        every = range(graph.exchange.size)
        assert set(graph.near) == {x for x in every if machines[x] == machines[rank]}
        yield graph


def fields(sub):
    """Everything that a subgraph says."""
    return [getattr(sub, name) for name in sub.__dataclass_fields__]


def same(left, right):
    """True if two results are equal, bit for bit, in all their tensors."""
    if isinstance(left, torch.Tensor):
        return left.dtype == right.dtype and left.equal(right)
    if isinstance(left, dict):
        keys = list(left) == list(right)
        return keys and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        pairs = zip(left, right, strict=True)
        return len(left) == len(right) and all(same(x, y) for x, y in pairs)
    return left == right


def biases(adj, seeds, key):
    """A bias of every kind that a `Law` can state, and None."""
    found = [None]
    if adj.edge_weight is not None:
        found.append(EdgeWeightBias())
    if adj.num_edges:
        generator = torch.Generator().manual_seed(key)
        some = torch.randperm(adj.num_edges, generator=generator)
        found.append(ExcludeBias(some[: 1 + adj.num_edges // 3]))
    if adj.edge_time is not None:
        times = torch.arange(len(seeds)).to(adj.edge_time.dtype) % 5
        found.append(TemporalBias(times))
        found.append(TemporalBias(times, strategy="last"))
        found.append(TemporalBias(times, window=1))
        if adj.edge_weight is not None:
            found.append(TemporalBias(times, weighted=True))
    return found


def one_by_one(rank, groups, size, path, whole, seeds, key):
    """Compares all modes of a homogeneous graph in a group of `size` processes."""
    if rank >= size:
        return 0
    adj, done = whole, 0
    seeds = [(seed + rank) % adj.num_rows for seed in seeds] if adj.num_rows else []
    with opened(path, rank, MACHINES[key % 4], groups[size]) as graph:
        for backend in BACKENDS:
            with use_backend(backend):
                for number, bias in enumerate(biases(adj, seeds, key)):
                    if number % size == rank % 2:  # not all have as many batches
                        done += check(graph.adj, adj, seeds, bias, key + rank)
                done += check_walks(graph.adj, adj, seeds, key + rank)
    return done


def check(far, near, seeds, bias, key):
    every = [2, 3], [-1], [0, 1], []
    for row, replace, disjoint in covering((len(every), 2, 2)):
        fanouts = every[row]
        how = {"replace": bool(replace), "disjoint": bool(disjoint), "bias": bias}
        given = {**how, "generator": key}
        left = sample_rooted(far, seeds, fanouts, **given)
        right = sample_rooted(near, seeds, fanouts, **given)
        assert same(fields(left), fields(right)), (given, fanouts)
    sampler = [RootedSampler(x, [2, 2]) for x in (far, near)]
    start = {"": torch.tensor(seeds, dtype=torch.int64)}
    drawn = [s.sample(start, {}, key) for s in sampler]
    assert same(fields(drawn[0]), fields(drawn[1]))  # edges by the caller's own numbers
    return 1


def check_walks(far, near, seeds, key):
    weighted = near.edge_weight is not None
    for bias in (None, EdgeWeightBias()) if weighted else (None,):
        for replace in (True, False):
            for fanouts in ([1, 1, 1], [2, 3]):
                given = {"bias": bias, "replace": replace, "generator": key}
                left = traverse(far, seeds, fanouts, **given)
                right = traverse(near, seeds, fanouts, **given)
                assert same(left.nodes, right.nodes), given
                assert same(left.edges, right.edges), given
    return 4


def typed(rank, groups, size, path, whole, seeds, times, key):
    """Compares all modes of a heterogeneous graph in a group of `size` processes."""
    if rank >= size:
        return 0
    done, every = 0, typed_biases(whole, times)
    with opened(path, rank, MACHINES[key % 4], groups[size]) as graph:
        for row, backend, replace, disjoint, full in covering(
            (len(every), len(BACKENDS), 2, 2, 2)
        ):
            given = {"replace": bool(replace), "disjoint": bool(disjoint)}
            given |= {"bias": every[row], "generator": key + rank}
            with use_backend(BACKENDS[backend]):
                pair = [
                    sample_rooted(adjs, seeds, [-1, 1] if full else [2, 3], **given)
                    for adjs in (graph.adjs, whole)
                ]
            assert same(*map(fields, pair)), given
            done += 1
    return done


def typed_biases(adjs, times):
    """None, and what weights, times and hidden edges allow."""
    found = [None]
    if all(adj.edge_weight is not None for adj in adjs.values()):
        found.append(EdgeWeightBias())
    if all(adj.edge_time is not None for adj in adjs.values()):
        found.append(TemporalBias(times))
    some = {kind: torch.arange(adj.num_edges)[::2] for kind, adj in adjs.items()}
    found.append({kind: ExcludeBias(edge) for kind, edge in some.items()})
    return found


def features(rank, groups, path, values, key, machines):
    """Compares rows of every dtype and shape, cached and not."""
    generator = torch.Generator().manual_seed(key + rank)
    told = []
    with opened(path, rank, machines) as graph:
        for (_, name), found in graph.features.items():
            whole = values[name]
            assert found.shape == whole.shape
            for count in (0, 1, 50, 400):
                ids = torch.randint(len(whole), (count,), generator=generator)
                assert same(found[ids], whole[ids])
            row = max(1, whole[0].numel() * whole.element_size())
            found.cache(20 * row)
            for count in (0, 1, 50, 400):
                ids = torch.randint(len(whole), (count,), generator=generator)
                assert same(found[ids], whole[ids])
            told.append((found.hits, found.misses, repr(found)))
    return told


def typed_rows(rank, groups, path, whole, seeds, times, values, key):
    """`typed` and `features` of one graph, in two processes."""
    done = typed(rank, groups, 2, path, whole, seeds, times, key)
    features(rank, groups, path, values, key, MACHINES[key % 4])
    return done


def uneven(rank, groups, path, whole, batches, direct):
    """As many batches as each process is told to make; some make none."""
    made = 0
    with PartitionedGraph.open(path, timeout=120, direct=direct) as graph:
        for number in range(batches[rank]):
            seeds = torch.arange(10 * number, 10 * number + 10) % whole.num_rows
            pair = [
                sample_rooted(adj, seeds, [5, 5], generator=number)
                for adj in (graph.adj, whole)
            ]
            assert same(*map(fields, pair))
            made += 1
    return made


def two_at_once(rank, groups, path, whole):
    """Two graphs open at a time, each asked by two threads."""
    found, errors = [], []

    def ask(graph, first):
        try:
            for number in range(first, first + 5):
                pair = [
                    sample_rooted(adj, [number, number + 7], [4, 4], generator=number)
                    for adj in (graph.adj, whole)
                ]
                found.append(same(*map(fields, pair)))
        except BaseException as error:
            errors.append(error)

    both = [PartitionedGraph.open(path, timeout=120, direct=n == 0) for n in range(2)]
    threads = [Thread(target=ask, args=(g, 10 * n)) for g in both for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for graph in both:
        graph.close()
    assert not errors
    assert all(found)
    return len(found)


def transform_fails(rank, groups, path, direct):
    """Rank 1 fails in code of its own; the others are told why."""
    try:
        with PartitionedGraph.open(path, timeout=60, direct=direct) as graph:
            for number in range(1000):
                sample_rooted(graph.adj, [number % 100], [3, 3], generator=number)
                if rank == 1 and number == 20:
                    raise ValueError("a transform has failed")
    except (PeerError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def refuses(rank, groups, path):
    """Everything that a partitioned graph lacks is refused in one sentence."""
    said = []
    with PartitionedGraph.open(path, timeout=60) as graph:
        for bias in (Node2VecBias(2.0, 0.5), lambda path, node, hood: hood.edge > 0):
            for call in (sample_rooted, traverse):
                with pytest.raises(
                    ValueError, match="must be stated as data"
                ) as caught:
                    call(graph.adj, [0], [2], bias=bias)
                said.append(str(caught.value))
        with pytest.raises(ValueError, match="in 'traverse' on this graph"):
            traverse(graph.adj, [0], [2], bias=ExcludeBias([0]))
        with pytest.raises(ValueError, match="'seeds' must hold ids below"):
            sample_rooted(graph.adj, [100], [2])
    with pytest.raises(RuntimeError, match="must be open"):
        sample_rooted(graph.adj, range(100), [2])
    return said


def opens(rank, groups, paths):
    """The error of opening a path that may not be the same for all."""
    try:
        PartitionedGraph.open(paths[rank], timeout=5).close()
    except (PeerError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def until_failure(rank, groups, path, whole, timeout, resting, direct):
    """Batches until somebody fails; how long the last one took, and the error."""
    graph = PartitionedGraph.open(path, timeout=120, direct=direct)
    busy = [each for each in range(graph.exchange.size) if each not in resting]
    start = time.monotonic()
    try:
        for number in range(10**9):
            if number == 3:  # kernels are loaded: from now on, answers come soon
                Path(f"{path}-{rank}").touch()
                while not all(Path(f"{path}-{each}").exists() for each in busy):
                    time.sleep(0.05)
                graph.exchange.timeout = timeout
                if rank in resting:
                    graph.close()
                    return 0.0, "no error"
            start = time.monotonic()
            drawn = sample_rooted(graph.adj, [number % 100], [3, 3], generator=number)
            right = sample_rooted(whole, [number % 100], [3, 3], generator=number)
            assert same(*map(fields, (drawn, right)))
    except PeerError as error:
        return time.monotonic() - start, str(error)


def large(rank, groups, path, whole_path):
    """Batches of a graph of a million edges, with other seeds in every process."""
    whole, nodes = CompactAdj.open(whole_path, verify=False), 0
    with opened(path, rank, [0, 0, 1, 1], verify=False) as graph:
        for number, bias in enumerate((None, EdgeWeightBias())):
            generator = torch.Generator().manual_seed(10 * rank + number)
            seeds = torch.randint(whole.num_rows, (512,), generator=generator)
            pair = [
                sample_rooted(adj, seeds, [10, 5], bias=bias, generator=rank)
                for adj in (graph.adj, whole)
            ]
            assert same(*map(fields, pair))
            nodes += pair[0].node.numel()
    return nodes


def resident(rank, groups, small, large):
    """By how many pages memory grows when a graph is opened, and all of it is read.

    Two processes have a part each, a third one has the whole graph. A small graph is
    opened before: threads and links are there whatever the size.
    """
    if rank > 2:
        return 0
    held, closing = _read_all(rank, groups, *small)
    before = _pages()
    more, last = _read_all(rank, groups, *large)
    grown = _pages() - before
    del held, more
    for each in (closing, last):
        each()
    return grown


def _read_all(rank, groups, path, whole, values):
    """The arrays of a part, or of the whole graph; and what closes it."""
    if rank == 2:
        plain = np.load(values, mmap_mode="c")
        held = [*CompactAdj.open(whole).arrays().values(), torch.from_numpy(plain)]
        close = list
    else:
        graph = PartitionedGraph.open(path, groups[2], timeout=120)
        rows = graph.features["", "x"].own._handle.mapped()
        held = [*graph.adj.local.arrays().values(), rows]
        close = graph.close
    for array in held:
        array.sum()
    return held, close


def _pages():
    """Pages of this process in memory, without those that malloc keeps free."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1])
