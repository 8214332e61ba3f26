"""SeededLoader: a DataLoader that hands out a key with the indices of every batch."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch.utils.data import IterableDataset, get_worker_info

from gttf_sampler import _check
from gttf_sampler._loading.indices import (
    CurrentEpoch,
    KeyedBatches,
    copied,
)
from gttf_sampler._loading.indices import KeyedDataset as KeyedDataset
from gttf_sampler._loading.indices import KeyedIndex as KeyedIndex
from gttf_sampler._loading.prefetch import PrefetchLoader
from gttf_sampler._loading.state import (
    NOT_BEGUN,
    VERSION,
    CountedBatches,
    EpochState,
    SamplerState,
    checked,
    same_number,
)
from gttf_sampler.random import draw


class SeededLoader(PrefetchLoader):
    """A DataLoader whose batches have keys: that of the epoch and their number in it.

    Where a host's loader has a constructor of its own, it stands before this class:
    `class Loader(HostLoader, SeededLoader)`. An epoch has the key that the generator
    would give next. It stays there, so that shuffling gives the order that torch gives;
    as it may become the seed of that order, keys of batches are mixed from it.
    """

    draws_keys = False  # True takes the key of an epoch out of the generator

    def __init__(
        self,
        dataset: Any,
        *args: Any,
        thread_workers: bool | None = None,
        **kwargs: Any,
    ) -> None:
        if thread_workers is not None:
            _check.yes_or_no("thread_workers", thread_workers)
        self.thread_workers = thread_workers
        self._epoch = CurrentEpoch()
        self._loaded: dict[str, Any] | None = None
        if not isinstance(dataset, IterableDataset | KeyedDataset):
            dataset = KeyedDataset(dataset)
        super().__init__(dataset, *args, **kwargs)

    @property
    def _index_sampler(self) -> Any:
        """The indices of every batch with its key, which torch iterates over."""
        sampler, how = super()._index_sampler, (self.generator, self.draws_keys)
        return KeyedBatches(sampler, self._epoch, *how)

    def epoch_key(self, epoch: int) -> int:
        """The key of an epoch, which leaves the generator where it is."""
        return draw(copied(self.generator))

    def __iter__(self) -> Any:
        order = self._order()
        begun = self._begin(order)
        if begun.key is None and not self.draws_keys:
            begun.key = self.epoch_key(begun.epoch)
        self._epoch.new = begun
        try:
            if self._iterator is not None:
                # Torch draws a number for every iterator, and none for one that is
                # used again with `persistent_workers`: an epoch must not depend on
                # that.
                draw_key(self.generator)
            batches = super().__iter__()
            if begun.resumed is not None and self._epoch.indices is not None:
                self._epoch.indices.start()  # now: generators stand where they stood
        except BaseException:
            if begun.back:
                order.restore(begun.back)
            raise
        finally:
            self._epoch.new = self._epoch.indices = None
        self._epoch.under_way, self._loaded = begun, None
        return self.counted(batches, begun)

    def counted(self, batches: Any, epoch: EpochState) -> Any:
        """An iterator that counts the batches as they are handed out."""
        return CountedBatches(batches, epoch, self)

    def _begin(self, order: SamplerState) -> EpochState:
        """A new epoch, or the loaded one, with generators as they were then."""
        now, state, last = order.states(), self._loaded, self._epoch.under_way
        if state is None:
            epoch = 0 if last is None else last.epoch + 1
            return EpochState(epoch, now, order.own_state())
        start = now if state["start"] is None else state["start"]
        order.restore(start)
        return EpochState(state["epoch"], start, state["sampler"], state, back=now)

    def _order(self) -> SamplerState:
        return SamplerState(super()._index_sampler, self.generator)

    def _known(self, order: SamplerState) -> dict[str, Any]:
        """The settings that a state must have in common with this loader."""
        settings = self.settings()  # first: it may refuse to have a state
        return {
            "loader": type(self).__name__,
            "size": len(self.dataset),  # type: ignore[arg-type]
            "batch_size": self.batch_size,
            "drop_last": self.drop_last,
            "samplers": order.names(),
            **settings,
        }

    def settings(self) -> dict[str, Any]:
        """Settings that batches depend on beside indices and keys, by name."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """The state of the loader, from which another one can continue.

        It counts the batches that were handed out, whatever was made ahead. It holds
        numbers, strings and tensors: `torch.save` writes it, and `torch.load` reads it
        with `weights_only=True`.
        """
        order = self._order()
        if self._loaded is not None:
            return deepcopy({**self._loaded, "now": order.states()})
        last = self._epoch.under_way
        state = {
            "version": VERSION,
            **self._known(order),
            "epoch": 0 if last is None else last.epoch + last.over,
            "now": order.states(),
            "epochs": order.epochs(),
        }
        if last is None or last.over:
            return state | NOT_BEGUN | {"sampler": order.own_state()}
        return state | last.state()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Has the next iteration continue where a loader like this one was.

        Generators and samplers stand where they stood then, and so does torch's default
        generator if the loader draws from it. At the end of an epoch that is the
        beginning of the next one.

        Args:
            state_dict: of a loader with the same seeds, batches, samplers and settings
                of what is drawn; workers and threads may be others. Nothing happens if
                it is empty.
        """
        if isinstance(state_dict, dict) and not state_dict:
            return
        order = self._order()
        also = ("epoch", "now", "epochs", "sampler", *NOT_BEGUN)
        state = checked(state_dict, self._known(order), also)
        same_number(order.states(), state["now"])
        order.restore(state["now"])
        order.set_epochs(state["epochs"])
        self._loaded = deepcopy(state)


def draw_key(generator: torch.Generator | None = None) -> int:
    """A key from `generator`, by default from the one `torch.manual_seed` governs."""
    if get_worker_info() is not None:
        generator = None  # a copy that every worker has: they would draw the same
    return draw(generator)
