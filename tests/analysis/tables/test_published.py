"""Result files of other projects become rows, and what this project writes for them can be read again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scipy.stats import hmean

from analysis.errors import AnalysisError
from analysis.tables.columns import Columns
from analysis.tables.external import read_external
from analysis.tables.published import aggregate, leaderboard_row, published_rows
from search_spaces.common.objective import Objective

DEPTH = Path(__file__).parents[2] / "data/method_results.json"
"""Three rows of method_results.json of gnueaj/unlearning-depth-score (Apache-2.0, commit fc316398)."""
BOARD = """### TOFU unlearning on the `Llama-2-7b-hf-chat` architecture

<table><thead>
<tr><th>Method</th><th colspan="2" halign="left">forget10</th></tr>
<tr><th></th><th>forget_quality</th><th>model_utility</th></tr>
</thead><tbody>
<tr><th>Finetuned</th><td>4.35e-25</td><td>0.63</td></tr>
<tr><th>Retain</th><td>1.0</td><td>0.61</td></tr>
<tr><td colspan="20"> </td></tr>
NEW
</tbody></table>
"""
MUSE = """### MUSE unlearning

<table>
<tr><th>Method</th><th colspan="2">News</th><th colspan="2">Books</th></tr>
<tr><th></th><th>forget_knowmem_ROUGE</th><th>privleak</th><th>forget_knowmem_ROUGE</th><th>privleak</th></tr>
<tr><th>Finetuned</th><td>0.64</td><td>-99.81</td><td>0.47</td><td>-57.34</td></tr>
</table>
"""


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_the_published_aggregate_of_each_model_can_be_recomputed_from_its_parts() -> None:
    rows = published_rows(DEPTH)
    recomputed = rows["overall_recomputed"].astype(float).tolist()
    assert recomputed == pytest.approx(rows["published_overall"].astype(float).tolist(), abs=1e-10)


def test_a_sweep_of_another_project_has_its_target_and_a_method_for_each_configuration() -> None:
    objectives = (
        Objective(name="exact_memorization", column="exact_memorization", direction="min", low=0.0, high=1.0),
        Objective(name="model_utility", column="model_utility", direction="max", low=0.0, high=1.0),
    )
    table, target = read_external(DEPTH, Columns(), sweep="uds", objectives=objectives)
    assert table.trials[["method", "lr"]].values.tolist() == [["npo_b01_a2_ep5", 2e-5], ["undial_b10_a2_ep10", 1e-5]]
    assert target["exact_memorization"] == pytest.approx(1.0 - 0.03189577773213381)
    assert target["published_utility"] == 0.7117632523209635, "their utility is not this project's"
    assert target["utility"] == 0.7723959023847817, "ROUGE-L recall on the retain set"


def test_the_aggregate_is_the_harmonic_mean_of_its_three_parts(tmp_path: Path) -> None:
    parts = {"extraction_strength": 0.25, "exact_memorization": 0.5, "model_utility": 0.6}
    expected = hmean([0.75, 0.5, 0.6])
    assert aggregate(**parts) == pytest.approx(expected)
    content = {name: {"agg_value": value} for name, value in parts.items()}
    rows = published_rows(write(tmp_path / "NPO/TOFU_EVAL.json", content))
    assert float(rows["aggregate"].iloc[0]) == pytest.approx(expected)


def test_the_aggregate_is_0_if_a_part_is_0_and_absent_if_a_part_is(tmp_path: Path) -> None:
    assert aggregate(extraction_strength=1.0, exact_memorization=0.5, model_utility=0.6) == 0.0
    rows = published_rows(write(tmp_path / "NPO/TOFU_SUMMARY.json", {"model_utility": 0.6}))
    assert "aggregate" not in rows


@pytest.mark.parametrize("as_summary", [False, True])
def test_the_evaluation_of_one_model_is_a_row_named_after_its_folder(tmp_path: Path, as_summary: bool) -> None:
    values = {"forget_Q_A_ROUGE": 0.5, "retain_Q_A_Prob": 0.9, "ra_Q_A_ROUGE": 0.4, "forget_quality": 1e-5}
    content = values if as_summary else {name: {"agg_value": value} for name, value in values.items()}
    (row,) = published_rows(write(tmp_path / "NPO_lr1/TOFU.json", content)).to_dict("records")
    assert (row["method"], row["verbmem"], row["retain_probability"]) == ("NPO_lr1", "0.5", "0.9")
    assert (row["published_ra_Q_A_ROUGE"], row["forget_quality"]) == ("0.4", "1e-05")


def test_a_row_that_is_written_for_the_leaderboard_is_read_again(tmp_path: Path) -> None:
    new = leaderboard_row("ngdiff", forget_quality=0.0123, model_utility=0.58)
    table, target = read_external(write(tmp_path / "board.md", BOARD.replace("NEW", new)), Columns(), sweep="board")
    assert table.trials["method"].tolist() == ["Retain", "ngdiff"]
    assert table.trials.loc[1, ["forget_quality", "model_utility"]].tolist() == [0.0123, 0.58]
    assert table.trials.loc[1, ["model", "dataset", "forget_split"]].tolist() == [
        "Llama-2-7b-hf-chat",
        "tofu",
        "forget10",
    ]
    assert target == {"forget_quality": 4.35e-25, "model_utility": 0.63}


def test_each_group_of_columns_of_the_leaderboard_is_a_problem(tmp_path: Path) -> None:
    rows = published_rows(write(tmp_path / "board.md", MUSE))
    assert rows["dataset"].tolist() == ["muse-news", "muse-books"]
    assert rows["published_privleak"].tolist() == ["-99.81", "-57.34"]
    assert rows["method"].tolist() == ["Finetuned", "Finetuned"], "there are two problems, so no row is the target"


def test_a_table_of_wmdp_is_not_one_of_muse(tmp_path: Path) -> None:
    heads = '<th>Method</th><th colspan="2">Cyber Split</th></tr><tr><th></th><th>wmdp_cyber_accuracy</th><th>mmlu</th>'
    rows = "".join(
        f"<tr><th>{name}</th><td>{value}</td><td>0.8</td></tr>"
        for name, value in (("Base Model (No Unlearning)", 0.75), ("RMU", 0.5))
    )
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    text = f"### WMDP (Cyber) on the `Qwen` architecture\n{table}\n"
    found = published_rows(write(tmp_path / "board.md", text))
    assert found["dataset"].tolist() == ["wmdp-cyber"] * 2
    assert found["method"].tolist() == ["target", "RMU"]


@pytest.mark.parametrize(("name", "content"), [("a.json", {"x": 1}), ("a.json", "{"), ("a.md", "# nothing")])
def test_an_unknown_file_is_refused_with_the_known_formats(tmp_path: Path, name: str, content: object) -> None:
    with pytest.raises(AnalysisError, match=r"a\.(json|md)"):
        published_rows(write(tmp_path / name, content))
