"""The values that reproduce a stored sweep: the values that its user gave, updated with the changes by resume."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from search_spaces.builtin import AUTO_START
from search_spaces.parameters import Choice
from sweeper.settings.fields import ARMS, NO_SCHEDULER, fields_of
from sweeper.settings.sources import STORED, Given, to_config
from sweeper.settings.sweep_settings import LR_STUDY, SweepSettings
from trainables.methods import option_names
from trainables.spec import FIELDS


def config_text(settings: SweepSettings, *, plugins: Mapping[str, str]) -> str:
    """Return the YAML file that reproduces the sweep. ``plugins`` maps names of plug-ins to the stored files."""
    raw = {**(settings.given or _from_settings(settings)), **_changed(settings)}
    for name, is_script in (("plugin", True), ("template", False)):
        paths = [path for path in plugins.values() if path.endswith(".py") is is_script]
        if paths:
            raw[name] = _given(paths)
    return to_config(settings.kind, {name: values for name, values in raw.items() if values})


def _given(values: Iterable[object]) -> list[Given]:
    return [Given(value if isinstance(value, bool) else str(value), STORED) for value in values]


def _changed(settings: SweepSettings) -> dict[str, list[Given]]:
    """Return the values that resume may have changed, and values that are stored in a more exact form."""
    now: dict[str, object] = {name: getattr(settings, name) for name in ("address", "storage", "epoch_budget", "until")}
    now["no_ship"] = True if settings.address is not None and not settings.ship else None
    if settings.kind != LR_STUDY:
        now |= {"trials": settings.trials, "sampler": settings.sampler}
    elif settings.extend:
        now["extend"] = True
    if "tracking_uri" in settings.given:
        now["tracking_uri"] = settings.tracking_uri
    return {name: _given([] if value is None else [value]) for name, value in now.items()}


def _from_settings(settings: SweepSettings) -> dict[str, list[Given]]:
    """Return the option values of a sweep that did not record them, derived from its settings. Ranges are defaults."""
    base, found = settings.base, dict[str, list[object]]()
    choices = {item.key: item for item in settings.space.parameters if isinstance(item, Choice)}
    for name, item in fields_of(settings.kind).items():
        if name in FIELDS and name not in ("method", "lr", "auto_lr", "seed"):
            value = getattr(base, name)
        else:
            value = getattr(settings, {"time_budget": "time_budget_seconds"}.get(name, name), None)
        usual = FIELDS[name].default if name in FIELDS else item.default
        if name not in ("space", *settings.space.constants) and value not in (None, (), usual):
            found[name] = [",".join(value) if item.many else value]
    if settings.scheduler == NO_SCHEDULER:
        found = {name: values for name, values in found.items() if name not in ("grace", "reduction", "stopping")}
    found["method"] = list(settings.methods)
    found["seeds"] = [settings.seeds]
    found |= {name: [str(path) for path in getattr(settings, name)] for name in ("warm_start", "reuse")}
    found["constraint"] = list(settings.constraints)
    found["enqueue"] = [",".join(f"{key}={value}" for key, value in point.items()) for point in settings.enqueue]
    chosen = {"lr": "lr", "auto_lr_start_lr": AUTO_START, **dict(zip(ARMS, ARMS, strict=True))}
    found |= {name: list(choices[key].values) for name, key in chosen.items() if key in choices}
    auto_lr = choices["auto_lr"].values if "auto_lr" in choices else (settings.space.constants.get("auto_lr"),)
    if settings.kind != LR_STUDY:
        found["auto_lr"] = ["both" if len(auto_lr) > 1 else str(auto_lr[0] or base.auto_lr)]
    names = {item.name for item in choices.values()} & set(option_names())
    by_name = {name: next(item.values for item in choices.values() if item.name == name) for name in sorted(names)}
    found["option"] = [f"{name}={value}" for name, values in by_name.items() for value in values]
    return {name: _given(values) for name, values in found.items() if name in fields_of(settings.kind)}
