"""Rooted adjacencies: seeds → Subgraph in one pass, hop by hop."""

from gttf_sampler._backends.plan import Rooted
from gttf_sampler.rooted.laws import laws_of
from gttf_sampler.rooted.saint import walk_subgraph
from gttf_sampler.rooted.sample import sample_rooted
from gttf_sampler.rooted.sampler import RootedSampler

__all__ = ["Rooted", "RootedSampler", "laws_of", "sample_rooted", "walk_subgraph"]
