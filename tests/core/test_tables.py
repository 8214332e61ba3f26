"""Values cached for an object are found again for the same, unchanged tensors."""

import gc

import pytest
import torch

from gttf_sampler.graph import tables
from gttf_sampler.graph.tables import kept_of


class Owner:
    __hash__ = None  # as of DGL's graphs and of dataclasses


def test_kept_is_made_once_per_name():
    owner, made = Owner(), []
    for name in ("a", "b", "a"):
        kept_of(owner).get(name, lambda name=name: made.append(name))
    assert made == ["a", "b"]
    assert kept_of(Owner()) is not kept_of(owner)


def other(x):
    return x.clone()


def changed(x):
    return x.add_(1)


@pytest.mark.parametrize("change", [other, changed])
def test_kept_is_made_anew_of_other_tensors(change):
    owner, x = Owner(), torch.ones(3)

    def total():
        return kept_of(owner).get("sum", lambda: [x.sum()], x)

    first = total()
    assert total() is first
    x = change(x)
    assert total() is not first
    assert total()[0] == x.sum()


def test_kept_is_made_anew_where_nobody_counts():
    with torch.inference_mode():
        x = torch.ones(3)
    owner = Owner()
    assert kept_of(owner).get("x", list, x) is not kept_of(owner).get("x", list, x)


def test_kept_is_forgotten_with_its_owner():
    gc.collect()
    before, owner = len(tables._kept), Owner()
    kept_of(owner).get("x", list)
    assert len(tables._kept) == before + 1
    del owner
    gc.collect()
    assert len(tables._kept) == before
