"""Features on disk: files of rows, read by id at the speed of the disk, and caches."""

from gttf_sampler.features.device import DeviceCache
from gttf_sampler.features.file import FeatureFile, RowSource
from gttf_sampler.features.read import most_reached, most_sampled

__all__ = ["DeviceCache", "FeatureFile", "RowSource", "most_reached", "most_sampled"]
