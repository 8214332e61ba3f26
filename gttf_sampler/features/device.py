"""DeviceCache: rows of the host's memory for a GPU, the most used ones in its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends import ops
from gttf_sampler._backends.streams import streams_of
from gttf_sampler._backends.torch.gather import CachedRows, Move, Moves
from gttf_sampler.features.read import SLOT

PROFILED = 20  # reads that choose the rows of a cache whose rows nobody has named


class DeviceCache:
    """Values [n, ...] of the host that a GPU reads in place, some from its own memory.

    Rows of `cache` are copied to the GPU once. One kernel reads a batch: those rows
    from there, the others over the bus, where they are. Loaders take it for features,
    as they take a `FeatureFile`:

        data.x = DeviceCache(data.x, "cuda").cache(4 * 2**30)

    Args:
        values: in memory of the host, contiguous; they stay there, locked.
        device: that reads them.

    Attributes:
        values: as they were given.
        device: that reads them.
    """

    def __init__(self, values: Tensor, device: torch.device | str = "cuda") -> None:
        self.values = _check.dense("values", values)
        self.device = _check.device("device", device)
        if (
            values.device.type != "cpu"
            or not values.dim()
            or not values.is_contiguous()
        ):
            got = f"{list(values.shape)} on {values.device}"
            _check.fail("values", "must be contiguous rows in memory of the host", got)
        streams = streams_of(self.device)
        if streams is None:
            rule = "must be a GPU that reads memory of the host"
            _check.fail("device", rule, self.device, "read the values themselves")
        self._mapped = streams.mapped(values)
        self._kept: CachedRows | None = None
        self._wanted: Tensor | None = None  # reads of each row, while it is profiled
        self._left = self._capacity = self._asked = 0

    @property
    def shape(self) -> torch.Size:
        """[n, ...]."""
        return self.values.shape

    @property
    def dtype(self) -> torch.dtype:
        """Of the values."""
        return self.values.dtype

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.values)

    @property
    def hit_rate(self) -> float:
        """The share of rows that were found in the cache; nan before the first one.

        Waits for the device.
        """
        if self._kept is None or not self._asked:
            return float("nan")
        return int(self._kept.hits) / self._asked

    def cache(self, nbytes: int, rows: Any = None) -> DeviceCache:
        """Keeps rows on the device, in no more than `nbytes`; returns itself.

        What is read stays the same. `rows` [k] are those to keep, the most wanted
        first, as `most_reached` and `most_sampled` tell; without them, those that the
        next 20 reads ask for most. 0 bytes end the cache. A copy in another process
        begins without.
        """
        nbytes = _check.size("nbytes", nbytes)
        if rows is not None:
            rows = _check.integers("rows", rows).to("cpu", torch.int64)
            _check.within("rows", rows, len(self), "rows")
        self._kept = self._wanted = None
        if not nbytes:
            return self
        slots, stride = SLOT * len(self), self.values[:1].nbytes
        capacity = (nbytes - slots) // max(1, stride)  # after a slot for every row
        if capacity < 1:
            rule = f"must be at least {slots + stride}, {SLOT} bytes per row of the"
            _check.fail("nbytes", f"{rule} values and a row", nbytes)
        self._capacity = min(capacity, len(self))
        if rows is None:
            wanted = torch.zeros(len(self), dtype=torch.int32, device=self.device)
            self._wanted, self._left = wanted, PROFILED
        else:
            self._keep(rows.to(self.device))
        return self

    def rows(self, ids: Tensor) -> Tensor:
        """The rows [k, ...] of ids [k], on the device."""
        if ids.device.type == "cpu":
            _check.within("ids", ids, len(self), "rows")
        ids = ids.to(self.device, torch.int64).contiguous()
        shape = ids.numel(), *self.shape[1:]
        out = torch.empty(shape, dtype=self.dtype, device=self.device)
        if not out.numel():
            return out
        kept, wanted = self._kept, self._wanted
        ops.gather(Moves(self.device, [Move([self._mapped], ids, out, cached=kept)]))
        self._asked += ids.numel() if kept is not None else 0
        if wanted is not None:
            wanted.index_add_(0, ids, torch.ones_like(ids, dtype=wanted.dtype))
            self._left -= 1
            if not self._left:
                self._wanted = None
                self._keep(wanted.argsort(descending=True, stable=True))
        return out

    def _keep(self, rows: Tensor) -> None:
        """Copies rows to the device, as many as fit."""
        chosen = rows[: self._capacity].unique()
        slot = torch.full((len(self),), -1, dtype=torch.int32, device=self.device)
        copies = torch.arange(chosen.numel(), dtype=torch.int32, device=self.device)
        slot[chosen] = copies
        values = self._mapped.index_select(0, chosen)
        hits = torch.zeros((), dtype=torch.int64, device=self.device)
        self._kept, self._asked = CachedRows(slot, values, hits), 0

    def __reduce__(self) -> tuple[Any, ...]:
        return DeviceCache, (self.values, self.device)

    def __repr__(self) -> str:
        """Shape, dtype, where rows are, and how many were found in the cache."""
        name = str(self.dtype).removeprefix("torch.")
        about = f"{list(self.shape)}, {name}, read by {self.device}"
        if self._kept is not None:
            about += f", {len(self._kept.values):,} rows there"
        if self.hit_rate == self.hit_rate:
            about += f" for {self.hit_rate:.1%} of those asked for"
        return f"DeviceCache({about})"
