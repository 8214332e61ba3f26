"""A graph whose rows live in several processes, with the batches of one machine."""

from gttf_sampler.distributed.partition import partition

__all__ = ["partition"]
