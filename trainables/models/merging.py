"""Merge the models of several trials into one model, by arithmetic on their task vectors.

A task vector is the difference of a model's weights and the target's weights. A merged model has the target's weights
plus ``scale`` times the merged vector. The vectors of unlearned models point away from the forget set. The vector of a
model that was fine-tuned *on* the forget set points towards it, so it is negated first (Ilharco et al., Editing Models
with Task Arithmetic, ICLR 2023, arXiv:2212.04089). If it was fine-tuned from an earlier checkpoint, which never saw the
forget set, this is Model State Arithmetic without its retain vector (Rezaei et al., arXiv:2506.20941).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from trainables.models.adapters import merge_adapter
from trainables.models.checkpoints import ADAPTER_CONFIG, base_of, save_model
from trainables.models.weights import LoadError

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

Weights = Mapping[str, "Tensor"]


def mean(vectors: Tensor) -> Tensor:
    """Return the mean of n task vectors of one tensor: shape (n, ...) to (...)."""
    return vectors.mean(dim=0)


def sign_consensus(vectors: Tensor) -> Tensor:
    """Return the mean of n task vectors where all have the same sign, and 0 elsewhere: shape (n, ...) to (...).

    This is NegMerge (Kim et al., ICML 2025, arXiv:2410.05583). An element that is 0 in a vector agrees with no sign.
    """
    agree = (vectors > 0).all(dim=0) | (vectors < 0).all(dim=0)
    return vectors.mean(dim=0) * agree


RULES: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType({"negmerge": sign_consensus, "mean": mean})
"""The rules that merge task vectors, by name."""


def merged_weights(
    target: Weights,
    unlearned: Sequence[Weights],
    finetuned: Sequence[Weights] = (),
    *,
    checkpoint: Weights | None = None,
    rule: str,
    scale: float,
) -> dict[str, Tensor]:
    """Return the weights of the merged model. Tensors that are not floating-point are those of the target.

    Args:
        unlearned, finetuned: the weights of models that were unlearned from the target, and fine-tuned on the forget
            set. They have the names and shapes of the target's weights.
        checkpoint: the weights from which ``finetuned`` were fine-tuned; None for the target's.
        rule: a name in :data:`RULES`.
    """
    import torch

    merged = {}
    for name, start in target.items():
        if not start.is_floating_point():
            merged[name] = start
            continue
        vectors = [weights[name] - start for weights in unlearned]
        vectors += [(checkpoint or target)[name] - weights[name] for weights in finetuned]
        merged[name] = start + scale * RULES[rule](torch.stack(vectors))
    return merged


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How to make a merged model. If the sweep is in a bucket, ``folder`` and ``unlearned`` are keys in the bucket.

    Attributes:
        folder: the folder of the merged model.
        unlearned: the folders of the unlearned models.
        finetuned, checkpoint: local folders, as in :class:`Models`.
        rule, scale: as in :func:`merged_weights`.
    """

    folder: str
    unlearned: tuple[str, ...]
    finetuned: tuple[str, ...]
    checkpoint: str | None
    rule: str
    scale: float


def is_adapter(folder: Path) -> bool:
    """Return whether a model folder holds a LoRA adapter instead of all weights."""
    return (folder / ADAPTER_CONFIG).is_file()


@dataclass(frozen=True, slots=True)
class Models:
    """The folders of the target, of models that were unlearned from it, and of models fine-tuned on the forget set.

    ``checkpoint`` is the model from which ``finetuned`` were fine-tuned; None for the target.
    """

    target: Path
    unlearned: Sequence[Path]
    finetuned: Sequence[Path] = ()
    checkpoint: Path | None = None


def write_merged_model(
    folder: Path,
    models: Models,
    *,
    rule: str,
    scale: float,
    load: Callable[[Path], PreTrainedModel],
    processor: Any,
) -> None:
    """Merge models, and write the merged model with a processor.

    Args:
        load: function that loads the model in a folder, such as ``Modality.load_model``. The target must be a whole
            model.

    Raises:
        LoadError: a model cannot be loaded, or its weights have other names or shapes than the target's.
    """
    model = load(models.target)
    start = model.state_dict()
    merged = merged_weights(
        start,
        [_weights(path, start, load) for path in models.unlearned],
        [_weights(path, start, load) for path in models.finetuned],
        checkpoint=None if models.checkpoint is None else _weights(models.checkpoint, start, load),
        rule=rule,
        scale=scale,
    )
    model.load_state_dict(merged)
    save_model(model, processor, folder)


def _weights(folder: Path, start: Weights, load: Callable[[Path], PreTrainedModel]) -> Weights:
    base = base_of(folder)
    if base is None:
        weights: Weights = load(folder).state_dict()
    else:
        with TemporaryDirectory() as merged:
            merge_adapter(folder, base, Path(merged))
            weights = {name: tensor.clone() for name, tensor in load(Path(merged)).state_dict().items()}
    shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    expected = {name: tuple(tensor.shape) for name, tensor in start.items()}
    if shapes != expected:
        names = sorted(name for name in shapes.keys() | expected.keys() if shapes.get(name) != expected.get(name))
        raise LoadError(f"{folder}: the tensor {names[0]} differs in shape from the target's, so they cannot be merged")
    return weights
