"""What those who learn embeddings in `gttf bench embedding` have in common."""

import time
from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from gttf_sampler import CompactAdj
from gttf_sampler.embedding import Epoch, LinkSplit, link_auc

# the settings of PyG's own example of Node2Vec; others get as many walks
LENGTH, CONTEXT, WALKS, NEGATIVES, BATCH, RATE = 20, 10, 10, 1, 128, 0.01
WINDOW = 10


class Setting(NamedTuple):
    """What all are given.

    Attributes:
        split: edges to learn from, edges to find.
        size: numbers of a vector.
        epochs: of the methods that have the longest ones.
        seed: of everything random.
    """

    split: LinkSplit
    size: int
    epochs: int
    seed: int

    def rows(self) -> CompactAdj:
        """The edges to learn from, as rows to walk along."""
        train, nodes = self.split.train, self.split.num_nodes
        return CompactAdj.from_edge_index(train, nodes, direction="out")


class Subject(NamedTuple):
    """One who learns.

    Attributes:
        method: what is learned; those with the same one are compared by the epoch.
        train: does all epochs. AUC is measured off the clock.
        needs: packages that it cannot do without.
    """

    method: str
    train: Callable[[Setting], list[Epoch]]
    needs: tuple[str, ...] = ()


def timed(
    setting: Setting,
    count: int,
    epoch: Callable[[], float],
    pairs: int,
    score: Callable[[Tensor], Tensor],
) -> list[Epoch]:
    """Some epochs on the clock, each of which returns its loss."""
    found = []
    for _ in range(count):
        start = time.perf_counter()
        loss = epoch()
        seconds = time.perf_counter() - start
        found.append(Epoch(loss, seconds, pairs, link_auc(score, setting.split)))
    return found
