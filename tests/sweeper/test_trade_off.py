"""The objectives: read from one option, bounded by the metric itself."""

from __future__ import annotations

import math

import pytest

from analysis.tables.trade_off import Objective as AnalysedObjective
from sweeper.trade_off import DEFAULT_OBJECTIVES, ObjectiveError, parse_objectives, unmeasured, with_objectives


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


@pytest.mark.parametrize(("name", "ideal", "furthest"), [("privleak", 0.0, 100.0), ("mia_min_k", 0.5, 0.5)])
def test_of_a_metric_with_an_ideal_value_the_distance_from_it_is_optimised(
    name: str, ideal: float, furthest: float
) -> None:
    """Both sides of the ideal are wrong: no unlearning gives a privleak of -100, too much of it any number above 0."""
    objective, _ = parse_objectives(f"{name}:min,utility:max")
    written = objective.to_dict(math.log(2048))
    assert (objective.name, objective.column) == (name, f"{name}_distance")
    assert (written["low"], written["high"], written["direction"]) == (0.0, furthest, "min")
    assert f"distance from {ideal:g} (" in str(written["label"])
    read = AnalysedObjective.from_dict(written)
    assert read.cost([0.0, furthest / 4, 3 * furthest]).tolist() == [0.0, 0.25, 1.0]


@pytest.mark.parametrize("text", ["privleak:max,utility:max", "utility:max,mia_loss:max"])
def test_nobody_wants_to_be_as_far_as_possible_from_the_ideal(text: str) -> None:
    with pytest.raises(ObjectiveError, match=r"is ideal, so only its distance from there can be optimised: \w+:min"):
        parse_objectives(text)


def test_a_metric_and_its_distance_are_one_objective() -> None:
    with pytest.raises(ObjectiveError, match="twice"):
        parse_objectives("privleak:min,privleak_distance:min")


def test_the_distance_is_measured_beside_the_metric_it_is_of() -> None:
    objectives = parse_objectives("privleak:min,utility:max")
    assert with_objectives((), objectives) == ("default", "privleak", "privleak_distance")
    assert with_objectives(("muse",), objectives) == ("muse", "privleak", "privleak_distance", "utility")
    assert with_objectives((), parse_objectives(DEFAULT_OBJECTIVES)) == ()
