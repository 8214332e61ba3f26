"""Features on disk: files of rows, read by id at the speed of the disk, and caches."""

from gttf_sampler.features.file import FeatureFile

__all__ = ["FeatureFile"]
