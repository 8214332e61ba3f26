"""linear() is torch's, to rounding, whichever library is chosen."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck
from torch.nn import functional

from gttf_sampler import _compat
from gttf_sampler import linear as module
from gttf_sampler.linear import LARGE, linear, replace_linear


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def chosen(monkeypatch):
    """Choices of this test alone."""
    monkeypatch.setattr(module, "_chosen", {})
    return module._chosen


def products(call, x, weight, bias):
    """The result of a call, and its gradients."""
    given = [v if v is None else v.clone().requires_grad_() for v in (x, weight, bias)]
    out = call(*given)
    (out * normal(*out.shape, seed=9).to(out.dtype)).sum().backward()
    return [out.detach(), *(v.grad for v in given if v is not None)]


@pytest.mark.parametrize("winner", ["_onednn", "torch", None])
@pytest.mark.parametrize("bias", [True, False])
def test_linear_is_that_of_torch(chosen, monkeypatch, winner, bias):
    """Both products, and whatever the clock says; rows may stand apart in memory."""
    if winner is not None:
        product = module._onednn if winner == "_onednn" else functional.linear
        if winner == "_onednn" and _compat.onednn_linear() is None:
            pytest.skip("this torch was built without oneDNN")
        monkeypatch.setattr(module, "_winner", lambda *given: product)
    for x in (normal(2100, 90), normal(2100, 180)[:, ::2], normal(90, 2100).t()):
        given = x, normal(70, 90, seed=1), normal(70, seed=2) if bias else None
        assert len(x) * given[1].numel() >= LARGE
        found, near = products(linear, *given), products(functional.linear, *given)
        exact = products(
            functional.linear, *(None if v is None else v.double() for v in given)
        )
        for one, two, three in zip(found, near, exact, strict=True):
            scale = three.abs().max()
            assert (one - two).abs().max() <= 1e-5 * scale
            assert (one - three).abs().max() <= 1e-5 * scale
    if winner is None and _compat.onednn_linear() is not None:
        assert len(chosen) >= 3  # forward, and both gradients


def test_linear_chooses_by_the_clock(chosen, monkeypatch):
    """The faster one if it is right; torch where oneDNN fails or is wrong."""
    given = normal(10, 4), normal(3, 4), None

    def slow(*given):
        torch.ones(1 << 20).exp_()
        return functional.linear(*given)

    def wrong(*given):
        return functional.linear(*given) * 1.001

    def missing(*given):
        raise RuntimeError("no such product")

    for other in (slow, wrong, missing):
        monkeypatch.setattr(module, "_onednn", other)
        assert module._winner(*given) is functional.linear


def test_linear_leaves_the_rest_to_torch(chosen, monkeypatch):
    """Other dtypes, ranks and classes, small products, and whatever looks at them."""
    monkeypatch.setattr(module, "_winner", None)  # would be called
    x, weight = normal(2100, 90), normal(70, 90)
    assert linear(x[:4], weight).shape == (4, 70)
    assert linear(x.double(), weight.double()).dtype == torch.float64
    assert linear(x.view(21, 100, 90), weight).shape == (21, 100, 70)
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(x, weight).dtype == torch.bfloat16
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        linear(x, weight)
    assert counter.get_total_flops() == 2 * x.numel() * 70
    found = torch.func.vmap(linear, (None, 0))(x, weight.expand(2, 70, 90))
    assert found.shape == (2, 2100, 70)
    torch.use_deterministic_algorithms(True)
    try:
        assert linear(x, weight).equal(functional.linear(x, weight))
    finally:
        torch.use_deterministic_algorithms(False)


def test_linear_has_gradients_of_gradients(monkeypatch):
    monkeypatch.setattr(module, "LARGE", 0)
    x = torch.randn(5, 4, requires_grad=True)
    weight = torch.randn(3, 4, requires_grad=True)
    (of_x,) = torch.autograd.grad(linear(x, weight).pow(3).sum(), x, create_graph=True)
    found = torch.autograd.grad(of_x.pow(2).sum(), (x, weight))
    (of_x,) = torch.autograd.grad((x @ weight.t()).pow(3).sum(), x, create_graph=True)
    exact = torch.autograd.grad(of_x.pow(2).sum(), (x, weight))
    torch.testing.assert_close(found, exact, rtol=1e-4, atol=1e-3)
    doubles = x.double().detach().requires_grad_(), weight.double().detach()
    assert gradcheck(linear, doubles)


def test_replace_linear(chosen):
    model = nn.Sequential(nn.Linear(90, 70), nn.Bilinear(2, 2, 2))
    replace_linear(model, (nn.Linear,))
    seen, x = [], normal(2100, 90)
    for one in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        one[0].register_forward_hook(lambda *args: seen.append(1))
        assert type(one[0]) is nn.Linear
        assert one.state_dict().keys() == nn.Sequential(*model).state_dict().keys()
        expected = functional.linear(x, one[0].weight, one[0].bias)
        torch.testing.assert_close(one[0](x), expected)
        assert "forward" not in vars(one[1])
    assert len(seen) == 3


def test_private_product_of_torch_is_what_it_was():
    """A canary: `_compat.onednn_linear` is where to look."""
    product = _compat.onednn_linear()
    if product is None:
        pytest.skip("this torch was built without oneDNN, or has renamed its product")
    x, weight, bias = normal(7, 5), normal(3, 5), normal(3)
    for by in (bias, None):
        found = product(x, weight, by, "none", [], "")
        torch.testing.assert_close(found, functional.linear(x, weight, by))
    turned = product(x.t(), weight.new_ones(2, 7), None, "none", [], "")
    torch.testing.assert_close(turned, x.sum(0).unsqueeze(1).expand(5, 2))
    assert not _compat.is_watched()
    with torch.autocast("cpu"):
        assert _compat.is_watched()
