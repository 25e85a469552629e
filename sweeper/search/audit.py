"""Plan the audit trials: fine-tune the base model again, with and without the forget set.

The models of an audit follow the target's own path: they start from the same base model and are fine-tuned with the
target's recipe. Whether a model is equivalent to a retrained model depends on this path (arXiv:2510.16629), so another
path, such as another order of training stages, would need pools of its own.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from analysis.audit.pools import NEVER_SAW, SAW
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.events import Phase
from sweeper.store.state import SweepState
from trainables.metrics.registry import METRICS, SETS
from trainables.run.reports import Outcome, Status
from trainables.spec import TrialSpec


@dataclass(frozen=True, slots=True)
class PoolModel:
    """A model of an audit: its pool (:data:`NEVER_SAW` or :data:`SAW`) and the seed of its fine-tuning."""

    pool: str
    seed: int

    @property
    def saw(self) -> bool:
        return self.pool == SAW

    @property
    def trial_id(self) -> str:
        return f"{self.pool}-{self.seed:03d}"

    def spec(self, settings: SweepSettings) -> TrialSpec:
        """Return the sweep's shared settings, with the model's seed and the metrics of the sweep's attacks."""
        return replace(settings.attacked_spec(settings.target_seeds[0]), target_seed=self.seed)


def pool_models(settings: SweepSettings) -> list[PoolModel]:
    """Return all models of the audit. Their seeds follow the seeds of the sweep's targets, which they do not repeat."""
    first = 1 + max(settings.base_spec(seed).target_seed for seed in settings.target_seeds)
    seeds = range(first, first + settings.audit)
    return [PoolModel(pool, seed) for pool in (NEVER_SAW, SAW) for seed in seeds]


def missing_models(settings: SweepSettings, state: SweepState, baseline: Collection[str]) -> list[PoolModel]:
    """Return the models of the audit that have no result, or on which an attack of the sweep is not measured.

    ``baseline`` has the names of the metrics of the target. An attack without a metric of the target does not count,
    because the data cannot give it.
    """
    ended = {trial.id: trial.outcome for trial in state.ended_of(Phase.AUDIT)}
    metrics = [
        [name for name in SETS[attack] if name in baseline and not METRICS[name].needs_target]
        for attack in settings.attack_names
    ]
    return [model for model in pool_models(settings) if not _is_measured(ended.get(model.trial_id), metrics)]


def _is_measured(outcome: Outcome | None, metrics: Collection[Collection[str]]) -> bool:
    """Return whether a model has failed, or has a value of some metric of each attack. ``metrics`` are by attack."""
    if outcome is None or outcome.status is not Status.FINISHED:
        return outcome is not None
    return all(any(name in outcome.metrics for name in names) for names in metrics if names)
