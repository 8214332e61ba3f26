"""A logistic regression: what embeddings know about classes."""

import torch
import torch.nn.functional as F
from torch import Tensor

from gttf_sampler import _check


def accuracy(train_z: Tensor, train_y: Tensor, test_z: Tensor, test_y: Tensor) -> float:
    """The share of test nodes whose class a linear model of their embedding finds.

    Multinomial, with intercept and penalty ½ ‖W‖², as scikit-learn's default is.
    """
    for name, z, y in (("train", train_z, train_y), ("test", test_z, test_y)):
        _check.tensor(f"{name}_z", z, rank=2)
        _check.length(f"{name}_y", _check.integers(f"{name}_y", y), len(z), "row")
    if not len(train_y) or not len(test_y):
        _check.fail("train_y", "must hold classes to learn and to test", "none")
    z = train_z.detach().double()
    classes = int(torch.cat([train_y, test_y]).max()) + 1
    weight = z.new_zeros(z.shape[1] + 1, classes, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight], max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(_logits(z, weight), train_y.long(), reduction="sum")
        loss = loss + weight[1:].square().sum() / 2
        loss.backward()
        return loss

    with torch.enable_grad():
        optimizer.step(closure)
    found = _logits(test_z.detach().double(), weight.detach()).argmax(1)
    return float((found == test_y).double().mean())


def _logits(z: Tensor, weight: Tensor) -> Tensor:
    """The scores [n, classes] of every class; the first row is the intercept."""
    return z @ weight[1:] + weight[0]
