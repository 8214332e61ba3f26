"""FullGraph: degrees, loops and edge types of the graph that batches come from."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gttf_pyg._rows import row_chunks
from gttf_sampler import CompactAdj

# Sums per node, of the edge weights of some name; the name None counts edges.
RECEIVED = "received"  # the sum over the edges that arrive, loops among them
SENT = "sent"  # the sum over the edges that leave, loops among them
LOOPS = "loops"  # the sum over the loops
KEPT = "kept"  # of the loops, the one that PyG's `add_remaining_self_loops` keeps
KINDS = (RECEIVED, SENT, LOOPS, KEPT)


class FullGraph:
    """One relation of the graph that batches come from.

    What takes a pass over all edges is made when it is asked for, and kept.

    Args:
        adj: its rows: for every node, the edges that it may draw.
        columns: the edge attributes [m] of the data by name, in its order of edges.
        one_type: whether both ends of an edge are of the same node type.

    Attributes:
        weights: the names of the columns that may be weights, floats.
        types: the names of the columns that may be types of edges, integers.
    """

    def __init__(
        self, adj: CompactAdj, columns: Mapping[str, Tensor], one_type: bool
    ) -> None:
        self.adj, self.columns, self.one_type = adj, columns, one_type
        real = {name: x.is_floating_point() for name, x in columns.items()}
        self.weights = [name for name, is_real in real.items() if is_real]
        self.types = [name for name, is_real in real.items() if not is_real]
        self._made: dict[Any, Any] = {}

    def of(self, kind: str, name: str | None, node: Tensor) -> Any:
        """[k], one of `KINDS` for some nodes; None if there are no loops at all."""
        node = node.to(self.adj.device)
        if kind == RECEIVED and name is None:
            return self.adj.row_range(node)[1]
        if kind == SENT:
            return self._once((SENT, name), self._sent)[node]
        received, loops, kept = self._once(("rows", name), self._rows)
        table = {RECEIVED: received, LOOPS: loops, KEPT: kept}[kind]
        return None if table is None else table[node]

    def largest(self, name: str | None) -> Tensor:
        """The largest sum over the edges that leave a node, loops left out."""

        def find(name: str | None) -> Tensor:
            every = torch.arange(self.adj.num_cols, device=self.adj.device)
            sent, loops = self.of(SENT, name, every), self.of(LOOPS, name, every)
            return torch.max(sent if loops is None else sent - loops)

        found: Tensor = self._once(("largest", name), find)
        return found

    def of_types(self, name: str, node: Tensor) -> Tensor:
        """[k, types]: how many edges of each type arrive at some nodes."""
        keys, number = self._once(("types", name), self._typed)
        width = self._num_types(name)
        types = torch.arange(width, device=self.adj.device)
        asked = node.to(self.adj.device)[:, None] * width + types
        if not keys.numel():
            return torch.zeros_like(asked)
        place = torch.searchsorted(keys, asked).clamp(max=keys.numel() - 1)
        found: Tensor = number[place] * (keys[place] == asked)
        return found

    def _num_types(self, name: str) -> int:
        """One more than the largest type."""
        column = self.columns[name]
        return int(column.max()) + 1 if column.numel() else 1

    def _typed(self, name: str) -> tuple[Tensor, Tensor]:
        """The pairs of (row, type) that there are, sorted, and the edges of each."""
        adj, column, width = self.adj, self.columns[name], self._num_types(name)
        found = []
        for part, row in row_chunks(adj):
            ids = None if adj.edge_id is None else adj.edge_id[part].long()
            kind = column[part if ids is None else ids.to(column.device)]
            found.append(row * width + kind.to(adj.device, torch.int64))
        every = torch.cat([adj.rowptr.new_zeros(0, dtype=torch.int64), *found])
        keys, number = torch.unique(every, return_counts=True)
        return keys, number

    def all_positive(self, name: str) -> bool:
        """True if every edge has a weight above zero."""
        found = self._once(
            ("positive", name), lambda name: bool((self.columns[name] > 0).all())
        )
        return bool(found)

    def _once(self, key: Any, make: Any) -> Any:
        """The result of `make` for the name in `key`, computed once."""
        if key not in self._made:
            self._made[key] = make(key[1])
        return self._made[key]

    def _rows(self, name: str | None) -> tuple[Tensor | None, ...]:
        """(received, loops, kept), each [n]; the last two None without loops."""
        adj, size = self.adj, self.adj.num_rows
        received = loops = kept = None
        if name is not None:
            received = torch.zeros(size, dtype=torch.float64, device=adj.device)
        for part, row in row_chunks(adj):
            weight = self._weights(name, part)
            if received is not None:
                received.index_add_(0, row, weight.expand(row.numel()))
            place = (adj.col[part] == row).nonzero().view(-1) if self.one_type else ()
            if not len(place):
                continue
            if loops is None or kept is None:
                loops = torch.zeros(size, dtype=torch.float64, device=adj.device)
                kept = torch.full_like(loops, torch.nan)  # no loop to keep
            weight = weight.expand(row.numel())[place]
            loops.index_add_(0, row[place], weight)
            kept[row[place]] = weight
        return received, loops, kept

    def _sent(self, name: str | None) -> Tensor:
        """[num_cols], sums over the edges that leave."""
        adj = self.adj
        sent = torch.zeros(adj.num_cols, dtype=torch.float64, device=adj.device)
        for part, row in row_chunks(adj):
            weight = self._weights(name, part).expand(row.numel())
            sent.index_add_(0, adj.col[part].long(), weight)
        return sent

    def _weights(self, name: str | None, part: slice) -> Tensor:
        """float64: the weights of some positions in `adj.col`, or a one for all."""
        adj = self.adj
        if name is None:
            return torch.ones((), dtype=torch.float64, device=adj.device)
        column = self.columns[name]
        if adj.edge_id is None:
            return column[part].to(adj.device, torch.float64)
        ids = adj.edge_id[part].long().to(column.device)
        return column[ids].to(adj.device, torch.float64)
