"""Do cheap columns predict what attacks on the weights bring back? Read the rows of benchmarks/attacked_methods.py.

    python benchmarks/cheap_order.py --rows docs/data/attacked_methods.csv --table

The cheap columns are those of the metric set ``robustness``. Two quantities are to be predicted:

- *relearned*: the mean over the points of the curve of ``fact_recall_after_relearn_same``, so the area under the real
  relearning curve;
- *recovered*: how much rounding to NF4 increases the recall of facts: ``fact_recall_after_nf4 - forget_fact_recall``.

For each column, the table has Spearman's rank correlation over the rows of a data set, and over those with the larger
and the smaller of each method's two rates. *Left out* is the correlation of predictions for methods that were left out:
the ranks of all columns are combined by least squares on the rows of all other methods, and the prediction for each row
of the left-out method is correlated with the real value. Brackets have the 95% bootstrap interval over methods, because
rows of one method are not independent.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
from attacked_methods import CHEAP, CONTROLS
from scipy.stats import rankdata
from study_rows import print_table, study_parser

from analysis.tables.trade_off import Floats

DRAWS = 2000
_RELEARNED = [f"fact_recall_after_relearn_same_{epoch}" for epoch in (1, 2, 4)]


def unlearned_rows(path: Path) -> pd.DataFrame:
    """Return the rows of unlearned models, with the two quantities to predict."""
    rows = pd.read_csv(path)
    rows = rows[~rows["method"].isin(CONTROLS)].dropna(subset=[*CHEAP, *_RELEARNED]).reset_index(drop=True)
    recovered = rows["fact_recall_after_nf4"] - rows["forget_fact_recall"]
    return rows.assign(relearned=rows[_RELEARNED].mean(axis=1), recovered=recovered)


def left_out_predictions(rows: pd.DataFrame, quantity: str) -> Floats:
    """Return a prediction for each row, from the rows of all other methods: shape (rows,)."""
    predictions = np.full(len(rows), np.nan)
    for method in rows["method"].unique():
        is_left_out = (rows["method"] == method).to_numpy()
        known = rows[~is_left_out]
        design = np.column_stack([_ranks(known[name], rows[name]) for name in CHEAP] + [np.ones(len(rows))])
        weights, *_ = np.linalg.lstsq(design[~is_left_out], known[quantity].to_numpy(), rcond=None)
        predictions[is_left_out] = design[is_left_out] @ weights
    return predictions


def _ranks(known: pd.Series, values: pd.Series) -> Floats:
    """Return the share of the known values below each value; a tie counts half."""
    pairs = known.to_numpy()[None, :], values.to_numpy()[:, None]
    return np.asarray((pairs[0] < pairs[1]).mean(axis=1) + 0.5 * (pairs[0] == pairs[1]).mean(axis=1))


def correlation(rows: pd.DataFrame, predicted: Floats, quantity: str) -> str:
    """Return Spearman's correlation with its bootstrap interval over methods."""
    real = rows[quantity].to_numpy(dtype=np.float64)
    by_method = [np.flatnonzero((rows["method"] == method).to_numpy()) for method in rows["method"].unique()]
    generator = np.random.default_rng(0)
    draws = []
    for _ in range(DRAWS):
        chosen = np.concatenate([by_method[i] for i in generator.integers(len(by_method), size=len(by_method))])
        draws.append(_spearman(predicted[chosen], real[chosen]))
    low, high = np.nanquantile(draws, [0.025, 0.975])
    return f"{_spearman(predicted, real):.2f} ({low:.2f} to {high:.2f})"


def _spearman(first: Floats, second: Floats) -> float:
    """Return the correlation; NaN if all values of a side are equal."""
    if np.ptp(first) == 0.0 or np.ptp(second) == 0.0:
        return float("nan")
    return float(np.corrcoef(rankdata(first), rankdata(second))[0, 1])


def main() -> None:
    arguments = study_parser(__doc__).parse_args()
    table = []
    for data, rows in unlearned_rows(arguments.rows).groupby("data"):
        is_larger = rows["lr"] == rows.groupby("method")["lr"].transform("max")
        parts = {"all": rows, "the larger rate": rows[is_larger], "the smaller rate": rows[~is_larger]}
        for (part, models), quantity in itertools.product(parts.items(), ("relearned", "recovered")):
            models = models.reset_index(drop=True)
            columns = [correlation(models, models[name].to_numpy(dtype=np.float64), quantity) for name in CHEAP]
            predicted = correlation(models, left_out_predictions(models, quantity), quantity)
            span = f"{models[quantity].min():.2f} to {models[quantity].max():.2f}"
            size = f"{data}, {part}: {len(models)} models of {models['method'].nunique()} methods"
            table.append((size, quantity, span, *columns, predicted))
    print_table(("data", "quantity", "range", *CHEAP, "left out"), table)


if __name__ == "__main__":
    main()
