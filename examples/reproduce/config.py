"""The runs: one line per method, with the numbers of the paper to compare with."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from examples.reproduce.larger import SPECIAL
from examples.reproduce.links_settings import CHOSEN, as_fields

CITATIONS = ("cora", "citeseer", "pubmed")
# without features: for embeddings alone
EDGE_LISTS = ("ppi", "hepth", "astroph", "livejournal")
HOSTS = ("pyg", "dgl")
USUAL = ("full", "gttf", "neighbor")
WAYS = {
    "full": "the whole graph at once",
    "gttf": "our sampler",
    "neighbor": "the host's own sampler",
    "attention": "ours, guided by GAT's attention",
    "ladies": "layer sampling, as a bias",
    "fastgcn": "the same, independent of the batch",
    "saint": "the graph induced by walks",
    "nodewise": "neighbours as they come, like GraphSAGE",
    "cluster": "parts of METIS, like ClusterGCN",
    "walks": "walks that do not branch",
}


@dataclass(frozen=True)
class Method:
    """A method and how it is trained; the same for every way of training.

    Attributes:
        kind: what is learned: "classes", "infomax" or "links".
        fanouts: of GTTF, nearest hop first; their number is the receptive field.
        hidden: width of the hidden layers, of all heads together.
        layers: how many layers of the host the model has.
        lr, weight_decay, dropout: of Adam and of the model.
        epochs, patience: stop when what is watched has not improved for `patience`
            epochs, and after `epochs` in any case.
        watch: by what the best epoch is found, as `train.run` takes it.
        every: epochs from one validation to the next.
        ways: how it is trained on each host.
        paper: accuracy of GTTF in the paper's Table 3, per dataset.
        published: accuracy of full batches by the authors of the model.
        source: where the settings are from.
        leaves: "closed" if nodes that a sample ends at have a loop of weight 1.
        options: what only this model has.
        special: what is different on a dataset, by its name.
    """

    fanouts: tuple[int, ...]
    kind: str = "classes"
    hidden: int = 16
    layers: int = 2
    lr: float = 0.005
    weight_decay: float = 5e-4
    dropout: float = 0.5
    epochs: int = 1000
    patience: int = 100
    watch: str | None = "val loss"
    every: int = 1
    ways: dict[str, tuple[str, ...]] = field(
        default_factory=lambda: dict.fromkeys(HOSTS, USUAL)
    )
    paper: dict[str, float] = field(default_factory=dict)
    published: dict[str, float] = field(default_factory=dict)
    source: str = ""
    leaves: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    special: dict[str, dict[str, Any]] = field(default_factory=dict)

    def on(self, dataset: str) -> "Method":
        """The method as it is trained on a dataset."""
        return replace(self, **self.special.get(dataset, {}))

    def settings(self) -> dict[str, Any]:
        """The settings that a result depends on, as JSON keeps them."""
        left_out = ("ways", "paper", "published", "source", "special", "kind")
        kept = {k: v for k, v in asdict(self).items() if k not in left_out}
        if self.leaves is None:
            del kept["leaves"]
        return {**kept, "fanouts": list(self.fanouts)}


# Embeddings: what `links_search` has chosen; of PPI on other graphs.
LINKS = Method((), kind="links", hidden=128, ways={"pyg": ("walks", "gttf")})


def links(name: str, paper: dict[str, float], **more: float) -> Method:
    """A method of embeddings, with further options."""
    own = {data: as_fields(found, **more) for data, found in CHOSEN[name].items()}
    return replace(LINKS, paper=paper, special=own, **own["ppi"])


# Plain SGD whose rate falls by 1 % of the first one every 40 steps, and two dropouts.
MIXHOP = {"sgd": True, "slower_every": 40, "hidden_dropout": 0.9}
METHODS = {
    "gcn": Method(
        (3, 3),
        weight_decay=1e-3,
        ways={"pyg": (*USUAL, "ladies", "fastgcn", "saint"), "dgl": USUAL},
        paper={"cora": 81.9, "citeseer": 69.8},
        published={"cora": 81.5, "citeseer": 70.3},
        source="GTTF, appendix A; at most 1,000 epochs, where it names no limit",
        options={"layer": 512, "walk": 4},
    ),
    "gat": Method(
        (3, 3),
        hidden=64,
        dropout=0.6,
        watch="val loss and val error",
        ways={"pyg": (*USUAL, "attention"), "dgl": USUAL},
        paper={"cora": 83.3, "citeseer": 72.5},
        published={"cora": 83.0, "citeseer": 72.5},
        source="GAT's authors, section 3.3 and code",
        options={"heads": 8, "drop_messages": True},
    ),
    "gcnii": Method(
        (10, 5, 5),
        hidden=64,
        layers=8,
        dropout=0.6,
        lr=0.01,
        epochs=1500,
        every=5,
        paper={"cora": 85.3, "citeseer": 74.4},
        published={"cora": 85.5, "citeseer": 73.4},
        source="GCNII's authors, semi.sh; fanouts of GTTF's authors",
        leaves="closed",
        options={"alpha": 0.1, "theta": 0.5, "conv_decay": 0.01},
        special={
            "cora": {"layers": 64},
            "citeseer": {
                **{"layers": 32, "hidden": 256, "dropout": 0.7},
                "options": {"alpha": 0.1, "theta": 0.6, "conv_decay": 0.01},
            },
        },
    ),
    "mixhop": Method(
        (3, 3, 3, 3),
        hidden=60,
        lr=1.0,
        weight_decay=0.0,
        epochs=400,
        patience=200,
        watch="val error",
        ways={"pyg": USUAL},
        paper={"cora": 83.1, "citeseer": 71.8},
        published={"cora": 81.9, "citeseer": 71.4},
        source="MixHop's authors, train_cora.sh; rate and L2 of CiteSeer by search",
        leaves="closed",
        options={**MIXHOP, "units": [[20, 20, 20], [4, 4, 4]], "l2": 5e-3},
        special={
            "cora": {
                "options": {**MIXHOP, "units": [[24, 18, 18], [0, 7, 7]], "l2": 5e-3}
            },
            "citeseer": {
                "options": {**MIXHOP, "units": [[20, 20, 20], [6, 6, 6]], "l2": 2e-2},
            },
        },
    ),
    "sgc": Method(
        (3, 3),
        layers=1,
        lr=0.2,
        weight_decay=1.3e-5,
        dropout=0.0,
        epochs=100,
        watch=None,
        every=10,
        published={"cora": 81.0, "citeseer": 71.9},
        source="SGC's authors, their tuned weight decays",
        options={"hops": 2},
        special={"citeseer": {"weight_decay": 2.35e-5, "epochs": 150}},
    ),
    "sage": Method((10, 10), hidden=64, lr=0.01, epochs=300, every=4),
    "dgi": Method(
        (5,),
        kind="infomax",
        hidden=256,
        lr=0.001,
        epochs=120,
        patience=20,
        ways={"pyg": ("full", "gttf")},
        options={"batch": 1024},
    ),
    "deepwalk": links("deepwalk", {"ppi": 87.9, "hepth": 89.9}),
    "node2vec": links("deepwalk", {}, p=2.0, q=0.5),
    "wys": links("wys", {"ppi": 90.5, "hepth": 93.5}),
}
METHODS = {
    name: replace(method, special={**method.special, **SPECIAL.get(name, {})})
    for name, method in METHODS.items()
}
