"""What a finished sweep leaves behind: its files, tables, frontier and checkpoints."""

from __future__ import annotations

import math
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.contract.problem import EPOCHS, Problem, losses
from tests.contract.product import Finished, Row, Sweep

pytestmark = pytest.mark.ray

LOSSES = ("forget_loss", "retain_loss", "forget_loss_capped")
REPETITION = ("forget_repetition", "retain_repetition", "forget_longest_loop", "retain_longest_loop")
METRICS = ("verbmem", "utility", "truth_ratio", "forget_truth_ratio", *REPETITION)
TRIALS = (
    *("trial_id", "spec_hash", "method", "model", "dataset", "c", "lr", "auto_lr", "seed", "epochs", "batch_size"),
    *("optimizer", "status", "steps", "epochs_done", *LOSSES, *METRICS),
    *("train_seconds", "eval_seconds", "wall_seconds", "checkpoint", "error"),
)
HISTORY = ("trial_id", "step", "epoch", "lr", "c_t", "grad_norm", *LOSSES, *METRICS, "seconds")
CANDIDATES = ("trial_id", "epoch", "step", *LOSSES, *METRICS, "checkpoint")


@pytest.fixture(scope="module")
def sweep(reference: Finished) -> Sweep:
    return reference.sweep


@pytest.fixture(scope="module")
def finished(sweep: Sweep) -> list[Row]:
    return [row for row in sweep.trials if row["status"] == "finished"]


def point(row: Row) -> tuple[float, float]:
    """Forget loss (capped) and retain loss."""
    return float(row["forget_loss_capped"]), float(row["retain_loss"])


def epoch_of(row: Any) -> tuple[str, float]:
    return row["trial_id"], float(row["epoch"])


# Files ----------------------------------------------------------------------------------------------------------------


def test_every_promised_file_exists(sweep: Sweep) -> None:
    for name in ("sweep.json", "trials.csv", "history.csv", "candidates.csv", "pareto.json", "optuna.log"):
        assert (sweep.out / name).stat().st_size > 0, name
    assert (sweep.out / "pareto.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (sweep.out / "pareto.svg").read_text()
    for name in ("items", "checkpoints", "ray", "figures"):
        assert (sweep.out / name).is_dir(), name


def test_stdout_holds_the_summary_alone_and_logs_go_to_stderr(reference: Finished) -> None:
    summary, pareto = reference.done.json, reference.sweep.pareto
    assert summary["trials"] == 6
    assert {name: count for name, count in summary["status"].items() if count} == {"finished": 4, "diverged": 2}
    assert summary["hypervolume"] == pareto["hypervolume"]
    assert summary["front"] == len(pareto["front"])
    assert reference.done.stderr.strip()


def test_every_finished_trial_has_its_items(sweep: Sweep, finished: list[Row], problem: Problem) -> None:
    for row in finished:
        text = (sweep.out / "items" / f"{row['trial_id']}.json").read_text()
        assert problem.forget[0]["question"] in text


# Tables ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("table", "columns"), [("trials", TRIALS), ("history", HISTORY), ("candidates", CANDIDATES)])
def test_a_table_has_the_promised_columns(sweep: Sweep, table: str, columns: tuple[str, ...]) -> None:
    rows = getattr(sweep, table)
    assert not set(columns) - set(rows[0])


def test_trials_has_one_row_with_all_settings_for_each_point_of_the_grid(sweep: Sweep) -> None:
    points = Counter((row["method"], row["c"], float(row["lr"])) for row in sweep.trials)
    assert points == Counter((m, c, lr) for m, c in (("gdiff", "0.7"), ("ga", "")) for lr in (0.3, 0.4, 1e9))
    assert len(set(sweep.ids())) == 6
    assert len({row["spec_hash"] for row in sweep.trials}) == 6
    for row in sweep.trials:
        settings = ("dataset", "auto_lr", "seed", "epochs", "batch_size", "optimizer")
        assert [row[name] for name in settings] == ["tofu", "off", "0", str(EPOCHS), "5", "sgd"]


def test_a_finished_trial_has_every_value(sweep: Sweep, finished: list[Row]) -> None:
    assert len(finished) == 4
    for row in finished:
        assert all(math.isfinite(float(row[name])) for name in (*LOSSES, *METRICS))
        assert all(0.0 <= float(row[name]) <= 1.0 for name in METRICS)
        assert (int(row["steps"]), float(row["epochs_done"])) == (4 * EPOCHS, EPOCHS)
        assert float(row["wall_seconds"]) >= float(row["train_seconds"]) > 0
        assert row["error"] == ""
        assert (sweep.out / row["checkpoint"]).is_dir()


def test_a_diverged_trial_stays_in_the_table_without_scores(sweep: Sweep) -> None:
    diverged = [row for row in sweep.trials if row["status"] == "diverged"]
    assert [float(row["lr"]) for row in diverged] == [1e9, 1e9]
    for row in diverged:
        assert row["error"]
        assert {row[name] for name in (*METRICS, "checkpoint")} == {""}
        assert all(math.isfinite(float(row[name])) for name in LOSSES if row[name])


def test_history_has_one_row_for_each_report(sweep: Sweep, finished: list[Row]) -> None:
    for row in finished:
        reports = [report for report in sweep.history if report["trial_id"] == row["trial_id"]]
        assert [float(report["epoch"]) for report in reports] == [*range(1, EPOCHS + 1)]
        assert [int(report["step"]) for report in reports] == [4 * epoch for epoch in range(1, EPOCHS + 1)]
        assert [reports[-1][name] for name in (*LOSSES, *METRICS)] == [row[name] for name in (*LOSSES, *METRICS)]
        assert {report["lr"] for report in reports} == {row["lr"]}


def test_candidates_has_one_row_for_each_evaluated_epoch(sweep: Sweep) -> None:
    keys = [epoch_of(row) for row in sweep.candidates]
    assert len(set(keys)) == len(keys)
    reports = {epoch_of(row): row for row in sweep.history}
    assert {key for key in reports if key[0] in sweep.ids("finished")} <= set(keys) <= set(reports)
    for row in sweep.candidates:
        report = reports[epoch_of(row)]
        assert [row[name] for name in ("step", *LOSSES)] == [report[name] for name in ("step", *LOSSES)]


def test_the_last_epoch_of_a_trial_has_the_values_of_its_row(sweep: Sweep, finished: list[Row]) -> None:
    for row in finished:
        last = sweep.candidate(row["trial_id"], EPOCHS)
        names = (*LOSSES, *METRICS, "checkpoint")
        assert [last[name] for name in names] == [row[name] for name in names]


def test_sweep_json_describes_every_column(sweep: Sweep) -> None:
    columns = sweep.json("sweep.json")["columns"]
    for table in (sweep.trials, sweep.history, sweep.candidates):
        assert not set(table[0]) - set(columns)
    assert all(column["role"] and column["label"] for column in columns.values())
    for name in (*LOSSES, *METRICS):
        assert columns[name]["direction"] in {"max", "min"}, name
        low, high = columns[name]["bounds"]
        assert low < high, name
    assert {columns[name]["direction"] for name in ("forget_loss", "forget_loss_capped", "utility")} == {"max"}
    assert {columns[name]["direction"] for name in ("retain_loss", "verbmem", *REPETITION)} == {"min"}


# Frontier and answer --------------------------------------------------------------------------------------------------


def nondominated(rows: list[Row]) -> set[tuple[str, float]]:
    """The epochs that no other epoch beats: at least as good on both objectives, and not equal."""
    points = {epoch_of(row): point(row) for row in rows}

    def is_beaten(key: tuple[str, float]) -> bool:
        forget, retain = points[key]
        return any(other != points[key] and other[0] >= forget and other[1] <= retain for other in points.values())

    return {key for key in points if not is_beaten(key)}


def is_within_the_constraints(row: Row) -> bool:
    return 0.5 <= float(row["forget_loss"]) <= 10 and float(row["retain_loss"]) <= 1.5


def hypervolume(points: list[tuple[float, float]], bounds: list[tuple[float, float]]) -> float:
    """The area that points dominate, objectives scaled to [0, 1] with 0 best and the worst corner as reference."""
    (forget_low, forget_high), (retain_low, retain_high) = bounds
    scaled = sorted(
        ((forget_high - forget) / (forget_high - forget_low), (retain - retain_low) / (retain_high - retain_low))
        for forget, retain in points
    )
    area, lowest = 0.0, 1.0
    for x, y in scaled:
        if x < 1 and y < lowest:
            area, lowest = area + (1 - x) * (lowest - max(y, 0.0)), max(y, 0.0)
    return area


def test_pareto_json_states_objectives_bounds_and_reference(sweep: Sweep, problem: Problem) -> None:
    from transformers import AutoTokenizer

    guess = math.log(len(AutoTokenizer.from_pretrained(problem.target)))
    pareto = sweep.pareto
    directions = {item["name"]: item["direction"] for item in pareto["objectives"]}
    assert directions == {"forget_loss": "max", "retain_loss": "min"}
    for item in pareto["objectives"]:
        assert item["bounds"] == pytest.approx([0.0, guess])
        worst = item["bounds"][0 if item["direction"] == "max" else 1]
        assert pareto["reference"][item["name"]] == worst


def test_the_front_is_the_nondominated_set_of_candidates(sweep: Sweep) -> None:
    front = sweep.pareto["front"]
    assert len(front) >= 3
    assert {epoch_of(member) for member in front} == nondominated(sweep.candidates)
    assert len(front) == len(nondominated(sweep.candidates))
    trials = {row["trial_id"]: row for row in sweep.trials}
    for member in front:
        row, trial = sweep.candidate(*epoch_of(member)), trials[member["trial_id"]]
        assert (member["objectives"]["forget_loss"], member["objectives"]["retain_loss"]) == point(row)
        assert (member["method"], member["lr"]) == (trial["method"], float(trial["lr"]))
        assert member["checkpoint"] == row["checkpoint"]


def test_the_hypervolume_is_that_of_the_candidates(sweep: Sweep) -> None:
    pareto = sweep.pareto
    bounds = {item["name"]: tuple(item["bounds"]) for item in pareto["objectives"]}
    expected = hypervolume([point(row) for row in sweep.candidates], [bounds["forget_loss"], bounds["retain_loss"]])
    assert 0.1 < expected < 1.0
    assert pareto["hypervolume"] == pytest.approx(expected, abs=1e-9)


def test_the_baseline_is_the_target(sweep: Sweep, problem: Problem) -> None:
    baseline = sweep.pareto["baseline"]
    forget, retain = losses(problem.target, problem.forget), losses(problem.target, problem.retain)
    assert baseline["forget_loss"] == pytest.approx(forget.plain, rel=1e-4)
    assert baseline["retain_loss"] == pytest.approx(retain.plain, rel=1e-4)
    assert baseline["objectives"]["forget_loss"] == pytest.approx(forget.capped, rel=1e-4)


def test_the_answer_is_an_epoch_within_the_constraints(sweep: Sweep) -> None:
    answer = sweep.pareto["answer"]
    assert answer["recommended"] is True
    row = sweep.candidate(answer["trial_id"], float(answer["epoch"]))
    assert is_within_the_constraints(row)
    assert row["checkpoint"] == answer["checkpoint"]
    assert (sweep.out / answer["checkpoint"]).is_dir()
    assert 1 <= float(answer["epoch"]) < EPOCHS, "these tests need an answer that is not the end of its trial"


def test_the_summary_names_the_answer_of_pareto_json(reference: Finished) -> None:
    answer, summary = reference.sweep.pareto["answer"], reference.done.json["answer"]
    for name in ("recommended", "trial_id", "epoch", "checkpoint"):
        assert summary[name] == answer[name], name


# Checkpoints ----------------------------------------------------------------------------------------------------------


def assert_is_scored(checkpoint: Path, row: Row, problem: Problem) -> None:
    """The losses of a row are those of its checkpoint, computed by transformers and torch alone."""
    forget, retain = losses(checkpoint, problem.forget), losses(checkpoint, problem.retain)
    assert float(row["forget_loss"]) == pytest.approx(forget.plain, rel=1e-4)
    assert float(row["forget_loss_capped"]) == pytest.approx(forget.capped, rel=1e-4)
    assert float(row["retain_loss"]) == pytest.approx(retain.plain, rel=1e-4)


def test_every_checkpoint_of_the_frontier_loads_and_has_the_losses_of_its_epoch(sweep: Sweep, problem: Problem) -> None:
    for member in sweep.pareto["front"]:
        row = sweep.candidate(*epoch_of(member))
        assert row["checkpoint"], "an epoch on the frontier has no checkpoint"
        assert_is_scored(sweep.out / row["checkpoint"], row, problem)
    rows = [sweep.candidate(*epoch_of(member)) for member in sweep.pareto["front"]]
    assert any(float(row["forget_loss_capped"]) < float(row["forget_loss"]) - 1 for row in rows), "no token is capped"


def test_the_checkpoint_of_a_trial_has_the_losses_of_its_end(
    sweep: Sweep, finished: list[Row], problem: Problem
) -> None:
    for row in finished:
        assert_is_scored(sweep.out / row["checkpoint"], row, problem)


def test_a_checkpoint_is_safetensors_config_and_tokenizer(sweep: Sweep) -> None:
    from safetensors import safe_open

    folder = sweep.out / sweep.pareto["answer"]["checkpoint"]
    names = {path.name for path in folder.iterdir()}
    assert {"config.json", "tokenizer.json", "tokenizer_config.json"} <= names
    assert not [name for name in names if name.endswith((".bin", ".pt", ".pkl"))]
    with safe_open(folder / "model.safetensors", framework="pt") as weights:
        assert len([*weights.keys()]) > 0


def test_only_the_frontier_and_the_ends_of_trials_keep_checkpoints(sweep: Sweep, finished: list[Row]) -> None:
    """The frontier of all epochs, and that of the epochs within the constraints."""
    kept = {f"checkpoints/{path.name}" for path in (sweep.out / "checkpoints").iterdir()}
    named = {row["checkpoint"] for row in sweep.candidates} - {""}
    front = {member["checkpoint"] for member in sweep.pareto["front"]}
    within = [row for row in sweep.candidates if is_within_the_constraints(row)]
    front_within = {sweep.candidate(*epoch)["checkpoint"] for epoch in nondominated(within)}
    assert kept == named == front | front_within | {row["checkpoint"] for row in finished}


# Study and page -------------------------------------------------------------------------------------------------------


def test_optuna_opens_the_study(sweep: Sweep) -> None:
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    storage = JournalStorage(JournalFileBackend(str(sweep.out / "optuna.log")))
    (summary,) = optuna.get_all_study_summaries(storage)
    study = optuna.load_study(study_name=summary.study_name, storage=storage)
    complete = [tuple(trial.values) for trial in study.trials if trial.state.name == "COMPLETE"]
    assert (len(study.trials), len(complete)) == (6, 4)
    assert [direction.name for direction in study.directions] == ["MAXIMIZE", "MINIMIZE"]
    assert set(complete) <= {point(row) for row in sweep.candidates}


class Resources(HTMLParser):
    """Collects the addresses that a browser loads to show a page. A link to click on is not among them."""

    found: tuple[str, ...] = ()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        loaded = {"src", "srcset", "poster", "data", *(["href"] if tag in {"link", "use", "image"} else [])}
        self.found += tuple(value for name, value in attrs if name in loaded and value)


def test_the_report_is_one_page_that_opens_offline_and_names_the_answer(sweep: Sweep) -> None:
    page = (sweep.out / "report.html").read_text()
    parser = Resources()
    parser.feed(page)
    assert [address[:80] for address in parser.found if not address.startswith(("data:", "#"))] == []
    assert re.findall(r"@import|url\(\s*['\"]?(?:https?:)?//", page) == []
    assert "<html" in page
    assert all(trial_id in page for trial_id in sweep.ids())
    assert sweep.pareto["answer"]["trial_id"] in page
