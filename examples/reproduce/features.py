"""Features: of citation graphs nearly all zeros, of others none."""

import warnings

import torch
from torch import Tensor

from examples.reproduce import sparse


class Features:
    """Sparse rows of features, handed out with dropout as the hosts' layers take them.

    Zeros stay zeros under dropout, so that drawing for the others is the same and, for
    the 3703 words of CiteSeer, a hundred times faster.
    """

    def __init__(self, x: Tensor) -> None:
        index = x.nonzero()
        value = x[index[:, 0], index[:, 1]]
        self._keep(index[:, 1], value, (x != 0).sum(1), x.shape[1])

    def _keep(self, col: Tensor, value: Tensor, count: Tensor, width: int) -> None:
        self.col, self.value, self.count, self.width = col, value, count, width
        self.start = count.cumsum(0) - count

    @classmethod
    def of_rows(
        cls, col: Tensor, value: Tensor, count: Tensor, width: int
    ) -> "Features":
        """From columns and values of all rows, end to end, and their lengths."""
        made = cls.__new__(cls)
        made._keep(col, value, count, width)
        return made

    def __len__(self) -> int:
        return self.count.numel()

    def rows(self, node: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """CSR [b, width]: the features of some nodes, or of all."""
        col, value, count = self.col, self.value, self.count
        if node is not None:
            count = count[node]
            ahead = self.start[node] - (count.cumsum(0) - count)
            entry = torch.arange(int(count.sum())) + ahead.repeat_interleave(count)
            col, value = col[entry], value[entry]
        if dropout:
            value = torch.nn.functional.dropout(value, dropout)
        pointer = torch.nn.functional.pad(count.cumsum(0), (1, 0))
        with warnings.catch_warnings():  # torch calls the format a beta, once
            warnings.filterwarnings("ignore", "Sparse CSR")
            size = (count.numel(), self.width)
            return torch.sparse_csr_tensor(
                pointer, col, value, size, check_invariants=False
            )


class DenseFeatures:
    """Features of which none is zero, with the same methods; `rows` are dense."""

    def __init__(self, x: Tensor) -> None:
        self.x, self.width = x, x.shape[1]

    def __len__(self) -> int:
        return len(self.x)

    def rows(self, node: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """[b, width]: the features of some nodes, or of all."""
        x = self.x if node is None else self.x[node]
        return sparse.dropout(x, dropout)
