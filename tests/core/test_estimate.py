"""A bias is told from noise."""

import pytest
import torch

from gttf_sampler._compat import has_hooks, hook_of
from gttf_sampler.estimate import LayerCheck, UnbiasedReport, assess, share


def test_assess_noise_is_no_bias():
    generator = torch.Generator().manual_seed(0)
    exact = torch.randn(16, 4, generator=generator)
    found = [
        assess(exact + torch.randn(100, 16, 4, generator=generator), exact)
        for _ in range(200)
    ]
    errors = torch.tensor([one[1] for one in found])
    assert errors.max() < 4  # of 200 numbers that are standard normal, or zero
    assert (errors > 2).double().mean() < 0.07


@pytest.mark.parametrize("bias", [0.05, 0.3])
def test_assess_finds_how_large_a_bias_is(bias):
    generator = torch.Generator().manual_seed(0)
    exact = torch.ones(500)
    drawn = (1 + bias) * exact + torch.randn(400, 500, generator=generator)
    found, errors = assess(drawn, exact)
    assert found == pytest.approx(bias, rel=0.15)
    assert errors > 4


def test_assess_without_noise():
    exact = torch.ones(3)
    assert assess(exact.expand(8, 3), exact) == (0.0, 0.0)
    bias, errors = assess(2 * exact.expand(8, 3), exact)
    assert (bias, errors) == (1.0, float("inf"))


def test_report_says_what_is_off():
    fine = LayerCheck("model.first", "GCNConv", 0.001, 0.3)
    off = LayerCheck("model.last", "GCNConv", 0.25, 40.0, "do something")
    assert UnbiasedReport((fine,), 10, 4.0)
    report = UnbiasedReport((fine, off), 10, 4.0)
    assert not report
    assert repr(report).splitlines() == [
        "layer        class    bias    standard errors",
        "model.first  GCNConv  0.10%   0.3              fine",
        "model.last   GCNConv  25.00%  40.0             off: do something",
        "biased: mean of 10 batches against the whole graph, up to 4 standard errors",
    ]


def test_share_divides_among_draws():
    total, receiver = torch.tensor([4.0, 3.0, 0.0]), torch.tensor([0, 0, 1])
    assert share(total, receiver).tolist() == [2.0, 3.0, 0.0]
    none = torch.empty(0, dtype=torch.int32)
    assert share(total, none).tolist() == [4.0, 3.0, 0.0]


def test_hook_of_a_module():
    """torch keeps the hooks of a module private."""

    class Owner:
        def hook(self, module, args):
            pass

    module, owner = torch.nn.Linear(1, 1), Owner()
    assert hook_of(module, Owner) is None
    module.register_forward_pre_hook(owner.hook)
    assert hook_of(module, Owner) is owner


@pytest.mark.parametrize("when", ["forward", "forward_pre", "full_backward"])
def test_hooks_of_a_module(when):
    """Code that would not run if a matrix were read directly."""
    module = torch.nn.Embedding(2, 2)
    assert not has_hooks(module)
    getattr(module, f"register_{when}_hook")(lambda *args: None)
    assert has_hooks(module)


def test_hooks_of_a_module_and_its_owner():
    class Owner:
        def hook(self, module, args):
            pass

    module, owner = torch.nn.Linear(1, 1), Owner()
    module.register_forward_pre_hook(owner.hook)
    assert has_hooks(module)
    assert not has_hooks(module, owner)
    module.register_forward_hook(lambda module, args, out: None)
    assert has_hooks(module, owner)
