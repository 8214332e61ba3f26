"""Keys of batches, and what of torch's own they are found by."""

import gc
import weakref

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

from gttf_sampler._loading.asked import fetch_under_way
from gttf_sampler._loading.keyed import KeyedIndex, KeyedLoader
from gttf_sampler._loading.keys import BatchKeys, _position


def pairs(batch):
    """What a `collate_fn` of `KeyedLoader` gets."""
    return batch.index, batch.key


def epochs(loader, count=3):
    return [list(loader) for _ in range(count)]


HOW = {"batch_size": 4, "shuffle": True, "collate_fn": pairs}


@pytest.mark.process
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("draws", [False, True])
def test_keys_do_not_depend_on_workers(draws, persistent):
    class Loader(KeyedLoader):
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
    found = epochs(KeyedLoader(range(10), **HOW))
    assert [[index for index, _ in epoch] for epoch in found] == expected


def test_keys_are_not_what_shuffles():
    """What decides about the order must not decide about the draws as well."""
    torch.manual_seed(0)
    shuffled_by = int(torch.empty((), dtype=torch.int64).random_())
    torch.manual_seed(0)
    keys = [part.key for part in KeyedLoader(range(3))._index_sampler]
    assert len(set(keys)) == 3
    assert all(abs(key - shuffled_by) > 3 for key in keys)
    assert torch.empty((), dtype=torch.int64).random_() == shuffled_by  # still there


def test_loader_without_batches():
    (first, *_), *_ = epochs(KeyedLoader(range(3), batch_size=None, collate_fn=pairs))
    assert first[0] == 0
    assert isinstance(first[1], int)


def test_dataset_stays_one_of_numbers():
    loader = KeyedLoader(range(5, 8), collate_fn=pairs)
    assert len(loader.dataset) == 3
    assert loader.dataset[1] == 6
    assert loader.dataset.__getitems__([0, 2]) == [5, 7]
    assert repr(loader.dataset) == "range(5, 8)"
    assert KeyedIndex.of([1]) == ([1], None)


class Asked:
    """A dataset that notes what torch says of each batch."""

    def __len__(self):
        return 6

    def __getitem__(self, index):
        fetch = fetch_under_way()
        return index, fetch.base, fetch.number


class Stream(IterableDataset):
    """The same as a stream."""

    def __iter__(self):
        for index in range(6):
            fetch = fetch_under_way()
            yield index, fetch.base, -1 if fetch.number is None else fetch.number


@pytest.mark.process
@pytest.mark.parametrize("workers", [0, 2])
def test_torch_tells_seed_and_number(workers):
    """Fails where torch renames what `asked` reads off its frames."""
    loader = DataLoader(Asked(), batch_size=2, num_workers=workers)
    for _ in range(2):
        told = list(loader)
        assert [batch[2].tolist() for batch in told] == [[0, 0], [1, 1], [2, 2]]
        assert len({int(base) for batch in told for base in batch[1]}) == 1


def test_torch_tells_the_number_in_a_stream_without_workers():
    told = list(DataLoader(Stream(), batch_size=2))
    assert [batch[2].tolist() for batch in told] == [[0, 0], [1, 1], [2, 2]]


@pytest.mark.process
def test_torch_knows_no_number_in_a_stream_of_workers():
    told = list(DataLoader(Stream(), batch_size=2, num_workers=1))
    assert [batch[2].tolist() for batch in told] == [[-1, -1]] * 3


def test_nobody_asks_outside_a_loader():
    assert fetch_under_way() is None


@pytest.mark.process
def test_host_tells_the_number_that_torch_does_not_know():
    keys = BatchKeys(None, 5, lambda fetcher, worker: 7)
    assert keys.next([torch.tensor([1])]) == 5  # a call by hand: the seed itself

    class Sampled(Stream):
        def __iter__(self):
            for index in range(2):
                yield keys.next([torch.tensor([index])])

    seeded = list(DataLoader(Sampled(), batch_size=None, num_workers=1))
    assert len(set(seeded)) == 2  # asked for the same batch twice: another view of it


@pytest.mark.process
def test_loader_with_workers_goes_as_soon_as_nobody_holds_it():
    """Without waiting for the collector, which would find workers to end anywhere."""
    gc.collect()
    gc.disable()
    try:
        how = {"num_workers": 1, "persistent_workers": True, "collate_fn": pairs}
        loader = KeyedLoader(range(4), **how)
        assert len(list(loader)) == 4
        gone = weakref.ref(loader)
        del loader
        assert gone() is None
    finally:
        gc.enable()


class Written:
    """A log into which another worker writes as soon as somebody looks at it."""

    def __init__(self, cells, mark):
        self.cells, self.mark = cells, mark

    def clone(self):
        return self.cells.clone()

    def __eq__(self, value):
        found = self.cells == value
        self.cells[1] = self.mark
        return found

    def __setitem__(self, place, value):
        self.cells[place] = value


def test_workers_that_note_an_epoch_at_once_give_it_one_number():
    log = Written(torch.tensor([5, 0, 0]), 7)
    assert _position(log, 7) == 1
    assert _position(log, 7) == 1
    assert log.cells.tolist() == [5, 7, 0]
