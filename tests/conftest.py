"""Fixtures and settings that all tests share."""

import os

import pytest
import torch
from hypothesis import HealthCheck, settings

from gttf_sampler import CompactAdj

if not torch.cuda.is_available():  # read when Triton is imported, by whoever is first
    os.environ.setdefault("TRITON_INTERPRET", "1")

# Derandomised, so that a commit is judged by what it changed; look for new examples
# with `pytest --hypothesis-profile=search`.
settings.register_profile(
    "steady",
    derandomize=True,
    deadline=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.register_profile(
    "search", settings.get_profile("steady"), derandomize=False, max_examples=1000
)
settings.load_profile("steady")


@pytest.fixture
def toy_edges() -> torch.Tensor:
    """The paper's Figure 1, both directions of every edge, sorted by source."""
    return torch.tensor(
        [[0, 1, 1, 1, 1, 2, 3, 3, 4, 4], [1, 0, 2, 3, 4, 1, 1, 4, 1, 3]]
    )


@pytest.fixture
def toy(toy_edges: torch.Tensor) -> CompactAdj:
    """The same as rows to walk along."""
    return CompactAdj.from_edge_index(toy_edges, direction="out")
