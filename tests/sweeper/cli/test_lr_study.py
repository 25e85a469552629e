"""``lr-study`` on the command line: its plan, its end and its extension, with the tables of a real run."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.frontier.criterion import Role, role_of
from analysis.study.endpoints import thresholds_of
from analysis.tables.columns import Columns
from analysis.tables.sweep_file import SweepFile
from sweeper.driver.finalize import Summary
from sweeper.settings.names import STUDY as KIND
from sweeper.settings.options import StudyOptions
from sweeper.settings.study import forgetting_problems
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.columns import column_dictionary
from sweeper.store.folder import read_settings
from sweeper.store.tables import ResultTables
from tests.conftest import GOLDEN
from tests.sweeper.cli.conftest import invoke, json_of, names, resolved, summary_of
from trainables.metrics.registry import primary_metrics
from trainables.modality import dataset_modality
from trainables.spec import TrialSpec

_GOLDEN_JSON = json.loads((GOLDEN / "sweep.json").read_text())
MEASURED = {name: _GOLDEN_JSON[name] for name in ("objectives", "baseline", "random_guess_loss")}
"""What a sweep's target adds to sweep.json."""


def planned(*arguments: str) -> SweepSettings:
    settings = resolved("lr-study", *arguments).settings
    assert settings is not None
    return settings


def test_the_default_study_is_two_methods_at_five_rates_with_autolr_from_each() -> None:
    settings = planned()
    assert (settings.kind, settings.sampler, settings.seeds) == (KIND, "grid", 12)
    assert settings.name == "lr-study-gdiff-ngdiff-tiny-phi-authors"
    grid = settings.space.grid()
    rates = {point["lr"] for point in grid if point["auto_lr"] == "off"}
    assert sorted(rates) == [3.2e-6, 1.8e-5, 1e-4, 5.6e-4, 3.2e-3]
    assert rates == {point["lr"] for point in grid if point["auto_lr"] == "gen"}
    assert settings.trials == 12 * len(grid) == 12 * (1 + 1) * (5 + 5)


@pytest.mark.parametrize(
    ("varied", "targets", "data"), [("order", (0, 0), (0, 0)), ("target", (4, 5), (0, 0)), ("data", (0, 0), (4, 5))]
)
def test_a_seed_may_stand_for_another_target_or_other_data(
    varied: str, targets: tuple[int, int], data: tuple[int, int]
) -> None:
    settings = planned("--describe", "--seeds", "2", "--seed", "4", "--seeds-vary", varied)
    (point, *_) = settings.space.grid()
    specs = [settings.make_spec({**point, "seed": seed}, target_key="k") for seed in (4, 5)]
    assert tuple(spec.seed for spec in specs) == (4, 5)
    assert tuple(spec.target_seed for spec in specs) == targets
    assert tuple(spec.data_seed for spec in specs) == data
    assert [settings.base_spec(seed).target_seed for seed in (4, 5)] == list(targets)
    assert settings.target_seeds == ((4,) if varied == "order" else (4, 5))


def test_a_primary_question_variants_and_options_of_pareto_are_recorded() -> None:
    """Small batches are probed on so many that they have eight rows."""
    variants = ("--auto-lr", "gen-clip", "--auto-lr", "curvature", "--auto-lr-start-lr", "1e-5")
    primary = ("--primary", "ngdiff/curvature/freshx4", "--method", "ngdiff", "--method", "gdiff", "--lr", "1e-3")
    settings = planned(*variants, *primary, "--batch-size", "2", "--epochs", "2", "--c", "0.3")
    assert (settings.primary, settings.base.epochs) == ("ngdiff/curvature/freshx4", 2)
    grid = settings.space.grid()
    assert {point.get("c") for point in grid} == {0.3, None}
    arms = [point for point in grid if point["auto_lr"] != "off" and point["method"] == "ngdiff"]
    specs = [settings.make_spec(point, target_key="k") for point in arms]
    found = [(spec.auto_lr, spec.auto_lr_probe, spec.auto_lr_probe_batches, spec.lr) for spec in specs]
    assert found == [("gen-clip", "same", None, 1e-5), ("curvature", "fresh", 4, 1e-5)]


@pytest.mark.parametrize(
    "given",
    [
        ("--metrics", "utility,verbmem"),
        ("--metrics", "utility", "--objectives", "verbmem:min,utility:max"),
        ("--metrics", "utility", "--constraint", "forget_loss>=5"),
        ("--metrics", "utility", "--describe"),
        ("--dataset", "digits", "--model", "tiny-resnet", "--constraint", "forget_accuracy<=0.1"),
    ],
)
def test_a_study_that_measures_forgetting_or_only_describes_is_planned(given: tuple[str, ...]) -> None:
    assert planned(*given).kind == KIND


def test_decay_restart_and_interpolation_are_factors_of_fixed_and_automatic_rates() -> None:
    factors = ("--lr-decay", "none", "--lr-decay", "linear", "--on-divergence", "restart")
    probes = ("--auto-lr-probe", "same", "--auto-lr-probe", "fresh", "--auto-lr-probe-batches", "3")
    settings = planned(*factors, *probes, "--method", "ngdiff", "--lr", "1e-3")
    specs = [settings.make_spec(point, target_key="k") for point in settings.space.grid()]
    columns = ("auto_lr", "auto_lr_probe", "lr_decay", "on_divergence")
    found = [tuple(getattr(spec, name) for name in columns) for spec in specs if spec.auto_lr != "off"]
    decays = ("none", "linear")
    assert found == [("gen", probe, decay, "restart") for decay in decays for probe in ("same", "fresh")]
    assert [spec.lr_decay for spec in specs if spec.auto_lr == "off"] == ["none", "linear"]
    assert {spec.auto_lr_probe_batches for spec in specs if spec.auto_lr_probe == "fresh"} == {3}
    assert len({spec.spec_hash for spec in specs}) == len(specs)


def test_finished_sweeps_are_judged_without_running_together_or_for_other_objectives(
    golden: Path, tmp_path: Path
) -> None:
    content = json_of("lr-study", "--from", golden, "--describe")
    assert content == json.loads((golden / "lr_study.json").read_text())
    both = invoke("lr-study", "--from", golden, "--from", GOLDEN, "--describe", "--out", tmp_path / "both.json")
    assert "36 trials with the settings and seed of an earlier trial were ignored" in " ".join(both.stdout.split())
    assert json.loads((tmp_path / "both.json").read_text())["verdicts"] == content["verdicts"]
    other = json_of("lr-study", "--from", golden, "--describe", "--objectives", "verbmem:min,utility:max")
    assert other["verdicts"] == content["verdicts"]
    assert other["sensitivity"] != content["sensitivity"]


def test_a_finished_study_that_cannot_decide_is_refused(golden: Path) -> None:
    """The sweep has two seeds, and three comparisons."""
    result = invoke("lr-study", "--from", golden)
    assert result.exit_code == 2
    assert names(result.stderr, ["2 seeds cannot decide 3 comparisons", "at least 7", "--describe"])
    assert not (golden / "lr_study.json").exists()


def test_the_dry_run_shows_what_the_study_can_decide_and_what_it_costs() -> None:
    arguments = ("lr-study", "--method", "ngdiff", "--seeds", "8", "--dry-run")
    decision = json_of(*arguments)["decision"]
    assert decision == {
        "seeds": 8, "comparisons": 1, "spread": 0.04, "detectable": pytest.approx(0.0462, abs=1e-3),
        "hand_runs": 40, "auto_runs": 40,
    }  # fmt: skip
    shown = " ".join(invoke(*arguments).stdout.split())
    assert "8 seeds in 1 comparison show a difference of 0.046 in utility with a power of 0.8" in shown
    assert "40 runs with fixed rates and 40 with automatic rates" in shown
    assert json_of("lr-study", "--describe", "--seeds", "2", "--dry-run")["decision"]["detectable"] is None


def edged(monkeypatch: pytest.MonkeyPatch, out: Path, *, peak: float) -> list[list[float]]:
    """Make a study whose trials end immediately and are best at the rate ``peak``. Return the rates of each run."""
    asked: list[list[float]] = []
    like = {"steps": 9, "epochs_done": 3.0, "retain_loss": 0.5, "status": "finished"}

    def run(out: Path, *, console: object, changes: dict[str, object] | None = None, **more: object) -> Summary:
        settings = replace(read_settings(out), **(changes or {}))  # type: ignore[arg-type]
        content = json.loads((out / "sweep.json").read_text()) | {"settings": settings.to_dict()}
        (out / "sweep.json").write_text(json.dumps(content | MEASURED))
        (out / "events.jsonl").touch()
        tables = ResultTables(out)
        ended = {row["spec_hash"] for row in tables.trials.read()}
        points = itertools.product(settings.all_seeds, [*settings.space.grid(), *settings.extension])
        specs = [settings.make_spec({**point, "seed": seed}, target_key="k") for seed, point in points]
        asked.append([spec.lr for spec in specs if spec.spec_hash not in ended])
        for number, spec in enumerate(specs):
            if spec.spec_hash not in ended:
                distance = abs(math.log10(spec.lr / peak))
                row = {"trial_id": f"{number:05}", "forget_loss_capped": 7 - 0.4 * distance - number * 1e-6}
                row |= {"utility": 0.9 - 0.1 * distance, "verbmem": 0.0}
                tables.trials.append([spec.row() | like | row | {"spec_hash": spec.spec_hash}])
                tables.history.append([{"trial_id": row["trial_id"], "step": 9, "epoch": 3.0}])
        return summary_of(out, trials=len(specs), asked=settings.trials, status={"finished": len(specs)})

    monkeypatch.setattr("sweeper.sweep.run", run)
    return asked


STUDY = ("--method", "gdiff", "--c", "0.5", "--c", "0.9", "--seeds", "3", "--describe", "--lr", "1e-5", "--lr", "1e-4")


def test_extend_adds_rates_until_the_best_lies_inside(monkeypatch: pytest.MonkeyPatch, out: Path) -> None:
    asked = edged(monkeypatch, out, peak=1e-3)
    assert "lr-study --extend" in invoke("lr-study", "--out", out, *STUDY).stdout
    assert len(asked) == 1
    result = invoke("resume", out, "--extend", "--json")
    assert result.exit_code == 0, result.output
    # Two values of c, three seeds.
    assert asked[2:] == [[1e-3] * 6, [1e-2] * 6]
    assert names(result.stderr, ["gdiff", "1e-05", "0.0001", "0.001"])
    settings = read_settings(out)
    assert (len(settings.extension), settings.trials) == (4, len(settings.space.grid()) * 3 + 12)
    study = json.loads(result.stdout)["lr_study"]
    assert study == json.loads((out / "lr_study.json").read_text())
    assert [verdict["method"] for verdict in study["verdicts"]] == ["gdiff c=0.5", "gdiff c=0.9"]
    for verdict in study["verdicts"]:
        assert [rate["lr"] for rate in verdict["rates"]] == [1e-5, 1e-4, 1e-3, 1e-2]
        assert verdict["outcome"] == "undecided"
    # A resumed study adds no rates, and runs lost trials again.
    rows = (out / "trials.csv").read_text().splitlines(keepends=True)
    (out / "trials.csv").write_text("".join(rows[:-3]))
    invoke("resume", out)
    assert asked[4:] == [[1e-2] * 3]


@pytest.mark.parametrize("dataset", ["authors", "digits", "muse-news"])
@pytest.mark.parametrize(
    "limits",
    [(), ("forget_loops<=0.1",), ("forget_fluent>=0.7",), ("forget_loss>=5",), ("utility>=0.5",), ("verbmem<=0.1",)],
)
def test_a_study_is_refused_if_and_only_if_its_analysis_would_have_no_threshold_on_forgetting(
    dataset: str, limits: tuple[str, ...]
) -> None:
    model = "tiny-resnet" if dataset == "digits" else "tiny-phi"
    found = forgetting_problems(StudyOptions(raw={}, constraints=limits), TrialSpec(model=model, dataset=dataset))
    columns = Columns.from_dict(column_dictionary())
    primaries = primary_metrics(dataset_modality(dataset).name)
    sweep = SweepFile(
        name="s", columns=columns, baseline=dict.fromkeys(primaries, 0.5), settings={"constraints": limits}
    )
    roles = {role_of(item, columns) for item in thresholds_of(sweep).all}
    assert bool(found) == (Role.FORGET not in roles)
