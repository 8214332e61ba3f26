"""Resumable: a DataLoader of DGL's that continues where another one was."""

from copy import deepcopy
from typing import Any

from dgl.dataloading.base import EdgePredictionSampler
from dgl.dataloading.dataloader import DDPTensorizedDataset, TensorizedDataset

from gttf_dgl import _check
from gttf_dgl._resume import Rest, numpy_state, put_numpy
from gttf_sampler._loading.keys import BatchKeys
from gttf_sampler._loading.order import Order
from gttf_sampler._loading.progress import Counted, Pass
from gttf_sampler._loading.state import SPOT, VERSION, checked, described
from gttf_sampler._loading.threaded import ThreadedLoader

DATASETS = (TensorizedDataset, DDPTensorizedDataset)
NOT_DRAWN = {"features", "fused", "thread_workers", "output_device", "generator"}
HELD = ("epoch", "position", "begun", "start", "passes", "now", "order", "numpy")


class Resumable(ThreadedLoader):
    """Counts the batches of a loader; stands in front of DGL's.

    Attributes are of the class: a loader of DGL's becomes one without a constructor.
    """

    dataset: Any
    shuffle: bool
    graph_sampler: Any
    graph: Any
    _under_way: Pass | None = None
    _loaded: dict[str, Any] | None = None
    _skip = 0  # how many batches the iterator leaves out that is being made
    _passes = 0  # of workers that persist, before the one under way

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is, so that another one can continue there.

        It counts the batches that were handed out, whatever was made ahead. It holds
        numbers, strings and tensors: `torch.save` writes it, and `torch.load` reads it
        with `weights_only=True`. If the loader shuffles, its order is in it.
        """
        known, order = self._known(), Order([], self.generator)
        found = {
            "now": order.states(),
            "numpy": numpy_state() if self.shuffle else None,
            "order": self.dataset._indices.clone() if self.shuffle else None,
            "epochs": self._keys_used().epochs(),
        }
        if self._loaded is not None:
            return deepcopy({**self._loaded, **found})
        last = self._under_way
        begun = last is not None and not last.over
        # Workers that persist keep the number that was drawn before their first pass.
        kept = last is not None and (begun or self._persists())
        return {
            "version": VERSION,
            **known,
            **found,
            "epoch": 0 if last is None else last.epoch + last.over,
            "position": last.position if last is not None and begun else 0,
            "begun": begun,
            "start": deepcopy(last.start) if last is not None and kept else None,
            "passes": self._passes + (not begun) if kept else 0,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Has the next iteration continue where a loader like this one was.

        The loader's generator stands where it stood then, torch's default one if it has
        none; if it shuffles, so does numpy's, by which DGL does that. At the end of an
        epoch that is the beginning of the next one.

        Args:
            state_dict: of a loader with the same seeds, batches, number of workers and
                settings of the sampler. Nothing happens if it is empty.
        """
        if isinstance(state_dict, dict) and not state_dict:
            return
        state = checked(state_dict, self._known(), (*HELD, "epochs"))
        if self.shuffle:
            self.dataset._indices.copy_(state["order"])
            put_numpy(state["numpy"])
        Order([], self.generator).put(state["now"])
        self._keys_used().put_epochs(state["epochs"])
        self._iterator = None  # workers that persist have passes of their own
        self._loaded = deepcopy(state)

    def __iter__(self) -> Any:
        order, state, last = Order([], self.generator), self._loaded, self._under_way
        now, shuffle, kept = order.states(), self.shuffle, self._iterator is not None
        if state is None:
            epoch = 0 if last is None else last.epoch + 1
            begun = Pass(epoch, last.start if last is not None and kept else now)
            self._passes = self._passes + 1 if kept else 0
            batches = super().__iter__()
        else:
            start = state["start"]
            begun = Pass(state["epoch"], now if start is None else start)
            begun.start_at(state["position"])
            self._skip, self._passes = state["position"], state["passes"]
            try:
                self.shuffle = shuffle and not state["begun"]
                order.put(begun.start)
                batches = super().__iter__()
            finally:
                self.shuffle, self._skip = shuffle, 0
                if start is not None:
                    order.put(now)
        self._under_way, self._loaded = begun, None
        return Counted(batches, begun, self)

    def _get_iterator(self) -> Any:
        make, data, skip = super()._get_iterator, self.dataset, self._skip
        if skip == self._passes == 0 or self.in_thread():
            return make()
        if self.num_workers == 0:
            batches = make()
            batches._num_yielded = skip
            batches._dataset_fetcher.dataset_iter.index = skip * data.batch_size
            return batches
        # Torch lets nobody set the dataset of a loader; workers shall have another one.
        self.__dict__["dataset"] = Rest(data, skip, self._keys_used(), self._passes)
        try:
            return make()
        finally:
            self.__dict__["dataset"] = data

    def _persists(self) -> bool:
        """Whether worker processes stay from pass to pass."""
        return bool(self.persistent_workers) and not self.in_thread()

    def _keys_used(self) -> BatchKeys:
        """The keys of the sampler, which must be one of `gttf_dgl`."""
        keys = getattr(inner(self), "_keys", None)
        if not isinstance(keys, BatchKeys):
            rule = "must be one of gttf_dgl where a loader says or is told its state"
            cure = "no other one can draw again what it has drawn"
            _check.fail("graph_sampler", rule, type(inner(self)).__name__, cure)
        if type(self.dataset) not in DATASETS:
            rule = "must be a tensor, or a dict of them, where a loader has a state"
            _check.fail("indices", rule, type(self.dataset).__name__)
        return keys

    def _known(self) -> dict[str, Any]:
        """What a state must have in common with this loader."""
        seed = self._keys_used().seed
        return {
            "loader": type(self).__name__,
            "size": len(self.dataset._id_tensor),
            "batch_size": self.dataset.batch_size,
            "drop_last": bool(self.dataset.drop_last),
            "shuffle": bool(self.shuffle),
            "num_workers": self.num_workers,
            "persistent_workers": self._persists(),
            "seed": seed,
            **self._settings(),
        }

    def _settings(self) -> dict[str, Any]:
        """What batches depend on beside their keys, by name."""
        sampler, g = inner(self), self.graph
        found = {
            name: described(value, SPOT)
            for name, value in vars(sampler).items()
            if not name.startswith("_") and name not in NOT_DRAWN
        }
        seeds = described(self.dataset._id_tensor, SPOT)
        counts = [getattr(g, name, None) for name in ("num_nodes", "num_edges")]
        sizes = [count() for count in counts if callable(count)]
        return {**found, "graph": sizes, "seeds": seeds}


def inner(loader: Any) -> Any:
    """The sampler that draws, also where another one asks it."""
    sampler = loader.graph_sampler
    if type(sampler) is EdgePredictionSampler:
        sampler = sampler.sampler
    return sampler
