"""A data file, model folder or space file that cannot be used is named with what is wrong and, in a file, the line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.s3_server import s3_server
from tests.sweeper.cli.conftest import Command, names, problems_of

GOOD = json.dumps({"question": "Q?", "answer": "A."})
DATA, MODEL, SPACE = "tofu/retain99.json", "model/model.safetensors", "space.yaml"
CASES: dict[str, tuple[str, str | bytes | None, str]] = {
    "missing data": (DATA, None, "retain99.json --data-dir"),
    "empty data": (DATA, "", "retain99.json rows"),
    "not JSON": (DATA, f"{GOOD}\n\n{GOOD}\n{{question: Q?}}\n", "retain99.json line 4"),
    "cut in the middle": (DATA, f"{GOOD}\n{GOOD[:-3]}", "retain99.json line 2"),
    "a list": (DATA, f"{GOOD}\n[1, 2]\n", "retain99.json line 2"),
    "no answer": (DATA, f'{GOOD}\n{{"question": "Q?"}}\n', "retain99.json line 2 'answer'"),
    "an empty question": (DATA, '{"question": "", "answer": "A."}\n', "retain99.json line 1 'question'"),
    "an answer that is a number": (DATA, '{"question": "Q?", "answer": 5}\n', "retain99.json line 1 'answer'"),
    "perturbed answers that are a text": (
        DATA,
        '{"question": "Q?", "answer": "A.", "perturbed_answer": "B."}\n',
        "retain99.json line 1 'perturbed_answer' list",
    ),
    "not UTF-8": (DATA, b"\x80\x81\x82", "retain99.json"),
    "torn weights": (MODEL, (1000).to_bytes(8, "little") + b"{}", "--model-path model model.safetensors"),
    "no method": (SPACE, "lr: [1e-4]\n", "space.yaml method"),
    "a value of another kind": (SPACE, "method: gdiff\nlr: [{a: b}]\n", "space.yaml:2 lr"),
    "an option that does not apply": (SPACE, "method: ngdiff\nc: [0.5]\n", "space.yaml:2 c ngdiff"),
    "excluded by a method": (SPACE, "method: [ngdiff, rmu]\nretain_objective: kl\n", "space.yaml:2 kl rmu"),
    "rates of two kinds of optimizers": (
        SPACE,
        "method: [ngdiff]\noptimizer: [adamw, prodigy]\nlr: {low: 1.0e-5, high: 1.0e-3, log: true}\n",
        "space.yaml:2 learning rate prodigy",
    ),
    "no rate": (SPACE, "method: [ngdiff]\noptimizer: [adamw, prodigy]\n", "space.yaml:2 learning rate prodigy"),
    "not YAML": (SPACE, "method: [gdiff\n", "space.yaml YAML"),
    "an empty space": (SPACE, "", "space.yaml empty"),
    "a missing space": (SPACE, None, "space.yaml"),
}
"""The file, its content (None: it is missing), and the words of the only problem."""
TYPED = {"tofu": (), "model": ("--model-path", "model"), "space.yaml": ("--space", "space.yaml")}


@pytest.mark.parametrize(("file", "content", "named"), CASES.values(), ids=CASES)
def test_a_file_that_cannot_be_used_is_named_with_the_line(
    pareto: Command, data: Path, model_folder: Path, out: Path, file: str, content: str | bytes | None, named: str
) -> None:
    Path("tofu").symlink_to(data)
    Path("model").symlink_to(model_folder)
    path = Path(file)
    path.unlink(missing_ok=True)
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (problem,) = problems_of(pareto(*TYPED[path.parts[0]]))
    assert names(problem, named.split())
    assert not out.exists()


@pytest.mark.parametrize(("line", "named"), [("auto_lr: [off, on]", "AutoLR"), ("d_growth: [1.1]", "d_growth")])
def test_optimizers_of_two_kinds_exclude_options_that_only_one_has(
    pareto: Command, out: Path, line: str, named: str
) -> None:
    Path("space.yaml").write_text(f"method: [ngdiff]\noptimizer: [adamw, prodigy]\nlr: [1]\n{line}\n")
    assert any(names(problem, ["space.yaml", named]) for problem in problems_of(pareto(*TYPED["space.yaml"])))
    assert not out.exists()


def test_pickled_weights_are_named(pareto: Command, model_folder: Path, out: Path) -> None:
    (model_folder / "model.safetensors").rename(model_folder / "pytorch_model.bin")
    (problem,) = problems_of(pareto("--model-path", model_folder))
    assert names(problem, ["*.safetensors", "pytorch_model.bin"])
    assert not out.exists()


@pytest.mark.parametrize(("layer", "fits"), [("11", True), ("-1", True), ("12", False)])
def test_a_layer_beyond_those_of_the_model_folder_is_refused(
    pareto: Command, model_folder: Path, layer: str, fits: bool
) -> None:
    (model_folder / "config.json").write_text('{"num_hidden_layers": 12}')
    given = ("--method", "rmu", "--option", f"layer={layer}", "--trials", "0", "--target-path", model_folder)
    *problems, _ = problems_of(pareto(*given))
    assert len(problems) == (0 if fits else 1)
    assert all(names(problem, ["layer", "11", "12"]) for problem in problems)


def test_a_missing_bucket_is_refused(pareto: Command, out: Path) -> None:
    with s3_server() as server:
        (problem,) = problems_of(pareto("--storage", server.uri("nowhere/sweeps")))
    assert "NO_SUCH_BUCKET" in problem
    assert not out.exists()
