"""assert_no_future: nothing in a batch is later than the seed it was sampled for."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from gttf_pyg._check import MissingError, name_or_none
from gttf_pyg._compat import stores_of
from gttf_sampler._check import fail, finite, mistyped, shown, yes_or_no


class Dated(NamedTuple):
    """Nodes or edges of one type."""

    name: str  # how to call them in a sentence
    time: Tensor  # [k], when they happened
    tree: Tensor  # [k], the seed that each was sampled for
    id: Tensor  # [k], what the whole graph calls them
    seeds: int  # how many of them, from the first on, were asked for and not sampled


def assert_no_future(
    batch: Any,
    time_attr: str = "time",
    *,
    time_window: float | None = None,
    seeds: bool = True,
) -> None:
    """Raises an AssertionError if a batch holds anything later than its seed.

    >>> import torch
    >>> from torch_geometric.data import Data
    >>> from gttf_pyg import GTTFLoader, assert_no_future
    >>> edges = torch.tensor([[1, 2], [0, 0]])
    >>> data = Data(edge_index=edges, time=torch.arange(3), num_nodes=3)
    >>> when = {"input_time": torch.tensor([1]), "time_attr": "time"}
    >>> batch = next(iter(GTTFLoader(data, [-1], torch.tensor([0]), **when)))
    >>> assert_no_future(batch)
    >>> batch.n_id.tolist()
    [0, 1]

    It looks at every node and every edge that has a time, at any hop and of any type,
    and knows nothing of how the batch was made: batches of PyG's own loaders will do.

    Args:
        batch: of a loader with `time_attr`, for nodes, edges or triplets.
        time_attr: the name of the times.
        time_window: also nothing sampled may be older than this before its seed.
        seeds: whether the seeds' own times count: a node that is asked about before it
            was there has leaked, too.
    """
    if not isinstance(batch, Data | HeteroData):
        mistyped("batch", "must be a Data or a HeteroData", shown(batch))
    if time_attr is None:
        mistyped("time_attr", "must be the name of an attribute", None)
    name_or_none("time_attr", time_attr)
    yes_or_no("seeds", seeds)
    parts = list(_dated(batch, time_attr))
    if not parts:
        raise MissingError(
            f"'time_attr' must name times of nodes or edges of the batch (got "
            f"{time_attr!r})"
        )
    now = _seed_times(batch, time_attr)
    for part in parts:
        limit = now[part.tree]
        time, limit = _comparable(part.time, limit)
        first = 0 if seeds else part.seeds
        bad = ~(time <= limit)  # a time that is no number is no time before the seed
        bad[:first] = False
        _refuse(part, bad, time, limit, "later than its seed")
        if time_window is not None:
            bad = time < limit - finite("time_window", time_window)
            bad[: part.seeds] = False
            _refuse(part, bad, time, limit, f"more than {time_window} before its seed")


def _refuse(part: Dated, bad: Tensor, time: Tensor, limit: Tensor, rule: str) -> None:
    if not bool(bad.any()):
        return
    at = int(bad.nonzero()[0])
    raise AssertionError(
        f"'batch' must hold nothing {rule} (got {int(bad.sum())} of {bad.numel()} "
        f"{part.name}; the first, number {int(part.id[at])}, has time "
        f"{time[at].item()} for a seed at {limit[at].item()})"
    )


def _dated(batch: Any, name: str) -> Iterator[Dated]:
    typed, (nodes, edges) = isinstance(batch, HeteroData), stores_of(batch)
    for kind, store in nodes.items():
        if name in store and (typed or store.is_node_attr(name)):
            labelled = [part for part in _labelled(batch, kind) if part.numel()]
            tops = [int(part.max()) + 1 for part in labelled]
            asked = max([int(store.get("batch_size") or 0), *tops])  # they come first
            called = f"{kind!r} nodes" if typed else "nodes"
            ids = _ids(store, "n_id", name)
            yield Dated(called, store[name], _tree(store), ids, asked)
    for kind, store in edges.items():
        of_nodes = not typed and name in store and store.is_node_attr(name)
        if name in store and (typed or store.is_edge_attr(name)) and not of_nodes:
            target = nodes[kind[2] if typed else None]
            called = f"{kind} edges" if typed else "edges"
            tree = _tree(target)[store.edge_index[1]]
            yield Dated(called, store[name], tree, _ids(store, "e_id", name), 0)


def _labelled(batch: Any, kind: str | None) -> Iterator[Tensor]:
    """The local numbers of nodes of one type that are ends of labelled edges."""
    nodes, edges = stores_of(batch)
    for edge_type, store in edges.items():
        pairs = store.get("edge_label_index")
        for side in (0, 1) if isinstance(pairs, Tensor) else ():
            if (edge_type and edge_type[2 * side]) == kind:
                yield pairs[side]
    for name in ("src_index", "dst_pos_index", "dst_neg_index"):
        part = nodes[kind].get(name)
        if isinstance(part, Tensor):
            yield part


def _tree(store: Any) -> Tensor:
    tree = store.get("batch")
    if not isinstance(tree, Tensor):
        rule = "must have disjoint trees, so that it is known which seed sees what"
        fail("batch", rule, "no 'batch' of its nodes", "set 'time_attr' or 'disjoint'")
    return tree


def _ids(store: Any, ids: str, name: str) -> Tensor:
    """Global ids of nodes or edges; local ones if the batch has none."""
    found = store.get(ids)
    own = isinstance(found, Tensor)
    return found if own else torch.arange(len(store[name]))


def _seed_times(batch: Any, name: str) -> Tensor:
    """The time of every seed, in the order of their trees."""
    nodes, edges = stores_of(batch)
    stores = list(nodes.values())
    for store in edges.values():  # both ends and negatives see its time
        if store.get("edge_label_time") is not None:
            found: Tensor = store["edge_label_time"]
            return found
    given = [store["seed_time"] for store in stores if "seed_time" in store]
    if given:
        triplets = any("src_index" in store for store in stores)
        return given[0] if triplets else torch.cat(given)
    asked = [store for store in stores if "batch_size" in store and name in store]
    own = [store[name][: store["batch_size"]] for store in asked]
    if not own:
        rule = "must know the times of its seeds"
        fail("batch", rule, "none", "set 'input_time' or 'edge_label_time'")
    return torch.cat(own)


def _comparable(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Two tensors in which no rounding makes unequal times equal."""
    if left.dtype == right.dtype:
        return left, right
    floats = left.is_floating_point() or right.is_floating_point()
    dtype = torch.float64 if floats else torch.int64
    return left.to(dtype), right.to(dtype)
