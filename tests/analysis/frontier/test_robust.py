"""Under attack, a model must also meet the bounds after each attack, compared with models that are attacked alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from analysis.errors import AnalysisError
from analysis.figures.attacked import attacked_figure
from analysis.frontier.attack_plan import models_to_attack
from analysis.frontier.choice import Outcome, choose_model
from analysis.frontier.frontier import frontier
from analysis.report.answer import answer
from analysis.report.pick import judged_pick
from analysis.tables.sources import read_source
from tests.analysis.conftest import MakeSweep, tables_of, trial
from tests.analysis.frontier.test_choice import ITEMS, TARGET, model

ATTACKED = {"fact_recall_after_nf4": 1.0, "retain_fact_recall_after_nf4": 0.9, "fact_recall_after_prefix": 1.0}
HELD = {"fact_recall_after_nf4": 0.05, "retain_fact_recall_after_nf4": 0.85, "fact_recall_after_prefix": 0.1}
BROKEN = {**HELD, "fact_recall_after_nf4": 0.6}


def swept(
    make_sweep: MakeSweep, models: Sequence[Mapping[str, float | str | None]], **entries: Mapping[str, object]
) -> Path:
    rows = [trial(str(index), 6.0, 0.2, **model(**values)) for index, values in enumerate(models)]
    baseline = {**TARGET, **ATTACKED, **entries.pop("target", {})}
    settings = entries.pop("settings", {"base": {"model": "tiny-phi"}})
    return make_sweep(rows, baseline=baseline, items=ITEMS, settings=settings, **entries)


def test_the_answer_says_which_attack_it_does_not_survive(make_sweep: MakeSweep) -> None:
    out = swept(make_sweep, [{**BROKEN, "retain_fact_recall": 0.9}, HELD])
    table, sweep = tables_of(out)
    choice = choose_model(table, sweep)
    assert (choice.outcome, choice.index) == (Outcome.GOOD, 0), "attacks do not change the usual choice"
    found = answer(table, sweep, frontier(table.models, sweep.objectives), choice)
    assert found.survival is not None
    assert (found.survival.attacks, found.survival.broken) == (("quantize", "prefix"), ("quantize",))
    assert [item.requirement.column for item in found.survival.worst] == ["fact_recall_after_nf4"]
    assert "The model does not survive quantize" in found.headline
    assert "0.6" in found.headline
    assert "After the attack quantize, the model misses" in judged_pick(table, sweep).lines[-1]


def test_the_robust_choice_meets_the_bounds_after_every_attack(make_sweep: MakeSweep) -> None:
    models = [{**BROKEN, "retain_fact_recall": 0.9}, HELD, {"retain_fact_recall": 0.95}]
    out = swept(make_sweep, models)
    choice = choose_model(*tables_of(out), robust=True)
    assert choice.row is not None
    assert (choice.outcome, choice.row["trial_id"]) == (Outcome.GOOD, "1"), "the third model is not attacked"
    found = judged_pick(*tables_of(out), robust=True)
    assert (found.row["trial_id"], found.recommended) == ("1", True)
    assert "does not show forgetting" not in " ".join(found.lines), "the target misses each bound"
    broken = judged_pick(*tables_of(swept(make_sweep, [BROKEN], name="broken")), robust=True)
    assert not broken.recommended
    assert "fact recall after nf4 0.6" in broken.lines[0]


LIMIT = {"base": {"model": "tiny-phi"}, "constraints": ["fact_recall_after_nf4<=0.1"]}


def test_a_model_that_was_not_attacked_does_not_replace_those_that_miss_a_bound_on_an_attack(
    make_sweep: MakeSweep,
) -> None:
    def attacked_ids(out: Path) -> list[str]:
        return list(models_to_attack(*tables_of(out), limit=2, epsilon=0.0)["trial_id"])

    models = [{"retain_fact_recall": 0.9}, {"retain_fact_recall": 0.89}, {"retain_fact_recall": 0.88}]
    before = swept(make_sweep, models, name="before", settings=LIMIT)
    assert choose_model(*tables_of(before)).outcome is Outcome.NOT_KNOWN
    after = swept(make_sweep, [models[0] | BROKEN, models[1] | BROKEN, models[2]], name="after", settings=LIMIT)
    table, sweep = tables_of(after)
    choice = choose_model(table, sweep)
    assert choice.row is not None
    assert (choice.outcome, choice.row["trial_id"], choice.eligible) == (Outcome.MISSED, "0", 2)
    found = answer(table, sweep, frontier(table.models, sweep.objectives), choice)
    assert (found.measured, found.recommended) == ((2, 3), False)
    assert "None of 2 attacked" in found.headline
    assert "2 of 3" in found.advice
    assert attacked_ids(after) == attacked_ids(before), "a resumed sweep attacks no further models"


def test_an_attacked_model_that_meets_the_bound_is_recommended(make_sweep: MakeSweep) -> None:
    out = swept(make_sweep, [{**BROKEN, "retain_fact_recall": 0.9}, HELD, {"retain_fact_recall": 0.95}], settings=LIMIT)
    choice = choose_model(*tables_of(out))
    assert choice.row is not None
    assert (choice.outcome, choice.row["trial_id"]) == (Outcome.GOOD, "1"), "the third model is not attacked"


def test_a_model_without_one_of_two_bounded_attacks_does_not_count_as_attacked(make_sweep: MakeSweep) -> None:
    limits = LIMIT | {"constraints": ["fact_recall_after_nf4<=0.1", "fact_recall_after_prefix<=0.2"]}
    models = [{"fact_recall_after_nf4": 0.0, "retain_fact_recall": 0.95}, {**BROKEN, "retain_fact_recall": 0.9}]
    choice = choose_model(*tables_of(swept(make_sweep, models, settings=limits)))
    assert choice.row is not None
    assert (choice.outcome, choice.row["trial_id"]) == (Outcome.MISSED, "1")


def test_results_of_attacks_do_not_change_which_models_are_attacked(make_sweep: MakeSweep) -> None:
    """The best model is behind the frontier. If it misses the bound, the answer is another model."""
    models = [{"retain_fact_recall": 0.9, "forget_loss_capped": 3.0}, {"retain_fact_recall": 0.86}, {}]
    before = swept(make_sweep, models, name="before", settings=LIMIT)
    after = swept(make_sweep, [models[0] | BROKEN, models[1] | HELD, models[2]], name="after", settings=LIMIT)
    chosen = choose_model(*tables_of(after)).row
    assert chosen is not None
    assert chosen["trial_id"] == "1"
    found = [list(models_to_attack(*tables_of(out), limit=2, epsilon=0.0)["trial_id"]) for out in (before, after)]
    assert found == [["0", "1"], ["0", "1"]]


def test_without_attacks_there_is_no_robust_choice(make_sweep: MakeSweep) -> None:
    out = swept(make_sweep, [{}])
    with pytest.raises(AnalysisError, match=f"sweeper attack {out}$"):
        judged_pick(*tables_of(out), robust=True)
    table, sweep = tables_of(out)
    found = answer(table, sweep, frontier(table.models, sweep.objectives), choose_model(table, sweep))
    assert found.survival is None
    assert attacked_figure(read_source(out)) is None


def test_a_model_is_compared_with_a_model_that_never_saw_the_data_and_is_attacked_alike(make_sweep: MakeSweep) -> None:
    never_saw = {"forget_fact_recall": 0.05, "fact_recall_after_nf4": 0.6, "fact_recall_after_prefix": 0.1}
    choice = choose_model(*tables_of(swept(make_sweep, [BROKEN], never_saw=never_saw)), robust=True)
    assert choice.outcome is Outcome.GOOD, "guesses after the attack are no memory"


def test_an_attack_that_the_target_does_not_survive_says_nothing(make_sweep: MakeSweep) -> None:
    target = {"retain_fact_recall_after_nf4": 0.2, "fact_recall_after_prefix": 0.1}
    models = [{**HELD, "retain_fact_recall_after_nf4": 0.1}]
    table, sweep = tables_of(swept(make_sweep, models, target=target))
    choice = choose_model(table, sweep)
    found = answer(table, sweep, frontier(table.models, sweep.objectives), choice)
    assert found.survival is not None
    assert (found.survival.attacks, found.survival.broken) == (("quantize",), ())
    assert "The model survives the attack quantize" in found.headline
    lines = " ".join(judged_pick(table, sweep, robust=True).lines)
    assert "Fact recall after prefix does not show forgetting" in lines
    assert lines.count("does not show forgetting") == 1


def test_a_constraint_on_an_attacked_score_judges_the_attacked_models(make_sweep: MakeSweep) -> None:
    rows = [trial(str(index), 6.0, 0.2, **model(**values)) for index, values in enumerate([BROKEN, HELD, {}])]
    settings = {"base": {"model": "tiny-phi"}, "constraints": ["fact_recall_after_nf4<=0.1"]}
    out = make_sweep(rows, baseline={**TARGET, **ATTACKED}, items=ITEMS, settings=settings)
    choice = choose_model(*tables_of(out))
    assert (choice.outcome, choice.index, choice.eligible) == (Outcome.GOOD, 1, 1)


def test_the_figure_joins_each_model_before_and_after_each_attack(make_sweep: MakeSweep) -> None:
    figure = attacked_figure(read_source(swept(make_sweep, [BROKEN, HELD, {}])))
    assert figure is not None
    nf4, prefix = figure.panels
    assert (nf4.title, prefix.title) == ("fact_recall_after_nf4", "fact_recall_after_prefix")
    assert [(line.xs, line.ys) for line in nf4.lines if line.style == "dashed"] == [
        ((0.05, 0.6), (0.85, 0.85)),
        ((0.05, 0.05), (0.85, 0.85)),
    ]
    assert {line.name: line.xs for line in prefix.lines if line.name} == {
        "before": (0.05, 0.05), "after": (0.1, 0.1), "target, attacked": (1.0,),
    }  # fmt: skip
