"""Keys of batches."""

import gc
import weakref

import pytest
import torch
from torch.utils.data import DataLoader

from gttf_sampler._loading.seeded import KeyedIndex, SeededLoader
from resumed import pairs


def epochs(loader, count=3):
    return [list(loader) for _ in range(count)]


HOW = {"batch_size": 4, "shuffle": True, "collate_fn": pairs}


@pytest.mark.process
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("draws", [False, True])
def test_keys_do_not_depend_on_workers(draws, persistent):
    class Loader(SeededLoader):
        draws_keys = draws

    found = []
    for workers in (0, 1, 2):
        torch.manual_seed(3)
        how = {"persistent_workers": persistent and workers > 0, **HOW}
        found.append(epochs(Loader(range(10), num_workers=workers, **how)))
    assert found[0] == found[1] == found[2]
    keys = [key for epoch in found[0] for _, key in epoch]
    assert len(set(keys)) == len(keys) == 9


def test_order_is_that_of_torch():
    """Looking ahead takes nothing from the generator."""
    torch.manual_seed(3)
    plain = DataLoader(range(10), batch_size=4, shuffle=True)
    expected = [[batch.tolist() for batch in plain] for _ in range(3)]
    torch.manual_seed(3)
    found = epochs(SeededLoader(range(10), **HOW))
    assert [[index for index, _ in epoch] for epoch in found] == expected


def test_keys_are_not_what_shuffles():
    """The order of an epoch and its draws come from different random numbers."""
    torch.manual_seed(0)
    shuffled_by = int(torch.empty((), dtype=torch.int64).random_())
    torch.manual_seed(0)
    keys = [part.key for part in SeededLoader(range(3))._index_sampler]
    assert len(set(keys)) == 3
    assert all(abs(key - shuffled_by) > 3 for key in keys)
    assert torch.empty((), dtype=torch.int64).random_() == shuffled_by  # still there


def test_loader_without_batches():
    (first, *_), *_ = epochs(SeededLoader(range(3), batch_size=None, collate_fn=pairs))
    assert first[0] == 0
    assert isinstance(first[1], int)


def test_dataset_stays_one_of_numbers():
    loader = SeededLoader(range(5, 8), collate_fn=pairs)
    assert len(loader.dataset) == 3
    assert loader.dataset[1] == 6
    assert loader.dataset.__getitems__([0, 2]) == [5, 7]
    assert repr(loader.dataset) == "range(5, 8)"
    assert KeyedIndex.of([1]) == KeyedIndex([1], None)


@pytest.mark.process
def test_loader_with_workers_goes_as_soon_as_nobody_holds_it():
    """Without waiting for the collector, which would find workers to end anywhere."""
    gc.collect()
    gc.disable()
    try:
        how = {"num_workers": 1, "persistent_workers": True, "collate_fn": pairs}
        loader = SeededLoader(range(4), **how)
        assert len(list(loader)) == 4
        gone = weakref.ref(loader)
        del loader
        assert gone() is None
    finally:
        gc.enable()
