"""The values of the items of a model are read from the per-item log beside its checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from analysis.tables.item_logs import item_scores


def test_each_model_has_the_values_of_the_log_that_is_named_like_its_checkpoint(tmp_path: Path) -> None:
    scores = {"utility": [{"totals": [1.0, 0.5]}]}
    (tmp_path / "items").mkdir()
    (tmp_path / "items/00001.json").write_text(json.dumps({"scores": scores}))
    (tmp_path / "items/00002-epoch-3.json").write_text(json.dumps({"eval_log.json": {}}))  # of an older version
    (tmp_path / "items/00004.json").write_text('{"scores": ')
    checkpoints = ["../sweep/checkpoints/00001", "checkpoints/00002-epoch-3", "checkpoints/00003", "checkpoints/00004"]
    rows = pd.DataFrame({"checkpoint": [*checkpoints, ""], "folder": str(tmp_path)})
    assert item_scores(rows) == [scores, {}, {}, {}, {}]
    assert item_scores(rows.drop(columns="folder")) == [{}] * 5
    assert item_scores(rows.assign(folder="")) == [{}] * 5
