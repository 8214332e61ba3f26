"""A gradient-boosted baseline for a question about the rows of a database."""

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score


def columns_of(db, task, table):
    """Columns of an entity's row, and counts and times of rows that refer to it.

    That is one reference; only what had happened by the time of the question counts.
    """
    asked, entity = table.df, db.table_dict[task.entity_table]
    who, when = asked[task.entity_col].astype(int), asked[task.time_col]
    own = entity.df.iloc[who].drop(columns=[entity.pkey_col])
    coded = own.apply(lambda c: c if c.dtype.kind in "iuf" else pd.factorize(c)[0])
    found = [coded.to_numpy()]
    for other in db.table_dict.values():
        for key, named in other.fkey_col_to_pkey_table.items():
            if named == task.entity_table and other.time_col is not None:
                found.append(_past(other.df[[key, other.time_col]], who, when))
    return np.column_stack(found)


def _past(events, who, when):
    """Per question the number of an entity's events so far, and days since the last."""
    count, age = np.zeros(len(who)), np.full(len(who), np.nan)
    for moment in when.unique():
        past = events[events.iloc[:, 1] <= moment].groupby(events.columns[0])
        rows = (when == moment).to_numpy()
        asked = who[rows]
        count[rows] = past.size().reindex(asked, fill_value=0)
        last = moment - past[events.columns[1]].max().reindex(asked)
        age[rows] = last / pd.Timedelta(days=1)
    return np.column_stack([count, age])


def boosted_auc(db, task, train, test):
    """The AUC in % on one table of questions, learned from another."""
    model = HistGradientBoostingClassifier(random_state=0)
    model.fit(columns_of(db, task, train), train.df[task.target_col])
    guess = model.predict_proba(columns_of(db, task, test))[:, 1]
    return 100 * roc_auc_score(test.df[task.target_col], guess)
