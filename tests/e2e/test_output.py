"""What a sweep leaves behind: the files of the contract, the study, the runs in MLflow."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

pytestmark = [pytest.mark.slow, pytest.mark.ray]

Cli = Any  # conftest.py has the class
Reference = Any
Run = Any


def number(text: str) -> float:
    return float(text) if text else math.nan


# Files and summary --------------------------------------------------------------------------------------------------


def test_every_file_of_the_contract_is_there(reference: Reference) -> None:
    sweep, _ = reference
    for name in ("sweep.json", "trials.csv", "history.csv", "candidates.csv", "pareto.json", "optuna.log"):
        assert (sweep.out / name).stat().st_size > 0, name
    assert (sweep.out / "pareto.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (sweep.out / "pareto.svg").read_text()
    assert "<html" in (sweep.out / "report.html").read_text()
    assert (sweep.out / "ray").is_dir()


def test_stdout_is_the_summary_and_nothing_else(reference: Reference) -> None:
    sweep, done = reference
    summary = json.loads(done.stdout)
    assert summary["out"] == str(sweep.out)
    assert summary["trials"] == 6
    assert summary["status"] == {"finished": 4, "stopped": 0, "diverged": 2, "failed": 0}
    pareto = sweep.json("pareto.json")
    assert summary["hypervolume"] == pareto["hypervolume"]
    assert summary["front"] == len(pareto["front"]) >= 1


def test_stderr_has_a_line_for_every_trial(reference: Reference) -> None:
    _, done = reference
    lines = [line for line in done.stderr.splitlines() if line[:5].isdecimal()]
    assert sorted(line[:5] for line in lines) == [f"{index:05d}" for index in range(6)]


def test_the_table_has_one_row_per_point_of_the_grid_in_order(reference: Reference) -> None:
    sweep, _ = reference
    assert [row["trial_id"] for row in sweep.trials] == [f"{index:05d}" for index in range(6)]
    points = Counter((row["method"], row["c"], float(row["lr"])) for row in sweep.trials)
    assert points == Counter(
        (method, c, lr) for method, c in (("gdiff", "0.9"), ("ngdiff", "")) for lr in (0.05, 0.1, 1e9)
    )
    assert len({row["spec_hash"] for row in sweep.trials}) == 6


def test_the_tables_have_the_columns_of_this_sweep(reference: Reference) -> None:
    """Of options that no method here has, and metrics nobody asked for, there are none."""
    sweep, _ = reference
    for rows in (sweep.trials, sweep.candidates):
        assert not {"beta", "layer", "mia_loss", "extraction_strength"} & rows[0].keys()
    assert {"c", "verbmem", "utility", "truth_ratio"} < sweep.trials[0].keys()


def test_a_finished_trial_has_every_number_and_its_checkpoint(reference: Reference) -> None:
    sweep, _ = reference
    finished = [row for row in sweep.trials if row["status"] == "finished"]
    assert len(finished) == 4
    guess = sweep.json("sweep.json")["random_guess_loss"]
    for row in finished:
        for name in ("forget_loss", "retain_loss", "verbmem", "utility", "truth_ratio", "forget_truth_ratio"):
            assert math.isfinite(number(row[name])), name
        assert 0.0 < number(row["forget_loss_capped"]) <= min(number(row["forget_loss"]), guess)
        assert (row["steps"], row["epochs_done"]) == ("120", "30.0")  # 20 questions in batches of 5
        assert row["checkpoint"] == f"checkpoints/{row['trial_id']}"
        assert row["error"] == ""
        assert number(row["wall_seconds"]) >= number(row["train_seconds"]) > 0


def test_history_has_every_epoch_of_every_finished_trial_once(reference: Reference) -> None:
    sweep, _ = reference
    for row in sweep.trials:
        if row["status"] == "finished":
            reports = [report for report in sweep.history if report["trial_id"] == row["trial_id"]]
            assert [int(report["step"]) for report in reports] == list(range(4, 121, 4))
            assert [float(report["epoch"]) for report in reports] == list(range(1, 31))
            assert reports[-1]["forget_loss"] == row["forget_loss"]
            assert reports[-1]["verbmem"] == row["verbmem"]
            assert all(report["verbmem"] == "" for report in reports[:-1])


def test_every_epoch_of_every_trial_is_a_candidate_with_the_values_of_the_history(reference: Reference) -> None:
    sweep, _ = reference
    reports = {(row["trial_id"], row["step"]): row for row in sweep.history}
    finished = sweep.ended()
    assert {key for key in reports if key[0] in finished} == {
        (row["trial_id"], row["step"]) for row in sweep.candidates if row["trial_id"] in finished
    }
    for row in sweep.candidates:
        report = reports[row["trial_id"], row["step"]]
        assert [row[name] for name in ("epoch", "retain_loss")] == [report[name] for name in ("epoch", "retain_loss")]
        assert number(row["forget_loss_capped"]) == number(report["forget_loss_capped"])


def test_the_frontier_names_epochs_with_their_checkpoints_and_no_others_are_kept(reference: Reference) -> None:
    sweep, _ = reference
    pareto = sweep.json("pareto.json")
    assert 0 <= pareto["hypervolume"] <= 1
    rows = {(row["trial_id"], float(row["epoch"])): row for row in sweep.candidates}
    values = {key: (number(row["forget_loss_capped"]), number(row["retain_loss"])) for key, row in rows.items()}

    def dominated(key: tuple[str, float]) -> bool:
        forget, retain = values[key]
        return any(other[0] >= forget and other[1] <= retain and other != (forget, retain) for other in values.values())

    front = {(member["trial_id"], float(member["epoch"])) for member in pareto["front"]}
    assert front == {key for key in rows if not dominated(key)}
    ends = {row["trial_id"]: row for row in sweep.trials if row["status"] == "finished"}
    for member in pareto["front"]:
        trial_id, epoch, step = member["trial_id"], member["epoch"], member["step"]
        row = rows[trial_id, float(epoch)]
        last = trial_id in ends and str(step) == ends[trial_id]["steps"]
        assert member["checkpoint"] == row["checkpoint"] == f"checkpoints/{trial_id}{'' if last else f'-epoch-{epoch}'}"
        assert member["objectives"]["retain_loss"] == number(row["retain_loss"])
        assert member["objectives"]["forget_loss"] == number(row["forget_loss_capped"])
    kept = {f"checkpoints/{path.name}" for path in (sweep.out / "checkpoints").iterdir()}
    assert kept == {row["checkpoint"] for row in sweep.candidates} - {""}
    assert kept == {member["checkpoint"] for member in pareto["front"]} | {row["checkpoint"] for row in ends.values()}
    assert pareto["baseline"]["objectives"]["retain_loss"] == sweep.json("sweep.json")["baseline"]["retain_loss"]


def test_the_nearest_of_the_frontier_have_been_measured(reference: Reference) -> None:
    sweep, _ = reference
    front = sweep.json("pareto.json")["front"]
    measured = {(row["trial_id"], float(row["epoch"])) for row in sweep.candidates if row["verbmem"]}
    known = [member for member in front if (member["trial_id"], float(member["epoch"])) in measured]
    assert len(known) >= min(8, len(front))


def test_a_checkpoint_loads_with_transformers_alone_and_has_the_losses_of_its_row(
    reference: Reference, data: Path
) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    sweep, _ = reference
    row = sweep.trials[0]
    folder = sweep.out / row["checkpoint"]
    assert sorted(path.suffix for path in folder.iterdir() if path.suffix in (".safetensors", ".bin")) == [
        ".safetensors"
    ]
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    total, count = 0.0, 0
    for line in (data / "forget01.json").read_text().splitlines():
        example = json.loads(line)
        prompt = len(tokenizer(f"Question: {example['question']}\nAnswer:")["input_ids"])
        ids = tokenizer(f"Question: {example['question']}\nAnswer: {example['answer']}")["input_ids"]
        tokens = torch.tensor([[*ids, tokenizer.eos_token_id]])
        with torch.no_grad():
            log_p = model(tokens).logits[0, :-1].double().log_softmax(dim=-1)
        nll = -log_p[torch.arange(tokens.shape[1] - 1), tokens[0, 1:]]
        total += float(nll[prompt - 1 :].sum())
        count += tokens.shape[1] - prompt
    assert total / count == pytest.approx(number(row["forget_loss"]), rel=1e-5)


# Divergence ---------------------------------------------------------------------------------------------------------


def test_a_diverged_trial_says_where_and_leaves_no_scores_and_no_checkpoint(reference: Reference) -> None:
    sweep, _ = reference
    diverged = [row for row in sweep.trials if row["status"] == "diverged"]
    assert [float(row["lr"]) for row in diverged] == [1e9, 1e9]
    for row in diverged:
        assert "step" in row["error"]
        assert (row["verbmem"], row["utility"], row["checkpoint"]) == ("", "", "")
        assert all(math.isfinite(number(row[name])) for name in ("forget_loss", "retain_loss") if row[name])
        assert not (sweep.out / "checkpoints" / row["trial_id"]).exists()


def test_the_study_has_diverged_trials_as_failed_and_finished_ones_with_their_best_epoch(reference: Reference) -> None:
    sweep, _ = reference
    epochs: dict[str, list[list[float]]] = {}
    for row in sweep.candidates:
        values = [number(row["forget_loss_capped"]), number(row["retain_loss"])]
        epochs.setdefault(row["trial_id"], []).append(values)
    storage = JournalStorage(JournalFileBackend(str(sweep.out / "optuna.log")))
    study = optuna.load_study(study_name="sweep", storage=storage)
    rows = {int(row["trial_id"]): row for row in sweep.trials}
    assert len(study.trials) == 6
    for trial in study.trials:
        row = rows[trial.number]
        if row["status"] == "finished":
            assert trial.state.name == "COMPLETE"
            own = epochs[row["trial_id"]]
            assert trial.values in own
            forget, retain = trial.values
            assert not any(other[0] > forget and other[1] < retain for other in own)
        else:
            assert trial.state.name == "FAIL"
    assert [direction.name for direction in study.directions] == ["MAXIMIZE", "MINIMIZE"]


# MLflow -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(cli: Cli, reference: Reference) -> dict[str, Run]:
    """The runs of the reference sweep: children by trial id, the parent as "sweep"."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=cli.tracking_uri)
    experiment = client.get_experiment_by_name("reference")
    assert experiment is not None
    found = client.search_runs([experiment.experiment_id], "tags.trial_id != ''")
    return {run.data.tags["trial_id"]: run for run in found}


@pytest.fixture(scope="module")
def client(cli: Cli) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=cli.tracking_uri)


def test_mlflow_has_one_parent_and_a_child_per_trial(reference: Reference, runs: dict[str, Run]) -> None:
    sweep, _ = reference
    assert set(runs) == {"sweep", *(row["trial_id"] for row in sweep.trials)}
    parent = runs["sweep"].info.run_id
    assert all(run.data.tags.get("mlflow.parentRunId") == parent for name, run in runs.items() if name != "sweep")
    assert runs["sweep"].info.status == "FINISHED"


def test_children_have_parameters_tags_and_status_of_their_rows(reference: Reference, runs: dict[str, Run]) -> None:
    sweep, _ = reference
    for row in sweep.trials:
        run = runs[row["trial_id"]]
        assert run.data.params["method"] == row["method"]
        assert float(run.data.params["lr"]) == float(row["lr"])
        assert run.data.params.get("c", "") == row["c"]
        assert run.data.tags["spec_hash"] == row["spec_hash"]
        assert run.data.tags["status"] == row["status"]
        assert run.data.tags["auto_lr"] == "off"
        assert run.data.tags["sweep"]
        assert run.info.status == ("FINISHED" if row["status"] == "finished" else "FAILED")
        assert run.data.tags.get("error", "") == row["error"]


def test_children_have_every_metric_by_step_and_can_be_sorted_by_the_final_ones(
    reference: Reference, runs: dict[str, Run], client: Any
) -> None:
    sweep, _ = reference
    for row in sweep.trials:
        run = runs[row["trial_id"]]
        for name in ("forget_loss", "retain_loss", "lr", "grad_norm"):
            reported = [
                (int(report["step"]), float(report[name]))
                for report in sweep.history
                if report["trial_id"] == row["trial_id"] and report[name]
            ]
            points = client.get_metric_history(run.info.run_id, name)
            assert sorted((point.step, point.value) for point in points) == reported, name
        for name in ("verbmem", "utility", "truth_ratio", "wall_seconds"):
            assert run.data.metrics.get(name) == (float(row[name]) if row[name] else None)


def test_a_checkpoint_can_be_downloaded_from_mlflow_and_loaded(
    reference: Reference, runs: dict[str, Run], client: Any, tmp_path: Path
) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    sweep, _ = reference
    folder = client.download_artifacts(runs["00000"].info.run_id, "checkpoint", str(tmp_path))
    downloaded = AutoModelForCausalLM.from_pretrained(folder).state_dict()
    kept = AutoModelForCausalLM.from_pretrained(sweep.out / "checkpoints" / "00000").state_dict()
    assert downloaded.keys() == kept.keys()
    assert all(torch.equal(downloaded[name], kept[name]) for name in kept)


def test_the_trials_on_the_frontier_are_tagged_with_their_epochs(reference: Reference, runs: dict[str, Run]) -> None:
    sweep, _ = reference
    on_front = Counter(member["trial_id"] for member in sweep.json("pareto.json")["front"])
    assert {name for name, run in runs.items() if run.data.tags.get("pareto") == "true"} == set(on_front)
    for trial_id, count in on_front.items():
        assert len(runs[trial_id].data.tags["pareto_epochs"].split(", ")) == count


def test_the_parent_has_the_tables_and_figures(reference: Reference, runs: dict[str, Run], client: Any) -> None:
    sweep, _ = reference
    names = {item.path for item in client.list_artifacts(runs["sweep"].info.run_id)}
    assert names >= {"sweep.json", "trials.csv", "history.csv", "pareto.json", "pareto.png", "report.html", "figures"}
    figures = {Path(item.path).name for item in client.list_artifacts(runs["sweep"].info.run_id, "figures")}
    assert figures == {path.name for path in (sweep.out / "figures").iterdir()}
    assert "anytime_hypervolume.png" in figures
    assert runs["sweep"].data.metrics["hypervolume"] == sweep.json("pareto.json")["hypervolume"]
    assert runs["sweep"].data.params["trials"] == "6"


# Once more ----------------------------------------------------------------------------------------------------------


def test_resuming_a_finished_sweep_changes_nothing(cli: Cli, reference: Reference) -> None:
    sweep, first = reference
    names = ("trials.csv", "history.csv", "candidates.csv", "pareto.json")
    tables = [(sweep.out / name).read_bytes() for name in names]
    done = cli.run("resume", sweep.out, "--json")
    assert json.loads(done.stdout) == json.loads(first.stdout)
    assert [(sweep.out / name).read_bytes() for name in names] == tables


def test_the_report_can_be_made_anew(cli: Cli, reference: Reference) -> None:
    sweep, _ = reference
    before = sweep.json("pareto.json")
    (sweep.out / "pareto.png").unlink()
    done = cli.run("report", sweep.out, "--json")
    assert json.loads(done.stdout) == before
    assert (sweep.out / "pareto.png").is_file()
