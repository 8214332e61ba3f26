"""A made-up shop as a database: users, items, orders and reviews, all with times.

Most users whose last items were good order again within a month, and few others. How
good an item is stands in the table of items, two references away from the user; who
looks at orders after the day of a question reads the answer.
"""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import relbench
from relbench.base import Database, Table, TaskType

START = pd.Timestamp("2025-01-01")
SPAN = pd.Timedelta(days=30)  # a question is about the days that follow it
QUESTIONS = {"train": [120, 150, 180, 210, 240], "val": [270], "test": [300]}


def make_shop(users: int = 800, items: int = 60, seed: int = 0) -> Database:
    """The tables; times are days of one year."""
    random = np.random.default_rng(seed)
    quality = (random.uniform(size=items) < 0.6).astype(float)  # good or bad
    joined = random.uniform(0, 100, users)
    orders, reviews = [], []
    for user in range(users):
        got = []
        for month in range(int(joined[user]) // 30, 12):
            pleased = not got or np.mean(got[-3:]) > 0.5
            if random.uniform() < (0.9 if pleased else 0.35):
                day = max(joined[user], 30 * month + random.uniform(0, 30))
                item = random.integers(items)
                got.append(quality[item])
                orders.append((user, item, day))
                if random.uniform() < 0.3:
                    stars = np.clip(round(1 + 4 * got[-1] + random.normal()), 1, 5)
                    reviews.append((user, item, stars, day + random.exponential(3)))
    tables = {
        "user": _table(
            {
                "age": random.integers(18, 80, users),
                "newsletter": random.choice(["yes", "no"], users),
                "time": joined,
            },
            {},
        ),
        "item": _table(
            {
                "price": random.uniform(5, 50, items),
                "materials": quality + random.normal(0, 0.05, items),
            },
            {},
        ),
        "order": _events(orders, ["user_id", "item_id", "time"]),
        "review": _events(reviews, ["user_id", "item_id", "stars", "time"]),
    }
    return Database(tables)


def _table(columns: dict, keys: dict) -> Table:
    """A table whose rows are numbered."""
    df = pd.DataFrame(columns)
    df.insert(0, "id", np.arange(len(df)))
    if "time" in df:
        time = START + pd.to_timedelta(df["time"], unit="D")
        df["time"] = time.astype(
            "datetime64[ns]"
        )  # in RelBench's unit, whatever pandas'
    return Table(df, keys, "id", "time" if "time" in df else None)


def _events(rows: list, names: list) -> Table:
    """A table of what happened, in the order of time."""
    df = pd.DataFrame(rows, columns=names).sort_values("time", ignore_index=True)
    return _table(dict(df), {"user_id": "user", "item_id": "item"})


def again_task(db: Database) -> SimpleNamespace:
    """Does a user who has ordered before order again within `SPAN`?"""
    orders = db.table_dict["order"].df

    def get_table(split: str, mask_input_cols: bool = False) -> Table:
        parts = []
        for day in QUESTIONS[split]:
            when = START + pd.Timedelta(days=day)
            past = orders[orders.time <= when]
            after = orders[(orders.time > when) & (orders.time <= when + SPAN)]
            asked = np.sort(past.user_id.unique())
            again = np.isin(asked, after.user_id).astype(float)
            parts.append(pd.DataFrame({"id": asked, "time": when, "again": again}))
        whole = pd.concat(parts, ignore_index=True).astype({"time": "datetime64[ns]"})
        return Table(whole, {"id": "user"}, None, "time")

    return SimpleNamespace(
        entity_table="user",
        entity_col="id",
        target_col="again",
        time_col="time",
        task_type=TaskType.BINARY_CLASSIFICATION,
        get_table=get_table,
    )


def load() -> tuple[Database, SimpleNamespace]:
    """The shop, and the question."""
    db = make_shop()
    return db, again_task(db)


def on_disk(path: str, task: str) -> tuple[Database, SimpleNamespace]:
    """A RelBench dataset in a directory, and one of its questions."""
    dataset = relbench.load_dataset(path)
    return dataset.get_db(), dataset.load_task(task)
