"""RelBench's own functions and model on our loader; left out where it is not there."""

import re
import runpy
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("relbench", reason="relbench is not installed")
pytest.importorskip("torch_frame", reason="pytorch-frame is not installed")
pytest.importorskip("sklearn", reason="scikit-learn is not installed")

from relbench.modeling.graph import get_node_train_table_input, make_pkey_fkey_graph
from relbench.modeling.utils import get_stype_proposal

from gttf_pyg import GTTFLoader, assert_no_future

EXAMPLES = Path(__file__).parents[2] / "examples"
# torch-frame shares memory with pandas, and uses what pandas has renamed
pytestmark = [
    pytest.mark.filterwarnings("ignore:The given NumPy array is not writable"),
    pytest.mark.filterwarnings("ignore:Series.dt.dayofweek is deprecated"),
]


@pytest.fixture
def shop(monkeypatch):
    """The module of the made-up shop."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import shop

    yield shop
    for name in ("shop", "boosted"):
        sys.modules.pop(name, None)


def run(monkeypatch, capsys, *options):
    monkeypatch.setattr(sys, "argv", ["pyg_relational.py", *map(str, options)])
    with torch.random.fork_rng():
        runpy.run_path(str(EXAMPLES / "pyg_relational.py"), run_name="__main__")
    return capsys.readouterr().out.splitlines()


def test_relational_example_learns_what_trees_cannot(shop, monkeypatch, capsys):
    boosted, *epochs, expected = run(monkeypatch, capsys, "--epochs", 2)
    rows = float(re.fullmatch(r"gradient boosting  test AUC (\d+\.\d) %", boosted)[1])
    form = r"epoch  2  loss \d+\.\d+  test AUC (\d+\.\d) %"
    assert float(re.fullmatch(form, epochs[-1])[1]) > max(rows, 66)
    assert expected.startswith("Expected after 4 epochs on the shop: 70 %")
    assert len((EXAMPLES / "pyg_relational.py").read_text().splitlines()) <= 90


def test_relational_example_takes_a_dataset_on_disk(
    shop, monkeypatch, capsys, tmp_path
):
    """A small shop in RelBench's own format."""
    from relbench.manifest import DatasetManifest, TableSpec, TaskManifest

    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    db = shop.make_shop(users=60, items=20)
    tables = {}
    (tmp_path / "db").mkdir()
    for name, table in db.table_dict.items():
        table.df.to_parquet(tmp_path / "db" / f"{name}.parquet")
        keys = dict(table.fkey_col_to_pkey_table)
        tables[name] = TableSpec(table.pkey_col, table.time_col, keys)
    days = [str(shop.START + shop.pd.Timedelta(days=d)) for d in (260, 290)]
    DatasetManifest("shop", *days, tables=tables).save(tmp_path / "manifest.yaml")
    task, place = shop.again_task(db), tmp_path / "tasks" / "again"
    place.mkdir(parents=True)
    for split in ("train", "val", "test"):
        task.get_table(split).df.to_parquet(place / f"{split}.parquet")
    described = TaskManifest(
        name="again",
        kind="external",
        task_type="binary_classification",
        entity_table="user",
        entity_col="id",
        time_col="time",
        target_col="again",
        timedelta="30D",
    )
    described.save(place / "manifest.yaml")
    how = ("--dataset", tmp_path, "--task", "again", "--epochs", 1)
    _, epoch, _ = run(monkeypatch, capsys, *how)
    assert re.fullmatch(r"epoch  1  loss \d+\.\d+  test AUC \d+\.\d %", epoch)


@pytest.mark.parametrize("strategy", ["uniform", "last"])
def test_relbench_graph_and_seeds_work_unchanged(shop, strategy):
    db = shop.make_shop(users=40, items=10)
    task = shop.again_task(db)
    data, _ = make_pkey_fkey_graph(db, get_stype_proposal(db))
    seeds = get_node_train_table_input(task.get_table("train"), task)
    how = {"time_attr": "time", "temporal_strategy": strategy, "batch_size": 32}
    loader = GTTFLoader(
        data, [3, 3], seeds.nodes, seeds.time, transform=seeds.transform, **how
    )
    for batch in loader:
        assert_no_future(batch)
        users = batch["user"]
        assert torch.equal(users.y, seeds.target[users.input_id])
        assert torch.equal(users.seed_time, seeds.time[users.input_id])
        for kind in data.node_types:  # rows of a TensorFrame are gathered, too
            own = data[kind].tf[batch[kind].n_id]
            for stype, feat in batch[kind].tf.feat_dict.items():
                assert torch.equal(feat.nan_to_num(), own.feat_dict[stype].nan_to_num())


def test_answers_leak_where_times_are_left_out(shop):
    """The checker sees it: without `time_attr`, batches hold next month's orders."""
    db = shop.make_shop(users=40, items=10)
    task = shop.again_task(db)
    data, _ = make_pkey_fkey_graph(db, get_stype_proposal(db))
    seeds = get_node_train_table_input(task.get_table("train"), task)
    loader = GTTFLoader(data, [-1], seeds.nodes, disjoint=True, batch_size=32)
    batch = next(iter(loader))
    batch["user"].seed_time = seeds.time[batch["user"].input_id]
    with pytest.raises(AssertionError, match=r"nothing later than its seed .*'order'"):
        assert_no_future(batch)
