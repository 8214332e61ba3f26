"""DGL's `dataloading`: our classes and functions, and DGL's own for the rest."""

from dgl import dataloading as theirs

from gttf_sampler._swap import host_names

__all__, __getattr__ = host_names(theirs, __name__)
