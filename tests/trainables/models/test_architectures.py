"""Each tiny model has the real architecture of a registered model and works with training, adapters and checkpoints."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from tests.trainables.runs import same_bits
from trainables.data.examples import UnlearningData
from trainables.modality.evaluation import evaluate_items
from trainables.modality.language import Language
from trainables.models.adapters import add_adapter
from trainables.models.checkpoints import load_model, load_tokenizer, save_model
from trainables.models.tiny import SLIDING_WINDOW, TINY_MODELS, VOCABULARY, make_tiny, tokenizer_for
from trainables.run.reports import Status
from trainables.run.run import UnlearningRun
from trainables.run.workspace import Workspace
from trainables.target.prepare import prepare_target
from trainables.target.target import Target
from trainables.text.losses import predict
from trainables.text.scorer import TextScorer
from trainables.text.tokens import Tokens, collate, encode_examples

CLASSES = {
    "tiny-phi": transformers.PhiForCausalLM,
    "tiny-falcon": transformers.FalconForCausalLM,
    "tiny-gpt2": transformers.GPT2LMHeadModel,
    "tiny-llama": transformers.LlamaForCausalLM,
    "tiny-mistral": transformers.MistralForCausalLM,
}
TIED = ("tiny-falcon", "tiny-gpt2")


@dataclass(frozen=True)
class Twin:
    """A tiny model with random weights, its tokenizer, and the tiny data as its tokens."""

    name: str
    model: Any
    tokenizer: Any
    sequences: tuple[Tokens, ...]
    workspace: Workspace


@pytest.fixture(scope="module", params=TINY_MODELS)
def twin(request: pytest.FixtureRequest, tiny_data: UnlearningData, tmp_path_factory: pytest.TempPathFactory) -> Twin:
    name = request.param
    tokenizer = tokenizer_for(name, tiny_data.full)
    model = make_tiny(name, tokenizer).eval()
    folder = tmp_path_factory.mktemp(name) / "target"
    save_model(model, tokenizer, folder)
    sequences = encode_examples(tokenizer, tiny_data.full, max_length=64)
    forget = encode_examples(tokenizer, tiny_data.forget, max_length=64)
    reference = evaluate_items(Language(), model, forget, processor=tokenizer, batch_size=8).totals.tolist()
    target = Target("0123456789abcdef", str(folder), tiny_data, VOCABULARY, {}, tuple(reference), 64)
    return Twin(name, model, tokenizer, sequences, Workspace(target, device="cpu"))


def test_padding_on_the_right_causes_no_warning(
    twin: Twin, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """transformers warns only once, about any batch without a mask that ends with padding."""
    library = logging.getLogger("transformers.modeling_utils")
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    vars(logging.Logger)["warning_once"].cache_clear()
    shortest, longest = min(twin.sequences, key=len), max(twin.sequences, key=len)
    batch = collate([shortest, longest], range(2), pad_id=twin.tokenizer.pad_token_id, device="cpu")
    predict(twin.model, batch)
    assert "attention_mask" not in caplog.text
    library.warning("another warning")
    assert "another warning" in caplog.text


def test_padding_on_the_left_changes_no_generated_token(twin: Twin) -> None:
    """The padding is longer than the window of tiny-mistral's attention."""
    prompts = [item.prompt for item in twin.sequences[:4]]
    long = twin.sequences[4].ids * 5
    assert len(long) > len(prompts[0]) + SLIDING_WINDOW
    together, alone = (
        TextScorer(tokenizer=twin.tokenizer, max_length=1024, batch_size=size, device="cpu").generate(
            twin.model, [*prompts, long], limits=[6] * 5
        )
        for size in (2, 1)
    )
    assert together == alone


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"gradient_checkpointing": True, "dtype": "bf16"},
        {"lora_rank": 2},
        {"lora_rank": 2, "gradient_checkpointing": True, "dtype": "bf16", "auto_lr": "gen", "auto_lr_start": 1},
    ],
    ids=["checkpointing bf16", "LoRA", "LoRA checkpointing bf16 AutoLR"],
)
def test_a_tiny_model_forgets(twin: Twin, make_spec: Any, changes: dict[str, Any]) -> None:
    """Two steps of ascent on the forget set alone raise its loss, in any precision."""
    rate = 3e-3 if "lora_rank" in changes else 3e-4
    method = "ngdiff" if "auto_lr" in changes else "ga"
    run = UnlearningRun(make_spec(method=method, epochs=1, lr=rate, **changes), twin.workspace)
    before = run._evaluator.scores(run.model).loss_metrics()["forget_loss"]
    (report,) = run
    assert report.status is Status.FINISHED
    assert report.step == 2
    if method == "ga":
        assert report.losses["forget_loss"] > before + 1e-3
    assert all(parameter.isfinite().all() for parameter in run.parameters)


def test_the_adapter_is_on_every_linear_layer_but_the_head_and_starts_as_the_identity(twin: Twin) -> None:
    ids = torch.tensor([twin.sequences[0].ids])
    with torch.no_grad():
        plain = twin.workspace.model_for().eval()(input_ids=ids).logits
        adapted = twin.workspace.model_for(lora_rank=2).eval()
        assert torch.equal(adapted(input_ids=ids).logits, plain)
    layers = {
        name
        for name, module in twin.model.named_modules()
        if isinstance(module, torch.nn.Linear | transformers.pytorch_utils.Conv1D)
    } - {"lm_head"}
    marked = {name for name, _ in adapted.named_parameters() if ".lora_A." in name}
    assert {name.removeprefix("base_model.model.").partition(".lora_A.")[0] for name in marked} == layers


@pytest.mark.slow
def test_a_target_fine_tuned_through_lora_is_a_whole_model_that_knows_more(
    tiny_data: UnlearningData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_spec: Any, twin: Twin
) -> None:
    monkeypatch.setattr("trainables.target.target.load_data", lambda *arguments, **named: tiny_data)
    recipe = {"target_lr": 1e-2, "target_batch_size": 8, "target_epochs": 3, "target_lora_rank": 4}
    target = prepare_target(make_spec(model=twin.name, **recipe), device="cpu", cache=tmp_path)
    model = load_model(target.path)
    assert type(model) is CLASSES[twin.name]
    assert not list(Path(target.path).glob("adapter*"))
    assert target.baseline["forget_loss"] < math.log(VOCABULARY) - 0.5
    embeddings = [network.get_input_embeddings().weight for network in (model, twin.model)]
    assert torch.equal(*embeddings), "the adapter has no part in the embeddings"


@pytest.mark.slow
def test_tied_embeddings_stay_one_tensor_through_a_run_with_auto_lr_and_a_checkpoint(
    twin: Twin, make_spec: Any, tmp_path: Path
) -> None:
    list(run := UnlearningRun(make_spec(method="ngdiff", auto_lr="gen", auto_lr_start=1, epochs=1), twin.workspace))
    save_model(run.model, twin.tokenizer, tmp_path / "checkpoint")
    models = run.model, load_model(tmp_path / "checkpoint"), twin.model
    inside, after, before = ([m.get_input_embeddings().weight, m.get_output_embeddings().weight] for m in models)
    assert (inside[0] is inside[1]) is (after[0] is after[1]) is (twin.name in TIED)
    assert same_bits(inside, after)
    assert not torch.equal(after[0], before[0])


TEXTS = ["Ada lives in\nOslo", "naïve Łódź  東京 🦜\ttab", "He said , do n't . Who ?"]


@pytest.mark.parametrize("name", ["tiny-phi", "tiny-llama"])
def test_a_tokenizer_is_a_function_of_its_texts_and_any_text_comes_back_even_after_saving(
    name: str, tiny_data: UnlearningData, tmp_path: Path
) -> None:
    """A network may generate any of its 2,048 outputs, even if the tokenizer has fewer tokens."""
    tokenizer, again, other = (tokenizer_for(name, part) for part in (tiny_data.full, tiny_data.full, tiny_data.forget))
    assert tokenizer.get_vocab() == again.get_vocab() != other.get_vocab()
    assert len(tokenizer) <= VOCABULARY
    assert isinstance(tokenizer.batch_decode([[VOCABULARY - 1, 40]])[0], str)
    tokenizer.save_pretrained(tmp_path)
    loaded = load_tokenizer(tmp_path)
    for text in TEXTS:
        ids = tokenizer(text).input_ids
        assert loaded(text).input_ids == ids
        assert tokenizer.unk_token_id not in ids
        assert tokenizer.decode(ids, skip_special_tokens=True) == text
    assert (loaded.eos_token_id, loaded.pad_token_id) == (tokenizer.eos_token_id, tokenizer.pad_token_id)


class _AllLogits(transformers.PhiForCausalLM):
    """An architecture without the argument ``logits_to_keep``."""

    def forward(self, input_ids: Any, use_cache: bool, **ignored: Any) -> Any:
        return super().forward(input_ids=input_ids, use_cache=use_cache)


def test_an_architecture_that_always_gives_all_logits_has_the_same_losses_even_with_an_adapter(
    known_network: Any, tiny_data: UnlearningData, tokenizer: Any
) -> None:
    sequences = encode_examples(tokenizer, tiny_data.full, max_length=64)
    batch = collate(sequences, range(len(sequences)), pad_id=tokenizer.pad_token_id, device="cpu")
    other = _AllLogits(known_network.config)
    other.load_state_dict(known_network.state_dict())
    other = add_adapter(other, rank=2, seed=0).eval()
    with torch.no_grad():
        expected, actual = predict(known_network.eval(), batch), predict(other, batch)
    assert torch.equal(actual.supervised, expected.supervised)
    torch.testing.assert_close(actual.nll, expected.nll, rtol=0, atol=1e-5)
