"""One option that is wrong is refused in plain words, before anything starts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.sweeper.commands.conftest import invoke, problems_of

WRONG_SPEC: dict[str, tuple[list[str], list[str]]] = {
    "unknown method": (["--method", "nonsense"], ["unknown method 'nonsense'", "gdiff", "ngdiff"]),
    "unknown weighting": (["--method", "npo+nonsense"], ["unknown weighting 'nonsense'"]),
    "pair without sense": (["--method", "npo+gd"], ["'npo+gd' makes no sense", "'gd'"]),
    "c above 1": (["--c", "1.5"], ["c must be in [0, 1], got 1.5"]),
    "c below 0": (["--c", "-0.1"], ["c must be in [0, 1], got -0.1"]),
    "c not a number": (["--c", "nan"], ["c must be in [0, 1], got nan"]),
    "c not even a word of numbers": (["--c", "half"], ["--c must be a number, got 'half'"]),
    "c for a method without": (["--method", "ngdiff", "--c", "0.5"], ["option c does not apply to", "ngdiff"]),
    "lr zero": (["--lr", "0"], ["lr must be", "greater than 0, got 0"]),
    "lr negative": (["--lr", "-1e-4"], ["lr must be", "greater than 0, got -0.0001"]),
    "lr infinite": (["--lr", "inf"], ["lr must be a finite number", "got inf"]),
    "lr NaN": (["--lr", "nan"], ["lr must be a finite number", "got nan"]),
    "lr a word": (["--lr", "fast"], ["--lr must be a number, got 'fast'"]),
    "epochs zero": (["--epochs", "0"], ["epochs must be at least 1, got 0"]),
    "epochs a fraction": (["--epochs", "1.5"], ["--epochs must be a whole number, got '1.5'"]),
    "max steps": (["--max-steps", "0"], ["max_steps must be at least 1, got 0"]),
    "batch size": (["--batch-size", "-8"], ["batch_size must be at least 1, got -8"]),
    "max length": (["--max-length", "2"], ["max_length must be at least 8 tokens, got 2"]),
    "optimizer": (["--optimizer", "lion"], ["unknown optimizer 'lion'", "adamw, sgd"]),
    "momentum with adamw": (["--momentum", "0.9"], ["momentum applies to optimizer sgd only"]),
    "momentum above one": (["--optimizer", "sgd", "--momentum", "2"], ["momentum must be in [0, 1], got 2"]),
    "weight decay": (["--weight-decay", "-1"], ["weight_decay must be", "at least 0, got -1"]),
    "clipping": (["--max-grad-norm", "0"], ["max_grad_norm must be a finite number greater than 0, got 0"]),
    "dtype": (["--dtype", "fp16"], ["unknown dtype 'fp16'", "fp32, bf16"]),
    "weight scale": (["--weight-scale", "big"], ["unknown weight_scale 'big'"]),
    "retain objective": (["--retain-objective", "mse"], ["unknown retain_objective 'mse'", "ce, kl"]),
    "KL with RMU": (
        ["--method", "rmu", "--retain-objective", "kl"],
        ["retain_objective kl does not go with method 'rmu'", "leave it at ce"],
    ),
    "KL that nothing looks at": (
        ["--method", "npo", "--retain-objective", "kl"],
        ["retain_objective kl makes no sense with method 'npo'", "npo+ngdiff"],
    ),
    "RMU's layer negative": (["--method", "rmu", "--option", "layer=-2"], ["layer must be in [-1, 1000], got -2"]),
    "RMU's layer half": (["--method", "rmu", "--option", "layer=1.5"], ["layer must be a whole number, got 1.5"]),
    "auto lr": (["--auto-lr", "maybe"], ["unknown auto_lr 'maybe'"]),
    "auto lr smoothing": (["--auto-lr-smoothing", "x"], ["unknown auto_lr_smoothing 'x'"]),
    "auto lr never": (["--auto-lr", "on", "--auto-lr-every", "0"], ["auto_lr_every must be at least 1, got 0"]),
    "auto lr start": (["--auto-lr", "on", "--auto-lr-start", "0"], ["auto_lr_start must be at least 1, got 0"]),
    "auto lr's options without it": (["--auto-lr-every", "5"], ["--auto-lr-every has no effect: AutoLR is off", "on"]),
    "lora rank": (["--lora-rank", "-1"], ["lora_rank must be at least 1, got -1"]),
    "target lora rank": (["--target-lora-rank", "-1"], ["target_lora_rank must be at least 0", "got -1"]),
    "an option nobody has": (["--option", "warmth=1"], ["option warmth does not apply to"]),
    "an option another has": (["--method", "gdiff", "--option", "beta=0.1"], ["option beta does not apply to"]),
    "an option without a value": (["--option", "c"], ["--option must be NAME=VALUE with a number, got 'c'"]),
    "an option without a name": (["--option", "=3"], ["--option must be NAME=VALUE, got '=3', which has no name"]),
    "an option with a word": (["--option", "c=high"], ["--option must be NAME=VALUE with a number, got 'c=high'"]),
    "an option out of range": (["--option", "c=7"], ["c must be in [0, 1], got 7"]),
    "seed a word": (["--seed", "lucky"], ["--seed must be a whole number, got 'lucky'"]),
    "seed negative": (["--seed", "-1"], ["seed must be", "got -1"]),
    "seed beyond what generators take": (["--seed", str(2**40)], ["seed must be", str(2**40)]),
    "unknown model": (["--model", "gpt-9"], ["unknown model 'gpt-9'", "tiny-phi", "--model-path"]),
    "unknown data set": (["--dataset", "books"], ["unknown dataset 'books'", "authors", "tofu"]),
    "unknown split": (["--forget-split", "forget99"], ["'forget99'", "forget01, forget05, forget10"]),
    "less than one author": (["--limit", "5"], ["--limit 5 keeps no whole author", "20"]),
    "a limit of nothing": (["--limit", "0"], ["limit must be at least 1, got 0"]),
    "no such model folder": (["--model-path", "/nowhere"], ["--model-path /nowhere: no such folder"]),
    "no such target folder": (["--target-path", "/nowhere"], ["--target-path /nowhere: no such folder"]),
}
WRONG_SWEEP: dict[str, tuple[list[str], list[str]]] = {
    "no trials": (["--trials", "0"], ["trials must be at least 1, got 0"]),
    "negative trials": (["--trials", "-2"], ["trials must be at least 1, got -2"]),
    "trials a fraction": (["--trials", "2.5"], ["--trials must be a whole number, got '2.5'"]),
    "no seeds": (["--seeds", "0"], ["seeds must be at least 1, got 0"]),
    "KL with one of several": (
        ["--method", "ngdiff", "--method", "rmu", "--retain-objective", "kl"],
        ["retain_objective kl does not go with method 'rmu'"],
    ),
    "scheduler": (["--scheduler", "magic"], ["unknown scheduler 'magic'", "none, moasha"]),
    "grace": (["--scheduler", "moasha", "--grace", "5", "--epochs", "5"], ["--grace 5", "5 epochs", "below --epochs"]),
    "no grace": (["--scheduler", "moasha", "--grace", "0"], ["--grace must be at least 1 epoch, got 0"]),
    "grace between evaluations": (
        ["--scheduler", "moasha", "--grace", "3", "--eval-every", "2"],
        ["--grace 3", "--eval-every 2", "a multiple of 2"],
    ),
    "reduction": (["--scheduler", "moasha", "--reduction", "1"], ["--reduction must be at least 2, got 1"]),
    "stopping": (["--scheduler", "moasha", "--stopping", "nap"], ["unknown stopping 'nap'", "stop, pause"]),
    "no scheduler": (
        ["--scheduler", "none", "--grace", "2", "--stopping", "pause"],
        ["--grace, --stopping", "--scheduler moasha"],
    ),
    "no scheduler with a grid": (["--sampler", "grid", "--grace", "2"], ["--grace", "--scheduler moasha"]),
    "sampler": (["--sampler", "magic"], ["unknown sampler 'magic'", "tpe, nsga2, nsga3, gp, qmc, random, grid"]),
    "unknown objective": (["--objectives", "speed:max,utility:max"], ["unknown objective 'speed'", "forget_loss"]),
    "objective without direction": (["--objectives", "verbmem,utility:max"], ["verbmem:min or verbmem:max"]),
    "one objective": (["--objectives", "utility:max"], ["at least two objectives"]),
    "no concurrency": (["--max-concurrent", "0"], ["max-concurrent must be at least 1, got 0"]),
    "no CPU": (["--cpus-per-trial", "0"], ["cpus-per-trial must be greater than 0, got 0"]),
    "CPUs NaN": (["--cpus-per-trial", "nan"], ["cpus-per-trial must be greater than 0, got nan"]),
    "negative GPUs": (["--gpus-per-trial", "-1"], ["gpus-per-trial must be", "got -1"]),
    "one GPU and a half": (["--gpus-per-trial", "1.5"], ["gpus-per-trial must be", "got 1.5"]),
    "two GPUs": (["--gpus-per-trial", "2"], ["gpus-per-trial must be", "got 2: a trial uses one GPU"]),
    "GPUs in words": (["--gpus-per-trial", "all"], ["gpus-per-trial must be a number or auto, got 'all'"]),
    "GPUs NaN": (["--gpus-per-trial", "nan"], ["gpus-per-trial must be", "got nan"]),
    "GPUs infinite": (["--gpus-per-trial", "inf"], ["gpus-per-trial must be", "got inf"]),
    "more CPUs than there are": (["--cpus-per-trial", "9999"], ["9999 CPUs", f"{os.cpu_count()} CPUs", "lower --cpus"]),
    "no time": (["--time-budget", "0"], ["time-budget must be greater than 0 seconds, got 0"]),
    "no epochs": (["--epoch-budget", "0"], ["epoch-budget must be at least 1, got 0"]),
    "epochs a word": (["--epoch-budget", "few"], ["--epoch-budget must be a whole number, got 'few'"]),
    "until never": (["--until", "done"], ["--until 'done'", "such as plateau:10:0.001"]),
    "until after no trial": (["--until", "plateau:0"], ["--until 'plateau:0'"]),
    "layer too deep": (["--method", "rmu", "--option", "layer=99"], ["layer must be from 0 to 3", "got 99"]),
    "constraint malformed": (["--constraint", "utility=0.7"], ["constraint 'utility=0.7'", "such as utility>=0.7"]),
    "constraints that no value meets": (
        ["--constraint", "verbmem<=0.1", "--constraint", "verbmem>=0.5"],
        ["verbmem>=0.5 and verbmem<=0.1 contradict each other"],
    ),
    "constraint on nothing": (["--constraint", "speed>=1"], ["unknown metric 'speed'", "utility"]),
    "constraint not measured": (
        ["--constraint", "mia_loss<=0.6"],
        ["mia_loss is not measured: add it with --metrics default,mia_loss"],
    ),
    "constraint beside the chosen metrics": (
        ["--metrics", "verbmem", "--constraint", "utility>=70%"],
        ["utility is not measured: add it with --metrics verbmem,utility"],
    ),
    "point malformed": (["--enqueue", "lr=1e-4,c"], ["--enqueue lr=1e-4,c: expected NAME=VALUE"]),
    "point from no file": (["--enqueue", "points.yaml"], ["--enqueue points.yaml: points.yaml: no such file"]),
    "point out of range": (["--enqueue", "lr=7"], ["--enqueue lr=7: lr cannot be 7: the space has 1e-05 to 0.001"]),
    "point of another method": (["--enqueue", "method=npo"], ["method cannot be npo: the space has gdiff, ngdiff"]),
    "point of nothing": (["--enqueue", "warmth=1"], ["the space has no warmth: it searches method, lr, c"]),
    "more points than trials": (
        ["--trials", "3", "--seeds", "2", "--enqueue", "lr=1e-4", "--enqueue", "lr=2e-4"],
        ["--enqueue has 2 points, 4 runs with all seeds: more than --trials 3"],
    ),
    "points before a grid": (
        ["--sampler", "grid", "--method", "ngdiff", "--lr", "1e-4", "--enqueue", "lr=1e-4"],
        ["--enqueue: a grid search visits every point"],
    ),
    "warm start from nothing": (["--warm-start", "nowhere"], ["--warm-start nowhere: nowhere holds no sweep"]),
    "reuse of nothing": (["--reuse", "nowhere"], ["--reuse nowhere: nowhere holds no sweep"]),
    "warm start of what does not learn": (
        ["--sampler", "qmc", "--warm-start", "nowhere"],
        ["the sampler qmc does not learn from trials; use one of tpe, nsga2, nsga3, gp"],
    ),
    "a grid over a range": (["--sampler", "grid"], ["--sampler grid", "lr", "list the values"]),
    "more trials than the grid has": (
        ["--sampler", "grid", "--method", "ngdiff", "--lr", "1e-4", "--lr", "1e-5", "--trials", "3"],
        ["--trials 3 is more than the grid has: 2"],
    ),
    "tracking in a folder": (["--tracking-uri", "./mlruns"], ["'./mlruns' is a folder", "sqlite:///mlflow.db"]),
    "tracking nowhere": (["--tracking-uri", "ftp://host"], ["unknown scheme 'ftp'"]),
}


@pytest.mark.parametrize(("arguments", "said"), WRONG_SPEC.values(), ids=WRONG_SPEC)
@pytest.mark.parametrize("command", ["pareto", "unlearn"])
def test_a_wrong_run_is_refused_in_plain_words(
    command: str, arguments: list[str], said: list[str], request: pytest.FixtureRequest, out: Path
) -> None:
    (problem,) = problems_of(request.getfixturevalue(command)(*arguments))
    for text in said:
        assert text in problem
    assert not out.exists()


@pytest.mark.parametrize(("arguments", "said"), WRONG_SWEEP.values(), ids=WRONG_SWEEP)
def test_a_wrong_sweep_is_refused_in_plain_words(
    pareto: Callable[..., Result], arguments: list[str], said: list[str], out: Path
) -> None:
    (problem,) = problems_of(pareto(*arguments))
    for text in said:
        assert text in problem
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "title"),
    [
        (["--c", "0.1", "--option", "c=0.2"], "option c"),
        (["--c", "0.1", "--c", "0.2"], "option c"),
        (["--lr", "1e-3", "--lr", "1e-4"], "--lr"),
        (["--method", "gdiff", "--method", "ngdiff"], "--method"),
    ],
)
def test_one_run_takes_one_value_of_an_option(unlearn: Callable[..., Result], arguments: list[str], title: str) -> None:
    (problem,) = problems_of(unlearn(*arguments))
    assert problem.startswith(f"{title} is given 2 times")
    assert "'pareto'" in problem


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["--method", "ngdif"], "ngdiff"),
        (["--method", "npo+ngdif"], "ngdiff"),
        (["--method", "np0+ngdiff"], "npo"),
        (["--method", "npo", "--option", "betaa=1"], "beta"),
        (["--model", "tiny-ph"], "tiny-phi"),
        (["--dataset", "offu"], "tofu"),
        (["--metrics", "verbmen"], "verbmem"),
        (["--metrics", "tofo"], "tofu"),
        (["--optimizer", "adam"], "adamw"),
        (["--sampler", "nsga"], "nsga3"),
        (["--scheduler", "moash"], "moasha"),
        (["--candidates", "al"], "all"),
        (["--objectives", "verbmen:min,retain_loss:min"], "verbmem"),
        (["--constraint", "utilty>=0.7"], "utility"),
    ],
)
def test_a_name_that_is_nearly_right_is_met_with_the_right_one(
    pareto: Callable[..., Result], arguments: list[str], meant: str
) -> None:
    (problem,) = problems_of(pareto(*arguments))
    assert f"did you mean '{meant}'?" in problem


def test_a_name_like_no_other_is_met_with_all_of_them(pareto: Callable[..., Result]) -> None:
    (problem,) = problems_of(pareto("--sampler", "xyzzy"))
    assert problem == "unknown sampler 'xyzzy': expected one of tpe, nsga2, nsga3, gp, qmc, random, grid"


@pytest.mark.parametrize(
    ("flag", "value", "again"),
    [
        ("--lr", "1e-3,1e-4", "--lr 1e-3 --lr 1e-4"),
        ("--c", "0.1, 0.5", "--c 0.1 --c 0.5"),
        ("--method", "gdiff,ngdiff", "--method gdiff --method ngdiff"),
    ],
)
def test_several_values_in_one_are_told_how_to_be_given(
    pareto: Callable[..., Result], unlearn: Callable[..., Result], flag: str, value: str, again: str
) -> None:
    for command in (pareto, unlearn):
        (problem,) = problems_of(command(flag, value))
        assert problem.startswith(flag)
        assert problem.endswith(f"a sweep takes several as {again}")


def test_an_option_that_does_not_exist_is_refused(pareto: Callable[..., Result]) -> None:
    result = pareto("--trails", "3")
    assert result.exit_code == 2
    assert "--trails" in result.stderr
    assert "--trials" in result.stderr


def test_data_that_are_generated_take_no_files(data: Path, out: Path) -> None:
    (problem,) = problems_of(invoke("pareto", "--dataset", "authors", "--data-dir", data, "--out", out))
    assert "--data-dir does not apply to data set authors" in problem


def test_a_base_and_a_target_exclude_each_other(pareto: Callable[..., Result], model_folder: Path) -> None:
    (problem,) = problems_of(pareto("--model-path", model_folder, "--target-path", model_folder))
    assert "--model-path and --target-path exclude each other" in problem


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def pickle_only(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (remove("config.json"), ["no config.json"]),
        (remove("model.safetensors"), ["no *.safetensors"]),
        (pickle_only, ["no *.safetensors", "pytorch_model.bin", "convert it to safetensors"]),
        (remove("tokenizer.json"), ["no tokenizer"]),
    ],
    ids=["no config", "no weights", "pickle only", "no tokenizer"],
)
@pytest.mark.parametrize("flag", ["--model-path", "--target-path"])
def test_a_folder_that_is_no_model_in_safetensors_is_refused(
    pareto: Callable[..., Result], model_folder: Path, flag: str, spoil: Callable[[Path], None], said: list[str]
) -> None:
    spoil(model_folder)
    (problem,) = problems_of(pareto(flag, model_folder))
    for text in (flag, str(model_folder), *said):
        assert text in problem


def test_all_that_a_model_folder_lacks_is_said(pareto: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert len(problems_of(pareto("--model-path", tmp_path / "empty"))) == 3


@pytest.mark.parametrize(("layer", "fits"), [("11", True), ("-1", True), ("12", False)])
def test_a_layer_the_model_in_the_folder_has_not_is_refused(
    pareto: Callable[..., Result], model_folder: Path, layer: str, fits: bool
) -> None:
    (model_folder / "config.json").write_text('{"num_hidden_layers": 12}')
    given = ("--method", "rmu", "--option", f"layer={layer}", "--trials", "0", "--target-path", model_folder)
    *problems, _ = problems_of(pareto(*given))
    said = [] if fits else ["layer must be from 0 to 11 in a model of 12 decoder blocks, got 12"]
    assert problems == said


def test_a_space_file_whose_methods_do_not_go_with_its_retain_objective_is_refused(
    pareto: Callable[..., Result], tmp_path: Path
) -> None:
    path = tmp_path / "space.yaml"
    path.write_text("method: [ngdiff, rmu]\nlr: {low: 1e-5, high: 1e-4, log: true}\nretain_objective: kl\n")
    (problem,) = problems_of(pareto("--space", path))
    assert problem.startswith(f"{path}:3: retain_objective kl does not go with method 'rmu'")


@pytest.mark.parametrize("command", ["pareto", "unlearn"])
def test_bf16_is_refused_on_a_cpu_that_is_slower_with_it(
    command: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainables.precision.bf16_gain", lambda: 0.25)
    (problem,) = problems_of(request.getfixturevalue(command)("--dtype", "bf16"))
    assert "0.25 times as fast" in problem
    assert "leave out --dtype" in problem
