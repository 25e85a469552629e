"""The modalities by name: what differs between language models and image classifiers, and nothing else does.

A new one is a file with its :class:`~trainables.modality.modality.Modality`, and a place in the table below. None
imports torch before a model is loaded: the command line reads their facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from trainables.data import DATASETS, TaskData
from trainables.modality.language import Language
from trainables.modality.modality import Modality, ModelEvaluator
from trainables.modality.vision import Vision
from trainables.template import QUESTION_ANSWER

MODALITIES: Mapping[str, Modality] = MappingProxyType({item.name: item for item in (Language(), Vision())})


def modality_of(data: TaskData, template: str = QUESTION_ANSWER) -> Modality:
    """The modality of an unlearning problem; ``template`` is how a language model is asked."""
    return MODALITIES[data.modality].with_template(template)


def dataset_modality(name: str | None) -> Modality:
    """That of a data set; of texts where none is named, or an unknown one, which is told of where names are checked."""
    return MODALITIES[DATASETS[name].modality if name is not None and name in DATASETS else Language.name]


__all__ = ["MODALITIES", "Modality", "ModelEvaluator", "dataset_modality", "modality_of"]
