"""Tiny made datasets under the names of the hosts' own, for `scripts.py`.

Each has the type, the attributes and the splits of the one whose name it takes, random
features, and a few hundred nodes; nothing is downloaded.
"""

import functools
import sys
import types
from typing import Any

import torch

NODES, FEATURES, CLASSES = 1600, 16, 4


def ends(sources: int = NODES, targets: int | None = None, count: int = 0) -> Any:
    """Random edges [2, count], each way if there is one kind of nodes."""
    other = sources if targets is None else targets
    count = count or 4 * sources
    pairs = torch.stack([torch.randint(n, (count,)) for n in (sources, other)])
    return torch.cat([pairs, pairs.flip(0)], 1) if targets is None else pairs


def split(count: int = NODES) -> dict[str, Any]:
    """Masks for training, validation and test: half, a quarter, a quarter."""
    part = torch.arange(count) % 4
    return {"train_mask": part < 2, "val_mask": part == 2, "test_mask": part == 3}


def parted(count: int = NODES) -> dict[str, Any]:
    """The same as ids, in the words of OGB."""
    names = {"train": "train_mask", "valid": "val_mask", "test": "test_mask"}
    return {name: split(count)[mask].nonzero().view(-1) for name, mask in names.items()}


# PyG -------------------------------------------------------------------------


def pyg_nodes(multi: bool = False, count: int = NODES) -> Any:
    """A graph whose nodes have a class, or several."""
    from torch_geometric.data import Data

    y = torch.randint(CLASSES, (count,))
    y[:CLASSES] = torch.arange(CLASSES)
    if multi:
        y = torch.randint(2, (count, CLASSES)).float()
    x = torch.rand(count, FEATURES)
    return Data(x=x, y=y, edge_index=ends(count), **split(count))


def pyg_typed(nodes: dict[str, Any], edges: list[Any]) -> Any:
    """A typed graph; a node type has features, classes, both or neither."""
    from torch_geometric.data import HeteroData

    data = HeteroData()
    for name, has in nodes.items():
        data[name].num_nodes = NODES
        if "x" in has:
            data[name].x = torch.rand(NODES, FEATURES)
        if "y" in has:
            data[name].y = torch.randint(CLASSES, (NODES,))
            data[name].y[:CLASSES] = torch.arange(CLASSES)
            data[name].update(split())
    for kind in edges:
        data[kind].edge_index = ends(NODES, NODES)
    return data


def ratings() -> Any:
    """Users who rate movies at a time."""
    data = pyg_typed({"user": "x", "movie": "x"}, [("user", "rates", "movie")])
    rates = data["user", "rates", "movie"]
    size = rates.edge_index.shape[1]
    rates.rating = rates.edge_label = torch.randint(1, 6, (size,))
    rates.time = torch.arange(size)
    return data


def movies() -> Any:
    """The same with users who have no features."""
    data = ratings()
    del data["user"].x
    return data


def places() -> Any:
    """Authors and venues with classes by position, as AMiner has them."""
    kinds = [("paper", "written_by", "author"), ("author", "writes", "paper")]
    kinds += [("paper", "published_in", "venue"), ("venue", "publishes", "paper")]
    data = pyg_typed(dict.fromkeys(("paper", "author", "venue"), ""), kinds)
    for name in ("author", "venue"):
        data[name].y_index = torch.arange(100)
        data[name].y = torch.arange(100) % CLASSES
    return data


def events() -> Any:
    """Events between users and items, as JODIE's."""
    from torch_geometric.data import TemporalData

    size = 600
    src, dst = torch.randint(100, (size,)), torch.randint(100, 200, (size,))
    times, y = torch.arange(size), torch.randint(2, (size,))
    return TemporalData(src=src, dst=dst, t=times, msg=torch.rand(size, 8), y=y)


MAG = [
    ("author", "affiliated_with", "institution"),
    ("author", "writes", "paper"),
    ("paper", "cites", "paper"),
    ("paper", "has_topic", "field_of_study"),
]
MAG_NODES = {"paper": "xy", "author": "x", "institution": "x", "field_of_study": "x"}


def both(*pairs: tuple[str, str]) -> list[Any]:
    """Edge types there and back."""
    return [(a, "to", b) for u, v in pairs for a, b in ((u, v), (v, u))]


PYG: dict[str, Any] = {
    **dict.fromkeys(
        (
            "Planetoid",
            "Reddit",
            "Reddit2",
            "Flickr",
            "Amazon",
            "Coauthor",
            "CitationFull",
            "Actor",
            "WebKB",
            "WikipediaNetwork",
            "Airports",
            "FacebookPagePage",
            "LINKXDataset",
        ),
        lambda: [pyg_nodes()],
    ),
    **dict.fromkeys(("AmazonProducts", "Yelp"), lambda: [pyg_nodes(multi=True)]),
    "PPI": lambda: [pyg_nodes(multi=True, count=n) for n in (80, 90, 100)],
    **dict.fromkeys(
        ("TUDataset", "GNNBenchmarkDataset"),
        lambda: [graph_with_class(number) for number in range(60)],
    ),
    "OGB_MAG": lambda: [pyg_typed(MAG_NODES, MAG)],
    "DBLP": lambda: [
        pyg_typed(
            {"author": "xy", "paper": "x", "term": "x", "conference": ""},
            both(("author", "paper"), ("paper", "term"), ("paper", "conference")),
        )
    ],
    "IMDB": lambda: [
        pyg_typed(
            {"movie": "xy", "director": "x", "actor": "x"},
            both(("movie", "director"), ("movie", "actor")),
        )
    ],
    "Taobao": lambda: [
        pyg_typed(
            {"user": "", "item": "", "category": ""},
            [("user", "to", "item"), ("item", "to", "category")],
        )
    ],
    "MovieLens": lambda: [movies()],
    "MovieLens100K": lambda: [ratings()],
    "AMiner": lambda: [places()],
    "JODIEDataset": lambda: [events()],
}


def graph_with_class(number: int) -> Any:
    """A small graph that has a class itself."""
    from torch_geometric.data import Data

    y = torch.tensor([number % 2])
    return Data(x=torch.rand(12, FEATURES), edge_index=ends(12), y=y)


def made_pyg(name: str) -> type:
    """A dataset class of PyG, made of what `PYG` has under its name."""
    from torch_geometric.data import InMemoryDataset

    class Made(InMemoryDataset):
        processed_dir = "."

        def __init__(self, *args: Any, **how: Any) -> None:
            super().__init__(None, how.get("transform"))
            graphs, before = PYG[name](), how.get("pre_transform")
            graphs = [before(graph) for graph in graphs] if before else graphs
            self._data, self.slices = self.collate(graphs)

        @property
        def num_classes(self) -> int:
            return 2 if name in ("TUDataset", "GNNBenchmarkDataset") else CLASSES

    Made.__name__ = Made.__qualname__ = name
    return Made


def pyg_of_ogb(name: str, *args: Any, **how: Any) -> Any:
    """A dataset of OGB for PyG: classes are a column, splits are ids."""
    data = pyg_nodes()
    data.y = data.y.view(-1, 1)
    own = {"num_classes": CLASSES, "num_features": FEATURES, "_data": data}
    return as_sequence([data], own | {"get_idx_split": staticmethod(parted)})


def as_sequence(items: list[Any], own: dict[str, Any]) -> Any:
    """A list with attributes."""
    return type("Made", (list,), own)(items)


# DGL -------------------------------------------------------------------------


def dgl_nodes(*args: Any, **how: Any) -> Any:
    """A dataset of one graph whose nodes have classes, also for `AsNodePredDataset`."""
    import dgl

    data = pyg_nodes()
    g = dgl.graph(tuple(data.edge_index), num_nodes=NODES)
    g = dgl.add_self_loop(g) if how.get("self_loop") else g
    g.ndata.update({"feat": data.x, "label": data.y, **split()})
    own = {"train_idx": parted()["train"], "val_idx": parted()["valid"]}
    own |= {"test_idx": parted()["test"], "num_classes": CLASSES, "graph": g}
    return as_sequence([g], own | {"name": "made"})


def dgl_many(*args: Any, **how: Any) -> Any:
    """Several graphs with labels, as PPI."""
    items = []
    for _ in range(3):
        items += dgl_nodes()
        items[-1].ndata["label"] = torch.randint(2, (NODES, CLASSES)).float()
    return as_sequence(items, {"num_classes": CLASSES, "num_labels": CLASSES})


def dgl_entities(*args: Any, **how: Any) -> Any:
    """A typed graph whose entities of one type have classes, as AIFB."""
    import dgl

    kinds = [("a", "knows", "a"), ("a", "has", "b"), ("b", "rev-has", "a")]
    g = dgl.heterograph(
        {kind: tuple(ends(NODES, NODES)) for kind in kinds},
        num_nodes_dict={"a": NODES, "b": NODES},
    )
    labels = {"labels": torch.randint(CLASSES, (NODES,)), "label": torch.zeros(NODES)}
    g.nodes["a"].data.update(split() | labels)
    own = {"num_classes": CLASSES, "predict_category": "a", "graph": g}
    return as_sequence([g], own)


def dgl_of_ogb(name: str = "ogbn-products", *args: Any, **how: Any) -> Any:
    """A dataset of OGB for DGL: (graph, labels) and splits as ids."""
    import dgl

    if name == "ogbn-mag":
        g = dgl.heterograph({kind: tuple(ends(NODES, NODES)) for kind in MAG})
        g.nodes["paper"].data["feat"] = torch.rand(NODES, 128)
        labels: Any = {"paper": torch.randint(CLASSES, (NODES, 1))}
        cut: Any = {name: {"paper": ids} for name, ids in parted().items()}
        own = {"get_idx_split": staticmethod(lambda: cut), "num_classes": CLASSES}
        return as_sequence([(g, labels)], own)
    made = dgl_nodes()
    g = made[0]
    labels = g.ndata.pop("label").view(-1, 1)
    own = {"get_idx_split": staticmethod(parted), "num_classes": CLASSES}
    own |= {key: getattr(made, key) for key in ("train_idx", "val_idx", "test_idx")}
    own["graph"] = [g]
    return as_sequence([(g, labels)], own)


def links_of_ogb(name: str = "ogbl-citation2", *args: Any, **how: Any) -> Any:
    """A dataset of links of OGB for DGL."""
    made = dgl_nodes()
    pairs = ends(NODES, NODES, 40)
    part = {"source_node": pairs[0], "target_node": pairs[1]}
    part |= {"target_node_neg": torch.randint(NODES, (40, 10))}
    if name != "ogbl-citation2":
        part = {"edge": pairs.T, "edge_neg": ends(NODES, NODES, 40).T}
    cut = dict.fromkeys(("train", "valid", "test"), part)
    own = {"get_edge_split": staticmethod(lambda: cut)}
    return as_sequence([made[0]], own)


class Evaluator:
    """Some number under any name; what a script makes of it is its own affair."""

    def __init__(self, *args: Any, **how: Any) -> None:
        self.K = 10

    def eval(self, given: Any) -> Any:
        score = torch.rand(40)
        return {
            **{"acc": 0.5, "rocauc": 0.5, "mrr_list": score, "hits@10": 0.5},
            **{f"hits@{k}": 0.5 for k in (20, 50, 100)},
        }


DGL: dict[str, Any] = {
    **dict.fromkeys(
        (
            "CoraGraphDataset",
            "CiteseerGraphDataset",
            "PubmedGraphDataset",
            "RedditDataset",
            "CoauthorCSDataset",
            "FlickrDataset",
            "YelpDataset",
        ),
        dgl_nodes,
    ),
    "PPIDataset": dgl_many,
    **dict.fromkeys(
        ["AIFBDataset", "MUTAGDataset", "BGSDataset", "AMDataset"], dgl_entities
    ),
    "AsNodePredDataset": lambda dataset, *args, **how: as_node_prediction(dataset),
}


def as_node_prediction(dataset: Any) -> Any:
    """A made dataset as a graph with its labels."""
    if isinstance(dataset[0], tuple):
        g, labels = dataset[0]
        g.ndata.update({"label": labels.view(-1), **split()})
        own = {
            key: getattr(dataset, key) for key in ("train_idx", "val_idx", "test_idx")
        }
        return as_sequence([g], own | {"num_classes": CLASSES})
    return dataset


def use(host: str) -> None:
    """Puts tiny datasets in the place of a host's, of OGB's and of nothing else."""
    torch.manual_seed(0)
    ogb = types.ModuleType("ogb")
    ogb.__path__ = []  # type: ignore[attr-defined]
    for room in ("nodeproppred", "linkproppred", "graphproppred"):
        module: Any = types.ModuleType(f"ogb.{room}")
        module.Evaluator = Evaluator
        module.PygNodePropPredDataset = pyg_of_ogb
        module.DglNodePropPredDataset = dgl_of_ogb
        module.DglLinkPropPredDataset = links_of_ogb
        sys.modules[module.__name__] = module
        setattr(ogb, room, module)
    sys.modules["ogb"] = ogb
    if host == "pyg":
        import torch_geometric.datasets as pyg

        for name in PYG:
            setattr(pyg, name, made_pyg(name))
        return
    import dgl
    import dgl.data.rdf

    for name, make in DGL.items():
        function = functools.wraps(make)(make)
        for module in (dgl.data, dgl.data.rdf):
            if hasattr(module, name):
                setattr(module, name, function)
