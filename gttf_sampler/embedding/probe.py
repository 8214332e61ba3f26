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
        title = f"{name}_z"
        _check.tensor(title, _check.real(title, _check.dense(title, z)), rank=2)
        if not bool(z.isfinite().all()):
            _check.fail(title, "must hold finite numbers", "others, too")
        title = f"{name}_y"
        labels = _check.integers(title, _check.dense(title, y))
        _check.length(title, labels, len(z), "row")
        if len(y) and int(y.min()) < 0:
            _check.fail(title, "must not hold negative classes", int(y.min()))
    if train_z.shape[1] != test_z.shape[1]:
        rule = f"must have as many columns as 'train_z', {train_z.shape[1]}"
        _check.fail("test_z", rule, test_z.shape[1])
    if not len(train_y) or not len(test_y):
        _check.fail("train_y", "must hold classes to learn and to test", "none")
    z = train_z.detach().double()
    classes = int(torch.cat([train_y, test_y]).max()) + 1
    _check.fits("train_y", 8 * classes * (len(train_y) + z.shape[1]))
    size = z.shape[1] + 1, classes
    weight = torch.zeros(size, dtype=z.dtype, device=z.device, requires_grad=True)
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
