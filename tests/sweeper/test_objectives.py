"""The objectives: read from one option, bounded by the metric itself."""

from __future__ import annotations

import math

import pytest

from analysis.objectives import Objective as AnalysedObjective
from sweeper.objectives import DEFAULT_OBJECTIVES, ObjectiveError, parse_objectives, unmeasured


def test_the_default_is_the_capped_forget_loss_up_and_the_retain_loss_down() -> None:
    forget, retain = parse_objectives(DEFAULT_OBJECTIVES)
    assert (forget.name, forget.column, forget.direction) == ("forget_loss", "forget_loss_capped", "max")
    assert (retain.name, retain.column, retain.direction) == ("retain_loss", "retain_loss", "min")


def test_any_number_of_reported_metrics_can_be_objectives_in_their_order() -> None:
    found = parse_objectives("verbmem:min, utility:max,truth_ratio:max")
    assert [(item.name, item.direction) for item in found] == [
        ("verbmem", "min"),
        ("utility", "max"),
        ("truth_ratio", "max"),
    ]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("forget_loss:max,accuracy:max", "accuracy"),
        ("forget_loss:max,forget_loss_capped:max", "forget_loss_capped"),
        ("forget_loss:max,", "''"),
        ("forget_loss,retain_loss:min", "forget_loss:min or forget_loss:max"),
        ("forget_loss:up,retain_loss:min", "forget_loss:up"),
        ("forget_loss:max:min,retain_loss:min", "forget_loss:max:min"),
        ("forget_loss:max", "at least two"),
        ("forget_loss:max,forget_loss:min", "twice"),
    ],
)
def test_objectives_that_cannot_be_read_are_named(text: str, names: str) -> None:
    with pytest.raises(ObjectiveError) as caught:
        parse_objectives(text)
    assert names in str(caught.value)


def test_losses_are_bounded_by_the_random_guess_and_other_metrics_by_one() -> None:
    guess = math.log(2048)
    found = [item.to_dict(guess) for item in parse_objectives("forget_loss:max,retain_loss:min,verbmem:min")]
    assert [(item["low"], item["high"]) for item in found] == [(0.0, guess), (0.0, guess), (0.0, 1.0)]


def test_the_analysis_reads_what_the_sweep_writes() -> None:
    written = [item.to_dict(math.log(2048)) for item in parse_objectives(DEFAULT_OBJECTIVES)]
    forget, retain = (AnalysedObjective.from_dict(item) for item in written)
    assert (forget.column, forget.worst) == ("forget_loss_capped", 0.0)
    assert (retain.column, retain.worst) == ("retain_loss", math.log(2048))
    assert forget.label == "forget loss (nats per token)"


def test_losses_of_images_are_per_image() -> None:
    forget, accuracy = parse_objectives("forget_loss:max,retain_accuracy:max")
    assert forget.to_dict(math.log(10), unit="image")["label"] == "forget loss (nats per image)"
    assert accuracy.to_dict(math.log(10))["high"] == 1.0


@pytest.mark.parametrize(
    ("text", "dataset", "wrong"),
    [
        (DEFAULT_OBJECTIVES, "digits", []),
        (DEFAULT_OBJECTIVES, "authors", []),
        ("forget_accuracy:min,retain_accuracy:max", "cifar-10", []),
        ("forget_accuracy:min,utility:max", "tofu", ["forget_accuracy"]),
        ("verbmem:min,test_accuracy:max,truth_ratio:max", "cifar-100", ["verbmem", "truth_ratio"]),
    ],
)
def test_objectives_no_model_of_the_data_is_scored_by_are_named(text: str, dataset: str, wrong: list[str]) -> None:
    found = unmeasured(parse_objectives(text), dataset)
    assert [sentence.split()[1] for sentence in found] == wrong
    assert all("expected one of forget_loss, retain_loss" in sentence for sentence in found)
