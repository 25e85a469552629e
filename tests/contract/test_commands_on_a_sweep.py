"""Commands on a finished sweep: ``pick``, ``ask``, ``report``, ``compare``, ``config``."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.contract.problem import EPOCHS, GRID, Problem, losses
from tests.contract.product import Finished, Product, digests

pytestmark = pytest.mark.ray

# pick -----------------------------------------------------------------------------------------------------------------


def test_pick_names_and_copies_the_answer_of_pareto_json(product: Product, reference: Finished, tmp_path: Path) -> None:
    answer = reference.sweep.pareto["answer"]
    picked = product.run("pick", reference.sweep.out, "--copy-to", tmp_path / "copy", "--json").json
    assert (picked["trial_id"], float(picked["epoch"])) == (answer["trial_id"], float(answer["epoch"]))
    assert Path(picked["checkpoint"]) == tmp_path / "copy"
    assert digests(tmp_path / "copy") == digests(reference.sweep.out / answer["checkpoint"])
    row = reference.sweep.candidate(answer["trial_id"], float(answer["epoch"]))
    for name in ("forget_loss", "retain_loss", "forget_loss_capped"):
        assert picked["metrics"][name] == float(row[name]), name


def test_pick_obeys_limits_and_takes_the_best_within_them(product: Product, reference: Finished) -> None:
    limited = ("--where", "retain_loss<=1", "--maximize", "forget_loss_capped")
    picked = product.run("pick", reference.sweep.out, *limited, "--json").json
    within = [row for row in reference.sweep.candidates if row["checkpoint"] and float(row["retain_loss"]) <= 1]
    best = max(within, key=lambda row: float(row["forget_loss_capped"]))
    assert (picked["trial_id"], float(picked["epoch"])) == (best["trial_id"], float(best["epoch"]))
    assert reference.sweep.is_checkpoint(picked["checkpoint"], best["checkpoint"], cwd=product.folder)


def test_pick_exports_a_model_that_loads_without_the_project(
    product: Product, reference: Finished, problem: Problem, tmp_path: Path
) -> None:
    answer = reference.sweep.pareto["answer"]
    product.run("pick", reference.sweep.out, "--export", tmp_path / "model")
    row = reference.sweep.candidate(answer["trial_id"], float(answer["epoch"]))
    assert losses(tmp_path / "model", problem.retain).plain == pytest.approx(float(row["retain_loss"]), rel=1e-4)
    assert f"{row['trial_id']}" in (tmp_path / "model" / "README.md").read_text()
    assert not list(tmp_path.rglob("*.bin"))


# ask ------------------------------------------------------------------------------------------------------------------


def test_ask_gives_the_answers_on_which_the_recommended_model_was_scored(
    product: Product, reference: Finished, problem: Problem
) -> None:
    checkpoint = reference.sweep.pareto["answer"]["checkpoint"]
    log = reference.sweep.json(f"items/{Path(checkpoint).name}.json")["eval_log_forget.json"]["generated_text"]
    rows = list(log.values())
    questions = [row["question"] for row in problem.forget[: len(rows)]]
    found = product.run("ask", reference.sweep.out, *questions, "--json").json
    assert found["models"]["target"] == str(problem.target)
    model = next(name for name, folder in found["models"].items() if folder.endswith(checkpoint))
    answered = [(item["set"], item["true_answer"], item["answers"][model]) for item in found["questions"]]
    assert answered == [("forget", reference, text) for _, text, reference in rows]


# report and compare ---------------------------------------------------------------------------------------------------


def test_report_draws_a_folder_again_and_changes_no_result(
    product: Product, reference: Finished, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(reference.sweep.out, tmp_path / "copy"))
    tables = [(copy / name).read_bytes() for name in ("trials.csv", "history.csv", "candidates.csv")]
    for name in ("report.html", "pareto.png", "pareto.json"):
        (copy / name).unlink()
    found = product.run("report", copy, "--json").json
    for name in ("objectives", "hypervolume", "front", "answer"):
        assert found[name] == reference.sweep.pareto[name], name
    assert all((copy / name).is_file() for name in ("report.html", "pareto.png", "pareto.json"))
    assert [(copy / name).read_bytes() for name in ("trials.csv", "history.csv", "candidates.csv")] == tables


def test_compare_writes_its_tables_in_four_formats(product: Product, reference: Finished, tmp_path: Path) -> None:
    found = product.run("compare", reference.sweep.out, "--out", tmp_path / "tables", "--json").json
    (table,) = found["tables"]
    assert {row["method"] for row in table["rows"]} == {"gdiff", "ga"}
    for ending in ("md", "tex", "csv", "html"):
        text = (tmp_path / "tables" / f"comparison.{ending}").read_text()
        assert "gdiff" in text.lower(), ending


# config ---------------------------------------------------------------------------------------------------------------


def test_the_file_of_config_repeats_the_settings_of_the_sweep(
    product: Product, reference: Finished, problem: Problem, tmp_path: Path
) -> None:
    file = tmp_path / "again.yaml"
    product.run("config", reference.sweep.out, "--out", file)
    assert product.run("config", reference.sweep.out).stdout.strip() == file.read_text().strip()
    plan = ("--dry-run", "--json", "--out", tmp_path / "again")
    typed = product.run("pareto", *problem.options, *(word for word in GRID if word != "--json"), *plan).json
    assert f"epochs: {EPOCHS}" in file.read_text().splitlines()
    from_file = product.run("pareto", "--config", file, "--epochs", "3", *plan).json
    assert from_file["settings"] == {**typed["settings"], "epochs": 3}
    assert from_file["trials"] == typed["trials"] == 6
