"""Node embeddings: modules that train the objectives, and link prediction."""

from gttf_sampler.embedding.links import (
    LinkSplit,
    largest_component,
    link_auc,
    mean_rank,
    roc_auc,
    split_links,
)
from gttf_sampler.embedding.models import DeepWalk, Node2Vec
from gttf_sampler.embedding.settings import Epoch
from gttf_sampler.embedding.watch_your_step import WatchYourStep

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
