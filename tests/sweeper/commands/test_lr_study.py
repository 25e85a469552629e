"""``lr-study`` on the command line: what it plans, how it ends, how its grid grows; over the tables of a real run."""

from __future__ import annotations

import csv
import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sweeper.conclude import Summary
from sweeper.folder import read_settings
from sweeper.journal import open_journal
from sweeper.search import SweepStudy
from sweeper.settings import LR_STUDY, SweepSettings
from sweeper.trade_off import axes
from tests.conftest import GOLDEN
from tests.sweeper.commands.conftest import invoke, refused


def planned(monkeypatch: pytest.MonkeyPatch, out: Path, *arguments: str) -> SweepSettings:
    """The settings ``lr-study`` begins a sweep with."""
    monkeypatch.setattr("sweeper.commands.pareto.run_to_the_end", lambda out, as_json, change=None: None)
    result = invoke("lr-study", "--out", out, *arguments)
    assert result.exit_code == 0, result.output
    return read_settings(out)


def finish_with(monkeypatch: pytest.MonkeyPatch, tables: Path) -> None:
    """A sweep that ends at once, with the tables of another."""

    def run(out: Path, *, console: object, change: object = None, **more: object) -> Summary:
        for name in ("trials.csv", "history.csv"):
            if tables != out:
                shutil.copy(tables / name, out / name)
        content = json.loads((out / "sweep.json").read_text())
        known = json.loads((tables / "sweep.json").read_text())
        given = {name: known[name] for name in ("objectives", "baseline", "random_guess_loss")}
        (out / "sweep.json").write_text(json.dumps(content | given))
        return Summary(
            out=str(out), status={"finished": 36}, trials=36, asked=36, hypervolume=0.8, front=5, tracking=""
        )

    monkeypatch.setattr("sweeper.sweep.run", run)


# lr-study -----------------------------------------------------------------------------------------------------------


def test_the_default_study_is_two_methods_at_five_rates_with_autolr_from_each(
    monkeypatch: pytest.MonkeyPatch, out: Path
) -> None:
    settings = planned(monkeypatch, out)
    assert (settings.kind, settings.sampler, settings.seeds) == (LR_STUDY, "grid", 2)
    assert settings.name == "lr-study-gdiff-ngdiff-tiny-phi-authors"
    grid = settings.space.grid()
    rates = {point["lr"] for point in grid if point["auto_lr"] == "off"}
    assert sorted(rates) == [3.2e-6, 1.8e-5, 1e-4, 5.6e-4, 3.2e-3]
    assert rates == {point["lr"] for point in grid if point["auto_lr"] == "on"}
    assert settings.trials == 2 * len(grid) == 2 * (3 + 1) * (5 + 5)


def test_a_fixed_rate_has_the_same_spec_whatever_autolr_variants_stand_beside_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hashes = []
    for name, variants in (("a", ()), ("b", ("--auto-lr-smoothing", "paper", "--auto-lr-probe", "same"))):
        settings = planned(monkeypatch, tmp_path / name, "--lr", "1e-4", *variants)
        points = [point for point in settings.space.grid() if point["auto_lr"] == "off"]
        hashes.append([settings.make_spec(point, target_key="k").spec_hash for point in points])
    assert hashes[0] == hashes[1]


def test_every_combination_of_variants_is_an_arm_from_the_given_start(
    monkeypatch: pytest.MonkeyPatch, out: Path
) -> None:
    variants = ("--auto-lr-smoothing", "clip", "--auto-lr-smoothing", "paper", "--auto-lr-probe", "same")
    more = ("--auto-lr-probe", "fresh", "--auto-lr-start-lr", "1e-5", "--method", "ngdiff", "--lr", "1e-3")
    grid = planned(monkeypatch, out, *variants, *more).space.grid()
    arms = [
        (point["auto_lr_smoothing"], point["auto_lr_probe"], point["lr"]) for point in grid if point["auto_lr"] == "on"
    ]
    assert arms == [(a, b, 1e-5) for a in ("clip", "paper") for b in ("same", "fresh")]


def test_options_of_pareto_mean_the_same(monkeypatch: pytest.MonkeyPatch, out: Path) -> None:
    settings = planned(monkeypatch, out, "--epochs", "2", "--cpus-per-trial", "0.5", "--seed", "7", "--c", "0.3")
    assert (settings.base.epochs, settings.cpus_per_trial, settings.all_seeds) == (2, 0.5, (7, 8))
    assert {point.get("c") for point in settings.space.grid()} == {0.3, None}


def test_everything_wrong_is_told_at_once(out: Path) -> None:
    wrong = ("--method", "nope", "--auto-lr-smoothing", "wild", "--lr", "0", "--auto-lr-start-lr", "-1")
    problems = refused("lr-study", "--out", out, *wrong, "--seeds", "0")
    for text in ("unknown method 'nope'", "unknown auto_lr_smoothing 'wild'", "lr must be", "seeds must be at least 1"):
        assert sum(text in problem for problem in problems) >= 1, problems
    assert any("auto-lr-start-lr must be" in problem for problem in problems)
    assert not out.exists()


def test_a_study_ends_in_its_verdict_and_lr_study_json(monkeypatch: pytest.MonkeyPatch, out: Path) -> None:
    finish_with(monkeypatch, GOLDEN)
    result = invoke("lr-study", "--out", out)
    assert result.exit_code == 0, result.output
    for text in ("36 trials", "ngdiff: best at lr 0.003", "nothing can be concluded", "AutoLR clip/fresh from 0.003"):
        assert text in result.stdout
    content = json.loads((out / "lr_study.json").read_text())
    assert [item["method"] for item in content["verdicts"]] == ["gdiff", "ngdiff"]
    assert [arm["name"] for arm in content["fronts"][0]["arms"]][:2] == ["gdiff, fixed lr", "gdiff, AutoLR clip/fresh"]
    assert content["verdicts"][0]["opponents"][0]["outcome"] == "too few seeds"
    again = invoke("resume", out, "--json")
    assert json.loads(again.stdout)["lr_study"] == content


def test_a_pareto_sweep_does_not_end_in_a_study(monkeypatch: pytest.MonkeyPatch, out: Path) -> None:
    finish_with(monkeypatch, GOLDEN)
    result = invoke("pareto", "--out", out, "--json")
    assert "lr_study" not in json.loads(result.stdout)
    assert not (out / "lr_study.json").exists()


def test_finished_sweeps_are_judged_together_without_running(golden: Path, tmp_path: Path) -> None:
    content = json.loads(invoke("lr-study", "--from", golden, "--json").stdout)
    assert content == json.loads((golden / "lr_study.json").read_text())
    both = invoke("lr-study", "--from", golden, "--from", GOLDEN, "--out", tmp_path / "both.json")
    assert "36 trials repeated" in " ".join(both.stdout.split())
    assert json.loads((tmp_path / "both.json").read_text())["verdicts"] == content["verdicts"]
    assert refused("lr-study", "--from", tmp_path) == [f"{tmp_path} holds no sweep: there is no sweep.json in it"]


def test_a_finished_study_is_judged_by_other_objectives_and_says_so(golden: Path) -> None:
    words = ("lr-study", "--from", golden, "--json")
    same = json.loads(invoke(*words, "--objectives", "forget_loss:max,retain_loss:min").stdout)
    assert same == json.loads(invoke(*words).stdout)
    assert same["afterwards"] is None
    other = json.loads(invoke(*words, "--objectives", "verbmem:min,utility:max").stdout)
    assert other["afterwards"].startswith(
        "Judged by verbmem (min), utility (max), chosen when the results were there; the trials were run for "
        "forget_loss (max), retain_loss (min)."
    )
    assert other["sensitivity"] != same["sensitivity"]
    assert other["afterwards"] in " ".join(
        invoke("lr-study", "--from", golden, "--objectives", "verbmem:min,utility:max").stdout.split()
    )


def test_what_is_said_of_trials_is_not_said_in_vain_of_results(golden: Path) -> None:
    assert refused("lr-study", "--from", golden, "--lr", "1e-3", "--objectives", "nothing:min,utility:max")[1:] == [
        "--lr is about trials, and --from runs none"
    ]


# A primary question, and the edge of the grid -----------------------------------------------------------------------


def test_a_primary_question_is_recorded_and_its_name_checked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert planned(monkeypatch, tmp_path / "a", "--primary", "ngdiff").primary == "ngdiff"
    two = ("--auto-lr-smoothing", "paper", "--auto-lr-smoothing", "safe")
    assert planned(monkeypatch, tmp_path / "b", *two, "--primary", "gdiff/safe/freshx2").primary == "gdiff/safe/freshx2"
    assert refused("lr-study", "--primary", "npo") == [
        "--primary npo: expected one of the methods of this study, gdiff, ngdiff"
    ]
    assert refused("lr-study", *two, "--primary", "gdiff") == [
        "--primary gdiff: this names 2 questions, and a primary one is one: gdiff/paper/freshx2 or gdiff/safe/freshx2"
    ]
    assert refused("lr-study", "--primary", "gdiff/paper/same") == [
        "--primary gdiff/paper/same: this study has no such variant of AutoLR: expected gdiff/safe/freshx2"
    ]


def test_small_batches_are_probed_on_more_of_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """So many that they have eight rows, unless somebody says how many."""
    few = planned(monkeypatch, tmp_path / "few", "--batch-size", "2", "--primary", "ngdiff/safe/freshx4")
    assert {point["auto_lr_probe_batches"] for point in few.space.grid() if point["auto_lr"] == "on"} == {4}
    said = planned(monkeypatch, tmp_path / "said", "--batch-size", "2", "--auto-lr-probe-batches", "1")
    assert {point["auto_lr_probe_batches"] for point in said.space.grid() if point["auto_lr"] == "on"} == {1}


def test_no_question_is_primary_of_results_that_are_there(golden: Path) -> None:
    problems = refused("lr-study", "--from", golden, "--primary", "gdiff", "--extend")
    assert problems[0].startswith("--primary gdiff: a primary question is named before there are results")
    assert problems[1].startswith("--extend runs trials, and --from runs nothing")


def edged(monkeypatch: pytest.MonkeyPatch, out: Path, *, peak: float) -> list[list[float]]:
    """A study whose trials end at once, best at the rate ``peak``; returns the rates of each run of it."""
    asked: list[list[float]] = []
    known = json.loads((GOLDEN / "sweep.json").read_text())
    with (GOLDEN / "trials.csv").open() as file:
        (like, *_) = csv.DictReader(file)

    def run(out: Path, *, console: object, change: dict[str, object] | None = None, **more: object) -> Summary:
        settings = replace(read_settings(out), **(change or {}))  # type: ignore[arg-type]
        content = json.loads((out / "sweep.json").read_text()) | {"settings": settings.to_dict()}
        given = {name: known[name] for name in ("objectives", "baseline", "random_guess_loss")}
        (out / "sweep.json").write_text(json.dumps(content | given))
        study = SweepStudy(
            open_journal(out),
            space=settings.space,
            objectives=axes(settings.parsed_objectives, known["random_guess_loss"], unit="token"),
            sampler="grid",
            trials=settings.trials,
            seeds=settings.all_seeds,
            seed=settings.seed,
            extension=settings.extension,
        )
        trials = out / "trials.csv"
        rows = list(csv.DictReader(trials.open())) if trials.is_file() else []
        study.take_up({row["trial_id"]: row for row in rows})
        asked.append([])
        while (proposal := study.ask()) is not None:
            spec = settings.make_spec(proposal.config, target_key="k")
            asked[-1].append(spec.lr)
            attained = 7 - 0.4 * abs(math.log10(spec.lr / peak))
            ended = {"trial_id": proposal.trial_id, "status": "finished", "forget_loss_capped": attained}
            rows.append(like | {name: str(value) for name, value in (spec.row() | ended).items() if name in like})
            study.tell(proposal.trial_id, rows[-1])
        with trials.open("w", newline="") as file:
            writer = csv.DictWriter(file, like.keys())
            writer.writeheader()
            writer.writerows(rows)
        return Summary(str(out), len(rows), settings.trials, {"finished": len(rows)}, 0.8, 5, "")

    monkeypatch.setattr("sweeper.sweep.run", run)
    return asked


STUDY = ("--method", "gdiff", "--c", "0.5", "--c", "0.9", "--seeds", "3", "--lr", "1e-5", "--lr", "1e-4")


def test_extend_adds_rates_until_the_best_lies_inside(monkeypatch: pytest.MonkeyPatch, out: Path) -> None:
    asked = edged(monkeypatch, out, peak=1e-3)
    result = invoke("lr-study", "--out", out, *STUDY, "--extend")
    assert result.exit_code == 0, result.output
    # Two values of c, three seeds.
    assert asked[1:] == [[1e-3] * 6, [1e-2] * 6]
    assert (
        "gdiff, the best single lr: the best rate is at the edge of the rates tried, 1e-05 to 0.0001; adding lr 0.001"
    ) in result.stderr
    assert "at the edge" not in result.stdout
    settings = read_settings(out)
    assert (len(settings.extension), settings.trials) == (4, len(settings.space.grid()) * 3 + 12)
    (verdict,) = json.loads((out / "lr_study.json").read_text())["verdicts"]
    assert verdict["rates"] == [1e-5, 1e-4, 1e-3, 1e-2]
    assert verdict["opponents"][0]["edge"] is None
    # Nothing is left to add.
    invoke("resume", out)
    assert asked[3:] == [[]]


def test_a_grid_is_extended_a_bounded_number_of_times(monkeypatch: pytest.MonkeyPatch, out: Path) -> None:
    asked = edged(monkeypatch, out, peak=1e3)
    result = invoke("lr-study", "--out", out, *STUDY, "--extend")
    assert [sorted(set(rates)) for rates in asked[1:]] == [[1e-3], [1e-2], [0.1], [1.0]]
    assert "nothing more is added: at most 4 rates beyond the grid" in result.stderr
    assert "nothing can be concluded" in result.stdout


def test_without_the_flag_the_message_names_it_and_resume_takes_it(monkeypatch: pytest.MonkeyPatch, out: Path) -> None:
    asked = edged(monkeypatch, out, peak=1e-3)
    result = invoke("lr-study", "--out", out, *STUDY)
    assert "lr-study --extend" in result.stdout
    assert len(asked) == 1
    invoke("resume", out, "--extend")
    assert asked[2:] == [[1e-3] * 6, [1e-2] * 6]


def test_an_extension_that_was_killed_goes_on(monkeypatch: pytest.MonkeyPatch, out: Path) -> None:
    asked = edged(monkeypatch, out, peak=1e-3)
    invoke("lr-study", "--out", out, *STUDY, "--extend")
    rows = (out / "trials.csv").read_text().splitlines(keepends=True)
    (out / "trials.csv").write_text("".join(rows[:-3]))
    invoke("resume", out)
    assert asked[-1] == [1e-2] * 3


def test_only_a_study_has_an_edge(monkeypatch: pytest.MonkeyPatch, out: Path) -> None:
    finish_with(monkeypatch, GOLDEN)
    invoke("pareto", "--out", out)
    assert refused("resume", out, "--extend") == [
        f"--extend: the sweep in {out} is no learning-rate study and has no edge to go beyond"
    ]


# What the seeds vary ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("varied", "targets", "data"), [("order", (0, 0), (0, 0)), ("target", (4, 5), (0, 0)), ("data", (0, 0), (4, 5))]
)
def test_a_seed_may_stand_for_another_target_or_other_data(
    monkeypatch: pytest.MonkeyPatch, out: Path, varied: str, targets: tuple[int, int], data: tuple[int, int]
) -> None:
    settings = planned(monkeypatch, out, "--seeds", "2", "--seed", "4", "--seeds-vary", varied)
    (point, *_) = settings.space.grid()
    specs = [settings.make_spec({**point, "seed": seed}, target_key="k") for seed in (4, 5)]
    assert tuple(spec.seed for spec in specs) == (4, 5)
    assert tuple(spec.target_seed for spec in specs) == targets
    assert tuple(spec.data_seed for spec in specs) == data
    assert [settings.base_of(seed).target_seed for seed in (4, 5)] == list(targets)
    assert settings.target_seeds == ((4,) if varied == "order" else (4, 5))


def test_what_the_seeds_cannot_vary_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused("lr-study", "--seeds-vary", "weather") == [
        "--seeds-vary must be one of order, target, data, got 'weather'"
    ]
    assert refused("lr-study", "--seeds-vary", "data", "--dataset", "digits", "--model", "tiny-resnet") == [
        "--seeds-vary data: data set digits is read and not generated, so there is one of it; vary order or target, or "
        "take --dataset authors"
    ]
    assert refused("pareto", "--data-seed", "3", "--dataset", "digits", "--model", "tiny-resnet") == [
        "data_seed does not apply to data set digits, which is read and not generated"
    ]
