"""Image classifiers from the command line: one run, and a sweep."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.e2e.conftest import Cli

pytestmark = [pytest.mark.slow, pytest.mark.ray]

DIGITS = ("--model", "tiny-resnet", "--limit", "90", "--target-epochs", "4", "--epochs", "2")


def test_a_run_forgets_a_digit_and_transformers_loads_the_classifier(cli: Cli, tmp_path: Path) -> None:
    import torch
    from sklearn import datasets
    from transformers import AutoImageProcessor, AutoModelForImageClassification

    done = cli.run("unlearn", *DIGITS, "--method", "ngdiff", "--lr", "3e-3", "--out", tmp_path / "run", "--json")
    row = done.json
    assert (row["status"], row["dataset"], row["steps"]) == ("finished", "digits", 10)
    assert [row[name] for name in ("verbmem", "utility", "truth_ratio")] == [None, None, None]
    assert row["forget_loss_capped"] <= np.log(10)

    # Compute the forget accuracy from the saved files.
    model = AutoModelForImageClassification.from_pretrained(tmp_path / "run" / "checkpoint").eval()
    processor = AutoImageProcessor.from_pretrained(tmp_path / "run" / "checkpoint")
    bunch = datasets.load_digits()
    threes = [i for i in range(len(bunch.target)) if bunch.target[i] == 3 and i % 5 != 4]
    images = [bunch.images[i].astype(np.uint8)[..., None] for i in threes]
    with torch.no_grad():
        logits = model(**processor(images, return_tensors="pt", input_data_format="channels_last")).logits
    assert float((logits.argmax(dim=1) == 3).double().mean()) == pytest.approx(row["forget_accuracy"], abs=0.02)


def test_a_sweep_over_accuracies_has_a_frontier(cli: Cli) -> None:
    sweep = cli.new("digits")
    arguments = ("--trials", "2", "--sampler", "random", "--gpus-per-trial", "0", "--json")
    objectives = ("--objectives", "forget_accuracy:min,retain_accuracy:max")
    tracked = ("--tracking-uri", cli.tracking_uri, "--experiment", "digits")
    cli.run("pareto", *DIGITS, *objectives, *tracked, *arguments, "--out", sweep.out)
    assert len(sweep.ids("finished")) == 2
    for trial in sweep.trials:
        assert 0.0 <= float(trial["forget_accuracy"]) <= 1.0
        assert trial["verbmem"] == trial["utility"] == ""
        assert (sweep.out / trial["checkpoint"] / "preprocessor_config.json").is_file()
    front = sweep.json("pareto.json")
    assert [item["name"] for item in front["objectives"]] == ["forget_accuracy", "retain_accuracy"]
    assert front["front"]
    assert "accuracy on the forget set" in (sweep.out / "report.html").read_text()
