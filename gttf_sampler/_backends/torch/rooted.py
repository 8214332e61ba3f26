"""Whole batches in one call, which only fast backends have.

The reference is the loop in `rooted.hops`, which calls biases and the other functions
of this package.
"""

from gttf_sampler._backends.record import Batch, Padded, Plan, Rooted


def rooted(plan: Plan, batch: Batch) -> Rooted | None:
    """A whole batch in one call; None where a backend has none for what is asked.

    `sample_hops` of `rooted.hops` draws the same.
    """
    return None


def rooted_padded(plan: Plan, batch: Batch) -> Padded | None:
    """`rooted` with static shapes and no word to the host; None where there is none.

    No fanout is -1, every bias has a law, and the seeds are sound. `sample_padded`
    of `rooted.hops` draws the same.
    """
    return None
