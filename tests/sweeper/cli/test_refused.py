"""A wrong command line is refused before any work: each message names the option, its value and the expected value."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import GOLDEN
from tests.s3_server import s3_server
from tests.sweeper.cli.conftest import Command, invoke, names, problems_of

FILES = {
    "file": "a file",
    "full/thesis.tex": "years of work",
    "begun/sweep.json": '{"mine": true}',
    "damaged/sweep.json": "{torn",
    "run/metrics.json": "{}",
    "space.yaml": "method: [gdiff]\nlr: [1e-4, 1e-3]\nc: [0.1, 0.9]\n",
    "wrong.yaml": "method: [gdiff, nonsense]\nlr: {low: 1e-3}\nc: {low: 0.5, high: 1.95}\nepochs: [0, 5]\n",
    "idle.yaml": "lr: [1e-4]\nretain_objective: kl\n",
    "excluded.yaml": "method: [ngdiff, npo]\nc: [0.5]\nretain_objective: kl\n",
    "rates.yaml": "method: [ngdiff]\noptimizer: [adamw, prodigy]\nlr: {low: 1.0e-5, high: 1.0e-3, log: true}\n",
    "multipliers.yaml": "method: [ngdiff]\noptimizer: [adamw, prodigy]\nauto_lr: [off, on]\nd_growth: [1.1]\n",
    "rules.yaml": "method: [ngdiff]\nauto_lr: [off, paper]\nsmoothing: clip\ninterpolate: auto\n",
    "torn.yaml": "trials: [1\n",
    "shared.yaml": "method: [ngdiff]\nlr: 1\noptimizer: [adamw, prodigy]\n",
    "twice.yaml": "trials: 1\ntrials: 2\n",
    "alias.yaml": "batch_size: 4\nbatch-size: 8\n",
    "large.yaml": "epochs: 1\ncpus-per-trial: 9999\n",
    "list.yaml": "- trials\n",
    "options.yaml": "trails: 3\nepochs: two\nseed: [1, 2]\ngradient-checkpointing: maybe\nzzz: 1\n"
    "option: {beta: {deep: 1}}\nmethod: ngdif\nbatch_size: 0\njson: true\n",
    "names.yaml": "metrics: [fooo]\nmethod: [gdiff, ngdif]\noption: {warmth: 1}\nwarm-start: nodir\n",
    "values.yaml": "space: nodir.yaml\nmodel-path: nodir\nstorage: file\n",
    "plugin.yaml": "plugin: [nodir.py]\ntrails: 3\n",
    "nested.yaml": "enqueue: [{lr: 1e-3}]\nlr: {low: 1e-5, high: 1e-3}\n",
    "texts/forget.jsonl": '{"text": "Ada lives in Oslo."}\n',
    "texts/retain.jsonl": '{"text": "Bob lives in Rome."}\n',
    "theirs.csv": "method,forget_loss,retain_loss\nnpo,6,0.5",
    "mine/forget.jsonl": '{"question": "Q?"}\n{"question": "Q?", "answer": "A"}\n',
    "mine/retain.jsonl": '{"text": "T"}\n',
    "adapter/adapter_config.json": "{}",
    "small/forget.jsonl": '{"question": "A?", "answer": "B"}\n{"question": "C?", "answer": "D"}\n',
    "small/retain.jsonl": '{"question": "E?", "answer": "F"}\n{"question": "G?", "answer": "H"}\n',
    "deep/config.json": '{"num_hidden_layers": 12}',
    "deep/tokenizer.json": "{}",
    "deep/model.safetensors": "d\0\0\0\0\0\0\0{}",
}
"""Files in the working folder, which also has ``model``, a model folder, and ``golden``, the tables of a real sweep.
The header of ``deep/model.safetensors`` is longer than the file."""
LINES = """
single --method nonsense --optimizer lion --weight-scale big --retain-objective mse --dtype fp16 \
    --auto-lr x --interpolate auto | auto_lr 'x' off gen gen-clip curvature | interpolate 'auto' on off \
    | lion adamw sgd | weight_scale big | retain_objective mse ce kl | fp16 fp32 bf16 \
    | nonsense gdiff ngdiff
single --update sam --method gd | update sam 'gd'
single --update repselect --lora-rank 4 | update repselect lora_rank 4 none
unlearn --update repselect --dataset digits --model tiny-resnet | update repselect digits decoder blocks
single --update repselect --repselect-share 2 | repselect_share 2 1
single --update sign --optimizer prodigy | update sign prodigy adamw sgd
single --update swim --sam-rho 0 | update 'swim' plain sam sign | sam_rho 0
single --sam-rho 0.1 | --sam-rho --update sam plain
sweep --update plain --update sign --sam-rho 0.1 | --sam-rho --update sam sign
sweep --update plain --update sam --update sign --method gd --optimizer dog \
    | update sam 'gd' | update sign dog adamw sgd
sweep --space paper --sampler tpe --scheduler moasha | --sampler tpe grid | --scheduler moasha
single --c 1.5 --limit 0 --target-lora-rank -1 --lr 0 --seed -1 --epochs 0 --max-steps 0 --batch-size -8 \
    --max-length 2 --weight-decay -1 --max-grad-norm 0 --lora-rank -1 | limit 0 | target_lora_rank -1 | max_length 2 \
    | lr 0 | seed -1 | epochs 0 | max_steps 0 | batch_size -8 | weight_decay -1 | max_grad_norm 0 | lora_rank -1 | c 1.5
sweep --c half --lr fast --seed lucky --epochs 1.5 --lora-rank few | --c half | --lr fast | --seed lucky \
    | --epochs 1.5 | --lora-rank few
single --method ngdiff --c 0.5 | c ngdiff
sweep --method npo --method rmu --retain-objective kl | retain_objective kl npo npo+ngdiff | retain_objective kl rmu
single --auto-lr-every 5 | --auto-lr-every --auto-lr gen
sweep --auto-lr-every 5 | --auto-lr-every --auto-lr gen
sweep --optimizer prodigy --auto-lr off --auto-lr gen | AutoLR prodigy
sweep --auto-lr clip --auto-lr paper --epochs 0 | 'clip' gen-clip | 'paper' gen | epochs 0
single --auto-lr gen --auto-lr-delta 0.1 --auto-lr-probe-batches 4 | --auto-lr-probe-batches --auto-lr-probe fresh \
    same | --auto-lr-delta gen-trust gen
sweep --auto-lr gen --auto-lr-probe same --auto-lr-probe-batches 4 --auto-lr-probe-batches 2 \
    | --auto-lr-probe-batches --auto-lr-probe fresh same
sweep --no-ship | --no-ship --address
lr-study --auto-lr off | --auto-lr off rule gen
lr-study --auto-lr gem --seeds 1 | 'gem' 'gen' | --seeds 1 2 7 --describe
lr-study --method ngdif --seeds 1 | 'ngdif' 'ngdiff' | --seeds 1 6 --describe
pareto --attacks quantise,nf4,foo | 'quantise' 'quantize'? nf4 'quantize' 'foo' prefix
pareto --dataset jsonl --data-dir texts --attacks prefix,quantize | prefix questions attacks quantize, barrier
lr-study --method wizardry --seeds 0 --lr -1 --optimizer rocket | lr -1 | --seeds 0 | rocket adamw | wizardry ngdiff
unlearn --method wizardry --epochs several --lr -1 --batch-size 0 | lr -1 | --epochs several | batch_size 0 \
    | wizardry ngdiff
single --option warmth=1 | warmth
single --option c --option =3 --option c=high | --option NAME=VALUE c | --option NAME=VALUE =3 \
    | --option NAME=VALUE c=high
sweep --model gpt-9 | gpt-9 tiny-phi llama2-7b ORGANISATION/NAME --model-path
single --model a/b/c --dataset books | books authors tofu | a/b/c tiny-phi
single --forget-split forget99 | forget99 forget01 forget05 forget10
single --limit 5 | --limit 5 20
single --target-path /no/such | --target-path /no/such
single --target-path adapter | --target-path adapter PEFT merge_and_unload --merge
sweep --trials 2.5 --sampler magic --scheduler magic --gpus-per-trial nan --cpus-per-trial nan --epoch-budget few \
    --until done | --trials 2.5 | magic tpe nsga2 nsga3 gp qmc random grid | magic none moasha | gpus-per-trial nan \
    | cpus-per-trial nan | --epoch-budget few | --until done plateau:10:0.001
sweep --scheduler moasha --grace 5 --epochs 5 | --grace 5 --epochs
sweep --scheduler moasha --grace 3 --eval-every 2 | --grace 3 --eval-every 2
sweep --scheduler none --grace 2 --stopping pause | --grace --stopping --scheduler moasha
sweep --cpus-per-trial 0 --max-concurrent 0 --time-budget 0 --epoch-budget 0 --gpus-per-trial -1 --until plateau:0 \
    | gpus-per-trial -1 | cpus-per-trial 0 | max-concurrent 0 | time-budget 0 | epoch-budget 0 | --until plateau:0
sweep --gpus-per-trial 1 | 1 GPU --gpus-per-trial
sweep --cpus-per-trial 9999 --gpus-per-trial 1.5 | --cpus-per-trial 9999 | gpus-per-trial 1.5
sweep --tracking-uri ftp://host --gpus-per-trial inf | gpus-per-trial inf | ftp
sweep --constraint utility=0.7 --constraint speed>=1 --constraint mia_loss<=0.6 | utility=0.7 utility>=0.7 \
    | speed list metrics | mia_loss --metrics default,mia_loss
sweep --enqueue lr=1e-4,c --enqueue lr=7 --enqueue method=npo --enqueue warmth=1 | --enqueue lr=1e-4,c NAME=VALUE \
    | --enqueue lr 7 1e-05 0.001 | method npo gdiff ngdiff | warmth method lr c
sweep --trials 3 --seeds 2 --enqueue lr=1e-4 --enqueue lr=2e-4 | --enqueue 2 4 --trials 3
sweep --sampler grid --method ngdiff --lr 1e-4 --enqueue lr=1e-4 | --enqueue grid
sweep --tracking-uri ./mlruns --warm-start nowhere --reuse nowhere --gpus-per-trial all --objectives utility:max \
    --enqueue points.yaml --data-dir nowhere | gpus-per-trial auto all | two | --enqueue points.yaml \
    | ./mlruns sqlite:///mlflow.db | --warm-start nowhere | --reuse nowhere | nowhere --data-dir
sweep --sampler qmc --warm-start nowhere | qmc tpe nsga2 nsga3 gp | --warm-start nowhere
sweep --sampler grid | --sampler grid lr
sweep --sampler grid --method ngdiff --lr 1e-4 --lr 1e-5 --trials 3 | --trials 3 2
single --c 0.1 --option c=0.2 --lr 1e-3 --lr 1e-4 | 2 pareto option c | 2 pareto --lr
sweep --sampler nsga --candidates al --scheduler moash --model tiny-ph --method ngdif --dataset offu \
    --optimizer adam --metrics verbmen --objectives verbmen:min,retain_loss:min --constraint utilty>=0.7 | 'tofu'? \
    | 'nsga3'? | 'all'? | 'moasha'? | 'adamw'? | 'tiny-phi'? | 'ngdiff'? | 'verbmem'? | 'verbmem'? | 'utility'?
sweep --method npo --option betaa=1 | npo 'beta'? beta
sweep --method npo --option depth=1 | depth npo beta
sweep --method gd --option depth=1 | depth gd options
single --method gdiff,ngdiff --c '0.1, 0.5' --lr 1e-3,1e-4 | --method gdiff --method ngdiff | --c 0.1 --c 0.5 \
    | --lr 1e-3 --lr 1e-4
lr-study --primary npo | --primary npo gdiff ngdiff
lr-study --auto-lr gen --auto-lr curvature --primary gdiff | --primary gdiff gdiff/gen/same gdiff/curvature/freshx2
lr-study --primary gdiff/curvature/same | --primary gdiff/curvature/same gdiff/gen/same
lr-study --seeds-vary weather | seeds_vary weather order target data
lr-study --seeds-vary data --dataset digits --model tiny-resnet --constraint forget_accuracy<=0.5 \
    | --seeds-vary data digits authors
lr-study --metrics utility | --metrics utility verbmem --metrics utility,verbmem --describe
lr-study --metrics utility --constraint utility>=0.5 --seeds 1 | --seeds 1 | --metrics utility verbmem utility,verbmem
lr-study --constraint forget_loops<=0.1 | --constraint forget_loops<=0.1 verbmem<=0.1 --describe
lr-study --constraint forget_fluent>=0.7 | --constraint forget_fluent>=0.7 verbmem<=0.1 --describe
lr-study --constraint forget_repetition<=0.1 | --constraint forget_repetition<=0.1 verbmem<=0.1 --describe
lr-study --dataset digits --model tiny-resnet | digits --constraint forget_accuracy<=0.1 --describe
pareto --model tiny-resnet --forget-class ten --lora-rank 8 --max-length 64 --objectives verbmem:min,retain_loss:min \
    | lora_rank 8 | max_length 64 | objective verbmem retain_accuracy | --forget-class ten digits
lr-study --seeds-vary target --target-path model | --seeds-vary --target-path
lr-study --auto-lr-probe same --auto-lr-probe-batches 2 | --auto-lr-probe-batches fresh same
lr-study --from golden --lr 1e-3 --objectives nothing:min,utility:max | nothing | --lr --from
lr-study --from golden --primary gdiff --extend --dry-run | --dry-run | --extend | --primary
lr-study --from golden --from begun | --out
lr-study --from golden --out golden | --out golden
lr-study --from full | full sweep.json
sweep --model-path model --target-path model | --model-path --target-path
sweep --model-path full | full config.json | full *.safetensors | full tokenizer
sweep --model-path deep | --model-path deep model.safetensors
sweep --method rmu --option layer=11 --option layer=-1 --option layer=12 --target-path deep \
    | --target-path deep model.safetensors | layer 12 11
sweep --model full | full --model-path
pareto --dataset jsonl | jsonl --data-dir forget.jsonl retain.jsonl
pareto --dataset jsonl --data-dir small --interpolate off --interpolate on | 2 retain_eval --interpolate off
unlearn --dataset jsonl --data-dir small --interpolate on | 2 retain_eval --interpolate off
unlearn --dataset jsonl --data-dir mine --epochs 0 | epochs 0 | questions text | forget.jsonl line 1 'answer'
single --out begun | begun python -m sweeper resume
single --out full | full empty
single --out '' | --out
sweep --trials 0 --out file | trials | --out file folder
sweep --trials 0 --out file/a/b | trials | --out file folder
sweep --out s3://bucket/sweeps | --out s3://bucket/sweeps --storage
sweep --storage s3://me:hidden@bucket/sweeps | --storage credentials
sweep --storage file | --storage file
sweep --address 127.0.0.1:9 | --address 127.0.0.1:9
sweep --out begun --trials 0 --model-path /nowhere --tracking-uri ./mlruns --data-dir torn | trials | --out begun \
    | /nowhere | ./mlruns | torn
sweep --space space.yaml --method gdiff --c 0.5 --option c=0.5 --lr 1e-4 | --method space.yaml | --c space.yaml \
    | --option space.yaml | --lr space.yaml
sweep --space wrong.yaml --trials 0 | trials 0 | wrong.yaml:2 lr high | wrong.yaml:4 epochs 0 \
    | wrong.yaml:1 nonsense | wrong.yaml:3 c 1.95
pareto --space nowhere.yaml | nowhere.yaml
pareto --plugin nowhere.py | --plugin nowhere.py
sweep --space idle.yaml | idle.yaml method
sweep --space excluded.yaml | excluded.yaml:2 c ngdiff | excluded.yaml:3 kl npo
sweep --space rates.yaml | rates.yaml:2 prodigy lr 1e-05
sweep --space multipliers.yaml | multipliers.yaml:4 d_growth | multipliers.yaml:3 AutoLR prodigy \
    | multipliers.yaml:2 prodigy lr
sweep --space rules.yaml | rules.yaml:2 'paper' gen | rules.yaml:3 smoothing \
    | rules.yaml:4 'auto' on off
sweep --space shared.yaml | shared.yaml:3 prodigy lr 1
sweep --config options.yaml | options.yaml:1 'trails' 'trials' | options.yaml:3 seed | options.yaml:5 zzz \
    | options.yaml:9 json | options.yaml:2 --epochs 'two' | options.yaml:8 batch_size 0 \
    | options.yaml:4 gradient-checkpointing maybe | options.yaml:6 option | 'ngdif' 'ngdiff'
sweep --config names.yaml | names.yaml:2 'ngdif' | names.yaml:3 warmth | names.yaml:1 'fooo' \
    | names.yaml:4 --warm-start nodir
sweep --config values.yaml | values.yaml:1 nodir.yaml | values.yaml:2 nodir | values.yaml:3 --storage file
sweep --config plugin.yaml | plugin.yaml:2 'trails' | plugin.yaml:1 --plugin nodir.py
sweep --template nodir.jinja --trials 0 | --template nodir.jinja | trials 0
sweep --config nested.yaml | nested.yaml:1 enqueue NAME=VALUE | nested.yaml:2 lr low
pareto --config nowhere.yaml --method nothing | nowhere.yaml | nothing
lr-study --config torn.yaml --method nothing | torn.yaml:2 | nothing
pareto --config twice.yaml | twice.yaml:2 trials
pareto --config alias.yaml | alias.yaml:2 batch-size twice
sweep --config large.yaml | large.yaml:2 --cpus-per-trial 9999
unlearn --config list.yaml --method nothing | list.yaml | nothing
evaluate | --model-path --eval-log
evaluate --model-path nowhere --metrics wealth --dataset atlantis | --model-path nowhere | atlantis tofu \
    | wealth default
target --dataset atlantis --target-epochs several | atlantis tofu | --target-epochs several
evaluate --eval-log file --metrics tofu | --metrics --eval-log
evaluate --model tiny-phi --model-path full | config.json | *.safetensors | tokenizer
target --dataset tofu --data-dir . --forget-split f --max-length 0 | max_length | 'f'
target --retain-only --target-path model | --retain-only --target-path
compare --format pdf | at | pdf md tex csv html
compare no full | no | full
compare nowhere | nowhere
report nowhere | nowhere
pick nowhere | nowhere
stop nowhere | nowhere
config nowhere | nowhere
report full full nowhere | full sweep.json | nowhere | --out
report theirs.csv | sweep
report golden --out begun | --out
report golden --out file | --out
report run --watch | --watch run
report golden --watch --json --port 70000 | --port 70000 | --watch --json
report golden --port 8000 | --port --watch
pick golden --constraint speed>=1 --constraint utility --rule best | best knee success | speed | utility
pick golden --where wall_seconds<=50% | wall_seconds<=50% target's
pick golden --where trial_id==7 | --where trial_id==7 column >=
pick golden --where verbmen<=0.1 --minimize utilty | verbmen<=0.1 utilty 'verbmem'? 'utility'?
pick golden --maximize method | number method
pick golden --rule knee --maximize utility --minimize verbmem --where verbmem=0.1 --merge --export . \
    | verbmem=0.1 utility>=0.7 | --rule knee --maximize | --maximize --minimize --where | --export .
pick golden --merge | --merge --export DIR
pick golden --where verbmem<=0.001 | 0.00812
pick golden --rule success | 36 verbmem utility truth_ratio
pick golden --copy-to copy | 00011
resume nowhere | nowhere
resume damaged | damaged sweep.json
resume begun | begun sweep.json
config golden --out file | file
status nowhere | nowhere folder sweep
status full | full sweep.json
stop full | full sweep.json
stop golden | golden
stop golden 00000 | trial 00000
cache --older-than -1 | --older-than -1
ui | mlflow.db --tracking-uri
ui --port first --tracking-uri folder | first | folder
doctor --shared full | --shared --address
doctor --storage full | --storage full --shared
doctor --storage s3:///runs | bucket
doctor --address 127.0.0.1:9 | --address 127.0.0.1:9
doctor --address nonsense | --address HOST:PORT 'auto'
doctor --address ray://10.0.0.1:10001 | --address ray://10.0.0.1:10001 HOST:PORT 'auto' submit
"""
"""A command line on each line, then the words of each problem. ``sweep`` is pareto and ``single`` is unlearn, each on
the small data set."""


def refusals() -> Iterator[Any]:
    """Yield the command line and the words of each problem of every line."""
    for line in LINES.strip().splitlines():
        typed, *expected = re.split(r" +\| ", line)
        command, *words = shlex.split(typed)
        yield pytest.param([command, *words], expected, id=f"{command} {shlex.join(words)}")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("words", "expected"), refusals())
def test_a_wrong_command_line_is_refused_and_nothing_is_written(
    words: list[str], expected: list[str], pareto: Command, unlearn: Command, model_folder: Path, tmp_path: Path
) -> None:
    for name, text in FILES.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    Path("golden").symlink_to(GOLDEN)
    Path("model").symlink_to(model_folder)
    before = contents(tmp_path)
    command, *rest = words
    result = {"sweep": pareto, "single": unlearn}.get(command, partial(invoke, command))(*rest)
    problems = problems_of(result)
    for problem, named in zip(problems, expected, strict=True):
        assert names(problem, named.split())
    assert "me:hidden" not in result.stderr, "a password"
    assert contents(tmp_path) == before


@pytest.mark.parametrize(("name", "hint"), [("parato", "did you mean 'pareto'?"), ("sweep", "pareto, lr-study")])
def test_an_unknown_command_is_answered_with_the_known_ones(name: str, hint: str) -> None:
    result = invoke(name)
    assert result.exit_code == 2
    assert names(result.stderr, [f"'{name}'", hint])


def test_a_cache_that_cannot_be_written_is_refused_with_the_variable(
    pareto: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("file").write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path("file").absolute()))
    (problem,) = problems_of(pareto())
    assert names(problem, ["file/sweeper", "XDG_CACHE_HOME=FOLDER"])


def test_a_missing_bucket_is_refused(pareto: Command, out: Path) -> None:
    with s3_server() as server:
        (problem,) = problems_of(pareto("--storage", server.uri("nowhere/sweeps")))
    assert "NO_SUCH_BUCKET" in problem
    assert not out.exists()
