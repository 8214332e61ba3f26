"""Settings of embeddings: the search space of `links_search` and its winners.

The names are those of the models' arguments, but for `depth`, the steps of a walk, and
`batch`, the seeds of a step where walks do not branch.
"""

from typing import Any

FANOUT = 3  # of walks that branch, at their first step
# Some sixty runs on the same hidden training edges had shown what to draw from, and
# one that was good: it is tried first.
FIRST: dict[str, list[dict[str, Any]]] = {
    "wys": [
        {
            "depth": 20,
            "num_negatives": 5,
            "negative_weight": 3.0,
            "symmetric": True,
            "penalty": 0.5,
            "lr": 0.03,
            "weight_decay": 3e-5,
            "epochs": 100,
            "batch": 4096,
        }
    ]
}
SPACE: dict[str, dict[str, list[Any]]] = {
    "wys": {
        "depth": [5, 10, 20],
        "num_negatives": [5, 20],
        "negative_weight": [1.0, 3.0],
        "symmetric": [False, True],
        "penalty": [0.05, 0.5],
        "lr": [0.03],
        "weight_decay": [1e-5, 2e-5, 3e-5],
        "epochs": [100, 200],
        "batch": [2048],
    },
    "deepwalk": {
        "depth": [10, 20, 40],
        "window": [10, 40],  # or the depth, if that is less
        "num_negatives": [2, 5],
        "negative_weight": [0.2, 1.0],
        "symmetric": [False],
        "lr": [0.03, 0.1],
        "weight_decay": [1e-4, 1e-3],
        "epochs": [30],
        "batch": [1024],
    },
}
CHOSEN: dict[str, dict[str, dict[str, Any]]] = {
    "wys": {
        "ppi": {
            "depth": 10,
            "num_negatives": 5,
            "negative_weight": 1.0,
            "symmetric": False,
            "penalty": 0.05,
            "lr": 0.03,
            "weight_decay": 2e-05,
            "epochs": 200,
            "batch": 2048,
        },
        "hepth": {
            "depth": 20,
            "num_negatives": 5,
            "negative_weight": 1.0,
            "symmetric": True,
            "penalty": 0.05,
            "lr": 0.03,
            "weight_decay": 2e-05,
            "epochs": 200,
            "batch": 2048,
        },
    },
    "deepwalk": {
        "ppi": {
            "depth": 20,
            "window": 40,
            "num_negatives": 5,
            "negative_weight": 0.2,
            "symmetric": False,
            "lr": 0.1,
            "weight_decay": 0.001,
            "epochs": 30,
            "batch": 1024,
        },
        "hepth": {
            "depth": 40,
            "window": 40,
            "num_negatives": 2,
            "negative_weight": 1.0,
            "symmetric": False,
            "lr": 0.1,
            "weight_decay": 0.0001,
            "epochs": 30,
            "batch": 1024,
        },
    },
}


def as_fields(settings: dict[str, Any], **more: float) -> dict[str, Any]:
    """Settings as fields of a `Method`, whose options are the model's and `batch`."""
    own = {**settings, **more}
    known = {name: own.pop(name) for name in ("lr", "weight_decay", "epochs")}
    depth = own.pop("depth")
    if "window" in own:
        own["window"] = min(own["window"], depth)
    fanouts = (FANOUT, *[1] * (depth - 1))
    return {"fanouts": fanouts, "options": own, **known}
