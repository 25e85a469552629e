"""Load the weights of a model folder, and refuse a folder in which weights are missing or have another shape.

transformers only warns about missing weights, and gives them random values.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from logging import LogRecord
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from search_spaces.common.messages import first_line

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

WRAPPERS = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")
"""Parts of names that torch.compile, FSDP and activation checkpointing add wherever they wrap a module."""
PREFIXES = ("module.", "_forward_module.", "base_model.model.")
"""Beginnings of names in state dicts of DataParallel, Lightning and PEFT."""
ADAPTER_NAME = re.compile(r"\.default(\.|$)")
"""The part of a weight's name that shows that the weight belongs to an adapter."""
_LORA_REMEDY = "the files have LoRA weights; merge them (merge_and_unload of PEFT), then save the model"
_QUANTISED = ("F8", "I", "U")
"""The beginnings of safetensors' names for types that hold only codes of weights, whose scales are other tensors."""
_SHOWN = 3
"""The number of names in a message."""


class LoadError(RuntimeError):
    """Raised if a model cannot be loaded. The message is for the user."""

    exit_code = 1


class WeightsError(LoadError):
    """Raised if the weights in a folder do not belong to the model that the folder's configuration describes."""

    exit_code = 2


@contextmanager
def loading(source: Path | str) -> Iterator[None]:
    """Convert errors in the block to a :class:`LoadError` that names ``source``."""
    hide_notes()
    try:
        yield
    except LoadError:
        raise
    except Exception as error:
        raise LoadError(f"cannot load the model {source}: {first_line(error)[:300]}") from error


def load_complete(
    auto_class: Any, folder: Path | str, *, skeleton: bool = False, new_head: bool = False, **options: Any
) -> PreTrainedModel:
    """Load a model in float32 from safetensors, with all its weights. Code from the folder is never run.

    The names of weights may have the prefixes in :data:`WRAPPERS` and :data:`PREFIXES`, which are removed.

    Args:
        auto_class: the class of transformers that loads the model, such as ``AutoModelForCausalLM``.
        skeleton: whether to load only names and shapes, onto torch's meta device. The check is the same.
        new_head: whether the weights of the head may be missing or have another shape. They are then random.
        options: further arguments of ``from_pretrained``.

    Raises:
        WeightsError: weights are missing, have another shape, are for layers that the model does not have, are
            quantised without a description of how, or are not finite. A skeleton has no values, so it is not checked
            for the last case.
        Exception: an error of transformers.
    """
    import torch

    if skeleton:
        options["device_map"] = "meta"
    with _only_errors():
        model, info = auto_class.from_pretrained(
            folder,
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # all mismatches are reported below
            key_mapping=_renamings(stored_names(folder)),
            **options,
        )
    head_names = _head_names(model) if new_head else set()
    tied = set(getattr(model, "all_tied_weights_keys", None) or {})
    names = set(model.state_dict()) - tied - head_names
    _require_complete(model, folder, names, info)
    _require_no_codes(folder)
    if not skeleton:
        _require_finite(folder, dict(model.named_parameters()))
    loaded: PreTrainedModel = model
    return loaded


def load_adapted(auto_class: Any, adapter: Path, base: Path | str, *, skeleton: bool = False) -> PreTrainedModel:
    """Load a base model with a PEFT adapter, in float32. Both must be complete.

    Raises:
        WeightsError: weights of the base model or of the adapter are missing, have another shape, do not match, or are
            not finite.
        Exception: an error of transformers or PEFT.
    """
    from peft import PeftConfig
    from safetensors.torch import load_file

    model = load_complete(auto_class, base, skeleton=skeleton)
    weights: dict[str, Tensor] = {}
    for file in sorted(adapter.glob("*.safetensors")):
        weights |= load_file(file)
    weights = {name: tensor.float() for name, tensor in zip(_unwrapped(weights), weights.values(), strict=True)}
    _require_finite(adapter, weights)
    with _only_errors():
        info = model.load_adapter(
            peft_config=PeftConfig.from_pretrained(str(adapter)),
            adapter_state_dict=weights,
            ignore_mismatched_sizes=True,
        ).to_dict()
    names = {name for name in model.state_dict() if ADAPTER_NAME.search(name)}
    _require_complete(model, adapter, names, info, unused_allowed=False)
    return model


def stored_names(folder: Path | str) -> list[str]:
    """Return the names of the weights in a folder's safetensors files; an empty list for a hub id."""
    return list(_stored_types(folder))


def _stored_types(folder: Path | str) -> dict[str, str]:
    """Return the type of each weight in a folder's safetensors files, such as BF16; empty for a hub id."""
    types: dict[str, str] = {}
    for file in sorted(Path(folder).glob("*.safetensors")) if os.path.isdir(folder) else ():
        with safe_open(file, framework="np") as weights:
            types |= {name: weights.get_slice(name).get_dtype() for name in weights.keys()}  # noqa: SIM118
    return types


def removed_prefixes(folder: Path | str) -> list[str]:
    """Return the known prefixes that are removed from the names of the weights in a model folder."""
    if not (Path(folder) / "config.json").is_file():
        return []  # an adapter, whose names always begin with a prefix
    with contextlib.suppress(SafetensorError):  # an error when the model is loaded
        return _found_prefixes(stored_names(folder))
    return []


def _found_prefixes(names: Sequence[str]) -> list[str]:
    wrappers = [part for part in WRAPPERS if any(part in name for name in names)]
    return wrappers + [part for part in PREFIXES if any(name.startswith(part) for name in _unwrapped(names))]


def _unwrapped(names: Iterable[str]) -> list[str]:
    pattern = re.compile("|".join(map(re.escape, WRAPPERS)))
    return [pattern.sub("", name) for name in names]


def _renamings(names: Sequence[str]) -> dict[str, str] | None:
    """Return patterns of ``from_pretrained`` that remove the known prefixes; None if no name has such a prefix."""
    renamings = {}
    for part in _found_prefixes(names):
        renamings[re.escape(part) if part in WRAPPERS else f"^{re.escape(part)}"] = ""
    return renamings or None


def _head_names(model: PreTrainedModel) -> set[str]:
    body = f"{model.base_model_prefix}."
    return {name for name in model.state_dict() if not name.startswith(body)}


def _require_complete(
    model: PreTrainedModel, folder: Path | str, names: set[str], info: Mapping[str, Any], *, unused_allowed: bool = True
) -> None:
    """Raise WeightsError if the information about the loading of ``model`` shows a problem with the weights ``names``.

    Unused weights in the files are accepted, except those of layers that the model does not have: old checkpoints have
    buffers, and models with other heads have weights of the head.
    """
    names = {name for name in names if not name.endswith("num_batches_tracked")}
    missing = sorted(names & set(info["missing_keys"]))
    shapes = sorted(item for item in info["mismatched_keys"] if item[0] in names)
    unused = sorted(info["unexpected_keys"])
    layers = {_without_numbers(name) for name in model.state_dict()}
    refused = [name for name in unused if not unused_allowed or _without_numbers(name) in layers or "lora_" in name]
    problems = []
    if missing:
        problems.append(
            f"{len(missing)} of {len(names)} weights are missing: {listed(missing)}; "
            + (_remedy(model, unused) if unused_allowed else "save the adapter again with save_pretrained of PEFT")
        )
    elif refused:
        problems.append(
            f"{len(refused)} weights in the files are for layers that the model does not have: {listed(refused)}; "
            f"{_LORA_REMEDY if 'lora_' in refused[0] and unused_allowed else 'use the model to which they belong'}"
        )
    if shapes:
        examples = [
            f"{name} is {_format(file)} in the files, {_format(own)} in the model" for name, file, own in shapes
        ]
        problems.append(
            f"{len(shapes)} of {len(names)} weights have another shape: {listed(examples)}; "
            "save the model again with save_pretrained, or correct config.json"
        )
    problems += map(first_line, info.get("error_msgs", ()))
    if problems:
        raise WeightsError(f"{folder}: {'; '.join(problems)}")


def _require_no_codes(folder: Path | str) -> None:
    """Raise WeightsError if the files have quantised weights, but config.json does not say so.

    transformers would use the codes as the weights, without their scales.
    """
    codes = [name for name, stored in _stored_types(folder).items() if _is_code(name, stored)]
    if codes and not json.loads((Path(folder) / "config.json").read_text(encoding="utf-8")).get("quantization_config"):
        raise WeightsError(
            f"{folder}: {len(codes)} of the weights are quantised, but config.json has no quantization_config, so "
            f"their scales would be ignored: {listed(codes)}; use the config.json that belongs to the weights, or "
            "weights that are not quantised"
        )


def _is_code(name: str, stored: str) -> bool:
    return name.endswith(".weight") and stored.startswith(_QUANTISED)


def _require_finite(folder: Path | str, weights: Mapping[str, Tensor]) -> None:
    """Raise WeightsError if a value is NaN or infinite.

    The sum of a tensor is computed first, because it is 20 times as fast as the check of each value.
    """
    broken = [name for name, values in weights.items() if not (values.sum().isfinite() or values.isfinite().all())]
    if broken:
        raise WeightsError(
            f"{folder}: {len(broken)} of {len(weights)} weights have values that are NaN or infinite: "
            f"{listed(broken)}; use a checkpoint from before the training diverged"
        )


def _remedy(model: PreTrainedModel, unused: Sequence[str]) -> str:
    """Return the end of the message about missing weights: what the files have instead, and what to do."""
    save = "save the whole model again with save_pretrained"
    if any("lora_" in name for name in unused):
        return _LORA_REMEDY
    if not unused:
        return save
    own_names = set(model.state_dict())
    prefix = unused[0][: unused[0].find(".") + 1]
    while prefix and all(name.startswith(prefix) for name in unused):
        if any(name.removeprefix(prefix) in own_names for name in unused):
            return f"the names in the files begin with '{prefix}'; save the model without this prefix"
        end = unused[0].find(".", len(prefix))
        prefix = unused[0][: end + 1] if end >= 0 else ""
    return (
        f"the files have {len(unused)} weights that a {type(model).__name__} does not have, such as {listed(unused)}; "
        f"{save}, or correct config.json"
    )


def listed(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    others = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {others} more" if others > 0 else "")


def _format(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape)) or "a number"


def _without_numbers(name: str) -> str:
    return re.sub(r"\.\d+(?=\.)", ".*", name)


@contextmanager
def _only_errors() -> Iterator[None]:
    """In the block, transformers logs no warnings: its report on weights is checked instead."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)


def hide_notes() -> None:
    """Hide the progress bars of transformers, and its warning about padding.

    The warning appears if a batch without a mask ends with the padding token. Batches are padded on the right
    (:class:`trainables.text.tokens.Batch`), so the tokens of a causal model do not see the padding.
    """
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.get_logger("transformers.modeling_utils").addFilter(_is_not_about_padding)


def _is_not_about_padding(record: LogRecord) -> bool:
    return "passing in an `attention_mask`" not in record.getMessage()
