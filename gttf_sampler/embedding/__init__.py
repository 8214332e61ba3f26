"""Node embeddings: modules that train the objectives, and link prediction."""

from gttf_sampler.embedding.links import (
    LinkSplit,
    largest_component,
    link_auc,
    mean_rank,
    roc_auc,
    split_links,
)
from gttf_sampler.embedding.models import DeepWalk, Node2Vec, WatchYourStep
from gttf_sampler.embedding.settings import Epoch

__all__ = [
    "DeepWalk",
    "Epoch",
    "LinkSplit",
    "Node2Vec",
    "WatchYourStep",
    "largest_component",
    "link_auc",
    "mean_rank",
    "roc_auc",
    "split_links",
]
