"""Batches on streams of their own: in which order, and what becomes of their memory."""

import pickle
from collections import deque

import pytest
import torch

from gttf_sampler import CompactAdj, sample_rooted
from gttf_sampler._backends.streams import streams_of
from gttf_sampler._loading.streams import (
    BUFFERS,
    PinnedBuffers,
    StreamPipeline,
    pipeline_on,
    tensors_of,
)
from paper import PaperStreams

CPU = torch.device("cpu")
X = torch.arange(4000.0).view(1000, 4)
Y = torch.arange(1000, dtype=torch.bfloat16)


def index_of(number):
    return torch.tensor([number, 999 - number, 2 * number])


def uploading(pipeline):
    """index → batch, by way of pinned memory."""

    def make(number):
        index = index_of(number)
        return {"x": pipeline.upload([(X, index), (Y, index)])}

    return make


def run(pipeline, make, numbers):
    """The results for some numbers; nothing is handed over yet."""
    makes = pipeline.makes(make)
    return [makes(asked) for asked in pipeline.asked(numbers)]


def check(batch, number):
    x, y = batch["x"]
    assert torch.equal(x, X[index_of(number)])
    assert torch.equal(y, Y[index_of(number)])


def test_pipeline_order_of_operations():
    streams = PaperStreams()
    pipeline = StreamPipeline(CPU, streams)
    (made,) = run(pipeline, uploading(pipeline), [7])
    batch = pipeline.hand_over(made)
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


def test_pipeline_has_nothing_before_it_is_waited_for():
    """The simulation can fail: whoever reads too early reads what is not there."""
    pipeline = StreamPipeline(CPU, PaperStreams())
    (made,) = run(pipeline, uploading(pipeline), [7])
    with pytest.raises(AssertionError):
        check(made.batch, 7)


@pytest.mark.parametrize("prompt", [False, True])
def test_pipeline_buffers_are_not_used_before_their_copy_is_done(prompt):
    streams = PaperStreams(prompt=prompt)
    pipeline = StreamPipeline(CPU, streams)
    batches = run(pipeline, uploading(pipeline), range(20))
    for number, made in enumerate(batches):
        check(pipeline.hand_over(made), number)
    assert len(streams.made) == (1 if prompt else BUFFERS)
    waited = streams.notes.count("host waits for copy")
    assert waited == (0 if prompt else 20 - BUFFERS)


def test_pipeline_buffers_of_a_device_that_lies():
    """The test above can fail: a copy that is called done too early is overwritten."""

    class Lying(PaperStreams):
        def done(self, event):
            return True

    pipeline = StreamPipeline(CPU, Lying())
    first, _ = run(pipeline, uploading(pipeline), [3, 4])
    with pytest.raises(AssertionError):
        check(pipeline.hand_over(first), 3)


def test_pipeline_buffers_fit():
    """A buffer much too large, or too small, is not used; there are few of them."""
    streams = PaperStreams(prompt=True)
    pipeline = StreamPipeline(CPU, streams)

    def make(count):
        return pipeline.upload([(X, torch.arange(count))])

    for count in (1000, 1, 1000, 1, 990, 2, 500):
        (made,) = run(pipeline, make, [count])
        (x,) = pipeline.hand_over(made)
        assert torch.equal(x, X[:count])
    assert len(streams.made) == 2


def test_buffers_that_other_threads_have_taken():
    """Between the look at how many there are and the step that takes one."""

    class Raced(deque):
        def __len__(self):
            return BUFFERS

    buffers = PinnedBuffers(PaperStreams())
    buffers._idle = Raced()
    assert buffers._take(10).numel() >= 10


def test_pipeline_settles_what_is_used_before_it_is_handed_over():
    streams = PaperStreams()
    pipeline = StreamPipeline(CPU, streams)

    def make(number):
        batch = uploading(pipeline)(number)
        pipeline.settle(batch)
        check(batch, number)
        return batch

    (made,) = run(pipeline, make, [5])
    assert all(streams.was_recorded(part, "work") for part in made.batch["x"])
    assert "work waits for copy" in streams.notes


@pytest.mark.parametrize("error", [IndexError, RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("place", ["gather", "second copy", "after"])
def test_pipeline_fails_in_the_middle(error, place):
    """The pipeline is left, and no buffer is used before its copy is done."""
    streams = PaperStreams()
    pipeline, upload = StreamPipeline(CPU, streams), streams.upload
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
                pipeline.upload([(X, torch.tensor([1000]))])
            raise error
        batch = uploading(pipeline)(number)
        if number == 1 and place == "after":
            raise error
        return batch

    (first,) = run(pipeline, make, [0])
    with pytest.raises(error):
        run(pipeline, make, [1])
    assert streams.current().name == "main"
    later = run(pipeline, make, range(2, 12))
    check(pipeline.hand_over(first), 0)
    for number, made in enumerate(later, 2):
        check(pipeline.hand_over(made), number)
    assert len(pipeline._buffers._idle) <= BUFFERS


def test_pipeline_keeps_what_it_reads():
    streams = PaperStreams()
    pipeline = StreamPipeline(CPU, streams)
    pipeline.reads([X])
    assert streams.was_recorded(X, "work")


def test_pipeline_maps_once():
    streams = PaperStreams()
    pipeline = StreamPipeline(CPU, streams)
    assert pipeline.mapped(X) is pipeline.mapped(X)
    assert streams.notes == ["map"]


def test_pipeline_is_made_anew_from_a_pickle(monkeypatch):
    name = "gttf_sampler._backends.streams.cuda_streams"
    monkeypatch.setattr(name, lambda device: PaperStreams())
    pipeline = pipeline_on(CPU)
    assert isinstance(pickle.loads(pickle.dumps(pipeline)), StreamPipeline)


def test_pipeline_needs_streams():
    assert streams_of(CPU) is None
    assert pipeline_on(CPU) is None


def test_tensors_of_dataclasses_are_recorded():
    """As of a sample, which no tree of torch's looks into."""
    adj = CompactAdj.from_edge_index(torch.tensor([[0, 1], [1, 2]]), 3)
    found = sample_rooted(adj, [2], [1], generator=1)
    places = {part.data_ptr() for part in tensors_of({"batch": [found]})}
    assert places >= {p.data_ptr() for p in (found.node, found.row, found.col)}
