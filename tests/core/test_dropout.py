"""dropout() has torch's distribution, and one mask everywhere."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck

from gttf_sampler import use_backend
from gttf_sampler.dropout import SMALL, dropout, replace_dropout

ROWS, COLUMNS = 2000, 101


def mask(p, seed=0, shape=(ROWS, COLUMNS)):
    """1 where a number stays."""
    return (dropout(torch.ones(shape), p, generator=seed) != 0).double()


@pytest.mark.parametrize("p", [0.01, 0.5, 0.9])
def test_dropout_frequencies(backend, p):
    """The share that stays: of all, of rows, of columns, and of neighbours together."""
    kept, share, variance = mask(p), 1 - p, p * (1 - p)
    for found, count in (
        (kept.mean(), kept.numel()),
        (kept.mean(0), ROWS),
        (kept.mean(1), COLUMNS),
    ):
        worst = (found - share).abs().max() / (variance / count) ** 0.5
        assert worst < 5.5
    for moved in ((0, 1), (0, 2), (1, 0), (2, 0), (1, 1)):
        other = kept.roll(moved, (0, 1))
        together = ((kept - share) * (other - share)).mean() / variance
        assert together.abs() < 5 / kept.numel() ** 0.5
    apart = ((kept - share) * (mask(p, 1) - share)).mean() / variance
    assert apart.abs() < 5 / kept.numel() ** 0.5


def test_dropout_mean_and_variance(backend):
    """Those of the numbers of torch's, over many calls."""
    x = torch.tensor([[1.0, -2.0, 3.0]])
    made = torch.cat([dropout(x, 0.25, generator=seed) for seed in range(4000)])
    variance = x[0].double().square() * 0.25 / 0.75
    error = (made.double().mean(0) - x[0]).abs() / (variance / 4000).sqrt()
    assert error.max() < 4
    assert torch.allclose(made.double().var(0), variance, rtol=0.1)
    kept = made[0][made[0] != 0]
    assert kept.equal((x[0] * (1 / 0.75))[made[0] != 0])


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16]
)
@pytest.mark.parametrize("shape", [(300, 57), (3000, 1), (30, 5, 4), (7,), (), (0, 3)])
def test_dropout_bits_do_not_depend_on_threads_or_backend(shape, dtype):
    pytest.importorskip("numba", reason="numba is optional")
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    with use_backend("torch"):
        expected = dropout(x, 0.3, generator=2)
    assert expected.dtype == dtype
    assert expected.shape == x.shape
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            assert dropout(x, 0.3, generator=2).equal(expected)
            turned = x.mT.contiguous().mT if x.dim() > 1 else x
            assert dropout(turned, 0.3, generator=2).equal(expected)
    finally:
        torch.set_num_threads(before)


def test_dropout_gradient_is_its_mask(backend):
    x = torch.randn(40, 30, dtype=torch.float64, requires_grad=True)
    made = dropout(x, 0.4, generator=3)
    made.sum().backward()
    assert torch.equal(made, x * x.grad)
    call = lambda x: dropout(x, 0.4, generator=3).square()  # noqa: E731
    assert gradcheck(call, (x[:3, :5],))
    assert gradgradcheck(call, (x[:3, :5],))


def test_dropout_follows_the_seed_of_torch(backend):
    x = torch.ones(50, 50)
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append([dropout(x), dropout(x)])
    assert all(map(torch.equal, found[0], found[1]))
    assert not found[0][0].equal(found[0][1])
    assert not found[0][0].equal(found[2][0])


def test_dropout_of_all_and_of_none(backend):
    x = torch.ones(3, 4, requires_grad=True)
    assert dropout(x, 0) is x
    nothing = dropout(x, 1)
    nothing.sum().backward()
    assert not nothing.any()
    assert not x.grad.any()


def test_dropout_validate():
    with pytest.raises(TypeError, match="'x' must hold floats"):
        dropout(torch.ones(3, dtype=torch.long))
    for p in (-0.1, 1.5):
        with pytest.raises(ValueError, match="'p' must be a probability from 0 to 1"):
            dropout(torch.ones(3), p)


def test_replace_dropout():
    """While training, for many floats; copies and pickles as well."""
    model = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5))
    replace_dropout(model)
    replace_dropout(model)
    x, few = torch.ones(SMALL // 64, 64), torch.ones(2, 64)
    for one in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        drop = one[1]
        assert type(drop) is nn.Dropout
        assert list(one.state_dict()) == ["0.weight", "0.bias"]
        for given, call in (
            (x, lambda given, drop=drop: dropout(given, drop.p)),
            (few, lambda given, drop=drop: nn.functional.dropout(given, drop.p)),
        ):
            torch.manual_seed(5)
            found = drop(given)
            torch.manual_seed(5)
            assert found.equal(call(given))
        drop.p = 0.0
        assert drop(x).equal(x)
        drop.p, drop.inplace = 0.5, True
        own = x.clone()
        assert drop(own) is own
        drop.inplace = False
        one.eval()
        assert drop(x) is x
        one.train()
