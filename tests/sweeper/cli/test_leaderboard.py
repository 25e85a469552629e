"""The command ``leaderboard``: what is refused before work, the plan, and the ranks of stored rows."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pandas as pd
import pytest

from analysis.leaderboard.board import Board, boards
from analysis.leaderboard.cell import COLUMNS, cell_row
from search_spaces.common.durable import exclusive, wait_for_lock
from sweeper.api import Sweep
from sweeper.execution.cluster import Cluster
from sweeper.leaderboard import ROW, checked_settings, collect_cells, plan_of_board, run_cells, update_board
from sweeper.settings.options import LeaderboardOptions
from sweeper.settings.sources import Problems, from_python
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.folder import begin
from tests.sweeper.cli.conftest import invoke, json_of, refused

BOARD = ("--method", "gdiff", "--method", "ngdiff", "--problem", "tiny-phi:authors", "--seeds", 2, "--out", "board")
BUDGET = ("--epochs", 6, "--epoch-budget", 24)


def message(*arguments: object) -> str:
    """Return all messages of a refused command."""
    return "\n".join(refused(*arguments))


def test_a_leaderboard_without_a_budget_is_refused() -> None:
    refusal = message("leaderboard", *BOARD)
    assert "give --epoch-budget N, the number of epochs after which the search of each cell starts no new" in refusal


def test_all_problems_are_reported_together() -> None:
    words = ("--method", "gdfif", "--problem", "tiny-phi:authors", "--seed", 3, "--lr", -1)
    text = message("leaderboard", *words)
    for expected in ("--epoch-budget", "--out", "unknown method 'gdfif'", "--seed cannot be used", "lr must be"):
        assert expected in text, expected


@pytest.mark.parametrize("problem", ["authors", "tiny-phi:", "a:b:c:d"])
def test_a_problem_names_a_model_and_a_data_set(problem: str) -> None:
    text = message("leaderboard", "--method", "gdiff", "--problem", problem, *BUDGET, "--out", "board")
    assert f"--problem {problem}: expected MODEL:DATASET" in text


def test_the_dry_run_states_the_cells_and_their_cost() -> None:
    plan = json_of("leaderboard", *BOARD, *BUDGET, "--dry-run")
    assert {name: plan[name] for name in ("cells", "epochs", "targets", "fresh_runs")} == {
        "cells": 4,
        "epochs": 4 * 24,
        "targets": 4,  # two training seeds, and a fresh one for each
        "fresh_runs": 4,
    }
    assert not Path("board").exists()


def settings_of(**options: Any) -> Any:
    values = {"method": ["gdiff"], "problem": "tiny-phi:authors", "epoch_budget": 24, "out": "board"}
    return checked_settings(from_python(LeaderboardOptions, values | options), [])


def test_data_dir_is_for_the_problems_whose_data_need_files(tmp_path: Path) -> None:
    for name, count in {"forget": 4, "retain": 8, "retain_eval": 4}.items():
        rows = [
            {"question": f"Who wrote book {row}{name[0]}?", "answer": f"Author {row}{name[0]}."} for row in range(count)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    cells = settings_of(problem=["tiny-phi:authors", "tiny-phi:jsonl"], data_dir=str(tmp_path), seeds=1)
    assert {job.dataset: cell.base.data_dir for job, cell in cells.items()} == {"authors": None, "jsonl": str(tmp_path)}


def test_data_dir_without_a_problem_that_needs_it_is_refused(tmp_path: Path) -> None:
    assert "--data-dir does not apply to data set authors" in message(
        "leaderboard", *BOARD, *BUDGET, "--data-dir", tmp_path
    )


def test_a_malformed_problem_is_reported_together_with_unknown_names() -> None:
    names = ("--method", "ngdif", "--problem", "tiny-phi:autors", "--problem", "a:b:c:d")
    text = message("leaderboard", *names, "--epoch-budget", 0)
    expected = ("'ngdif'", "'autors'", "a:b:c:d", "--out", "--epoch-budget must be at least 1, got 0")
    assert [name in text for name in expected] == [True] * len(expected)
    assert [name in text for name in ("give --epoch-budget N", "--trials")] == [False, False]


def test_a_method_can_name_its_update() -> None:
    cells = settings_of(method=["ngdiff", "ngdiff:sam"], seeds=1)
    assert {job.method: (cell.methods, cell.base.update) for job, cell in cells.items()} == {
        "ngdiff": (("ngdiff",), "plain"),
        "ngdiff:sam": (("ngdiff",), "sam"),
    }
    folders = [job.folder(Path("board")).relative_to("board").as_posix() for job in cells]
    assert folders == ["cells/tiny-phi-authors/ngdiff/seed-0", "cells/tiny-phi-authors/ngdiff-sam/seed-0"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--method", "ngdiff:"), "--method ngdiff:: expected METHOD or METHOD:UPDATE"),
        (("--method", "ngdiff:sam:sign"), "expected METHOD or METHOD:UPDATE"),
        (("--method", "ngdiff:sma"), "unknown update 'sma'"),
        (("--method", "ngdiff:sam", "--update", "sign"), "--method ngdiff:sam names its update, so --update cannot"),
    ],
)
def test_an_update_that_cannot_be_used_is_refused(words: tuple[str, ...], expected: str) -> None:
    refusal = message("leaderboard", *words, "--problem", "tiny-phi:authors", *BUDGET, "--out", "board")
    assert expected in refusal


def test_no_two_cells_of_a_method_share_a_training_seed() -> None:
    seeds = [seed for cell in settings_of(seeds=3, confirm=2).values() for seed in cell.target_seeds]
    assert seeds == list(range(9))


def test_every_cell_has_the_stated_budget_and_the_given_options() -> None:
    for job, cell in settings_of(seeds=2, epochs=6, attacks="quantize").items():
        assert (cell.epoch_budget, cell.base.epochs, cell.attack_names) == (24, 6, ("quantize",))
        assert cell.trials == 24, "each trial trains at least one epoch, so only the budget ends the search"
        assert (cell.base.interpolate, cell.seed, cell.base.seed) == ("on", job.seed, job.seed)


def write_rows(out: Path) -> None:
    for method, success in (("good", 1.0), ("bad", 0.0)):
        for seed in range(0, 12, 2):
            row = dict.fromkeys(COLUMNS, "") | {"method": method, "model": "m", "dataset": "d", "seed": seed}
            row |= {"epoch_budget": 24, "epochs": 26.0, "trials": 6, "success": success, "fresh_runs": 1}
            row |= {"fresh_met": int(success), "hypervolume": success, "hypervolume_after_attack": None}
            row |= {"equal_retention": success, "seconds": 30.0}
            folder = out / "cells" / "m-d" / method / f"seed-{seed}"
            folder.mkdir(parents=True)
            (folder / ROW).write_text(json.dumps(row))


def test_the_board_of_stored_rows_is_the_board_of_the_cells(tmp_path: Path) -> None:
    write_rows(tmp_path)
    collect_cells(tmp_path).to_csv("cells.csv.xz", index=False)
    (board,) = json_of("leaderboard", "--from", "cells.csv.xz")
    assert [(row["method"], row["success"], row["success_rank_low"]) for row in board["rows"]] == [
        ("good", 1.0, 1),
        ("bad", 0.0, 2),
    ]
    assert board["missing"] == ["hypervolume_after_attack"]


def test_of_two_processes_that_write_the_board_the_last_one_knows_all_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rows(tmp_path)
    last = tmp_path / "cells" / "m-d" / "good" / "seed-8" / ROW
    content = last.read_text()
    last.unlink()
    goes_on = threading.Event()

    def write_with_the_last_cell() -> None:
        update_board(tmp_path)
        goes_on.set()

    other = threading.Thread(target=write_with_the_last_cell)

    def rank_while_the_last_cell_ends(cells: pd.DataFrame) -> list[Board]:
        if not last.exists():
            last.write_text(content)
            other.start()
            goes_on.wait()
        return boards(cells)

    monkeypatch.setattr("sweeper.leaderboard.boards", rank_while_the_last_cell_ends)
    monkeypatch.setattr("sweeper.leaderboard.wait_for_lock", lambda lock, _: wait_for_lock(lock, goes_on.set))
    update_board(tmp_path)
    other.join()
    assert len(pd.read_csv(tmp_path / "cells.csv")) == 12


def test_from_writes_the_files_of_a_leaderboard_and_prints_its_table(tmp_path: Path) -> None:
    write_rows(tmp_path)
    collect_cells(tmp_path).to_csv("cells.csv", index=False)
    result = invoke("leaderboard", "--from", "cells.csv", "--out", "ranked")
    assert result.exit_code == 0, result.output
    assert result.stdout == Path("ranked/leaderboard.md").read_text()
    assert Path("ranked/cells.csv").read_text() == Path("cells.csv").read_text()


def test_from_does_not_accept_the_options_of_new_cells() -> None:
    assert "--method, --seeds: --from ranks stored rows" in message(
        "leaderboard", "--from", "cells.csv", "--method", "gdiff", "--seeds", 3
    )


@pytest.fixture
def runs(golden: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders of the sweeps that ran. Each sweep has the tables of a real one."""
    folders: list[Path] = []

    def run(sweep: Sweep, *, cluster: Cluster) -> Mock:
        folders.append(sweep.out)
        shutil.copytree(golden, sweep.out, dirs_exist_ok=True)
        return Mock(is_incomplete=False, unmeasured=1)

    monkeypatch.setattr(Sweep, "run", run)
    return folders


def test_only_the_missing_cells_run_and_an_unfinished_one_is_resumed(runs: list[Path]) -> None:
    settings, out = settings_of(seeds=2), Path("board")
    first, second = settings
    begin(settings[second], second.folder(out))  # interrupted before it had a result
    assert [(job, state) for job, state in run_cells(settings, out)] == [(first, "done"), (second, "done")]
    assert runs == [first.folder(out), second.folder(out)]
    assert collect_cells(out)["unmeasured"].tolist() == [1, 1]
    assert list(run_cells(settings, out)) == []
    (first.folder(out) / ROW).unlink()
    assert [job for job, _ in run_cells(settings, out)] == [first]
    assert plan_of_board(settings, out).missing == ()


def test_a_cell_that_another_process_runs_is_skipped(runs: list[Path]) -> None:
    settings, out = settings_of(seeds=1), Path("board")
    (job,) = settings
    begin(settings[job], job.folder(out))
    with exclusive(job.folder(out), AssertionError("the folder is locked")):
        assert list(run_cells(settings, out)) == [(job, "running")]
    assert runs == []


def test_a_cell_that_another_process_is_about_to_begin_is_skipped(
    runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, out = settings_of(seeds=1), Path("board")
    others = []

    def begin_while_another_leaderboard_starts(cell: SweepSettings, folder: Path) -> None:
        others.extend(run_cells(settings, out))
        begin(cell, folder)

    monkeypatch.setattr("sweeper.leaderboard.begin", begin_while_another_leaderboard_starts)
    (job,) = settings
    assert list(run_cells(settings, out)) == [(job, "done")]
    assert others == [(job, "running")]
    assert runs == [job.folder(out)]


def test_a_cell_whose_trials_lack_results_has_no_row_and_is_continued(
    runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, out = settings_of(seeds=1), Path("board")
    (job,) = settings
    with monkeypatch.context() as patch:
        patch.setattr(Sweep, "run", lambda sweep, *, cluster: Mock(is_incomplete=True))
        assert list(run_cells(settings, out)) == [(job, "incomplete")]
    assert plan_of_board(settings, out).missing == (job,)
    assert collect_cells(out).empty
    assert list(run_cells(settings, out)) == [(job, "done")]


def test_cells_share_a_cluster_until_one_is_incomplete_or_is_placed_in_another_way(
    golden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(seeds=4)
    last = list(settings)[-1]
    settings[last] = replace(settings[last], cpus_per_trial=2.0)
    used: list[tuple[Cluster, int]] = []
    closed: list[Cluster] = []

    def run(sweep: Sweep, *, cluster: Cluster) -> Mock:
        shutil.copytree(golden, sweep.out, dirs_exist_ok=True)
        used.append((cluster, len(closed)))
        return Mock(is_incomplete=len(used) == 2, unmeasured=0)

    monkeypatch.setattr(Sweep, "run", run)
    monkeypatch.setattr(Cluster, "close", lambda cluster: closed.append(cluster))
    assert [state for _, state in run_cells(settings, Path("board"))] == ["done", "incomplete", "done", "done"]
    first, second, third, fourth = (cluster for cluster, _ in used)
    assert first is second
    assert len({first, third, fourth}) == 3
    assert [count for _, count in used] == [0, 0, 1, 2], "a cluster is shut down before the next one starts"
    assert closed == [first, third, fourth]


def test_cells_with_other_settings_are_refused_and_only_the_place_of_trials_may_change() -> None:
    out = Path("board")
    for job, cell in settings_of(seeds=1).items():
        begin(cell, job.folder(out))
    settings_of(seeds=2, method=["gdiff", "ngdiff"], max_concurrent=1)
    for change, words in (
        ({"epoch_budget": 48}, "epoch_budget was 24, and is now 48"),
        ({"epochs": 6}, "epochs was 15, and is now 6"),
        ({"attacks": "quantize"}, "attacks was none, and is now quantize"),
    ):
        with pytest.raises(Problems, match=words):
            settings_of(seeds=2, **change)


def test_cells_with_another_version_of_a_plug_in_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def use(**digests: str) -> None:
        records = [{"name": f"{name}.py", "digest": digest} for name, digest in digests.items()]
        for module in ("sweeper.store.folder", "sweeper.leaderboard"):
            monkeypatch.setattr(f"{module}.plugin_records", lambda: records)

    use(mine="1")
    for job, cell in settings_of(seeds=1).items():
        begin(cell, job.folder(Path("board")))
    use(mine="1", further="1")
    settings_of(seeds=2)
    use(mine="2")
    with pytest.raises(Problems, match=r"plug-in mine\.py was 1, and is now 2"):
        settings_of(seeds=2)


def test_the_cells_can_have_a_metric_of_a_plug_in(tmp_path: Path) -> None:
    text = "measure=lambda scores: 0.0"
    fields = f'name="mine", label="mine", formula="0", citation="me", cost=Cost.GENERATION, direction="min", {text}'
    plugin = tmp_path / "plugin.py"
    plugin.write_text(f"from trainables.metrics.metric import Cost, Metric\n\nMETRICS = (Metric({fields}),)\n")
    words = [*BOARD, *BUDGET, "--plugin", plugin, "--metrics", "default,mine", "--dry-run", "--json"]
    command = [sys.executable, "-m", "sweeper", "leaderboard", *map(str, words)]  # plug-ins need a new process
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["cells"] == 4


def test_the_row_of_a_cell_has_the_hypervolume_of_its_measured_models(golden: Path) -> None:
    row = cell_row(golden)
    assert (row["axes"], row["outcome"], row["success"]) == ("verbmem utility", "missed", 0.0)
    trials = pd.read_csv(golden / "trials.csv")
    points = trials.loc[trials["status"] == "finished", ["verbmem", "utility"]].dropna().sort_values("verbmem")
    area, best = 0.0, 0.0
    for verbmem, utility in points.itertuples(index=False):  # the dominated area, one strip for each better utility
        area += max(0.0, utility - best) * (1.0 - verbmem)
        best = max(best, utility)
    assert row["hypervolume"] == pytest.approx(area, abs=1e-9)
    assert math.isnan(float(str(row["hypervolume_after_attack"]))), "the sweep has no attacks"
