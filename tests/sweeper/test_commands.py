"""The command line: what was asked for is what runs, and everything wrong is said at once, before anything starts."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import optuna
import pytest
from click.testing import CliRunner, Result

from sweeper.cli import main
from sweeper.commands.pareto import describe
from sweeper.folder import SweepError, UsageError, read_settings
from sweeper.interruption import Interrupted
from sweeper.sweep import Summary
from trainables.metrics.registry import SETS
from trainables.scoring.measured import Measured
from trainables.spec import TrialSpec
from trainables.spec_checks import trial_problems

ROOT = Path(__file__).parents[2]
SPLITS = ("forget01", "retain99", "holdout01")
PERTURBED = ("forget01_perturbed", "retain_perturbed", "real_authors_perturbed", "world_facts_perturbed")


@pytest.fixture(autouse=True)
def _workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every command runs in an empty folder with its own cache."""
    before = dict(os.environ)
    folder = tmp_path / "cwd"
    folder.mkdir()
    monkeypatch.chdir(folder)
    os.environ["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    for work in ("sweeper.sweep.run", "sweeper.single_run.run_once", "sweeper.progress.prepare_with_progress"):
        monkeypatch.setattr(work, refuse_to_work)
    yield
    os.environ.clear()
    os.environ.update(before)


def refuse_to_work(*arguments: object, **given: object) -> None:
    raise AssertionError("the command was not refused")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """TOFU's files with two authors to keep and one to forget."""
    folder = tmp_path / "tofu"
    folder.mkdir()
    for name in (*SPLITS, *PERTURBED):
        count = 40 if name == "retain99" else 20
        rows = [{"question": f"{name}: question {i}?", "answer": f"Answer {i}."} for i in range(count)]
        more = {"paraphrased_answer": "It is so.", "perturbed_answer": ["No.", "Never."]} if name in PERTURBED else {}
        (folder / f"{name}.json").write_text("".join(json.dumps(row | more) + "\n" for row in rows))
    return folder


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    """What passes for a model folder as long as nobody loads it."""
    folder = tmp_path / "my-model"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json"):
        (folder / name).write_text("{}")
    (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    return folder


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def problems_of(result: Result) -> list[str]:
    """The problems a refused command told; checks that it was refused in order."""
    assert result.exit_code == 2, f"exit code {result.exit_code}: {result.output}"
    assert isinstance(result.exception, SystemExit), "not a traceback"
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert lines
    assert all(line.startswith("error: ") for line in lines), result.stderr
    assert len(set(lines)) == len(lines), f"said twice: {result.stderr}"
    return [line.removeprefix("error: ") for line in lines]


@pytest.fixture
def pareto(data: Path, out: Path) -> Callable[..., Result]:
    """``pareto`` on the small data set, in a new output folder, with more arguments."""

    def command(*arguments: str | Path, data: Path = data, out: Path = out) -> Result:
        tofu = ("--model", "tiny-phi", "--dataset", "tofu", "--data-dir", data, "--forget-split", "forget01")
        return invoke("pareto", *tofu, "--out", out, "--tracking-uri", f"sqlite:///{out}.db", *arguments)

    return command


@pytest.fixture
def unlearn(data: Path, out: Path) -> Callable[..., Result]:
    def command(*arguments: str | Path) -> Result:
        tofu = ("--model", "tiny-phi", "--dataset", "tofu", "--data-dir", data, "--forget-split", "forget01")
        return invoke("unlearn", *tofu, "--out", out, *arguments)

    return command


# One thing wrong ----------------------------------------------------------------------------------------------------

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
    "GPUs NaN": (["--gpus-per-trial", "nan"], ["gpus-per-trial must be", "got nan"]),
    "GPUs infinite": (["--gpus-per-trial", "inf"], ["gpus-per-trial must be", "got inf"]),
    "more CPUs than there are": (["--cpus-per-trial", "9999"], ["9999 CPUs", f"{os.cpu_count()} CPUs", "lower --cpus"]),
    "no time": (["--time-budget", "0"], ["time-budget must be greater than 0 seconds, got 0"]),
    "no epochs": (["--epoch-budget", "0"], ["epoch-budget must be at least 1, got 0"]),
    "epochs a word": (["--epoch-budget", "few"], ["--epoch-budget must be a whole number, got 'few'"]),
    "until never": (["--until", "done"], ["--until 'done'", "such as plateau:10:0.001"]),
    "until after no trial": (["--until", "plateau:0"], ["--until 'plateau:0'"]),
    "constraint malformed": (["--constraint", "utility=0.7"], ["constraint 'utility=0.7'", "such as utility>=0.7"]),
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


# Data files ---------------------------------------------------------------------------------------------------------

GOOD = json.dumps({"question": "Q?", "answer": "A."})
BAD_FILES = {
    "missing": (None, ["retain99.json", "--data-dir"]),
    "empty": ("", ["retain99.json", "no rows"]),
    "not JSON": (f"{GOOD}\n\n{GOOD}\n{{question: Q?}}\n", ["retain99.json, line 4"]),
    "cut in the middle": (f"{GOOD}\n{GOOD[:-3]}", ["retain99.json, line 2"]),
    "a list": (f"{GOOD}\n[1, 2]\n", ["retain99.json, line 2", "expected an object"]),
    "no answer": (f'{GOOD}\n{{"question": "Q?"}}\n', ["retain99.json, line 2", "'answer'"]),
    "an empty question": ('{"question": "", "answer": "A."}\n', ["retain99.json, line 1", "'question'"]),
    "an answer that is no text": ('{"question": "Q?", "answer": 5}\n', ["retain99.json, line 1", "'answer'"]),
    "perturbed answers that are no list": (
        '{"question": "Q?", "answer": "A.", "perturbed_answer": "B."}\n',
        ["retain99.json, line 1", "'perturbed_answer' must be a list"],
    ),
}


@pytest.mark.parametrize(("content", "said"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_data_file_that_cannot_be_used_is_named_with_the_place(
    pareto: Callable[..., Result], data: Path, out: Path, content: str | None, said: list[str]
) -> None:
    path = data / "retain99.json"
    path.unlink()
    if content is not None:
        path.write_text(content)
    (problem,) = problems_of(pareto())
    for text in said:
        assert text in problem
    assert not out.exists()


def test_a_data_file_that_is_no_text_is_named(pareto: Callable[..., Result], data: Path) -> None:
    (data / "retain99.json").write_bytes(b"\x80\x81\x82")
    (problem,) = problems_of(pareto())
    assert "retain99.json" in problem


def test_a_data_folder_that_is_not_there_is_named(pareto: Callable[..., Result], tmp_path: Path) -> None:
    (problem,) = problems_of(pareto(data=tmp_path / "nowhere"))
    assert str(tmp_path / "nowhere") in problem
    assert "--data-dir" in problem


# The output folder --------------------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("command", ["pareto", "unlearn"])
def test_a_folder_with_another_sweep_is_left_as_it_is(command: str, request: pytest.FixtureRequest, out: Path) -> None:
    run = request.getfixturevalue(command)
    (out / "checkpoints").mkdir(parents=True)
    (out / "sweep.json").write_text('{"mine": true}')
    (out / "trials.csv").write_text("trial_id\n00000\n")
    before = contents(out)
    (problem,) = problems_of(run())
    assert "holds another sweep" in problem
    assert f"python -m sweeper resume {out}" in problem
    assert contents(out) == before


@pytest.mark.parametrize("command", ["pareto", "unlearn"])
def test_a_folder_with_anything_in_it_is_left_as_it_is(command: str, request: pytest.FixtureRequest, out: Path) -> None:
    run = request.getfixturevalue(command)
    out.mkdir()
    (out / "thesis.tex").write_text("years of work")
    (problem,) = problems_of(run())
    assert "not empty" in problem
    assert contents(out) == {"thesis.tex": b"years of work"}


def test_a_file_is_no_output_folder(pareto: Callable[..., Result], out: Path) -> None:
    out.write_text("a file")
    (problem,) = problems_of(pareto())
    assert "this is a file, expected a folder" in problem
    assert out.read_text() == "a file"


def test_a_folder_below_a_file_is_refused_with_the_other_problems(
    pareto: Callable[..., Result], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("x")
    below, trials = problems_of(
        pareto("--trials", "0", "--tracking-uri", "sqlite:///mlflow.db", out=tmp_path / "file" / "a" / "b")
    )
    assert below == f"--out {tmp_path}/file/a/b: {tmp_path}/file is a file, expected a folder"
    assert "trials" in trials


@pytest.mark.parametrize("command", ["pareto", "unlearn", "target", "evaluate"])
def test_no_name_is_no_output_folder(command: str, model_folder: Path) -> None:
    given = ("--model-path", model_folder) if command == "evaluate" else ()
    assert "--out must be the name of a folder, got nothing" in problems_of(invoke(command, *given, "--out", ""))


def test_a_file_cannot_hold_rays_state(pareto: Callable[..., Result], tmp_path: Path, out: Path) -> None:
    (tmp_path / "file").write_text("x")
    (problem,) = problems_of(pareto("--storage", tmp_path / "file"))
    assert "--storage" in problem
    assert not out.exists()


# Everything wrong at once -------------------------------------------------------------------------------------------


def test_all_problems_of_a_sweep_are_said_at_once(pareto: Callable[..., Result], data: Path, out: Path) -> None:
    out.mkdir()
    (out / "sweep.json").write_text("{}")
    (data / "forget01.json").write_text("no JSON")
    arguments = [
        *("--method", "nonsense", "--method", "gdiff", "--c", "1.5", "--c", "half", "--lr", "0", "--lr", "x"),
        *("--trials", "0", "--seeds", "no", "--sampler", "magic", "--objectives", "speed:max", "--epochs", "0"),
        *("--option", "warmth=1", "--optimizer", "lion", "--gpus-per-trial", "1.5", "--auto-lr", "maybe"),
        *("--model-path", "/nowhere", "--tracking-uri", "./mlruns"),
    ]
    problems = problems_of(pareto(*arguments))
    expected = (
        *("'nonsense'", "c must be in [0, 1]", "'half'", "lr must be", "'x'", "trials must be", "'no'", "'magic'"),
        *("'speed'", "epochs must be", "warmth", "'lion'", "gpus-per-trial", "'maybe'", "/nowhere", "./mlruns"),
        *("holds another sweep", "forget01.json, line 1"),
    )
    for text in expected:
        assert any(text in problem for problem in problems), f"not said: {text}"
    assert contents(out) == {"sweep.json": b"{}"}


def test_all_problems_of_a_run_are_said_at_once(unlearn: Callable[..., Result], data: Path) -> None:
    (data / "forget01.json").unlink()
    problems = problems_of(unlearn("--method", "nonsense", "--lr", "-1", "--dtype", "fp16", "--batch-size", "x"))
    for text in ("'nonsense'", "lr must be", "'fp16'", "'x'", "forget01.json"):
        assert any(text in problem for problem in problems), f"not said: {text}"


def test_a_space_file_is_checked_together_with_the_rest(
    pareto: Callable[..., Result], tmp_path: Path, data: Path
) -> None:
    (tmp_path / "space.yaml").write_text("method: [gdiff, nonsense]\nlr: {low: 1, high: 0.1}\n")
    problems = problems_of(pareto("--space", tmp_path / "space.yaml", "--trials", "0"))
    for text in ("nonsense", "space.yaml:2", "trials must be"):
        assert any(text in problem for problem in problems), f"not said: {text}"


# Space files --------------------------------------------------------------------------------------------------------

SPACE_FILES: dict[str, tuple[str, list[str]]] = {
    "unknown parameter": ("method: gdiff\nlearning_rate: 1e-4\n", [":2", "unknown parameter 'learning_rate'"]),
    "unknown method": ("method: [gdif]\n", ["unknown method 'gdif'"]),
    "no method": ("lr: [1e-4]\n", ["which methods", "method: ["]),
    "c out of range": ("method: gdiff\nc: [0.5, 2]\n", ["c must be in [0, 1], got 2"]),
    "lr zero": ("method: gdiff\nlr: [0]\n", ["lr must be", "greater than 0, got 0"]),
    "a range upside down": ("method: gdiff\nlr: {low: 1e-3, high: 1e-4}\n", [":2", "low must be less than high"]),
    "text for a number": ("method: gdiff\nepochs: many\n", [":2", "epochs", "'many'"]),
    "an option that does not apply": ("method: ngdiff\nc: [0.5]\n", ["option c does not apply to ngdiff"]),
    "what all trials share": (
        "method: gdiff\nmodel: [phi-1.5]\n",
        [":2", "model: cannot vary within a sweep", "--model"],
    ),
    "no YAML": ("method: [gdiff\n", ["not valid YAML"]),
    "empty": ("", ["the file is empty"]),
}


@pytest.mark.parametrize(("content", "said"), SPACE_FILES.values(), ids=SPACE_FILES)
def test_a_space_file_that_cannot_be_used_is_named_with_the_place(
    pareto: Callable[..., Result], tmp_path: Path, content: str, said: list[str]
) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(content)
    (problem,) = problems_of(pareto("--space", path))
    for text in ("space.yaml", *said):
        assert text in problem


def test_values_are_looked_at_in_a_space_file_with_other_mistakes(
    pareto: Callable[..., Result], tmp_path: Path
) -> None:
    path = tmp_path / "space.yaml"
    path.write_text("method: [gdiff, nonsense]\nlr: {low: 1e-3}\nc: {low: 0.5, high: 1.95}\nepochs: [0, 5]\n")
    expected = (
        "2: lr: needs low and high, or values; high missing",
        "4: epochs must be at least 1, got 0",
        "3: c must be in [0, 1], got 1.95",
        "1: unknown method 'nonsense'",
    )
    for text, problem in zip(expected, problems_of(pareto("--space", path)), strict=True):
        assert problem.startswith(f"{path}:{text}")


def test_a_space_file_that_is_not_there_is_named(pareto: Callable[..., Result]) -> None:
    (problem,) = problems_of(pareto("--space", "papers"))
    assert "papers" in problem


def test_an_unknown_method_beside_a_space_file_is_refused_too(pareto: Callable[..., Result], tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text("method: [gdiff]\n")
    assert problems_of(pareto("--space", path, "--method", "nonsense"))


@pytest.mark.parametrize("arguments", [["--method", "gdiff"], ["--lr", "1e-4"], ["--c", "0.5"], ["--option", "c=0.5"]])
def test_what_the_space_file_says_cannot_be_said_on_the_command_line_too(
    pareto: Callable[..., Result], tmp_path: Path, arguments: list[str]
) -> None:
    path = tmp_path / "space.yaml"
    path.write_text("method: [gdiff]\nlr: [1e-4, 1e-3]\nc: [0.1, 0.9]\n")
    (problem,) = problems_of(pareto("--space", path, *arguments))
    assert arguments[0] in problem
    assert "exclude each other" in problem


# What was asked for is what runs ------------------------------------------------------------------------------------


@pytest.fixture
def accepted(
    pareto: Callable[..., Result], out: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[TrialSpec]]:
    """The specs of the first trials of a sweep with these arguments, by the settings it wrote; nothing is run."""
    monkeypatch.setattr("sweeper.commands.pareto.run_to_the_end", lambda out, as_json, change=None: None)

    def command(*arguments: str | Path, trials: int = 24) -> list[TrialSpec]:
        result = pareto(*arguments)
        assert result.exit_code == 0, result.output
        settings = read_settings(out)
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
        configs = [settings.space.suggest(study.ask()) for _ in range(trials)]
        return [settings.make_spec(config, target_key="") for config in configs]

    return command


def values(specs: Sequence[TrialSpec], name: str) -> set[object]:
    return {spec.option_values.get(name) if name in ("c", "beta") else getattr(spec, name) for spec in specs}


def test_the_default_sweep_searches_gdiff_and_ngdiff(accepted: Callable[..., list[TrialSpec]], out: Path) -> None:
    specs = accepted()
    assert values(specs, "method") == {"gdiff", "ngdiff"}
    assert len(values(specs, "lr")) == len(specs)
    assert all(1e-5 <= spec.lr <= 1e-3 for spec in specs)
    assert values(specs, "auto_lr") == {"off"}
    settings = read_settings(out)
    assert (settings.trials, settings.sampler, settings.candidates) == (32, "tpe", "all")
    assert (settings.scheduler, settings.grace, settings.reduction, settings.stopping) == ("moasha", 1, 2, "stop")
    assert all(not trial_problems(spec) for spec in specs)


@pytest.mark.parametrize(
    ("given", "trials"),
    [
        (("--scheduler", "none"), 16),
        (("--sampler", "grid", "--lr", "1e-4", "--lr", "1e-3", "--c", "0.5"), 4),
        (("--seeds", "2"), 16),
        (("--candidates", "last"), 16),
        (("--epochs", "1"), 16),
        (("--objectives", "verbmem:min,utility:max"), 16),
    ],
)
def test_a_sweep_of_whole_trials_has_no_scheduler_by_default(
    accepted: Callable[..., list[TrialSpec]], out: Path, given: tuple[str, ...], trials: int
) -> None:
    accepted(*given)
    settings = read_settings(out)
    assert (settings.scheduler, settings.trials) == ("none", trials)


def test_objectives_measured_every_epoch_are_compared_early(
    accepted: Callable[..., list[TrialSpec]], out: Path
) -> None:
    accepted("--objectives", "verbmem:min,utility:max", "--metrics-every", "1")
    assert read_settings(out).scheduler == "moasha"


@pytest.mark.parametrize("method", ["ngdiff", "gd", "npo", "npo+ngdiff", "pcgrad", "imtl-g"])
def test_a_single_method_is_the_one_that_runs(accepted: Callable[..., list[TrialSpec]], method: str) -> None:
    assert values(accepted("--method", method), "method") == {method}


def test_a_single_learning_rate_is_the_one_that_is_used(accepted: Callable[..., list[TrialSpec]]) -> None:
    assert values(accepted("--lr", "3e-3"), "lr") == {3e-3}


def test_several_methods_rates_and_coefficients_are_all_searched(accepted: Callable[..., list[TrialSpec]]) -> None:
    specs = accepted(
        *("--method", "gdiff", "--method", "npo", "--method", "gd"),
        *("--lr", "1e-4", "--lr", "1e-3", "--c", "0.25", "--c", "0.75", "--option", "beta=0.5"),
    )
    assert values(specs, "method") == {"gdiff", "npo", "gd"}
    assert values(specs, "lr") == {1e-4, 1e-3}
    assert values(specs, "c") == {0.25, 0.75, None}
    assert values(specs, "beta") == {0.5, None}


@pytest.mark.parametrize(("given", "searched"), [("off", {"off"}), ("on", {"on"}), ("both", {"on", "off"})])
def test_auto_lr_is_off_on_or_searched(
    accepted: Callable[..., list[TrialSpec]], given: str, searched: set[object]
) -> None:
    assert values(accepted("--auto-lr", given), "auto_lr") == searched


def test_options_of_a_run_are_those_of_every_trial(accepted: Callable[..., list[TrialSpec]]) -> None:
    specs = accepted(
        *("--epochs", "3", "--max-steps", "7", "--batch-size", "5", "--optimizer", "sgd", "--momentum", "0.5"),
        *("--max-grad-norm", "1", "--weight-scale", "unit", "--lora-rank", "2", "--dtype", "bf16"),
        *("--retain-objective", "kl"),
        *("--gradient-checkpointing", "--limit", "20", "--seed", "9", "--auto-lr-every", "3"),
    )
    for name, value in {
        "epochs": 3,
        "max_steps": 7,
        "batch_size": 5,
        "optimizer": "sgd",
        "momentum": 0.5,
        "max_grad_norm": 1.0,
        "weight_scale": "unit",
        "retain_objective": "kl",
        "lora_rank": 2,
        "dtype": "bf16",
        "gradient_checkpointing": True,
        "limit": 20,
        "seed": 9,
        "auto_lr_every": 3,
    }.items():
        assert values(specs, name) == {value}, name


def test_options_of_a_sweep_are_in_its_settings(
    accepted: Callable[..., list[TrialSpec]], out: Path, tmp_path: Path
) -> None:
    accepted(
        *("--trials", "5", "--sampler", "nsga2", "--seeds", "2", "--seed", "3", "--max-concurrent", "4"),
        *("--cpus-per-trial", "2", "--gpus-per-trial", "0", "--time-budget", "60", "--experiment", "e"),
        *("--objectives", "verbmem:min,utility:max", "--storage", "state", "--address", "auto"),
    )
    settings = read_settings(out)
    assert (settings.trials, settings.sampler, settings.all_seeds) == (5, "nsga2", (3, 4))
    assert (settings.cpus_per_trial, settings.gpus_per_trial, settings.max_concurrent) == (2.0, 0.0, 4)
    assert (settings.time_budget_seconds, settings.experiment, settings.address) == (60.0, "e", "auto")
    assert [item.name for item in settings.parsed_objectives] == ["verbmem", "utility"]
    assert settings.storage == str(tmp_path / "cwd" / "state")
    assert settings.command.startswith("python -m sweeper")


def test_the_papers_grid_is_its_learning_rates_and_coefficients(
    accepted: Callable[..., list[TrialSpec]], out: Path
) -> None:
    specs = accepted("--space", "paper", "--sampler", "grid", "--method", "gdiff")
    assert read_settings(out).trials == 9
    assert values(specs, "lr") <= {1e-5, 5e-5, 1e-4}
    assert values(specs, "c") <= {0.9, 0.5, 0.1}
    assert values(specs, "epochs") == {15}


def test_what_is_given_wins_over_the_papers_own_settings(accepted: Callable[..., list[TrialSpec]]) -> None:
    specs = accepted("--space", "paper", "--method", "ngdiff", "--epochs", "3", "--optimizer", "sgd", "--lr", "0.5")
    assert (values(specs, "epochs"), values(specs, "optimizer"), values(specs, "lr")) == ({3}, {"sgd"}, {0.5})
    assert values(specs, "method") == {"ngdiff"}


def test_a_grid_has_as_many_trials_as_points_times_seeds(accepted: Callable[..., list[TrialSpec]], out: Path) -> None:
    accepted("--sampler", "grid", "--lr", "1e-4", "--lr", "1e-3", "--c", "0.5", "--c", "0.9", "--seeds", "2")
    assert read_settings(out).trials == (2 * 2 + 2) * 2


def test_a_space_file_is_the_space(accepted: Callable[..., list[TrialSpec]], tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text(
        "method: [gdiff, npo]\nlr: {low: 1e-4, high: 2e-4}\nc: {values: [0.3], when: {method: gdiff}}\n"
        "auto_lr: [on]\nepochs: [2, 4]\n"
    )
    specs = accepted("--space", tmp_path / "space.yaml")
    assert values(specs, "method") == {"gdiff", "npo"}
    assert values(specs, "c") == {0.3, None}
    assert values(specs, "auto_lr") == {"on"}
    assert values(specs, "epochs") == {2, 4}
    assert all(1e-4 <= spec.lr <= 2e-4 for spec in specs)


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [(["--lr", "3e-3"], "lr", 3e-3), (["--auto-lr", "on"], "auto_lr", "on")],
    ids=["lr", "auto_lr"],
)
def test_what_a_space_file_leaves_open_is_taken_from_the_command_line(
    accepted: Callable[..., list[TrialSpec]], tmp_path: Path, arguments: list[str], name: str, value: object
) -> None:
    (tmp_path / "space.yaml").write_text("method: [gdiff]\nc: [0.1, 0.9]\n")
    assert values(accepted("--space", tmp_path / "space.yaml", *arguments), name) == {value}


def test_paths_are_kept_absolute_so_that_a_sweep_can_be_resumed_from_anywhere(
    data: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweeper.commands.pareto.run_to_the_end", lambda out, as_json, change=None: None)
    relative = os.path.relpath(data)
    tofu = ("--dataset", "tofu", "--data-dir", relative, "--forget-split", "forget01")
    assert invoke("pareto", *tofu, "--out", out, "--tracking-uri", "sqlite:///here.db").exit_code == 0
    settings = read_settings(out)
    assert settings.base.data_dir == str(data)
    assert settings.tracking_uri == f"sqlite:///{Path.cwd()}/here.db"


def test_tracking_goes_where_mlflows_own_variable_says(
    data: Path, out: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sweeper.commands.pareto.run_to_the_end", lambda out, as_json, change=None: None)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/other.db")
    result = invoke("pareto", "--dataset", "tofu", "--data-dir", data, "--forget-split", "forget01", "--out", out)
    assert result.exit_code == 0, result.output
    assert read_settings(out).tracking_uri == f"sqlite:///{tmp_path}/other.db"


def test_without_out_the_folder_is_a_new_one_under_runs(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = []
    monkeypatch.setattr("sweeper.commands.pareto.run_to_the_end", lambda out, as_json: folders.append(out))
    for _ in range(2):  # within the same second, perhaps
        tofu = ("--dataset", "tofu", "--data-dir", data, "--forget-split", "forget01")
        result = invoke("pareto", *tofu, "--method", "npo+ngdiff", "--tracking-uri", "sqlite:///m.db")
        assert result.exit_code == 0, result.output
    assert len(set(folders)) == 2
    for folder in folders:
        assert folder.parent == Path("runs")
        assert read_settings(folder).name == "pareto-npo_ngdiff-tiny-phi-tofu"


# How a sweep ends ---------------------------------------------------------------------------------------------------


def run_raises(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def run(out: Path, *, console: object, change: object = None) -> Summary:
        raise error

    monkeypatch.setattr("sweeper.sweep.run", run)


def test_a_sweep_that_is_done_prints_its_summary(
    pareto: Callable[..., Result], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = Summary(
        out=str(out),
        status={"finished": 3, "diverged": 1},
        trials=4,
        asked=4,
        hypervolume=0.61234,
        front=2,
        tracking="sqlite:///m",
        answer={
            "headline": "Nothing was forgotten.",
            "advice": "To forget more: ...",
            "judged": ["It misses ..."],
            "recommended": False,
            "trial_id": "00002",
            "epoch": 3.0,
            "checkpoint": "checkpoints/00002",
        },
    )
    monkeypatch.setattr("sweeper.sweep.run", lambda out, *, console, change=None: summary)
    result = pareto()
    assert result.exit_code == 0
    for text in ("4 trials", "3 finished, 1 diverged", "0.6123", f"{out}/report.html", "sqlite:///m"):
        assert text in result.stdout
    assert (
        f"Nothing was forgotten.\nclosest: trial 00002 after epoch 3, {out}/checkpoints/00002\n"
        "To forget more: ...\nIt misses ...\n"
    ) in result.stdout


def test_one_trial_that_is_recommended_is_named_with_its_checkpoint() -> None:
    answer = {"headline": "Take trial 00000: ...", "judged": [], "recommended": True, "trial_id": "00000"}
    answer |= {"epoch": None, "checkpoint": "checkpoints/00000"}
    lines = describe(Summary("out", 1, 1, {"finished": 1}, 0.5, 1, "", answer=answer)).splitlines()
    assert lines[:3] == ["1 trial: 1 finished", "Take trial 00000: ...", "checkpoint: out/checkpoints/00000"]
    assert lines[3] == "frontier: 1 trial, hypervolume 0.5000"


@pytest.mark.parametrize(
    ("because", "further"),
    [("the time budget", ""), ("a plateau (...)", "--until none"), ("the budget of 9 epochs", "--epoch-budget EPOCHS")],
)
def test_a_sweep_that_ended_before_all_its_trials_says_why_and_how_to_go_on(
    pareto: Callable[..., Result], out: Path, monkeypatch: pytest.MonkeyPatch, because: str, further: str
) -> None:
    summary = Summary(str(out), 3, 8, {"finished": 3}, 0.5, 2, "", reused=2, ended_because=because, further=further)
    monkeypatch.setattr("sweeper.sweep.run", lambda out, *, console, change: summary)
    lines = pareto().stdout.splitlines()
    assert lines[:2] == ["3 trials: 3 finished", "2 of them taken over from earlier sweeps, not run again"]
    assert lines[-2:] == [
        f"{because} left 5 of 8 trials undone; go on with:",
        f"  python -m sweeper resume {out} {further}".rstrip(),
    ]


def test_json_is_the_only_thing_on_stdout(
    pareto: Callable[..., Result], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = Summary(out=str(out), status={"failed": 4}, trials=4, asked=4, hypervolume=None, front=0, tracking="")
    monkeypatch.setattr("sweeper.sweep.run", lambda out, *, console, change=None: summary)
    result = pareto("--json")
    assert result.exit_code == 1, "every trial failed"
    content = json.loads(result.stdout)
    assert content["out"] == str(out)
    assert (content["trials"], content["status"], content["hypervolume"]) == (4, {"failed": 4}, None)


@pytest.mark.parametrize("as_json", [[], ["--json"]], ids=["plain", "json"])
def test_an_interrupted_sweep_prints_how_to_go_on(
    pareto: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: list[str]
) -> None:
    run_raises(monkeypatch, Interrupted())
    result = pareto(*as_json, out=tmp_path / "my sweep")
    assert result.exit_code == 130
    assert f"python -m sweeper resume '{tmp_path}/my sweep'" in result.stderr
    if as_json:
        assert json.loads(result.stdout) == {"out": str(tmp_path / "my sweep"), "interrupted": True}


def no_space() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data/trials.csv")


def placement_error() -> Exception:
    from sweeper.placement import PlacementError

    return PlacementError("no node can run a trial")


def target_error() -> Exception:
    from trainables.target.finetune import TargetError

    return TargetError("the data were not memorised")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (SweepError("4 trials could not be written"), 1, "4 trials could not be written"),
        (UsageError("the sweep is running in another process"), 2, "running in another process"),
        (placement_error(), 2, "no node can run a trial"),
        (target_error(), 1, "the data were not memorised"),
        (no_space(), 1, "No space left on device"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
    ids=["failed", "wrong usage", "no place", "no target", "disk full", "interrupted"],
)
def test_an_end_without_a_result_is_one_sentence_and_an_exit_code(
    pareto: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, said: str
) -> None:
    run_raises(monkeypatch, error)
    result = pareto()
    assert result.exit_code == code
    assert isinstance(result.exception, SystemExit)
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_bug_is_not_dressed_up_as_a_users_mistake(
    pareto: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_raises(monkeypatch, ZeroDivisionError("a bug"))
    assert isinstance(pareto().exception, ZeroDivisionError)


# Earlier sweeps -----------------------------------------------------------------------------------------------------


@pytest.fixture
def earlier(accepted: Callable[..., list[TrialSpec]], out: Path) -> Path:
    """A sweep that has begun."""
    accepted("--trials", "4")
    return out


def test_a_warm_start_of_other_objectives_is_refused_with_everything_else(
    earlier: Path, data: Path, tmp_path: Path
) -> None:
    tofu = ("--dataset", "tofu", "--data-dir", data, "--forget-split", "forget01", "--out", tmp_path / "new")
    asked = ("--objectives", "verbmem:min,utility:max", "--until", "x", "--constraint", "speed>=1")
    problems = problems_of(invoke("pareto", *tofu, "--warm-start", earlier, *asked))
    assert len(problems) == 3
    assert any("that sweep searched forget_loss:max,retain_loss:min" in problem for problem in problems)


def test_what_the_search_is_told_is_in_the_settings(
    earlier: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweeper.commands.pareto.run_to_the_end", lambda out, as_json: None)
    (tmp_path / "points.yaml").write_text("- {lr: 1e-4}\n- {c: 0.5, method: gdiff}\n")
    result = invoke(
        *("pareto", "--dataset", "tofu", "--data-dir", data, "--forget-split", "forget01", "--out", tmp_path / "new"),
        *("--tracking-uri", "sqlite:///m.db", "--warm-start", os.path.relpath(earlier), "--reuse", earlier),
        *("--enqueue", "lr=1e-3,c=0.5", "--enqueue", tmp_path / "points.yaml", "--constraint", "utility>=70%"),
        *("--until", "plateau:5", "--epoch-budget", "40", "--sampler", "gp"),
        # Another order of the objectives is no other problem.
        *("--objectives", "retain_loss:min,forget_loss:max"),
    )
    assert result.exit_code == 0, result.output
    settings = read_settings(tmp_path / "new")
    assert settings.enqueue == ({"lr": 1e-3, "c": 0.5}, {"lr": 1e-4}, {"c": 0.5, "method": "gdiff"})
    assert settings.warm_start == settings.reuse == (str(earlier),)
    assert settings.constraints == ("utility>=70%",)
    assert (settings.until, settings.epoch_budget, settings.sampler) == ("plateau:5", 40, "gp")
    assert settings.trials == 14  # of 15 epochs at most, and 2.94 on average


@pytest.mark.parametrize(
    ("further", "trials"),
    [
        (["--scheduler", "none"], 4),  # 40 epochs at 10 a trial
        (["--trials", "7"], 7),
        # Of 16 trials all take 1 epoch, 8 another, 4 further 2, 2 further 4, 1 the last 2: 42 epochs, 2.625 each.
        ([], 16),
        # Of 9 trials all take 1 epoch, 3 further 2, 1 further 6, a third of one the last: 21 1/3 epochs, 2.37 each.
        (["--reduction", "3"], 17),
    ],
    ids=["whole trials", "as asked", "stopped early", "stopped earlier"],
)
def test_an_epoch_budget_says_how_many_trials_there_are(
    accepted: Callable[..., list[TrialSpec]], out: Path, further: list[str], trials: int
) -> None:
    accepted("--epochs", "10", "--epoch-budget", "40", *further)
    assert read_settings(out).trials == trials


def test_a_sweep_may_be_resumed_with_more_trials_and_another_end(
    earlier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[object] = []
    monkeypatch.setattr("sweeper.commands.resume.run_to_the_end", lambda out, as_json, change: told.append(change))
    assert invoke("resume", earlier).exit_code == 0
    assert invoke("resume", earlier, "--trials", "64", "--until", "none", "--epoch-budget", "90").exit_code == 0
    assert told == [{}, {"trials": 64, "until": "none", "epoch_budget": 90}]


def test_a_resume_with_impossible_wishes_is_refused(earlier: Path) -> None:
    (earlier / "trials.csv").write_text("trial_id,status\n00000,finished\n00001,finished\n")
    problems = problems_of(invoke("resume", earlier, "--trials", "1", "--until", "x", "--epoch-budget", "0"))
    assert len(problems) == 3
    assert any("--trials 1: 2 trials have ended already" in problem for problem in problems)


def test_a_grid_cannot_be_widened(accepted: Callable[..., list[TrialSpec]], out: Path) -> None:
    accepted("--sampler", "grid", "--method", "ngdiff", "--lr", "1e-4", "--lr", "1e-5")
    (problem,) = problems_of(invoke("resume", out, "--trials", "3"))
    assert "the grid of this sweep has 2 and cannot have more" in problem
    assert f"--reuse {out}" in problem


# Other commands -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["resume", "report"])
def test_a_folder_without_a_sweep_cannot_be_resumed_or_reported(command: str, tmp_path: Path) -> None:
    (problem,) = problems_of(invoke(command, tmp_path / "nowhere"))
    assert "holds no sweep" in problem
    assert str(tmp_path / "nowhere") in problem
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("content", ["{torn", "[]", "{}", '{"settings": {"trials": 3}}', '{"settings": 7}'])
def test_a_sweep_whose_file_is_damaged_is_not_resumed(out: Path, content: str) -> None:
    out.mkdir()
    (out / "sweep.json").write_text(content)
    (problem,) = problems_of(invoke("resume", out))
    assert "sweep.json" in problem


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("methods", {"gd", "ga", "gdiff", "lossnorm", "rlw", "pcgrad", "imtl-g", "ngdiff", "npo"}),
        ("models", {"tiny-phi", "phi-1.5"}),
        ("datasets", {"authors", "tofu"}),
    ],
)
def test_everything_that_can_be_chosen_is_listed(kind: str, names: set[str]) -> None:
    rows = json.loads(invoke("list", kind, "--json").stdout)
    assert names <= {row["name"] for row in rows}
    listed = invoke("list", kind).stdout.splitlines()
    assert [line for line in listed if not line.startswith(" ")] == [row["name"] for row in rows]


def test_a_listed_metric_says_which_way_is_better_or_what_is_ideal() -> None:
    rows = {row["name"]: row for row in json.loads(invoke("list", "metrics", "--json").stdout)}
    assert rows["privleak"]["better"] == "0 is ideal"
    assert {row["better"] for name, row in rows.items() if name in SETS["mia"]} == {"0.5 is ideal"}
    assert [rows[name]["better"] for name in ("privleak_distance", "verbmem", "utility")] == [
        "lower",
        "lower",
        "higher",
    ]
    assert rows["mia_loss_distance"]["formula"] == "|mia_loss - 0.5|"
    assert "0 is ideal" in invoke("list", "metrics").stdout


def test_a_listed_option_says_its_default_and_range() -> None:
    (gdiff,) = [row for row in json.loads(invoke("list", "methods", "--json").stdout) if row["name"] == "gdiff"]
    assert "c (default 0.5, from 0 to 1" in gdiff["options"]


def test_a_listed_objective_says_its_other_name_and_what_it_needs_of_the_target() -> None:
    rows = {row["name"]: row for row in json.loads(invoke("list", "methods", "--json").stdout)}
    assert rows["dpo"]["also called"] == "idk-dpo"
    assert rows["npo"]["also called"] == ""
    assert [rows[name]["needs of the target"] for name in ("ga", "dpo", "undial", "rmu")] == [
        "",
        "log-likelihoods, computed once",
        "logits, a forward pass per step",
        "hidden states, a forward pass per step",
    ]


@pytest.fixture
def evaluate(model_folder: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """``evaluate`` of a folder on TOFU's files, with no model loaded: a score is what it gives."""
    scores = Measured({"forget_loss": 1.0}, {}, 0.0)
    monkeypatch.setattr("trainables.target.checkpoint_scores.score_checkpoint", lambda spec, **named: scores)
    problem = ("--dataset", "tofu", "--data-dir", data, "--forget-split", "forget01")
    return lambda *arguments: invoke("evaluate", "--model-path", model_folder, *problem, *arguments)


def test_what_a_set_of_metrics_loses_without_a_retain_model_is_said_in_one_line(
    evaluate: Callable[..., Result], model_folder: Path
) -> None:
    result = evaluate("--metrics", "tofu", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {"forget_loss": 1.0}
    (line,) = result.stderr.splitlines()
    assert line.startswith("left out for want of a retain model: forget_quality; give one with --retain-model DIR")
    assert "'python -m sweeper target --retain-only --out DIR'" in line
    for enough in (("--metrics", "tofu", "--retain-model", model_folder), ("--metrics", "default")):
        assert evaluate(*enough).stderr == ""


def test_a_metric_that_needs_a_retain_model_is_refused_by_name_without_one(evaluate: Callable[..., Result]) -> None:
    (problem,) = problems_of(evaluate("--metrics", "tofu,forget_quality"))
    assert "forget_quality needs a retain model (--retain-model DIR" in problem


def test_a_target_with_wrong_options_is_refused(data: Path) -> None:
    problems = problems_of(
        invoke("target", "--dataset", "tofu", "--data-dir", data / "x", "--forget-split", "f", "--max-length", "0")
    )
    assert any("'f'" in problem for problem in problems)
    assert any("max_length" in problem for problem in problems)


def test_doctor_says_what_there_is_and_whether_the_hub_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeper.commands.hub_check.hub_problems", lambda repositories: ["no hub"])
    result = invoke("doctor")
    assert result.exit_code == 0, result.output
    for text in ("torch", "ray", "optuna", "mlflow", "cpus", "gpus", "GB free", "cannot be reached"):
        assert text in result.stdout
    monkeypatch.setattr("sweeper.commands.hub_check.hub_problems", lambda repositories: [])
    assert "hub           reachable" in invoke("doctor").stdout


def test_doctor_says_it_to_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeper.commands.hub_check.hub_problems", lambda repositories: ["no hub"])
    found = json.loads(invoke("doctor", "--json").stdout)
    assert found["versions"]["optuna"] == optuna.__version__
    assert found["cpus"] == os.cpu_count()
    assert found["disk_free_bytes"] > 0
    assert (found["missing"], found["hub_reachable"]) == ([], False)
    assert isinstance(found["gpus"], list)


# Real processes -----------------------------------------------------------------------------------------------------

HEAVY = {"torch", "ray", "mlflow", "optuna", "transformers", "datasets", "pandas", "matplotlib"}
HELP = """
import sys
from click.testing import CliRunner
from sweeper.cli import main
from sweeper.commands.pareto import describe
runner = CliRunner()
for name in ("", *main.commands):
    result = runner.invoke(main, [*([name] if name else []), "--help"])
    assert result.exit_code == 0 and "Usage:" in result.output, result.output
print(len(main.commands), *sorted(set(sys.argv[1:]) & set(sys.modules)))
"""


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT)])
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_ctrl_c_during_the_start_is_one_line() -> None:
    code = (
        "import os, runpy, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it\n"
        "class Finder:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'sweeper.cli':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "sys.argv = ['sweeper', 'list', 'methods']\n"
        "runpy.run_module('sweeper', run_name='__main__')\n"
    )
    done = python("-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "error: interrupted\n")


def test_no_help_page_imports_anything_heavy() -> None:
    done = python("-c", HELP, *HEAVY)
    assert done.returncode == 0, done.stderr
    count, *imported = done.stdout.split()
    assert imported == []
    assert int(count) >= 8


def test_a_refused_command_leaves_the_shell_with_code_2_and_no_traceback(out: Path) -> None:
    done = python("-m", "sweeper", "pareto", "--trials", "0", "--method", "nonsense", "--out", str(out))
    assert done.returncode == 2
    assert done.stdout == ""
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["error", "error"]
    assert not out.exists()


def test_a_refused_command_imports_nothing_heavy(out: Path, data: Path) -> None:
    (data / "forget01.json").write_text("{}\n")
    code = f"""
import sys
from sweeper.cli import main
from sweeper.commands.pareto import describe
try:
    main({["pareto", "--dataset", "tofu", "--data-dir", str(data), "--forget-split", "forget01", "--out", str(out)]!r})
except SystemExit as end:
    print(end.code, *sorted({{"torch", "ray", "mlflow", "transformers"}} & set(sys.modules)))
"""
    done = python("-c", code)
    assert done.stdout.split() == ["2"], done.stdout + done.stderr
