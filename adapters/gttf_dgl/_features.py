"""Node data that is fetched from a disk, in the place of data of the graph."""

from collections.abc import Mapping
from typing import Any

import torch
from dgl import NID

from gttf_sampler._check import fail, mistyped, shown
from gttf_sampler.features import RowSource

Sources = dict[tuple[str | None, str], RowSource]


def checked(features: Any) -> Sources:
    """`features` by node type and name; the type is None if there is but one."""
    if features is None:
        return {}
    if not isinstance(features, Mapping):
        rule = "must map names to feature files, or node types to such mappings"
        mistyped("features", rule, shown(features))
    found: Sources = {}
    for key, value in features.items():
        entries = value.items() if isinstance(value, Mapping) else [(key, value)]
        for name, source in entries:
            if isinstance(source, torch.Tensor) or not isinstance(source, RowSource):
                cure = "put tensors into the graph's ndata"
                mistyped("features", "must hold feature files", shown(source), cure)
            found[key if isinstance(value, Mapping) else None, name] = source
    return found


def split(names: Any, features: Sources) -> tuple[Any, Sources]:
    """The names of `prefetch_…` that the graph has, and those that have files."""
    if not names or not features:
        return names, {}
    typed = names if isinstance(names, Mapping) else {None: names}
    asked = [(kind, name) for kind, own in typed.items() for name in own]
    files = {key: features[key] for key in asked if key in features}
    rest: Any = {
        kind: [name for name in own if (kind, name) not in files]
        for kind, own in typed.items()
    }
    return rest if isinstance(names, Mapping) else rest[None], files


class FromFiles:
    """A sampler whose batches have rows of files, beside data of the graph."""

    _inputs: Sources
    _labels: Sources

    @property
    def fetches(self) -> bool:
        """True if a batch needs rows of a file."""
        return bool(self._inputs or self._labels)

    def fetch(self, result: Any) -> None:
        """Reads the rows of a batch from their files."""
        fetch(result[-1], self._inputs, self._labels)


def check_rows(g: Any, files: Sources) -> None:
    """Refuses files that do not have a row per node."""
    for (kind, name), source in files.items():
        if kind is not None and kind not in g.ntypes:
            fail("features", f"must name node types of the graph, {g.ntypes}", kind)
        nodes = g.num_nodes(kind)
        if len(source) != nodes:
            rule = f"must have one row per node, {nodes} in all"
            fail(f"features[{name!r}]", rule, len(source))


def fetch(blocks: Any, inputs: Sources, outputs: Sources) -> None:
    """Gives senders of the first block and receivers of the last one their rows."""
    for views, files in (
        (blocks[0].srcnodes, inputs),
        (blocks[-1].dstnodes, outputs),
    ):
        for (kind, name), source in files.items():
            data = views[kind].data if kind is not None else views[views_of(views)].data
            ids = data[NID]
            rows = source.rows(ids.to("cpu", torch.int64).contiguous())
            data[name] = rows.to(ids.device)


def views_of(views: Any) -> str:
    """The name of the only node type."""
    graph = views._graph
    only: str = graph.srctypes[0]
    return only
