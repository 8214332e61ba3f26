"""Features on disk: files of rows, read by id at the speed of the disk, and caches."""

from gttf_sampler.features.access import most_reached, most_sampled
from gttf_sampler.features.file import FeatureFile, RowSource

__all__ = ["FeatureFile", "RowSource", "most_reached", "most_sampled"]
