"""The experiment on learning-rate rules makes each run once, and its results are those of lr-study."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
import rate_experiment
from rate_experiment import (
    CANDIDATES,
    OUTCOME,
    PARTS,
    PRIMARY,
    STAGES,
    development_jobs,
    print_progress,
    report_jobs,
    restarts,
    second_stage,
    spec_of,
    write_rows,
)
from rate_results import (
    KEY,
    SCORES,
    print_arms,
    print_factors,
    print_starts,
    require_one_target,
    scored,
    select,
    study_from,
)

from analysis.study.verdict import Outcome
from trainables.spec import TrialSpec


def made(arm: str, rate: str, seed: int, utility: float, **changes: object) -> dict[str, str]:
    row = dict.fromkeys((*KEY, *OUTCOME), "")
    target = {"target_utility": 0.95, "target_verbmem": 0.99, "target_truth_ratio": 0.7}
    scores = {"status": "finished", "utility": utility, "verbmem": 0.05 + seed / 1e5, "truth_ratio": 0.7}
    key = {"problem": "phi-authors", "seed": seed, "method": PRIMARY, "arm": arm, "rate": rate}
    return row | {name: str(value) for name, value in {**key, **target, **scores, "updates": "", **changes}.items()}


def grid(seeds: range, best: float = 0.8) -> list[dict[str, str]]:
    values = {"1e-4": best - 0.2, "1e-3": best, "1e-2": best - 0.3}
    return [made("off", rate, s, value + 1e-3 * (s % 3)) for rate, value in values.items() for s in seeds]


def test_runs_on_different_targets_are_not_compared_seed_by_seed() -> None:
    rows = [made("off", "1e-3", 900, 0.8), made("off+decay", "1e-3", 900, 0.8), made("off", "1e-3", 901, 0.8)]
    require_one_target(rows)
    with pytest.raises(SystemExit, match="phi-authors 900 have different targets"):
        require_one_target([*rows, made("gen", "1e-3", 900, 0.8, target_utility=0.94)])


def test_every_run_of_a_part_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    development = development_jobs()
    assert len(development) == len(set(development)) == 2 * 2 * 4 * (5 + 2 + 16)
    assert not {*second_stage(CANDIDATES[1])} & {*development}
    monkeypatch.setattr(rate_experiment, "FROZEN", "gen-trust+delta=0.02+batches=2")
    problems, seeds = PARTS["report"]
    jobs = [job for stage in STAGES for job in report_jobs(stage, problems, seeds)]
    assert len(jobs) == len(set(jobs))
    assert Counter(problem for problem, *_ in jobs) == dict.fromkeys(problems[:3], 1640) | {
        "gpt2-lora": 300,
        "gpt2-sgd": 300,
        "pretrained-tofu": 660,
    }


def test_the_primary_comparison_is_run_first_and_one_problem_at_a_time() -> None:
    problems, seeds = PARTS["report"]
    jobs = list(report_jobs("primary", problems[:3], seeds))
    assert [(job[0], job[1]) for job in jobs[::200]] == [(problem, 1000) for problem in problems[:3]]
    rates = ("1e-4", "3e-4", "1e-3", "3e-3", "1e-2")
    assert jobs[:10] == [("gpt2-authors", 1000, PRIMARY, arm, rate) for arm in ("off", "gen") for rate in rates]


def test_a_seed_varies_the_order_and_the_target() -> None:
    spec = spec_of("gpt2-tofu", 1003, "gdiff", "off+interpolate", "3e-4")
    assert (spec.seed, spec.target_seed, spec.lr, spec.interpolate, spec.auto_lr) == (1003, 1003, 3e-4, "on", "off")
    assert isinstance(spec, TrialSpec)
    assert spec.option_values == {"c": 0.9}


def test_only_the_stages_with_gen_trust_need_a_frozen_variant(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["rate_experiment.py", "--part", "report", "--rows", str(tmp_path / "rows.csv")]
    monkeypatch.setattr("sys.argv", words)
    monkeypatch.setattr(rate_experiment, "FROZEN", "")
    with pytest.raises(SystemExit) as error:
        rate_experiment.main()
    assert error.value.code == 2
    assert "finish the development part" in capsys.readouterr().err
    made_jobs: list[tuple[object, ...]] = []
    monkeypatch.setattr(rate_experiment, "run_missing", lambda *args, **options: made_jobs.extend(args[2]))
    monkeypatch.setattr("sys.argv", [*words, "--stage", "primary", "--seed", "1003"])
    rate_experiment.main()
    names = ("gpt2-authors", "resnet-digits", "gpt2-lora", "gpt2-sgd")
    assert Counter(job[:2] for job in made_jobs) == dict.fromkeys([(name, 1003) for name in names], 10)
    assert "left out without --tofu or --pretrained: gpt2-tofu pretrained-tofu" in capsys.readouterr().out


def test_a_problem_that_needs_files_is_not_run_without_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--part", "report", "--stage", "primary", "--problem", "gpt2-tofu", "--rows", "rows.csv"]
    monkeypatch.setattr("sys.argv", ["rate_experiment.py", *words])
    with pytest.raises(SystemExit) as error:
        rate_experiment.main()
    assert error.value.code == 2
    assert "gpt2-tofu: give --tofu" in capsys.readouterr().err


def test_only_diverged_runs_are_repeated_with_restart() -> None:
    rows = [made("off", "1e-3", 1, 0.8), made("off", "1e-2", 1, 0.0, status="diverged"),
            made("off+decay", "1e-2", 1, 0.0, status="diverged")]  # fmt: skip
    assert restarts(rows) == [("phi-authors", 1, PRIMARY, "off+restart", "1e-2")]


def test_a_collapsed_run_has_no_value_and_missed_forgetting_lowers_the_value() -> None:
    rows = [made("off", "1e-3", 1, 0.8), made("off", "1e-4", 1, 0.9, verbmem=0.4), made("off", "1e-2", 1, 0.3)]
    values = {run.row["rate"]: (run.value, run.success, run.collapsed) for run in scored(rows, spec_of)}
    assert values["1e-3"] == (pytest.approx(0.8), True, False)
    assert values["1e-4"] == (pytest.approx(0.9 - 0.3), False, False)
    assert values["1e-2"] == (0.0, False, True)


def test_images_succeed_with_a_low_forget_accuracy() -> None:
    empty = dict.fromkeys((*SCORES, *(f"target_{name}" for name in SCORES)), "")
    targets = {"target_retain_accuracy": 0.99, "target_forget_accuracy": 1.0, "problem": "resnet-digits"}
    kept = {name: str(value) for name, value in (empty | targets | {"retain_accuracy": 0.9}).items()}
    rows = [made("off", rate, 1, 0.0) | kept | {"forget_accuracy": value}
            for rate, value in (("1e-3", "0.0"), ("1e-4", "0.5"))]  # fmt: skip
    values = {run.row["rate"]: (run.value, run.success) for run in scored(rows, spec_of)}
    assert values == {"1e-3": (pytest.approx(0.9), True), "1e-4": (pytest.approx(0.5), False)}


def test_the_rule_of_selection_prefers_few_batches_among_ties_and_excludes_what_collapses_more_than_gen() -> None:
    seeds = range(8)
    cheap, dear, unsafe = (CANDIDATES[index] for index in (0, 1, 2))
    rows = [made(arm, "1e-4", s, value) for arm, value in ((cheap, 0.80), (dear, 0.81), ("gen", 0.7)) for s in seeds]
    rows += [made(unsafe, "1e-4", s, 0.94 if s else 0.1) for s in seeds]
    runs = scored(rows, spec_of)
    assert select(runs, [cheap, dear, unsafe], "gen") == cheap
    assert select(runs, [dear, cheap], "gen") == dear
    worse = [run for run in runs if run.row["arm"] != cheap] + scored(
        [made(cheap, "1e-4", s, 0.75) for s in seeds], spec_of
    )
    assert select(worse, [cheap, dear, unsafe], "gen") == dear


@pytest.mark.parametrize(("auto", "outcome"), [(0.9, Outcome.BETTER), (0.6, Outcome.WORSE)])
def test_the_verdict_is_that_of_a_study_on_seeds_of_order_and_target(auto: float, outcome: Outcome) -> None:
    seeds = range(1000, 1012)
    rows = grid(seeds)
    rows += [made("gen", "1e-4", s, auto + 1e-3 * (s % 4), updates=7, updates_accepted=5) for s in seeds]
    (verdict,) = study_from(rows, spec_of, f"{PRIMARY}/gen/same").verdicts
    assert (verdict.outcome, verdict.best_lr, verdict.seeds_vary) == (outcome, 1e-3, "target")
    assert (len(verdict.seeds), verdict.primary) == (12, True)
    assert verdict.updates is not None
    assert (verdict.updates.accepted, verdict.updates.of) == (60, 84)


def test_a_factor_is_compared_with_the_equal_runs_without_it(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [made(arm, "1e-3", s, value + 0.01 * s) for arm, value in (("off", 0.5), ("off+interpolate", 0.8))
            for s in range(2)] + [made("off+decay", "3e-3", 5, 0.9)]  # fmt: skip
    print_factors(scored(rows, spec_of), ("decay", "interpolate"))
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| phi-authors | ngdiff | off+interpolate | 2 | +0.300 [0.300, 0.300] | 2 against 0 of 2 | 0 against 0 of 2 |"
    ]


def test_the_tables_show_each_start_with_its_last_rates_and_the_worst_run(capsys: pytest.CaptureFixture[str]) -> None:
    ruined = made("gen", "1e-2", 7, 0.0, retain_loss=50.0, last_rate=0.2)
    rows = [made("gen", "1e-2", 6, 0.0, retain_loss=9.0, last_rate=0.1), ruined,
            made("gen", "1e-4", 6, 0.8, retain_loss=0.1, last_rate=1e-3)]  # fmt: skip
    runs = scored(rows, spec_of)
    print_starts(runs)
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| phi-authors | ngdiff | gen | 0.0001 | 1 | 1 | 0 | 0.80 | 0.001 | 0.001 | 0 |",
        "| phi-authors | ngdiff | gen | 0.01 | 2 | 0 | 2 | 0.00 | 0.15 | 0.2 | 2 |",
        "| phi-authors | ngdiff | gen | all | 3 | 1 | 2 | 0.27 | 0.1 | 0.2 | 2 |",
    ]
    print_arms(runs)
    assert "0.00 (keeps 0.00, retain loss 50, last rate 0.2; seed 7, from 1e-2)" in capsys.readouterr().out


def test_the_progress_counts_runs_and_complete_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    jobs = list(report_jobs("primary", ["gpt2-authors"], [1000, 1001]))[:15]
    print_progress([dict(zip(KEY, map(str, job), strict=True)) for job in jobs])
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "| primary | gpt2-authors | 15 of 200 | 1 of 20 |"
    assert "| others | gpt2-authors | 0 of 460 | 0 of 20 |" in lines


def test_the_rows_of_tofu_are_not_in_forget05(tmp_path: Path) -> None:
    def rows(first: int, last: int) -> str:
        return "".join(json.dumps({"question": f"Question {n}?", "answer": f"Answer {n}."}) + "\n"
                       for n in range(first, last))  # fmt: skip

    for name, first, last in (("forget05", 200, 400), ("forget10", 0, 400), ("retain90", 1000, 4600)):
        (tmp_path / f"{name}.json").write_text(rows(first, last))
    out = tmp_path / "rows"
    out.mkdir()
    write_rows(tmp_path, out)
    tables = {path.stem: [json.loads(line) for line in path.read_text().splitlines()] for path in out.iterdir()}
    assert {name: len(table) for name, table in tables.items()} == {"forget": 20, "retain": 100, "retain_eval": 60}
    assert all(int(row["question"][9:-1]) < 200 for row in tables["forget"])
    assert all(2000 <= int(row["question"][9:-1]) < 2400 for row in tables["retain"])


def test_only_the_named_arms_are_made_and_an_unknown_arm_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[rate_experiment.Job] = []
    monkeypatch.setattr(rate_experiment, "run_missing", lambda _file, _columns, jobs, *_, **__: made.extend(jobs))
    words = ["rate_experiment.py", "--part", "report", "--rows", str(tmp_path / "rows.csv"), "--seed", "1000"]
    more = ["--stage", "others", "--problem", "resnet-digits", "--arm"]
    monkeypatch.setattr("sys.argv", [*words, *more, "curvature"])
    rate_experiment.main()
    assert [(arm, rate) for *_, arm, rate in made] == [("curvature", rate) for rate in rate_experiment.RATES]
    monkeypatch.setattr("sys.argv", [*words, *more, "curvatur"])
    with pytest.raises(SystemExit):
        rate_experiment.main()
    assert "these stages have the arms off+decay, off+interpolate" in capsys.readouterr().err
