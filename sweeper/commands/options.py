"""The options commands share, read leniently: a value that is no number becomes a problem, not the end of reading."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

PROBLEMS = "sweeper.problems"


class Lenient(click.ParamType[Any]):
    """A number; anything else is noted in the context and read as missing, so that all problems are told at once."""

    def __init__(self, kind: type[int] | type[float], name: str) -> None:
        self.name = name
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or None and a problem in ``ctx.meta``."""
        try:
            return self._kind(value)
        except (TypeError, ValueError):
            expected = "a whole number" if self._kind is int else "a number"
            flag = param.opts[-1] if param is not None else "value"
            if ctx is not None:
                ctx.meta.setdefault(PROBLEMS, []).append(f"{flag} must be {expected}, got '{value}'")
            return None


NUMBER = Lenient(float, "number")
WHOLE = Lenient(int, "whole number")


class Rank(Lenient):
    """The rank of an adapter; ``none`` is 0."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The rank, or None and a problem in ``ctx.meta``."""
        return 0 if value == "none" else super().convert(value, param, ctx)


RANK = Rank(int, "rank")


def apply(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """One decorator from several, listed in the order of the help page."""

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


model_options = apply(
    click.option("--model", default=None, help="Model by name, or its hub id ORG/NAME.  [default: tiny-phi]"),
    click.option("--model-path", type=click.Path(), help="Folder of a causal LM to fine-tune the target from."),
    click.option("--target-path", type=click.Path(), help="Folder of a causal LM that already is the target."),
    click.option("--dataset", default=None, help="Data set by name (see 'list datasets').  [default: the model's]"),
    click.option("--data-dir", type=click.Path(), help="Folder with the data set's files, instead of the hub."),
    click.option(
        "--forget-split",
        help="What to forget of the data set (see 'list datasets').  [default: TOFU forget10, MUSE forget]",
    ),
    click.option("--forget-class", help="Images: class to forget, by name or number.  [default: dog, bed, or digit 3]"),
    click.option("--limit", type=WHOLE, help="Keep at most this many retain examples (authors, tofu: whole authors)."),
    click.option("--target-epochs", type=WHOLE, help="Epochs of the target's fine-tuning.  [default: the model's]"),
    click.option("--target-lr", type=NUMBER, help="Learning rate of the target's fine-tuning."),
    click.option("--target-batch-size", type=WHOLE, help="Batch size of the target's fine-tuning."),
    click.option(
        "--target-lora-rank",
        type=RANK,
        help="Fine-tune the target through LoRA, merged afterwards; 0 or none trains all weights.",
    ),
)

training_options = apply(
    click.option("--epochs", type=WHOLE, help="Passes over the forget set.  [default: 15]"),
    click.option("--max-steps", type=WHOLE, help="Stop after this many optimizer steps."),
    click.option("--batch-size", type=WHOLE, help="Forget and retain examples per step.  [default: the model's]"),
    click.option("--eval-batch-size", type=WHOLE, help="Sequences per evaluation batch.  [default: the model's]"),
    click.option("--max-length", type=WHOLE, help="Cut sequences after this many tokens.  [default: 512; MUSE 2048]"),
    click.option("--optimizer", help="By name (see 'list optimizers').  [default: adamw]"),
    click.option("--growth-rate", "d_growth", type=NUMBER, help="Learning-rate-free: growth cap.  [default: 1.2]"),
    click.option("--weight-decay", type=NUMBER, help="Decoupled for adamw.  [default: 0]"),
    click.option("--momentum", type=NUMBER, help="For sgd.  [default: 0]"),
    click.option("--max-grad-norm", type=NUMBER, help="Clip the combined gradient.  [default: off]"),
    click.option("--weight-scale", help="Weights raw as published, or unit, summing to 1.  [default: raw]"),
    click.option("--retain-objective", help="ce, or kl: KL to the target model, on the retain set.  [default: ce]"),
    click.option(
        "--lora-rank",
        type=RANK,
        help="Train a LoRA adapter of this rank; 0 or none trains all weights.  [default: the model's]",
    ),
    click.option("--dtype", help="fp32, or bf16 autocast over fp32 weights.  [default: fp32]"),
    click.option("--gradient-checkpointing", is_flag=True, default=None, help="Trade time for memory."),
    click.option("--auto-lr-smoothing", help="paper, clip, official, search or trust.  [default: search]"),
    click.option("--auto-lr-probe", help="same or fresh retain batch.  [default: fresh]"),
    click.option("--auto-lr-every", type=WHOLE, help="Steps between AutoLR updates.  [default: 10]"),
    click.option("--auto-lr-start", type=WHOLE, help="First step AutoLR updates at.  [default: 1]"),
    click.option("--auto-lr-probe-batches", type=WHOLE, help="Fresh retain batches AutoLR probes on.  [default: 4]"),
    click.option(
        "--auto-lr-log-forget/--no-auto-lr-log-forget",
        default=None,
        help="Log the forget loss at AutoLR's probes, too.  [default: yes]",
    ),
    click.option("--metrics", help="NAME,... or all, tofu, muse, mia, ... (see 'list metrics').  [default: default]"),
    click.option("--metrics-every", type=WHOLE, help="Measure them every so many epochs, too.  [default: at the end]"),
    click.option(
        "--retain-model",
        "retain_path",
        type=click.Path(),
        help="Folder of a model trained without the forget set, for metrics that need one.  [default: trained]",
    ),
    click.option("--option", "option", multiple=True, metavar="NAME=VALUE", help="A method's own option; repeats."),
)

SPEC_OPTIONS = (
    "model_path",
    "target_path",
    "data_dir",
    "forget_split",
    "forget_class",
    "limit",
    "target_epochs",
    "target_lr",
    "target_batch_size",
    "target_lora_rank",
    "epochs",
    "max_steps",
    "batch_size",
    "eval_batch_size",
    "max_length",
    "optimizer",
    "d_growth",
    "weight_decay",
    "momentum",
    "max_grad_norm",
    "weight_scale",
    "retain_objective",
    "lora_rank",
    "dtype",
    "gradient_checkpointing",
    "auto_lr_smoothing",
    "auto_lr_probe",
    "auto_lr_every",
    "auto_lr_start",
    "auto_lr_probe_batches",
    "auto_lr_log_forget",
    "metrics",
    "metrics_every",
    "retain_path",
)
"""The options above that are fields of a trial's spec under the same name."""


def read_method_options(pairs: Sequence[str], problems: list[str]) -> dict[str, list[float]]:
    """``NAME=VALUE`` pairs by name, in order; what cannot be read is added to ``problems``."""
    found: dict[str, list[float]] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        try:
            value = float(text)
        except ValueError:
            equals = ""
        if equals and not name.strip():
            problems.append(f"--option must be NAME=VALUE, got '{pair}', which has no name")
            continue
        if not equals:
            problems.append(f"--option must be NAME=VALUE with a number, got '{pair}'")
            continue
        found.setdefault(name.strip(), []).append(value)
    return found
