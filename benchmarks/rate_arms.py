"""The arms of the experiment on learning-rate rules (docs/data/rate_protocol.md).

An arm is written as words joined with ``+``, such as ``off+decay`` or ``gen-trust+delta=0.005+batches=8+double``. The
first word is a value of ``--auto-lr``. Further words set one setting each. The words ``one-step``, ``double``,
``accept`` and ``significant`` change the rule ``gen-trust``; these variants are only for the development part.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trainables.auto_lr.fit import Fit, Probe
from trainables.auto_lr.rules import gen_trust
from trainables.batches import EndlessBatches

if TYPE_CHECKING:
    from trainables.run.run import UnlearningRun

SETTINGS: dict[str, dict[str, Any]] = {
    "decay": {"lr_decay": "linear"},
    "restart": {"on_divergence": "restart"},
    "interpolate": {"interpolate": "on"},
    "fresh": {"auto_lr_probe": "fresh"},
}
VARIANTS = ("one-step", "double", "accept", "significant")
"""``one-step``: delta bounds the rise of one step, not of all steps until the next update. ``double``: the rate at most
doubles per update. ``accept``: the rise of the retain loss is measured at the new rate, and the rate is halved until
the rise is at most ``2 delta + SLACK``. ``significant``: G counts as 0 unless it exceeds twice its standard error over
the probe batches."""
SLACK = 0.01
"""The measured rise that ``accept`` allows in addition to ``2 delta``, in nats per token."""
MAX_HALVINGS = 4
HELD_OUT = 32
"""The number of retain examples that no arm uses for training. AutoLR's fresh probes use these examples."""

Choose = Callable[[Fit, Probe, float], float | str]


def settings_of(arm: str) -> dict[str, Any]:
    """Return the settings of an arm.

    Raises:
        ValueError: a word is unknown.
    """
    rule, *words = arm.split("+")
    settings: dict[str, Any] = {"auto_lr": rule}
    for word in words:
        name, _, value = word.partition("=")
        if word in SETTINGS:
            settings |= SETTINGS[word]
        elif name == "delta" and value:
            settings["auto_lr_delta"] = float(value)
        elif name == "batches" and value:
            settings |= {"auto_lr_probe": "fresh", "auto_lr_probe_batches": int(value)}
        elif word not in VARIANTS:
            known = ", ".join((*SETTINGS, "delta=NUMBER", "batches=NUMBER", *VARIANTS))
            raise ValueError(f"arm {arm!r} has the unknown word {word!r}: expected {known}")
    return settings


def prepare(run: UnlearningRun, arm: str) -> None:
    """Take the held-out examples out of the training batches, use them in fresh probes, and set the rule's variant."""
    from trainables.data.overlap import unscored_retain

    _, retain = run.workspace.train_sets
    lengths, unscored = run.workspace.modality.lengths(retain), unscored_retain(run.workspace.target.data)
    held_out = evenly_spaced(unscored, HELD_OUT)
    training = sorted({*range(len(lengths))} - {*held_out})
    size, seed = run.spec.batch_size, run.spec.seed
    run._batches._retain = RowBatches(training, lengths, size, f"retain:{seed}")
    if run.auto_lr is None:
        return
    if held_out:
        run.auto_lr._probes = RowBatches(held_out, lengths, size, f"probe:{seed}")
    words = arm.split("+")
    if not {*words} & {*VARIANTS}:
        return
    choose: Choose = gen_trust
    if "significant" in words:
        choose = significant(choose, record_probes(run))
    if "double" in words:
        choose = double(choose, run.spec.auto_lr_every)
    if "accept" in words:
        choose = accept(choose)
    run.auto_lr.rule = replace(run.auto_lr.rule, choose=choose, shared="one-step" not in words)


def evenly_spaced(rows: Sequence[int], count: int) -> list[int]:
    """Return ``count`` evenly spaced rows. At most half of the rows are returned, so that the others remain."""
    count = min(count, len(rows) // 2)
    return [rows[index * len(rows) // count] for index in range(count)]


class RowBatches(EndlessBatches):
    """Endless batches of some rows of a set. ``lengths`` has the lengths of all rows of the set."""

    def __init__(self, rows: Sequence[int], lengths: Sequence[int], batch_size: int, key: str) -> None:
        super().__init__([lengths[row] for row in rows], batch_size, key)
        self._rows = rows

    def __getitem__(self, number: int) -> list[int]:
        return [self._rows[index] for index in super().__getitem__(number)]


def double(choose: Choose, steps: int) -> Choose:
    """Return the rule that increases the rate at most by a factor of 2. The rate is used for ``steps`` steps."""

    def limited(fit: Fit, probe: Probe, delta: float) -> float | str:
        x = choose(fit, probe, delta)
        return x if isinstance(x, str) else min(x, 2.0 * steps * fit.eta)

    return limited


def accept(choose: Choose) -> Choose:
    """Return the rule that halves the rate until the measured rise of the loss is at most ``2 delta + SLACK``.

    The rise is measured for all steps until the next update together.
    """

    def measured(fit: Fit, probe: Probe, delta: float) -> float | str:
        x = choose(fit, probe, delta)
        if isinstance(x, str) or not math.isfinite(x):
            return x
        for _ in range(MAX_HALVINGS):
            loss = probe(x)
            if loss.loss_plus - loss.loss_zero <= 2.0 * delta + SLACK:
                break
            x /= 2.0
        return x

    return measured


def significant(choose: Choose, losses: Sequence[Sequence[float]]) -> Choose:
    """Return the rule for which G counts as 0 unless it exceeds twice its standard error.

    Args:
        losses: the losses of each probe batch at each measurement. The last two are those at ``eta`` and ``-eta``.
    """

    def tested(fit: Fit, probe: Probe, delta: float) -> float | str:
        plus, minus = losses[-2], losses[-1]
        slopes = [(below - above) / (2.0 * fit.eta) for above, below in zip(plus, minus, strict=True)]
        error = statistics.stdev(slopes) / math.sqrt(len(slopes)) if len(slopes) > 1 else math.inf
        if not fit.is_finite or fit.slope > 2.0 * error:
            return choose(fit, probe, delta)
        level = (fit.loss_plus + fit.loss_minus) / 2.0  # equal losses on both sides keep H and give G = 0
        return choose(replace(fit, loss_plus=level, loss_minus=level), probe, delta)

    return tested


def record_probes(run: UnlearningRun) -> list[list[float]]:
    """Measure the probe batches of a run one by one, and return the list to which their losses are appended."""
    recorded: list[list[float]] = []
    original = run.losses.retain_probe

    def retain_probe(batches: Sequence[Sequence[int]]) -> Callable[[], float]:
        measures = [original([batch]) for batch in batches]

        def measure() -> float:
            recorded.append([one() for one in measures])
            return statistics.fmean(recorded[-1])

        return measure

    run.losses.retain_probe = retain_probe  # type: ignore[method-assign]
    return recorded
