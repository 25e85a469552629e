"""Accuracies of an image classifier: the share of images whose most probable label is the true label."""

from __future__ import annotations

from typing import Literal

from trainables.metrics.metric import HOLDOUT, VISION, Cost, Metric, Need


def _accuracy(
    set_name: str, images: str, of: Literal["forget", "retain"], *needs: Need, label: str = "", primary: bool = True
) -> Metric:
    return Metric(
        name=f"{set_name}_accuracy",
        label=f"accuracy on {label or f'the {set_name} set'}",
        direction="min" if of == "forget" else "max",
        of=of,
        primary=primary,
        sets=("default", "accuracy"),
        modalities=(VISION,),
        needs=needs,
        cost=Cost.FORWARD,
        formula=f"share of {images} whose most probable label is the true label",
        citation="Golatkar et al., Eternal Sunshine of the Spotless Net, CVPR 2020 (arXiv:1911.04933)",
        measure=lambda scores: scores.accuracy(set_name),
    )


_HELD_OUT = "held-out images of the retained classes"
METRICS = (
    _accuracy("forget", "the forget set's images", "forget"),
    _accuracy("retain", "the sample of the retain set's images", "retain"),
    _accuracy("test", _HELD_OUT, "retain", HOLDOUT, label=_HELD_OUT, primary=False),
)
