"""The comparison with NePS and OptunaHub proposes the table's configurations and pairs the searches by their seed."""

from pathlib import Path

import pytest
from anchor_replay import DEFAULT, config_of, print_results
from replay import read_tables

DATA = Path(__file__).parents[1] / "docs/data/tabulated_authors.csv.xz"


@pytest.mark.parametrize(("method", "expected"), [("gdiff", {"c": 0.9}), ("pcgrad", {})])
def test_a_proposal_has_c_only_if_its_method_has_c(method: str, expected: dict[str, float]) -> None:
    space = read_tables(DATA)[0].space
    config = config_of(space, {"method": method, "c": 0.1, "lr": 1e-3, "epoch": 4})
    assert config == {"method": method, "lr": 1e-3, **expected}


def test_searches_are_paired_by_table_and_seed(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"problem": "authors", "table_seed": "5", "arm": arm, "seed": str(seed), "share": "0.1", "epsilon": "0.1"}
        | {"hypervolume": str(0.5 + 0.1 * seed + gain + noise * (seed % 2))}
        for arm, gain, noise in ((DEFAULT, 0.0, 0.0), ("NePS moasha", -0.02, 0.001), ("random + moasha", 0.0, 0.0))
        for seed in range(4)
    ]
    rows += [rows[-1] | {"seed": "9"}]  # without a search of the default
    print_results(rows, share=0.1)
    lines = {line.split(" | ")[0].strip("| "): line for line in capsys.readouterr().out.splitlines()}
    assert "-0.0195 [-0.0204, -0.0186]" in lines["NePS moasha"]
    assert lines["NePS moasha"].endswith("| worse |")
    assert "+0.0000 [+0.0000, +0.0000]" in lines["random + moasha"]
    assert lines["random + moasha"].endswith("| tie |")
