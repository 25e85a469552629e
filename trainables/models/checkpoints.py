"""Save, load and check model folders in the format of ``from_pretrained``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from search_spaces.common.durable import staged
from search_spaces.common.lfs import LFS_POINTER, is_lfs_pointer
from trainables.models.generation import save_with_settings
from trainables.models.weights import hide_notes, load_adapted, load_complete, loading

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json")
"""A folder with a tokenizer has at least one of these files."""


ADAPTER_CONFIG = "adapter_config.json"
"""The file that marks a folder as a PEFT adapter."""


def save_model(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write a model and its tokenizer to a folder, atomically. For a PEFT model, only the adapter is written."""
    with staged(folder) as staging:
        write_model(model, tokenizer, staging)


def write_model(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write a model and its tokenizer to a folder, not atomically."""
    hide_notes()
    save_with_settings(model, folder)
    tokenizer.save_pretrained(folder)
    # safetensors creates files that only their owner can read. For shared storage, use the permissions of the umask.
    probe = folder / ".usual"
    probe.touch()
    mode = probe.stat().st_mode & 0o777
    probe.unlink()
    for weights in folder.glob("*.safetensors"):
        weights.chmod(mode)


def load_model(folder: Path | str, *, skeleton: bool = False) -> PreTrainedModel:
    """Load a causal language model in float32 from safetensors. Code from the folder or the hub is never run.

    For a folder with a PEFT adapter, the base model is loaded too. With ``skeleton``, only names and shapes are loaded.

    Raises:
        LoadError: the model is missing, is incomplete (WeightsError), or is not a causal language model
            (NotCausalError, which is not raised for a skeleton).
    """
    from transformers import AutoModelForCausalLM

    from trainables.models.causal import require_causal
    from trainables.models.kernels import fuse_activations

    with loading(folder):
        base = base_of(Path(folder))
        if base is None:
            model = load_complete(AutoModelForCausalLM, folder, skeleton=skeleton)
        else:
            model = load_adapted(AutoModelForCausalLM, Path(folder), base, skeleton=skeleton)
        if not skeleton:
            require_causal(model, folder)
    return model if skeleton else fuse_activations(model)


def load_tokenizer(folder: Path | str) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a model. The loaded tokenizer has a padding token.

    If the model's embedding does not have the padding token, as after ``add_special_tokens`` without
    ``resize_token_embeddings``, the tokenizer pads with its EOS token.

    Raises:
        LoadError: the tokenizer is missing, has no fast version, or has no EOS token.
    """
    from transformers import AutoTokenizer

    with loading(folder):
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        if not tokenizer.is_fast:
            raise ValueError("its tokenizer has no fast version (tokenizer.json), which is needed to locate answers")
        if tokenizer.eos_token_id is None:
            raise ValueError("its tokenizer has no end-of-sequence token, but every answer must end with this token")
        ensure_pad_token(tokenizer, rows=_vocabulary_size(folder))
    return tokenizer


def _vocabulary_size(folder: Path | str) -> int | None:
    """Return the number of rows in the model's embedding; None if the folder has a tokenizer only."""
    from transformers import AutoConfig

    source = base_of(Path(folder)) or folder
    if Path(source).is_dir() and not (Path(source) / "config.json").is_file():
        return None
    configuration = AutoConfig.from_pretrained(source, trust_remote_code=False).get_text_config()
    return getattr(configuration, "vocab_size", None)


def ensure_pad_token(tokenizer: PreTrainedTokenizerBase, *, rows: int | None = None) -> None:
    """Use EOS for padding if there is no padding token, or if an embedding of ``rows`` rows does not have the token."""
    pad = tokenizer.pad_token_id
    if pad is None or (rows is not None and pad >= rows):
        tokenizer.pad_token = tokenizer.eos_token  # safe, because masks identify padding, not ids


def folder_problems(folder: Path, *, tokenizer: bool = True) -> list[str]:
    """Return a message for each problem with a model folder."""
    has_config = (folder / "config.json").is_file()
    if not has_config and (folder / ADAPTER_CONFIG).is_file():
        return [
            "this is a PEFT adapter, expected a whole model; merge it into its base model with PEFT's "
            "merge_and_unload() and save_pretrained(), or with 'pick --export DIR --merge'"
        ]
    problems = [] if has_config else ["config.json is missing"]
    problems += weights_problems(folder)
    tokenizer_files = [folder / name for name in TOKENIZER_FILES if (folder / name).is_file()]
    if tokenizer and not tokenizer_files:
        problems.append("the tokenizer is missing")
    problems += [f"{path.name} {LFS_POINTER}" for path in tokenizer_files if is_lfs_pointer(path)]
    return problems


def weights_problems(folder: Path) -> list[str]:
    from safetensors import SafetensorError, safe_open

    expected_names: set[str] = set()
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        try:
            expected_names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (ValueError, KeyError, TypeError, AttributeError):
            return [f"{index.name} cannot be read"]
    missing_names = sorted(name for name in expected_names if not (folder / name).is_file())
    files = sorted(folder.glob("*.safetensors"))
    if not files and not expected_names:
        return [f"it has no *.safetensors weights{_conversion_hint(folder)}"]
    problems = []
    if missing_names:
        problems.append(
            f"{len(missing_names)} of {len(expected_names)} weight files are missing: {', '.join(missing_names[:3])}"
        )
    for path in files:
        if is_lfs_pointer(path):
            problems.append(f"{path.name} {LFS_POINTER}")
            continue
        try:
            with safe_open(path, framework="np"):
                pass  # opening checks that the file is as long as its header says
        except (SafetensorError, ValueError) as error:
            problems.append(
                f"{path.name} is truncated: its {path.stat().st_size:,} bytes do not match its header ({error})"
            )
    return problems


def _conversion_hint(folder: Path) -> str:
    """Return a hint that names weights in other formats, for the end of a message; empty without such weights."""
    names: list[str] = []
    for pattern in ("*.bin", "*.pt", "*.gguf"):
        names += sorted(path.name for path in folder.glob(pattern))
    return f" (found {', '.join(names[:3])}; convert it to safetensors first)" if names else ""


def base_of(folder: Path) -> str | None:
    """Return the folder or hub id of an adapter's base model; None if there is no adapter or no such name."""
    try:
        base_model = json.loads((folder / ADAPTER_CONFIG).read_text(encoding="utf-8"))["base_model_name_or_path"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return str(base_model) if base_model else None
