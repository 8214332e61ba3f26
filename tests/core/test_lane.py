"""Batches on streams of their own: in which order, and what becomes of their memory."""

import pickle
from collections import deque

import pytest
import torch

from gttf_sampler import CompactAdj, sample_rooted
from gttf_sampler._backends.streams import set_streams, streams_of
from gttf_sampler._loading.lane import Lane, lane_on, lane_under_way, tensors_of
from gttf_sampler._loading.pinned import MOST, PinnedBuffers
from paper import PaperStreams

CPU = torch.device("cpu")
X = torch.arange(4000.0).view(1000, 4)
Y = torch.arange(1000, dtype=torch.bfloat16)


def index_of(number):
    return torch.tensor([number, 999 - number, 2 * number])


def uploading(lane):
    """index → batch, by way of pinned memory."""

    def make(number):
        index = index_of(number)
        return {"x": lane.upload([(X, index), (Y, index)])}

    return make


def run(lane, make, numbers):
    """What was made of some numbers; nothing is handed over yet."""
    makes = lane.makes(make)
    return [makes(asked) for _, asked in lane.asked(enumerate(numbers))]


def check(batch, number):
    x, y = batch["x"]
    assert torch.equal(x, X[index_of(number)])
    assert torch.equal(y, Y[index_of(number)])


def test_lane_order_of_operations():
    streams = PaperStreams()
    lane = Lane(CPU, streams)
    (made,) = run(lane, uploading(lane), [7])
    batch = lane.hand_over(made)
    assert streams.notes == [
        "event on main",  # the batch is asked for
        "work waits for main",
        "use work",
        "pin",
        "copy on copy",  # of X, then of Y, after both were gathered
        "copy on copy",
        "event on copy",  # the buffer is free behind this one
        "event on work",
        "event on copy",
        "leave work",
        "main waits for work",
        "main waits for copy",
    ]
    assert all(streams.was_recorded(part, "main") for part in batch["x"])
    check(batch, 7)


def test_lane_has_nothing_before_it_is_waited_for():
    """The simulation can fail: whoever reads too early reads what is not there."""
    lane = Lane(CPU, PaperStreams())
    (made,) = run(lane, uploading(lane), [7])
    with pytest.raises(AssertionError):
        check(made.batch, 7)


@pytest.mark.parametrize("prompt", [False, True])
def test_lane_buffers_are_not_used_before_their_copy_is_done(prompt):
    streams = PaperStreams(prompt=prompt)
    lane = Lane(CPU, streams)
    batches = run(lane, uploading(lane), range(20))
    for number, made in enumerate(batches):
        check(lane.hand_over(made), number)
    assert len(streams.made) == (1 if prompt else MOST)
    waited = streams.notes.count("host waits for copy")
    assert waited == (0 if prompt else 20 - MOST)


def test_lane_buffers_of_a_device_that_lies():
    """The test above can fail: a copy that is called done too early is overwritten."""

    class Lying(PaperStreams):
        def done(self, event):
            return True

    lane = Lane(CPU, Lying())
    first, _ = run(lane, uploading(lane), [3, 4])
    with pytest.raises(AssertionError):
        check(lane.hand_over(first), 3)


def test_lane_buffers_fit():
    """A buffer much too large, or too small, is not used; there are few of them."""
    streams = PaperStreams(prompt=True)
    lane = Lane(CPU, streams)

    def make(count):
        return lane.upload([(X, torch.arange(count))])

    for count in (1000, 1, 1000, 1, 990, 2, 500):
        (made,) = run(lane, make, [count])
        (x,) = lane.hand_over(made)
        assert torch.equal(x, X[:count])
    assert len(streams.made) == 2


def test_buffers_that_other_threads_have_taken():
    """Between the look at how many there are and the step that takes one."""

    class Raced(deque):
        def __len__(self):
            return MOST

    buffers = PinnedBuffers(PaperStreams())
    buffers._idle = Raced()
    assert buffers._take(10).numel() >= 10


def test_lane_settles_what_is_used_before_it_is_handed_over():
    streams = PaperStreams()
    lane = Lane(CPU, streams)

    def make(number):
        batch = uploading(lane)(number)
        lane.settle(batch)
        check(batch, number)
        return batch

    (made,) = run(lane, make, [5])
    assert all(streams.was_recorded(part, "work") for part in made.batch["x"])
    assert "work waits for copy" in streams.notes


@pytest.mark.parametrize("error", [IndexError, RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("place", ["gather", "second copy", "after"])
def test_lane_fails_in_the_middle(error, place):
    """The lane is left, and no buffer is used before its copy is done."""
    streams = PaperStreams()
    lane, upload = Lane(CPU, streams), streams.upload
    copies = []

    def failing(source, stream):
        copies.append(source)
        if place == "second copy" and len(copies) == 4:
            raise error
        return upload(source, stream)

    streams.upload = failing

    def make(number):
        if number == 1 and place == "gather":
            with pytest.raises(ValueError, match="'index' must hold ids below"):
                lane.upload([(X, torch.tensor([1000]))])
            raise error
        batch = uploading(lane)(number)
        if number == 1 and place == "after":
            raise error
        return batch

    (first,) = run(lane, make, [0])
    with pytest.raises(error):
        run(lane, make, [1])
    assert lane_under_way() is None
    assert streams.current().name == "main"
    later = run(lane, make, range(2, 12))
    check(lane.hand_over(first), 0)
    for number, made in enumerate(later, 2):
        check(lane.hand_over(made), number)
    assert len(lane._buffers._idle) <= MOST


def test_lane_keeps_what_it_reads():
    streams = PaperStreams()
    lane = Lane(CPU, streams)
    lane.reads([X])
    assert streams.was_recorded(X, "work")


def test_lane_maps_once():
    streams = PaperStreams()
    lane = Lane(CPU, streams)
    assert lane.mapped(X) is lane.mapped(X)
    assert streams.notes == ["map"]


def test_lane_is_made_anew_from_a_pickle():
    before = set_streams(lambda device: PaperStreams())
    try:
        lane = lane_on(CPU)
        assert isinstance(pickle.loads(pickle.dumps(lane)), Lane)
    finally:
        set_streams(before)


def test_lane_needs_streams():
    assert streams_of(CPU) is None
    assert lane_on(CPU) is None


def test_tensors_of_dataclasses_are_recorded():
    """As of a sample, which no tree of torch's looks into."""
    adj = CompactAdj.from_edge_index(torch.tensor([[0, 1], [1, 2]]), 3)
    found = sample_rooted(adj, [2], [1], generator=1)
    places = {part.data_ptr() for part in tensors_of({"batch": [found]})}
    assert places >= {p.data_ptr() for p in (found.node, found.row, found.col)}
