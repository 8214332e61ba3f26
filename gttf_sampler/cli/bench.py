"""`gttf bench`: how this package compares with its peers on this machine."""

from gttf_sampler.bench.command import add_arguments, run

__all__ = ["add_arguments", "run"]
