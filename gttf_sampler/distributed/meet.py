"""meet(): the processes of a group find each other, and have opened the same graph."""

import os
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from gttf_sampler.distributed.exchange import Exchange, PeerError

_meetings: Counter[str] = Counter()  # of every group


def meet(
    group: Any, timeout: float, prepare: Callable[[int, int], tuple[Any, str, str]]
) -> tuple[Exchange, Any, list[str]]:
    """Joins the processes of a group that have opened the same graph.

    Returns the links to the others, what this process opened, and the notes of all.

    Args:
        group: of `torch.distributed`; None for all processes, or this one alone if
            `torch.distributed` was not started.
        timeout: seconds within which the others must come.
        prepare: (rank, size) → what this process opens, a word that must be the same
            in all processes, and a note for the others.
    """
    if not (dist.is_available() and dist.is_initialized()):
        opened, _, note = prepare(0, 1)
        return Exchange(None, 0, 1, timeout), opened, [note]
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    if size == 1:
        opened, _, note = prepare(0, 1)
        return Exchange(None, 0, 1, timeout), opened, [note]
    name = "world" if group is None else group.group_name
    root = dist.distributed_c10d._get_default_store()
    _meetings[name] += 1
    prefixed: Any = dist.PrefixStore  # type: ignore[attr-defined]
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")  # old keys stay there
    store = prefixed(f"gttf/{attempt}/{name}/{_meetings[name]}", root)
    if store.add(f"claims of {rank}", 1) > 1:
        raise PeerError(
            f"rank {rank} is taken: two processes call themselves so, as two jobs do "
            "that share MASTER_ADDR and MASTER_PORT; give each job a port of its own"
        )
    try:
        opened, word, note = prepare(rank, size)
    except Exception as error:
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        store.set(str(rank), f"error {said}")
        raise
    store.set(str(rank), f"{word} {note}")
    notes = []
    for peer in range(size):
        try:
            store.wait([str(peer)], timedelta(seconds=timeout))
        except RuntimeError:
            rule = f"has not opened the graph within {timeout:g} s"
            raise PeerError(f"rank {peer} {rule}") from None
        said = store.get(str(peer)).decode(errors="replace")
        if said.startswith("error "):
            raise PeerError(f"rank {peer} could not open the graph: {said[6:]}")
        theirs, _, note = said.partition(" ")
        if theirs != word:
            raise PeerError(f"rank {peer} has opened another graph than rank {rank}")
        notes.append(note)
    try:
        return Exchange(store, rank, size, timeout), opened, notes
    except RuntimeError as error:
        said = f"{error}".splitlines()[0]
        rule = f"could not reach the others within {timeout:g} s"
        raise PeerError(f"rank {rank} {rule}: {said}") from None
