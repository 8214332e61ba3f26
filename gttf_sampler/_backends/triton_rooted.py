"""Rooted sampling on a GPU: a handful of launches per hop, whatever is in the graph.

Kernels read from the device how much there is of everything. The host knows bounds: in
`rooted` it asks once per hop and makes arrays as large as they have to be, in
`rooted_padded` it never asks.
"""

from __future__ import annotations

from gttf_sampler._backends.plan import Batch, Padded, Plan, Rooted
from gttf_sampler._backends.triton_arguments import readable
from gttf_sampler._backends.triton_run import Run
from gttf_sampler._backends.triton_tables import Cells, Slots, likely_entries


def rooted(plan: Plan, batch: Batch) -> Rooted | None:
    """Rooted sampling by laws; None where one has none; see `torch_ops`."""
    if not readable(plan, batch):
        return None
    plan.ensure_nodes(batch)
    apart = batch.apart
    tables = Slots(plan, likely_entries(plan, batch)) if apart else Cells(plan, batch)
    run = Run(plan, batch, tables)
    new = [[seeds.numel()] for seeds in batch.seeds]
    taken: list[list[int]] = [[] for _ in plan.relations]
    totals = run.first_totals()
    for hop in range(plan.depth):
        fronts = [counts[-1] for counts in new]
        asked = [0] * (len(new) + 2 * len(taken))
        edges = [
            fronts[relation.to] * relation.fanouts[hop]
            if relation.fanouts[hop] >= 0
            else total
            for relation, total in zip(plan.relations, totals, strict=True)
        ]
        if any(edges):
            run.hop(hop, fronts, edges)
            asked = run.ask(hop + 1)
        for counts, count in zip((*new, *taken), asked, strict=False):
            counts.append(count)
        run.position += sum(counts[-1] for counts in taken)
        totals = asked[-len(taken) :]
    run.tables.give_back()
    nodes, most = [sum(counts) for counts in new], [sum(counts) for counts in taken]
    longest = max((max(counts, default=0) for counts in (*new, *taken)), default=0)
    found = run.finish(most, nodes, longest)
    node, root, row, col, edge = found
    return Rooted(node, root, row, col, edge, new, taken)


def rooted_padded(plan: Plan, batch: Batch) -> Padded | None:
    """Rooted sampling with static shapes, without a word to the host; see `torch_ops`.

    Where trees are not apart, the cells of a table are cleared at the end, not stamped:
    a captured graph writes the same numbers every time.
    """
    if not readable(plan, batch):
        return None
    bounds = plan.bounds(batch.seeds, batch.apart)
    most = sum(sum(edges) for edges in bounds.edges)
    entries = most + sum(seeds.numel() for seeds in batch.seeds)
    tables = Slots(plan, entries) if batch.apart else Cells(plan, batch, entries)
    rooms = [sum(edges) for edges in bounds.edges], [size + 1 for size in bounds.most]
    run = Run(plan, batch, tables, rooms)
    for hop in range(plan.depth):
        edges = [own[hop] for own in bounds.edges]
        if any(edges):
            run.hop(hop, [own[hop] for own in bounds.nodes], edges)
            run.position += sum(edges)
    longest = max(max(own, default=0) for own in (*bounds.nodes, *bounds.edges))
    node, root, row, col, edge = run.finish(*rooms, longest, padded=True)
    run.tables.give_back()
    kinds = len(plan.sizes)
    return Padded(
        *(node, root, row, col, edge),
        [run.levels[:, kind] for kind in range(kinds)],
        [run.levels[1:, kinds + number] for number in range(len(plan.relations))],
    )
