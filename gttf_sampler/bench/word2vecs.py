"""Others who learn from walks in `gttf bench embedding`: gensim, PecanPy, GRAPE.

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

NEGATIVES = 5  # the default of all three


def subjects() -> dict[str, Subject]:
    """By name."""
    return {
        "gensim Word2Vec, our walks": Subject("word2vec", _gensim, ("gensim",)),
        "PecanPy SparseOTF": Subject("word2vec", _pecanpy, ("pecanpy",)),
        "GRAPE Node2VecSkipGram": Subject("word2vec", _grape, ("grape",)),
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


def _grape(setting: Setting) -> list[Epoch]:
    """GRAPE's skip-gram on node2vec walks, in Rust."""
    ends = setting.split.train.T.numpy()
    edges = import_module("pandas").DataFrame(ends, columns=["source", "target"])
    how: dict[str, Any] = {"edge_src_column": "source", "edge_dst_column": "target"}
    graph = import_module("grape").Graph.from_pd(edges_df=edges, directed=False, **how)
    model = import_module("grape.embedders").Node2VecSkipGramEnsmallen(
        embedding_size=setting.size,
        epochs=1,
        walk_length=LENGTH,
        iterations=WALKS,
        window_size=WINDOW,
        number_of_negative_samples=NEGATIVES,
        random_state=setting.seed,
    )
    start = time.perf_counter()
    found = model.fit_transform(graph).get_node_embedding_from_index(0)
    seconds = time.perf_counter() - start
    z = found.loc[[str(node) for node in range(setting.split.num_nodes)]].to_numpy()
    return _scored(setting, torch.tensor(z), seconds)


def _scored(setting: Setting, z: Tensor, seconds: float) -> list[Epoch]:
    """The one epoch; word2vec's windows are a random size, half on average."""
    auc = link_auc(lambda pair: (z[pair[0]] * z[pair[1]]).sum(-1), setting.split)
    tokens = setting.split.num_nodes * WALKS * LENGTH
    return [Epoch(0.0, seconds, tokens * (WINDOW + 1) * (1 + NEGATIVES), auc)]
