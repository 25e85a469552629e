"""A wrong option is refused before anything starts; the message names the option, its value and the expected values."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sweeper.cli.conftest import Command, cases, invoke, names, problems_of

WRONG_RUN = cases("""
--method nonsense                           | nonsense gdiff ngdiff
--method npo+nonsense                       | nonsense
--method npo+gd                             | npo+gd gd
--c 1.5                                     | c 1.5
--c -0.1                                    | c -0.1
--c nan                                     | c nan
--c half                                    | --c half
--method ngdiff --c 0.5                     | c ngdiff
--lr 0                                      | lr 0
--lr -1e-4                                  | lr -0.0001
--lr inf                                    | lr inf
--lr nan                                    | lr nan
--lr fast                                   | --lr fast
--epochs 0                                  | epochs 0
--epochs 1.5                                | --epochs 1.5
--max-steps 0                               | max_steps 0
--batch-size -8                             | batch_size -8
--max-length 2                              | max_length 2
--optimizer lion                            | lion adamw sgd
--momentum 0.9                              | momentum sgd
--optimizer sgd --momentum 2                | momentum 2
--weight-decay -1                           | weight_decay -1
--max-grad-norm 0                           | max_grad_norm 0
--dtype fp16                                | fp16 fp32 bf16
--weight-scale big                          | weight_scale big
--retain-objective mse                      | retain_objective mse ce kl
--method rmu --retain-objective kl          | retain_objective kl rmu ce
--method npo --retain-objective kl          | retain_objective kl npo npo+ngdiff
--method rmu --option layer=-2              | layer -2
--method rmu --option layer=1.5             | layer 1.5
--auto-lr maybe                             | auto_lr maybe
--auto-lr-smoothing x                       | auto_lr_smoothing x
--auto-lr on --auto-lr-every 0              | auto_lr_every 0
--auto-lr on --auto-lr-start 0              | auto_lr_start 0
--auto-lr-every 5                           | --auto-lr-every on
--lora-rank -1                              | lora_rank -1
--lora-rank few                             | --lora-rank few
--target-lora-rank -1                       | target_lora_rank -1
--optimizer dog --growth-rate 0.9           | --growth-rate 0.9
--growth-rate 1.5                           | --growth-rate prodigy
--optimizer prodigy --auto-lr on            | AutoLR prodigy
--option warmth=1                           | warmth
--method gdiff --option beta=0.1            | beta
--option c                                  | --option NAME=VALUE c
--option =3                                 | --option NAME=VALUE =3
--option c=high                             | --option NAME=VALUE c=high
--option c=7                                | c 7
--seed lucky                                | --seed lucky
--seed -1                                   | seed -1
--seed 1099511627776                        | seed 1099511627776
--model gpt-9                               | gpt-9 tiny-phi llama2-7b ORGANISATION/NAME --model-path
--model /etc                                | /etc --model-path
--model a/b/c                               | a/b/c tiny-phi
--model org/                                | tiny-phi
--model ''                                  | tiny-phi
--dataset books                             | books authors tofu
--forget-split forget99                     | forget99 forget01 forget05 forget10
--limit 5                                   | --limit 5 20
--limit 0                                   | limit 0
--model-path /no/such                       | --model-path /no/such
--target-path /no/such                      | --target-path /no/such
""")
WRONG_SWEEP = cases(f"""
--trials 0                                  | trials 0
--trials -2                                 | trials -2
--trials 2.5                                | --trials 2.5
--seeds 0                                   | seeds 0
--method ngdiff --method rmu --retain-objective kl | retain_objective kl rmu
--scheduler magic                           | magic none moasha
--scheduler moasha --grace 5 --epochs 5     | --grace 5 --epochs
--scheduler moasha --grace 0                | --grace 0
--scheduler moasha --grace 3 --eval-every 2 | --grace 3 --eval-every 2
--scheduler moasha --reduction 1            | --reduction 2 1
--scheduler moasha --stopping nap           | nap stop pause
--scheduler none --grace 2 --stopping pause | --grace --stopping --scheduler moasha
--sampler grid --grace 2                    | --grace --scheduler moasha
--sampler magic                             | magic tpe nsga2 nsga3 gp qmc random grid
--objectives speed:max,utility:max          | speed forget_loss
--objectives verbmem,utility:max            | verbmem:min verbmem:max
--objectives utility:max                    | two
--max-concurrent 0                          | max-concurrent 0
--cpus-per-trial 0                          | cpus-per-trial 0
--cpus-per-trial nan                        | cpus-per-trial nan
--cpus-per-trial 9999                       | --cpus-per-trial 9999 {os.cpu_count()}
--gpus-per-trial -1                         | gpus-per-trial -1
--gpus-per-trial 1.5                        | gpus-per-trial 1.5
--gpus-per-trial 2                          | gpus-per-trial 2
--gpus-per-trial all                        | gpus-per-trial auto all
--gpus-per-trial nan                        | gpus-per-trial nan
--gpus-per-trial inf                        | gpus-per-trial inf
--time-budget 0                             | time-budget 0
--epoch-budget 0                            | epoch-budget 0
--epoch-budget few                          | --epoch-budget few
--until done                                | --until done plateau:10:0.001
--until plateau:0                           | --until plateau:0
--method rmu --option layer=99              | layer 3 99
--constraint utility=0.7                    | utility=0.7 utility>=0.7
--constraint verbmem<=0.1 --constraint verbmem>=0.5 | verbmem>=0.5 verbmem<=0.1
--constraint speed>=1                       | speed utility
--constraint mia_loss<=0.6                  | mia_loss --metrics default,mia_loss
--metrics verbmem --constraint utility>=70% | utility --metrics verbmem,utility
--enqueue lr=1e-4,c                         | --enqueue lr=1e-4,c NAME=VALUE
--enqueue points.yaml                       | --enqueue points.yaml
--enqueue lr=7                              | --enqueue lr 7 1e-05 0.001
--enqueue method=npo                        | method npo gdiff ngdiff
--enqueue warmth=1                          | warmth method lr c
--trials 3 --seeds 2 --enqueue lr=1e-4 --enqueue lr=2e-4 | --enqueue 2 4 --trials 3
--sampler grid --method ngdiff --lr 1e-4 --enqueue lr=1e-4 | --enqueue grid
--warm-start nowhere                        | --warm-start nowhere
--reuse nowhere                             | --reuse nowhere
--sampler qmc --warm-start nowhere          | qmc tpe nsga2 nsga3 gp
--sampler grid                              | --sampler grid lr
--sampler grid --method ngdiff --lr 1e-4 --lr 1e-5 --trials 3 | --trials 3 2
--tracking-uri ./mlruns                     | ./mlruns sqlite:///mlflow.db
--tracking-uri ftp://host                   | ftp
--optimizer prodigy --auto-lr both          | AutoLR prodigy
""")


@pytest.mark.parametrize(("arguments", "named"), WRONG_RUN)
@pytest.mark.parametrize("command", ["pareto", "unlearn"])
def test_a_wrong_option_of_a_run_is_named(
    command: str, arguments: list[str], named: list[str], request: pytest.FixtureRequest, out: Path
) -> None:
    (problem,) = problems_of(request.getfixturevalue(command)(*arguments))
    assert names(problem, named)
    assert not out.exists()


@pytest.mark.parametrize(("arguments", "named"), WRONG_SWEEP)
def test_a_wrong_option_of_a_sweep_is_named(pareto: Command, arguments: list[str], named: list[str], out: Path) -> None:
    (problem,) = problems_of(pareto(*arguments))
    assert names(problem, named)
    assert not out.exists()


@pytest.mark.parametrize("typed", ["--c 0.1 --option c=0.2", "--c 0.1 --c 0.2", "--lr 1e-3 --lr 1e-4"])
def test_a_single_run_takes_one_value_of_an_option(unlearn: Command, typed: str) -> None:
    (problem,) = problems_of(unlearn(*typed.split()))
    assert names(problem, ["2", "pareto", "option c" if "--c" in typed else "--lr"])


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--method ngdif", "ngdiff"),
        ("--method npo+ngdif", "ngdiff"),
        ("--method np0+ngdiff", "npo"),
        ("--method npo --option betaa=1", "beta"),
        ("--model tiny-ph", "tiny-phi"),
        ("--dataset offu", "tofu"),
        ("--metrics verbmen", "verbmem"),
        ("--metrics tofo", "tofu"),
        ("--optimizer adam", "adamw"),
        ("--sampler nsga", "nsga3"),
        ("--scheduler moash", "moasha"),
        ("--candidates al", "all"),
        ("--objectives verbmen:min,retain_loss:min", "verbmem"),
        ("--constraint utilty>=0.7", "utility"),
    ],
)
def test_the_nearest_name_is_suggested(pareto: Command, typed: str, meant: str) -> None:
    (problem,) = problems_of(pareto(*typed.split()))
    assert f"'{meant}'?" in problem


@pytest.mark.parametrize(
    ("flag", "value", "again"),
    [
        ("--lr", "1e-3,1e-4", "--lr 1e-3 --lr 1e-4"),
        ("--c", "0.1, 0.5", "--c 0.1 --c 0.5"),
        ("--method", "gdiff,ngdiff", "--method gdiff --method ngdiff"),
    ],
)
def test_a_list_in_one_value_is_shown_as_repeated_options(
    pareto: Command, unlearn: Command, flag: str, value: str, again: str
) -> None:
    for command in (pareto, unlearn):
        (problem,) = problems_of(command(flag, value))
        assert problem.endswith(again)


def test_an_unknown_option_is_refused(pareto: Command) -> None:
    result = pareto("--trails", "3")
    assert result.exit_code == 2
    assert names(result.stderr, ["--trails", "--trials"])


def test_a_model_and_data_that_cannot_be_used_as_given_are_named(
    pareto: Command, model_folder: Path, data: Path, out: Path
) -> None:
    (problem,) = problems_of(pareto("--model-path", model_folder, "--target-path", model_folder))
    assert names(problem, ["--model-path", "--target-path"])
    (problem,) = problems_of(invoke("pareto", "--dataset", "authors", "--data-dir", data, "--out", out))
    assert names(problem, ["--data-dir", "authors"])
    Path("models/mine").mkdir(parents=True)
    assert len(problems_of(pareto("--model-path", "models/mine"))) == 3, "everything that the folder lacks"
    (problem,) = problems_of(pareto("--model", "models/mine"))
    assert names(problem, ["--model-path models/mine"])


def remove(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).unlink()


SPOILED: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "no config": (remove("config.json"), ["config.json"]),
    "no weights": (remove("model.safetensors"), ["*.safetensors"]),
    "pickled weights": (
        lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"),
        ["*.safetensors", "pytorch_model.bin"],
    ),
    "no tokenizer": (remove("tokenizer.json"), ["tokenizer"]),
    "a torn file": (
        lambda folder: (folder / "model.safetensors").write_bytes((1000).to_bytes(8, "little") + b"{}"),
        ["model.safetensors"],
    ),
}


@pytest.mark.parametrize("flag", ["--model-path", "--target-path"])
@pytest.mark.parametrize(("spoil", "named"), SPOILED.values(), ids=SPOILED)
def test_what_a_model_folder_lacks_is_named(
    pareto: Command, model_folder: Path, flag: str, spoil: Callable[[Path], object], named: list[str]
) -> None:
    spoil(model_folder)
    (problem,) = problems_of(pareto(flag, model_folder))
    assert names(problem, [flag, str(model_folder), *named])


@pytest.mark.parametrize(("layer", "fits"), [("11", True), ("-1", True), ("12", False)])
def test_a_layer_beyond_those_of_the_model_folder_is_refused(
    pareto: Command, model_folder: Path, layer: str, fits: bool
) -> None:
    (model_folder / "config.json").write_text('{"num_hidden_layers": 12}')
    given = ("--method", "rmu", "--option", f"layer={layer}", "--trials", "0", "--target-path", model_folder)
    *problems, _ = problems_of(pareto(*given))
    assert len(problems) == (0 if fits else 1)
    assert all(names(problem, ["layer", "11", "12"]) for problem in problems)
