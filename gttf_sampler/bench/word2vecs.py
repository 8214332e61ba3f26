"""Others who learn from walks in `gttf bench embedding`: gensim, PecanPy.

Each does one epoch on as many walks as PyG's example has, with its own defaults for the
rest. Scores are products of vectors.
"""

import time
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import traverse
from gttf_sampler.bench.learning import LENGTH, WALKS, WINDOW, Setting, Subject
from gttf_sampler.embedding import Epoch, link_auc

NEGATIVES = 5  # the default of both


def subjects() -> dict[str, Subject]:
    """By name."""
    return {
        "gensim Word2Vec, our walks": Subject("word2vec", _gensim, ("gensim",)),
        "PecanPy SparseOTF": Subject("word2vec", _pecanpy, ("pecanpy",)),
    }


def _gensim(setting: Setting) -> list[Epoch]:
    """Word2vec by gensim on walks of ours; making them, and words, is off the clock.

    It has as many threads as torch would use.
    """
    nodes = setting.split.num_nodes
    seeds = torch.arange(nodes).repeat(WALKS)
    forest = traverse(setting.rows(), seeds, [1] * (LENGTH - 1), generator=setting.seed)
    walks = torch.cat(forest.nodes, dim=1)
    generator = torch.Generator().manual_seed(setting.seed)
    order = torch.randperm(len(walks), generator=generator)
    words = [list(map(str, walk)) for walk in walks[order].tolist()]
    how = {"window": WINDOW, "negative": NEGATIVES, "sg": 1, "min_count": 0}
    how |= {"workers": torch.get_num_threads(), "epochs": 1, "seed": setting.seed}
    model = import_module("gensim.models").Word2Vec
    start = time.perf_counter()
    made = model(words, vector_size=setting.size, **how)
    seconds = time.perf_counter() - start
    z = made.wv[[str(node) for node in range(nodes)]]
    return _scored(setting, torch.tensor(z), seconds)


def _pecanpy(setting: Setting) -> list[Epoch]:
    """PecanPy's node2vec: its walks, and gensim."""
    rows, threads = setting.rows(), torch.get_num_threads()
    module = import_module("pecanpy.pecanpy")
    graph = module.SparseOTF(p=1, q=1, workers=threads, random_state=setting.seed)
    graph.indptr = rows.rowptr.numpy().astype("uint32")
    graph.indices = rows.col.numpy().astype("uint32")
    graph.data = torch.ones(rows.num_edges).numpy()
    graph.set_node_ids([str(node) for node in range(rows.num_rows)])
    how: dict[str, Any] = {"walk_length": LENGTH - 1, "window_size": WINDOW}
    graph.embed(dim=2, num_walks=1, **how)  # compiles
    start = time.perf_counter()
    z = graph.embed(dim=setting.size, num_walks=WALKS, epochs=1, **how)
    return _scored(setting, torch.tensor(z), time.perf_counter() - start)


def _scored(setting: Setting, z: Tensor, seconds: float) -> list[Epoch]:
    """The one epoch; word2vec's windows are a random size, half on average."""
    auc = link_auc(lambda pair: (z[pair[0]] * z[pair[1]]).sum(-1), setting.split)
    tokens = setting.split.num_nodes * WALKS * LENGTH
    return [Epoch(0.0, seconds, tokens * (WINDOW + 1) * (1 + NEGATIVES), auc)]
