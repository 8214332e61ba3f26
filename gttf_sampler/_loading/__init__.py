"""Seeded loading: batches that are the same with any number of workers.

`seeded` has the DataLoader that both hosts' loaders are, `state` how far it is,
`prefetch` the thread that stands in for workers, `streams` the same on a device. The
names that torch keeps private are in `gttf_sampler._compat`.
"""
