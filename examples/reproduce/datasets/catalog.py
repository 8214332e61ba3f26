"""The files of every dataset, and the places to get them from."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Source(NamedTuple):
    """The files of a dataset.

    Attributes:
        title: the dataset's own name.
        kind: what is learned on it: "classes", "links", or "both".
        files: relative to the folder; text files may be packed by gzip, or not.
        home: the page that offers them.
        reader: "module:function" below `examples.reproduce.datasets`.
    """

    title: str
    kind: str
    files: Sequence[str]
    home: str
    reader: str

    @property
    def classes(self) -> bool:
        """True if its nodes have classes."""
        return self.kind in ("classes", "both")

    @property
    def links(self) -> bool:
        """True if embeddings are learned on it."""
        return self.kind in ("links", "both")


def _planetoid(title: str) -> Source:
    parts = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
    files = [f"{title}/raw/ind.{title.lower()}.{part}" for part in parts]
    home = "https://github.com/kimiyoung/planetoid/tree/master/data"
    return Source(title, "classes", files, home, "planetoid:read")


def _edges(title: str, file: str, home: str) -> Source:
    return Source(title, "links", [file], home, "edge_lists:read")


SNAP = "https://snap.stanford.edu/data"
WYS = "https://github.com/samihaija/asymproj_edge_dnn"
SAINT = "https://github.com/GraphSAINT/GraphSAINT"
SHCHUR = "https://github.com/shchur/gnn-benchmark"
SOURCES = {
    "ppi": _edges("PPI", "ppi.edgelist", WYS),
    "hepth": _edges("ca-HepTh", "ca-HepTh.txt", f"{SNAP}/ca-HepTh.html"),
    "astroph": _edges("ca-AstroPh", "ca-AstroPh.txt", f"{SNAP}/ca-AstroPh.html"),
    "livejournal": _edges(
        *("LiveJournal", "soc-LiveJournal1.txt", f"{SNAP}/soc-LiveJournal1.html")
    ),
    "reddit": Source(
        "Reddit",
        "both",
        ["Reddit/raw/reddit_data.npz", "Reddit/raw/reddit_graph.npz"],
        "https://data.dgl.ai/dataset/reddit.zip",
        "reddit:read",
    ),
    "amazon": Source(
        "AmazonProducts",
        "classes",
        [
            f"AmazonProducts/raw/{file}"
            for file in ("adj_full.npz", "feats.npy", "class_map.json", "role.json")
        ],
        SAINT,
        "amazon:read",
    ),
    "cora": _planetoid("Cora"),
    "citeseer": _planetoid("CiteSeer"),
    "pubmed": _planetoid("PubMed"),
    "products": Source(
        "ogbn-products",
        "classes",
        [
            *(f"ogbn_products/raw/{x}.csv.gz" for x in ("edge", "node-feat")),
            *(f"ogbn_products/raw/{x}.csv.gz" for x in ("node-label", "num-node-list")),
            *(
                f"ogbn_products/split/sales_ranking/{part}.csv.gz"
                for part in ("train", "valid", "test")
            ),
        ],
        "https://ogb.stanford.edu/docs/nodeprop/#ogbn-products",
        "products:read",
    ),
    "computers": Source(
        "Amazon Computers",
        "classes",
        ["Computers/raw/amazon_electronics_computers.npz"],
        SHCHUR,
        "shchur:read",
    ),
    "physics": Source(
        "Coauthor Physics",
        "classes",
        ["Physics/raw/ms_academic_phy.npz"],
        SHCHUR,
        "shchur:read",
    ),
}
TEXTS = (".txt", ".edgelist", ".csv")  # with .gz or without, whatever is there
# PyG's own classes put these two into a folder of their family.
FAMILIES = {"computers": "amazon", "physics": "coauthor"}


def folder_of(name: str, root: str | None, edges: str | None) -> Path:
    """The folder that a dataset is looked for in."""
    source = SOURCES[name]
    option = "edges" if source.kind == "links" and edges is not None else "root"
    found = edges if option == "edges" else root
    if found is None:
        option = "edges" if source.kind == "links" else "root"
        raise ValueError(f"'{option}' must name the folder of {needs(name)} (got None)")
    return Path(found)


def needs(name: str) -> str:
    """The requirements of a dataset, in one phrase."""
    source = SOURCES[name]
    files = ", ".join(source.files)
    packed = " (or .gz)" if files.endswith(TEXTS) else ""
    option = "edges" if source.kind == "links" else "root"
    return f"{source.title}, with {files}{packed}, from {source.home}; use --{option}"


def located(folder: Path, file: str) -> Path | None:
    """A file, packed or not if it is a text, or None."""
    plain = file.removesuffix(".gz")
    names = [plain, f"{plain}.gz"] if plain.endswith(TEXTS) else [file]
    return next((path for name in names if (path := folder / name).is_file()), None)


def files_of(name: str, root: str | None, edges: str | None = None) -> list[Path]:
    """Paths of the files of a dataset; one sentence if one is missing."""
    folder = folder_of(name, root, edges)
    within = [folder, folder / FAMILIES[name]] if name in FAMILIES else [folder]
    for place in within:
        found = [located(place, file) for file in SOURCES[name].files]
        if None not in found:
            return [path for path in found if path is not None]
    lacking = next(
        file for file in SOURCES[name].files if located(folder, file) is None
    )
    raise FileNotFoundError(
        f"{folder} must hold {lacking}, which is not there; it is the folder of "
        f"{needs(name)}"
    )


def is_there(name: str, root: str | None, edges: str | None = None) -> bool:
    """True if all files of a dataset are found."""
    try:
        files_of(name, root, edges)
    except (OSError, ValueError):
        return False
    return True
