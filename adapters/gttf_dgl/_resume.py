"""What is left of an epoch of DGL's: its order, its keys, who makes which batch."""

from typing import Any

import numpy as np
import torch
from dgl.dataloading.dataloader import _TensorizedDatasetIter
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from gttf_sampler._loading.keys import BatchKeys


class Rest(IterableDataset[Any]):
    """A dataset of DGL's whose first batches were handed out, for worker processes.

    Every worker has a run of batches, and they take turns. Torch begins with its first
    worker, so that one takes the run of the worker whose turn it was. Later passes of
    workers that persist are whole again.

    Args:
        dataset: of all seeds.
        position: how many batches were handed out.
        keys: of the sampler, which is told the passes.
        passes: how many of them the workers had begun before this one.
    """

    def __init__(
        self, dataset: Any, position: int, keys: BatchKeys, passes: int
    ) -> None:
        self.dataset, self.position = dataset, position
        self.keys, self.passes = keys, passes
        self.run = 0

    def __len__(self) -> int:
        return len(self.dataset)

    def __iter__(self) -> Any:
        worker: Any = get_worker_info()
        turns, extra = divmod(self.position, worker.num_workers)
        self.run = (worker.id + extra) % worker.num_workers
        self.keys.tell(self.passes)
        self.position, self.passes = 0, self.passes + 1
        data = self.dataset
        first, last = run_of(len(data), worker.num_workers, self.run)
        mine = slice(first * data.batch_size, last * data.batch_size)
        ids = data._id_tensor[data._indices[mine]]
        how = data.batch_size, data.drop_last, data._mapping_keys, data._shuffle
        batches = _TensorizedDatasetIter(ids, *how)
        batches.index = (turns + (self.run < extra)) * data.batch_size
        return batches


def run_of(batches: int, workers: int, worker: int) -> tuple[int, int]:
    """The first batch of a worker, and the one after its last.

    DGL gives every worker a run of whole batches, the first ones one batch more.
    """
    each, more = divmod(batches, workers)
    first = each * worker + min(more, worker)
    return first, first + each + (worker < more)


def numpy_state() -> dict[str, Any]:
    """Where numpy's generator stands, by which DGL shuffles."""
    state: Any = np.random.get_state()
    kind, keys, place, has_gauss, gauss = state
    return {
        "kind": kind,
        "keys": torch.from_numpy(keys.astype(np.int64)),
        "place": int(place),
        "has_gauss": int(has_gauss),
        "gauss": float(gauss),
    }


def put_numpy(state: dict[str, Any]) -> None:
    """Has numpy's generator stand there again."""
    keys: Tensor = state["keys"]
    words = keys.numpy().astype(np.uint32)
    rest = state["place"], state["has_gauss"], state["gauss"]
    np.random.set_state((state["kind"], words, *rest))
