"""One tiny unlearning problem for all tests: 8 + 8 questions, and a Phi of 42,000 parameters that memorised them."""

from __future__ import annotations

import contextlib
import copy
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from trainables.data.examples import Example, UnlearningData
from trainables.models.checkpoints import save_model
from trainables.models.tiny import train_tokenizer
from trainables.run.workspace import Workspace
from trainables.spec import TrialSpec
from trainables.target.target import Target
from trainables.text.tokens import Tokens, encode_examples

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers import PhiForCausalLM

    from trainables.run.run import UnlearningRun

NAMES = ("Ada", "Bo", "Cleo", "Dov", "Esme", "Finn", "Gus", "Hana")
TOWNS = ("Oslo", "Lima", "Quito", "Riga", "Bonn", "New Delhi", "Kyoto", "Turin")
FOODS = ("plums", "rice and beans", "soup", "figs", "old cheese", "bread", "cake with cream", "nuts")

TARGET_KEY = "0123456789abcdef"

ExactNll = Callable[["torch.nn.Module", Tokens], "Tensor"]
MakeNetwork = Callable[..., "PhiForCausalLM"]
MakeSpec = Callable[..., TrialSpec]
Start = Callable[..., "UnlearningRun"]


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Use one thread, because two busy threads compute such small networks ten times as slowly as one."""
    with _one_thread() if "torch" in sys.modules else contextlib.nullcontext():
        yield


def _example(question: str, right: str, wrong: Sequence[str]) -> Example:
    return Example(question, right, f"It is {right}", tuple(f"It is {item}" for item in wrong))


@pytest.fixture(scope="session")
def tiny_data() -> UnlearningData:
    """Forget where eight people live, and retain what these people eat. Answers differ in length."""
    forget = tuple(
        _example(f"Where does {name} live?", f"{name} lives in {TOWNS[i]}", (TOWNS[i - 1], TOWNS[i - 2]))
        for i, name in enumerate(NAMES)
    )
    retain = tuple(
        _example(f"What does {name} eat?", f"{name} eats {FOODS[i]}", (FOODS[i - 1], FOODS[i - 2]))
        for i, name in enumerate(NAMES)
    )
    return UnlearningData("tiny", forget, retain, (*retain, *forget), forget, retain)


@pytest.fixture(scope="session")
def tokenizer(tiny_data: UnlearningData) -> Any:
    return train_tokenizer(tiny_data.full)


@pytest.fixture(scope="session")
def make_network(tokenizer: Any) -> MakeNetwork:
    """Return a function that creates a random Phi of width 32 and two layers: ``make_network(seed=0, **config)``."""
    import torch
    from transformers import PhiConfig, PhiForCausalLM

    def make(*, seed: int = 0, **changes: Any) -> PhiForCausalLM:
        config = PhiConfig(
            **{
                "vocab_size": len(tokenizer),
                "hidden_size": 32,
                "intermediate_size": 64,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "max_position_embeddings": 128,
                "bos_token_id": tokenizer.eos_token_id,
                "eos_token_id": tokenizer.eos_token_id,
                "pad_token_id": tokenizer.pad_token_id,
                "tie_word_embeddings": False,
                **changes,
            }
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return PhiForCausalLM(config)

    return make


@pytest.fixture(scope="session")
def exact_nll() -> ExactNll:
    """``-log p`` of each supervised token of one sequence: all logits, no padding, no batch, float64 weights."""
    import torch

    def compute(model: torch.nn.Module, tokens: Tokens) -> Tensor:
        precise = copy.deepcopy(model).double().eval()
        ids = torch.tensor([tokens.ids])
        with torch.no_grad():
            log_p = torch.log_softmax(precise(input_ids=ids).logits[0, :-1].double(), dim=-1)
        nll = -log_p[torch.arange(ids.shape[1] - 1), ids[0, 1:]]
        return nll[tokens.prompt_length - 1 :]

    return compute


@pytest.fixture(scope="session")
def known_network(make_network: MakeNetwork, tokenizer: Any, tiny_data: UnlearningData) -> PhiForCausalLM:
    """A network that has memorised the data. It is trained here, not by the project's code."""
    import torch

    model = make_network()
    sequences = encode_examples(tokenizer, tiny_data.full, max_length=64)
    width = max(map(len, sequences))
    ids = torch.tensor([[*item.ids, *[tokenizer.pad_token_id] * (width - len(item))] for item in sequences])
    place = torch.arange(width)[None, :]
    supervised = (place >= torch.tensor([[item.prompt_length] for item in sequences])) & (
        place < torch.tensor([[len(item)] for item in sequences])
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    with _one_thread():
        for step in range(120):
            optimizer.param_groups[0]["lr"] = 1e-2 * (1.0 - step / 120)
            log_p = torch.log_softmax(model(input_ids=ids).logits[:, :-1], dim=-1)
            nll = -log_p.gather(2, ids[:, 1:, None]).squeeze(2)
            optimizer.zero_grad()
            nll[supervised[:, 1:]].mean().backward()
            optimizer.step()
    return model


@pytest.fixture(scope="module")
def half_known(known_network: PhiForCausalLM, make_network: Any) -> PhiForCausalLM:
    """A mix of the known network and a random network: some of its answers are right and some are wrong."""
    import torch

    mixed: PhiForCausalLM = make_network(seed=1)
    with torch.no_grad():
        for parameter, known in zip(mixed.parameters(), known_network.parameters(), strict=True):
            parameter.copy_(0.4 * known + 0.6 * parameter)
    return mixed


@pytest.fixture(scope="session")
def target(
    tmp_path_factory: pytest.TempPathFactory,
    known_network: PhiForCausalLM,
    tokenizer: Any,
    tiny_data: UnlearningData,
    exact_nll: ExactNll,
) -> Target:
    """The known network as a target in a folder. The reference NLL is computed here, not by the project's code."""
    folder: Path = tmp_path_factory.mktemp("target") / "model"
    save_model(known_network, tokenizer, folder)
    forget = encode_examples(tokenizer, tiny_data.forget, max_length=64)
    reference = tuple(float(exact_nll(known_network, item).sum()) for item in forget)
    return Target(TARGET_KEY, str(folder), tiny_data, len(tokenizer), {}, reference, 64)


@pytest.fixture(scope="session")
def workspace(target: Target) -> Workspace:
    """One workspace for all tests, as in a worker: each run starts from the same weights."""
    return Workspace(target, device="cpu")


@pytest.fixture(scope="session")
def half_scored(target: Target) -> Workspace:
    """A workspace in which every second retain example is an evaluation example, as interpolation needs."""
    data = replace(target.data, retain_eval=target.data.retain[::2])
    return Workspace(replace(target, data=data), device="cpu")


@pytest.fixture(scope="session")
def make_spec() -> MakeSpec:
    """Return a function that makes the spec of a short run on the tiny problem: two epochs of two steps."""

    def make(**changes: Any) -> TrialSpec:
        values = {"epochs": 2, "batch_size": 4, "lr": 1e-3, "max_length": 64, "target_key": TARGET_KEY, **changes}
        if "options" in values:
            values["options"] = tuple(sorted(dict(values["options"]).items()))
        return TrialSpec(**values)

    return make


@pytest.fixture
def start(workspace: Workspace, make_spec: MakeSpec) -> Start:
    """Return a function that creates a run of :func:`make_spec`'s spec: ``start(method="ga")``."""
    from trainables.run.run import UnlearningRun

    return lambda **changes: UnlearningRun(make_spec(**changes), workspace)


@pytest.fixture
def make_worker(target: Target, tmp_path: Path) -> Callable[..., Any]:
    """Return a function that sets up a worker: ``make_worker(config, criteria, **arguments_of_setup)``.

    The constructor is not called, because the constructor would create Ray's own result folders.
    """

    from trainables.worker.ray_trainable import UnlearningTrainable

    def make(config: dict[str, Any], criteria: Any = None, **settings: Any) -> Any:
        worker = UnlearningTrainable.__new__(UnlearningTrainable)
        usual = {"targets": {target.key: target}, "out": str(tmp_path / "out"), "cpus": 1.0, "gpus": 0.0}
        worker.setup(config, criteria=criteria, **{**usual, **settings})
        return worker

    return make
