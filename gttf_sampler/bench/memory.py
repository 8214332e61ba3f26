"""`gttf bench memory`: what a sampler keeps, and what making it takes.

Every sampler has a process of its own. It first does everything once on a tiny graph,
so that libraries are loaded and kernels compiled. Then it reads the edges, makes its
sampler, drops what that no longer needs, and samples.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import CompactAdj, sample_rooted
from gttf_sampler.bench.graphs import shuffled
from gttf_sampler.bench.hosts import MakeSampler, hosts
from gttf_sampler.bench.machine import Missing
from gttf_sampler.bench.measure import Row, add_ratio, draw_seeds
from gttf_sampler.bench.options import Options
from gttf_sampler.bench.peak import PeakMemory, settled
from gttf_sampler.bench.process import ChildError, Report, run_job

TINY = 64  # nodes of the graph that everything is tried on first


def measure(options: Options, place: str, tmp: str, report: Report) -> dict[str, Any]:
    """A process per sampler; the ratio is of the memory that is held."""
    file, missing, rows = str(Path(tmp, "edges.npy")), Missing(), list[Row]()
    job: dict[str, Any] = {"run": f"{__name__}:write_edges", "graph": place}
    facts = run_job({**job, "file": file, "seed": options.seed}, report)
    job = {"run": f"{__name__}:run", "options": asdict(options), **facts, "file": file}
    names = list(samplers(missing))
    for name in names:
        try:
            rows.append(run_job({**job, "name": name}, report))
        except ChildError as error:
            if name == names[0]:  # ours, which everyone is compared to
                raise
            missing.add(name, str(error).splitlines()[-1])
    add_ratio(rows, "held")
    size = f"{facts['edges']:,} edges, which are {rows[0]['input'] / 1e6:,.0f} MB"
    group = {"title": f"to sample from {size} as input", "rows": rows}
    return {"groups": [group], "left_out": missing}


def write_edges(graph: str, file: str, seed: int, report: Report) -> dict[str, Any]:
    """The job that writes the input of all samplers: shuffled edges, int64 [2, m]."""
    report("shuffling the edges", 0.0)
    adj = CompactAdj.open(graph, mmap=False, verify=False)
    np.save(file, shuffled(adj, seed).numpy())
    return {"nodes": adj.num_rows, "edges": adj.num_edges}


def samplers(missing: Missing) -> dict[str, MakeSampler]:
    """Ours, and those of every host."""
    found: dict[str, MakeSampler] = {
        "gttf CompactAdj": _with_ids,
        "gttf CompactAdj, no edge ids": _without_ids,
    }
    for host in hosts(missing):
        found |= host.samplers
    return found


def run(
    name: str,
    options: dict[str, Any],
    file: str,
    nodes: int,
    edges: int,
    report: Report,
) -> Row:
    """The job of one sampler; returns its row."""
    asked, make = Options(**options), samplers(Missing())[name]
    generator = torch.Generator().manual_seed(0)
    tiny = torch.randint(TINY, (2, 10 * TINY), generator=generator)
    make(tiny, TINY, asked.fanouts, torch.arange(TINY))()
    seeds = draw_seeds(nodes, asked.batches, asked.batch, asked.seed).view(-1)
    report(name, 0.1)
    before = settled()
    edge_index = torch.from_numpy(np.load(file))
    size, read = edge_index.nbytes, settled()
    with PeakMemory() as making:
        sample = make(edge_index, nodes, asked.fanouts, seeds)
        del edge_index  # whoever needs it later has kept it
        held = settled() - before
    report(name, 0.6)
    with PeakMemory() as drawing:
        drawn = sample()  # None where the sampler can be made, but not sample
    return {
        "peer": name,
        "held": held,
        "per_edge": held / edges,
        "making": making.peak - read,
        "sampling": None if drawn is None else drawing.beyond,
        "input": size,
    }


def _with_ids(edges: Tensor, nodes: int, fanouts: list[int], seeds: Tensor) -> Any:
    """Rows that know the positions of their edges in the input."""
    adj = CompactAdj.from_edge_index(edges, nodes)
    return lambda: [sample_rooted(adj, part, fanouts) for part in seeds.split(1024)]


def _without_ids(edges: Tensor, nodes: int, fanouts: list[int], seeds: Tensor) -> Any:
    """Rows alone."""
    made = CompactAdj.from_edge_index(edges, nodes)
    adj = CompactAdj.from_csr(made.rowptr, made.col)
    return lambda: [sample_rooted(adj, part, fanouts) for part in seeds.split(1024)]
