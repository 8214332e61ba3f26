"""Batches with keys: a DataLoader draws the same with any number of workers.

`keyed` is for loaders of our own, `asked` and `keys` for samplers that somebody else's
loader calls. What torch keeps private and they need is named in `asked` and in `keyed`,
and nowhere else; tests/core/test_loading.py fails when torch changes it.
"""
