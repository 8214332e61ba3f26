"""A thread that makes batches ahead: in their order, errors too, and no further."""

import multiprocessing
import os
import signal
import threading
import time
import traceback

import pytest
import torch
from torch.utils.data import DataLoader

from gttf_sampler._loading.seeded import SeededLoader
from resumed import gone, pairs, threads

TWO = {"num_workers": 2, "thread_workers": True}


def loader(collate_fn=pairs, size=34, batch_size=5, **how):
    return SeededLoader(
        range(size), batch_size, collate_fn=collate_fn, **{**TWO, **how}
    )


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    yield
    assert gone()


@pytest.mark.parametrize("prefetch_factor", [1, 3])
def test_works_ahead_and_no_further(prefetch_factor):
    made = []

    def note(batch):
        made.append(batch.index[0])

    batches = iter(loader(note, batch_size=1, prefetch_factor=prefetch_factor))
    for taken in (0, 1):
        deadline = time.monotonic() + 5
        expected = 2 * prefetch_factor + taken
        while len(made) < expected and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.05)
        assert made == list(range(expected))
        next(batches)


def test_early_break_and_end_leave_no_thread():
    given = loader()
    for _ in given:
        assert threads()
        break
    assert gone()
    held = iter(given)
    assert len(list(held)) == 7
    assert gone()
    assert next(held, None) is None
    held = iter(given)
    next(held)
    held.close()
    assert next(held, None) is None
    assert gone()


def slow(batch):
    time.sleep(1)
    return batch


def test_interrupt_while_waiting():
    batches, main = iter(loader(slow)), threading.get_ident()
    timer = threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        next(batches)
    assert time.monotonic() - begin < 0.9  # at once, not after the batch
    timer.join()


def test_timeout():
    with pytest.raises(RuntimeError, match=r"timed out after 0\.05 seconds"):
        next(iter(loader(slow, timeout=0.05)))


def fails_at_ten(batch):
    if batch.index[0] == 10:
        raise LookupError("broken function")
    return batch.index[0]


@pytest.mark.process
@pytest.mark.parametrize("thread", [True, False])
def test_errors_come_in_their_turn_and_the_rest_after_them(thread):
    """As torch has it; the error is the one that was raised, with its traceback."""
    batches = iter(loader(fails_at_ten, thread_workers=thread))
    assert [next(batches) for _ in range(2)] == [0, 5]
    with pytest.raises(LookupError, match="broken function") as error:
        next(batches)
    assert "fails_at_ten" in "".join(traceback.format_exception(error.value))
    assert list(batches) == [15, 20, 25, 30]


def test_error_of_a_sampler_comes_in_its_turn():
    class Numbers:
        def __iter__(self):
            yield from [0, 1, 2]
            raise LookupError("no more numbers")

        def __len__(self):
            return 4

    batches = iter(loader(lambda b: b.index, sampler=Numbers(), batch_size=1))
    assert [next(batches) for _ in range(3)] == [[0], [1], [2]]
    with pytest.raises(LookupError, match="no more numbers"):
        next(batches)
    assert next(batches, None) is None


def test_pinning_without_an_accelerator_only_warns():
    given = loader(pin_memory=True)
    with pytest.warns(UserWarning, match="pin_memory"):
        assert len(list(given)) == 7


class Loads(torch.utils.data.Dataset):
    """Iterates over a loader of ours inside a worker process."""

    def __len__(self):
        return 1

    def __getitem__(self, index):
        torch.manual_seed(1)
        return [key for _, key in loader()]


@pytest.mark.process
def test_loader_inside_a_worker():
    """Daemonic workers may not start processes."""
    (found,) = DataLoader(Loads(), batch_size=None, num_workers=1)
    assert found == Loads()[0]


def rest_of(batches, queue):
    queue.put(list(batches))


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_iterator_in_a_forked_child_goes_on():
    torch.manual_seed(4)
    whole = list(loader())
    torch.manual_seed(4)
    batches, context = iter(loader()), multiprocessing.get_context("fork")
    assert next(batches) == whole[0]
    queue = context.SimpleQueue()
    child = context.Process(target=rest_of, args=(batches, queue))
    child.start()
    found = queue.get()
    child.join(20)
    assert child.exitcode == 0
    assert found == list(batches) == whole[1:]
