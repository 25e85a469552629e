"""The audit of a sweep's tables: which models are judged, and whether the pools are large enough."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.audit.audit import Audit, audit_of, item_steps, knowledge_sign
from analysis.audit.pools import NEVER_SAW, SAW
from analysis.report.audit import audit_sentences, audit_tables, audit_verdict
from analysis.tables.columns import Columns
from sweeper.store.columns import column_dictionary
from tests.analysis.conftest import MakeSweep, Row, tables_of, trial
from trainables.metrics.registry import METRICS


def pool(name: str, count: int, forget: float, verbmem: float) -> list[Row]:
    """Return the models of a pool, which differ a little from each other."""
    noise = np.random.default_rng(0).normal(scale=0.01, size=(count, 2))
    return [
        trial(f"{name}-{i}", forget + a, 0.1 + b, phase="audit", method=name, verbmem=verbmem + a, utility=0.9 + b)
        for i, (a, b) in enumerate(noise.tolist())
    ]


def audited(make_sweep: MakeSweep, *, never_saw: int = 20, saw: int = 20) -> Audit:
    """Return the audit of a model that never saw the forget set, one that saw it, and one without a metric."""
    models = [
        trial("ignorant", 5.0, 0.1, verbmem=0.3, utility=0.9),
        trial("knowing", 0.1, 0.1, verbmem=0.95, utility=0.9),
        trial("unmeasured", 5.0, 0.1, verbmem=None, utility=0.9),
    ]
    pools = pool(NEVER_SAW, never_saw, 5.0, 0.3) + pool(SAW, saw, 0.1, 0.95)
    found = audit_of(*tables_of(make_sweep([*models, *pools])))
    assert found is not None
    return found


def test_a_model_without_a_value_of_a_metric_is_not_judged(make_sweep: MakeSweep) -> None:
    audit = audited(make_sweep)
    assert {"verbmem", "utility", "forget_loss"} <= {item.metric for item in audit.metrics}
    assert [(model.trial_id, model.as_never_seen) for model in audit.models] == [("ignorant", True), ("knowing", False)]
    assert audit.can_reject
    assert [model["as_never_seen"] for model in audit.to_dict()["models"]] == [True, False]


@pytest.mark.parametrize("sizes", [(20, 10), (10, 20)])
def test_both_pools_must_be_large_enough(make_sweep: MakeSweep, sizes: tuple[int, int]) -> None:
    audit = audited(make_sweep, never_saw=sizes[0], saw=sizes[1])
    assert (audit.smallest_p, audit.can_reject) == (1 / 11, False)
    assert audit_verdict(audit) == audit_sentences(audit)[:1]
    assert any("at least 19 models in each pool" in line for line in audit_sentences(audit))
    content = audit.to_dict()
    assert content["can_reject"] is False
    assert [model["as_never_seen"] for model in content["models"]] == [None, None], "too few models to decide"
    models, _ = audit_tables(audit)
    assert {row[1] for row in models.rows} == {"not decided"}


@pytest.fixture
def attacked(make_sweep: MakeSweep) -> Audit:
    """Return an audit with two attacks; the models tell facts after relearning, or lack values after attacks."""
    nf4, relearned = "fact_recall_after_nf4", "fact_recall_after_relearn"

    def pool_of(name: str, forget: float, recall: float) -> list[Row]:
        return [row | {nf4: row["verbmem"], relearned: row["verbmem"]} for row in pool(name, 20, forget, recall)]

    def model(name: str, after_nf4: float | None, after_relearn: float | None) -> Row:
        return trial(name, 5.0, 0.1, verbmem=0.3, utility=0.9, **{nf4: after_nf4, relearned: after_relearn})

    models = [
        model("forgot", 0.3, 0.3),
        model("told after relearning", 0.3, 0.95),
        model("told, one attack", None, 0.95),
        model("told nothing, one attack", 0.3, None),
        model("not attacked", None, None),
    ]
    found = audit_of(*tables_of(make_sweep([*models, *pool_of(NEVER_SAW, 5.0, 0.3), *pool_of(SAW, 0.1, 0.95)])))
    assert found is not None
    return found


def test_a_model_is_tested_by_the_attacks_that_it_has_and_does_not_pass_without_the_others(attacked: Audit) -> None:
    verdicts = {
        model.trial_id: (attacked.verdict(model), model.attacked, len(model.missing)) for model in attacked.models
    }
    assert verdicts == {
        "forgot": (True, True, 0),
        "told after relearning": (False, True, 0),
        "told, one attack": (False, True, 1),
        "told nothing, one attack": (None, True, 1),
        "not attacked": (None, False, 2),
    }
    rejected = next(model for model in attacked.models if model.trial_id == "told, one attack")
    assert (rejected.metric, rejected.missing) == ("fact_recall_after_relearn", ("fact_recall_after_nf4",))


def test_the_models_that_lack_attacks_are_counted_and_do_not_look_ignorant(attacked: Audit) -> None:
    headline, not_judged = audit_verdict(attacked)
    assert headline.startswith("1 of 3 judged models look as if they had never seen the forget set")
    assert not_judged.startswith("2 further models could not be judged, because attacks are missing")
    content = attacked.to_dict()
    assert content["lacking_attacks"] == 2
    assert [model["as_never_seen"] for model in content["models"]] == [True, False, False, None, None]
    models, _ = audit_tables(attacked)
    assert "2 models could not be judged" in models.caption
    assert [row[1] for row in models.rows].count("not decided: attacks missing") == 2


def test_faithfulness_is_high_for_metrics_that_separate_the_pools_in_either_direction(make_sweep: MakeSweep) -> None:
    values = {item.metric: item.faithfulness and item.faithfulness.value for item in audited(make_sweep).metrics}
    assert (values["forget_loss"], values["verbmem"]) == (1.0, 1.0)
    assert values["utility"] == pytest.approx(0.5)


def test_the_values_on_one_side_of_an_ideal_mean_knowledge(make_sweep: MakeSweep) -> None:
    """Without unlearning, PrivLeak is far below its ideal 0 and a membership attack far above its ideal 0.5."""
    never_saw = [row | {"privleak": row["verbmem"], "mia_loss": 0.5} for row in pool(NEVER_SAW, 3, 5.0, 0.3)]
    saw = [row | {"privleak": -90.0, "mia_loss": 0.95} for row in pool(SAW, 3, 0.1, 0.95)]
    audit = audit_of(*tables_of(make_sweep([*never_saw, *saw])))
    assert audit is not None
    values = {item.metric: item.faithfulness and item.faithfulness.value for item in audit.metrics}
    assert (values["privleak"], values["mia_loss"]) == (1.0, 1.0)


def test_the_form_of_answers_does_not_say_what_a_model_knows(make_sweep: MakeSweep) -> None:
    """The models that saw the forget set answer without loops, as those should that did not see it."""
    never_saw = [row | {"forget_loops": 0.1} for row in pool(NEVER_SAW, 3, 5.0, 0.3)]
    saw = [row | {"forget_loops": 0.0} for row in pool(SAW, 3, 0.1, 0.95)]
    audit = audit_of(*tables_of(make_sweep([*never_saw, *saw])))
    assert audit is not None
    assert [item.faithfulness for item in audit.metrics if item.metric == "forget_loops"] == [None]
    _, metrics = audit_tables(audit)
    assert [row[1] for row in metrics.rows if row[0] == "forget loops"] == ["direction unknown"]


def test_which_values_of_each_metric_mean_knowledge() -> None:
    columns = Columns.from_dict(column_dictionary(random_guess=8.0))
    signs = {name: knowledge_sign(columns[name]) for name, metric in METRICS.items() if not metric.needs_target}
    form = ("fluent", "refusals", "loops", "repetition", "longest_loop")
    assert {name for name, sign in signs.items() if sign is None} == {f"forget_{name}" for name in form}
    assert {name for name, sign in signs.items() if sign == -1.0} == {
        "forget_loss", "forget_loss_capped", "forget_truth_ratio", "forget_quality", "privleak",
    }  # fmt: skip


def test_the_step_of_an_item_is_known_for_bounded_metrics_before_and_after_an_attack() -> None:
    share = {"role": "metric", "bounds": [0.0, 1.0]}
    columns = Columns.from_dict(
        {
            "verbmem": share,
            "fact_recall_after_nf4": share | {"attack": "quantize", "attacked": "forget_fact_recall"},
            "forget_loss": {"role": "loss", "bounds": [0.0, 7.6]},
            "leak": {"role": "metric", "bounds": [0.0, None]},
        }
    )
    items = {"verbmem": 20.0, "forget_fact_recall": 10.0, "forget_loss": 20.0, "leak": 20.0}
    names = ("verbmem", "fact_recall_after_nf4", "forget_loss", "leak")
    assert item_steps(names, columns, items).tolist() == pytest.approx([1 / 20, 1 / 10, 0.0, 0.0])
