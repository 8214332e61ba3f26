"""Canaries: the names of torch that `gttf_sampler._compat` reads behind its interface.

When a test fails here after an update, torch has changed, and its name says which
function the engine has to replace.
"""

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

from gttf_sampler import _compat


def test_assert_async_fails_with_the_message():
    _compat.assert_async(torch.tensor(True), "sound")
    with pytest.raises(RuntimeError, match="'seeds' must hold ids"):
        _compat.assert_async(torch.tensor(False), "'seeds' must hold ids")


def test_version_of_counts_changes_in_place():
    x = torch.zeros(2)
    before = _compat.version_of(x)
    x.add_(1)
    assert _compat.version_of(x) == before + 1
    with torch.inference_mode():
        assert _compat.version_of(torch.zeros(2)) is None


def test_default_store_is_where_processes_meet():
    with pytest.raises(ValueError, match="process group"):
        _compat.default_store()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        assert _compat.default_store().add("claims", 1) == 1
    finally:
        dist.destroy_process_group()


def test_loaders_and_their_iterators_have_the_attributes():
    loader = DataLoader(range(3), batch_size=2)
    names = [n for n in _compat.PRIVATE_OF_LOADER if not hasattr(loader, n)]
    assert names == []
    iterator = iter(loader)
    assert isinstance(iterator, _compat.BaseIterator)
    names = [n for n in _compat.PRIVATE_OF_ITERATOR if not hasattr(iterator, n)]
    assert names == []


def test_fetcher_makes_the_batches_of_a_loader():
    loader = DataLoader(range(3), batch_size=2)
    assert _compat.fetcher_of(loader)([2, 0]).tolist() == [2, 0]


def test_hook_of_finds_a_hook_and_its_owner():
    class Owner:
        def hook(self, module, arguments):
            return None

    module, owner = torch.nn.Identity(), Owner()
    assert _compat.hook_of(module, Owner) is None
    module.register_forward_pre_hook(owner.hook)
    assert _compat.hook_of(module, Owner) is owner


def test_names_of_torch_do_what_they_did():
    assert not _compat.is_compiling()
    assert _compat.tree_leaves([1, {"a": (2, 3)}]) == [1, 2, 3]
    assert callable(_compat.pin_memory)
