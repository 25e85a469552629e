"""What rows from elsewhere that do not name their model or data set are about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from analysis.tables.sources import Sources, same_model

Place = tuple[str, str]
"""A model and a data set."""


def about_the_sweeps(parts: Mapping[str, Sources]) -> dict[str, Sources]:
    """The sources, by name, with what a row from elsewhere leaves open filled in where it can mean one place only.

    It can mean the model and data set of any trial here from whose No-unlearn model that of its own table, if it has
    one, does not differ. Where it could mean several, or none, it stays as it is.
    """
    before: dict[Place, list[Mapping[str, float]]] = {}
    for part in parts.values():
        own = part.table.own.trials
        for place in dict.fromkeys(zip(own["model"], own["dataset"], strict=True)):
            before.setdefault(place, []).append(part.sweep.baseline)
    found = {}
    for name, part in parts.items():
        ours = part.sweep.baseline
        places = [place for place, baselines in before.items() if all(same_model(ours, other) for other in baselines)]
        found[name] = _filled(part, places)
    return found


def _filled(part: Sources, places: list[Place]) -> Sources:
    trials = part.table.trials.copy()
    for index in trials.index[trials["elsewhere"].astype(bool)]:
        model, dataset = trials.at[index, "model"], trials.at[index, "dataset"]
        meant = [place for place in places if model in ("", place[0]) and dataset in ("", place[1])]
        if len(meant) == 1:
            trials.loc[index, ["model", "dataset"]] = meant[0]
    return replace(part, table=part.table.of(trials))
