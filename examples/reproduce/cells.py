"""Every number of the paper's Tables 2, 3 and 4, and the cell here that answers it."""

from typing import NamedTuple

LINKS = "ROC-AUC"
RANK = "mean rank"
ACCURACY = "accuracy"
F1 = "micro-F1"
SECONDS = "s per epoch"
MEMORY = "peak GB"


class Cell(NamedTuple):
    """One comparison of the paper.

    Attributes:
        table: its number there; 0 for what is measured here alone.
        name: `METHOD-DATASET`, as `--only` takes it.
        metric: what is measured.
        baseline: the method by itself in the paper; None where it ran out of memory
            or is not in the table.
        gttf: the method on GTTF in the paper; None where it is not in the table.
        note: what to know before comparing.
    """

    table: int
    name: str
    metric: str
    baseline: float | None = None
    gttf: float | None = None
    note: str = ""

    @property
    def method(self) -> str:
        return self.name.split("-")[0]

    @property
    def dataset(self) -> str:
        return self.name.split("-")[1]


AMAZON = "the paper's Amazon was not released; this is GraphSAINT's, of 107 classes"
TABLE_2 = (
    Cell(2, "deepwalk-ppi", LINKS, 70.6, 87.9),
    Cell(2, "deepwalk-hepth", LINKS, 91.8, 89.9),
    Cell(2, "deepwalk-reddit", LINKS, 93.5, 95.5),
    Cell(2, "wys-ppi", LINKS, 89.8, 90.5),
    Cell(2, "wys-hepth", LINKS, 93.6, 93.5),
    Cell(2, "wys-reddit", LINKS, None, 98.6, "the baseline ran out of memory"),
    Cell(
        2, "deepwalk-livejournal", RANK, 234.6, None, "lower is better; PBG has 245.9"
    ),
    Cell(2, "wys-livejournal", RANK, None, 185.6, "the baseline ran out of memory"),
)
TABLE_3 = (
    *(
        Cell(3, f"{method}-{dataset}", ACCURACY, *numbers)
        for method, rows in {
            "gcn": ((81.5, 81.9), (70.3, 69.8), (79.0, 79.4)),
            "mixhop": ((81.9, 83.1), (71.4, 71.8), (80.8, 80.9)),
            "gat": ((83.2, 83.3), (72.4, 72.5), (77.7, 77.8)),
            "gcnii": ((85.5, 85.3), (73.4, 74.4), (80.3, 80.2)),
        }.items()
        for dataset, numbers in zip(("cora", "citeseer", "pubmed"), rows, strict=True)
    ),
    Cell(3, "sage-reddit", F1, 95.0, 95.9),
    Cell(3, "sgc-reddit", F1, 94.9, 94.8),
    Cell(3, "sage-amazon", F1, 88.3, 88.5, AMAZON),
    Cell(3, "sgc-amazon", F1, 83.4, 83.8, AMAZON),
    Cell(
        *(3, "sage-products", ACCURACY, None, 77.0),
        "node2vec 72.1, ClusterGCN 75.2, GraphSAINT 77.3",
    ),
)
OTHERS = (
    Cell(0, "deepwalk-astroph", LINKS),
    Cell(0, "wys-astroph", LINKS),
    *(
        Cell(0, f"{method}-{dataset}", ACCURACY)
        for dataset in ("computers", "physics")
        for method in ("gcn", "gat", "gcnii", "sgc", "sage")
    ),
)
# A number per framework: DGL, PyG, GTTF; None where memory was not enough.
TABLE_4 = {
    (SECONDS, "reddit"): (17.3, 5.8, 1.8),
    (SECONDS, "products"): (13.4, 9.2, 1.4),
    (MEMORY, "reddit"): (None, None, 2.44),
    (MEMORY, "cora"): (1.1, 1.2, 0.32),
    (MEMORY, "citeseer"): (1.1, 1.3, 0.40),
    (MEMORY, "pubmed"): (1.1, 1.6, 0.43),
}
CELLS = (*TABLE_2, *TABLE_3, *OTHERS)
BY_NAME = {cell.name: cell for cell in CELLS}
