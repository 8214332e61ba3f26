"""RowSource: what stands in the place of a tensor of features that is elsewhere."""

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor


@runtime_checkable
class RowSource(Protocol):
    """Values [n, ...] whose rows are fetched when a batch needs them.

    `FeatureFile` is one, and so is `PartitionedFeatures`; loaders take any.
    """

    @property
    def shape(self) -> torch.Size:
        """[n, ...]."""

    @property
    def dtype(self) -> torch.dtype:
        """Of the values."""

    def __len__(self) -> int:
        """How many rows there are."""

    def rows(self, ids: Tensor, /) -> Tensor:
        """The rows [k, ...] of ids, int64 [k] on the CPU, which are all there."""
