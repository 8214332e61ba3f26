"""Rooted adjacencies: seeds → Subgraph in one pass, hop by hop."""

from gttf_sampler._backends.record import Rooted
from gttf_sampler.rooted.budget import BudgetSampler, sample_budget
from gttf_sampler.rooted.captured import CapturedSampler
from gttf_sampler.rooted.sample import sample_rooted, walk_subgraph
from gttf_sampler.rooted.sampler import RootedSampler

__all__ = [
    "BudgetSampler",
    "CapturedSampler",
    "Rooted",
    "RootedSampler",
    "sample_budget",
    "sample_rooted",
    "walk_subgraph",
]
