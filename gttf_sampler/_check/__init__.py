"""Checks of what the caller passes: the only place that words errors.

A check is called by the name of the argument and its value, and returns the value in
the form that the code behind it relies on.
"""

from gttf_sampler._check.graphs import *
from gttf_sampler._check.values import *
