"""Send the logged models of a sweep to MLflow, and remove the models whose checkpoints were removed.

No file stores which models were sent; MLflow is queried instead. The tag ``sweep_id`` identifies the models of a sweep.
The status READY shows that the metrics and files of a model have all been sent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sweeper.followers.mlflow.models import Checkpoints, NewModel, kept_models, model_key
from sweeper.followers.mlflow.runs import (
    NOTE,
    PARETO,
    RECOMMENDED,
    Candidate,
    Recommendation,
    TrackedSweep,
    ended_at,
    fit_tags,
)
from sweeper.followers.mlflow.store import ExperimentStore
from sweeper.followers.mlflow.stored import StoredModel, StoredRun
from sweeper.store.state import Trial

_REPLACED = {RECOMMENDED: "false", NOTE: "No longer recommended. The sweep's run contains the current recommendation."}


class ModelDelivery:
    """Sends the models of one sweep. All fields cache what MLflow has, or what MLflow should have.

    Each model is named by its key (:attr:`NewModel.key`).
    """

    def __init__(self, sweep: TrackedSweep, store: ExperimentStore, checkpoints: Checkpoints) -> None:
        self._sweep = sweep
        self._store = store
        self._checkpoints = checkpoints
        self._stored: dict[str, StoredModel] = {}
        self._kept: dict[str, NewModel] = {}
        self._trials: dict[str, tuple[object, list[NewModel]]] = {}  # the models of each trial, and its state then
        self._registered: set[str] = set()  # models that stay in MLflow's list without a checkpoint

    def connect(self) -> None:
        """Read which models MLflow has."""
        self._stored = self._store.models(self._sweep.id)

    def update(self, trials: Iterable[Trial]) -> None:
        """Compute which models MLflow should have."""
        kept_epochs = self._checkpoints.kept_epochs
        models: list[NewModel] = []
        for trial in trials:
            measured_count = sum(map(len, trial.measured.values()))
            last_folder = trial.outcome.checkpoint if trial.outcome is not None else None
            is_deleted = last_folder is not None and self._checkpoints.was_deleted(last_folder)
            now = (len(trial.reports), ended_at(trial), measured_count, kept_epochs.get(trial.id), is_deleted)
            if trial.id not in self._trials or self._trials[trial.id][0] != now:
                self._trials[trial.id] = (now, list(kept_models(self._sweep, trial, self._checkpoints)))
            models += self._trials[trial.id][1]
        self._kept = {model.key: model for model in models}

    def incomplete(self, trial: Trial) -> list[NewModel]:
        """Return the kept models of a trial that MLflow lacks, or whose metrics MLflow lacks."""
        return [
            model
            for model in self._trials[trial.id][1]
            if model.key not in self._stored or self._stored[model.key].metrics != model.metrics
        ]

    def without_files(self, trials: Iterable[Trial], *, only_last: bool = False) -> Iterator[str]:
        """Yield the keys of kept models of these trials that are not ready, because MLflow lacks their files."""
        for trial in trials:
            for model in self._trials.get(trial.id, (None, []))[1]:
                is_ready = model.key in self._stored and self._stored[model.key].ready
                if not is_ready and (model.is_last or not only_last):
                    yield model.key

    def removed(self) -> list[str]:
        """Return the keys of the models that MLflow has, but whose checkpoints are not kept."""
        return list(self._stored.keys() - self._kept.keys() - self._registered)

    def send(self, run: StoredRun, models: Sequence[NewModel], *, is_repeated: bool) -> None:
        """Create models of the trial with this run, unless MLflow has them, and send the missing metrics.

        MLflow lists each metric of a model in the run, too, and ignores a value that the run already has at the same
        step and time. If the trial ran more than once, MLflow has the times of the first reports.
        """
        for new in models:
            stored = self._stored.get(new.key)
            # A trial that ran again has other values than before.
            if stored is not None and any(stored.metrics[name] != new.metrics.get(name) for name in stored.metrics):
                self.remove(new.key)
            if new.key not in self._stored:
                self._stored[new.key] = self._store.create_model(run, new)
        steps = {self._stored[new.key].id: new.step for new in models}
        self._store.add_outputs(run, {id: step for id, step in steps.items() if id not in run.models})
        points = [(self._stored[new.key], point) for new in models for point in new.points]
        missing = [(stored, point) for stored, point in points if point.name not in stored.metrics]
        if is_repeated and missing:
            times = self._store.metric_times(run, {point.name for _, point in missing})
            missing = [
                (stored, replace(point, time_ms=times.get((point.name, point.step), point.time_ms)))
                for stored, point in missing
            ]
        self._store.log_model_metrics(run, missing, self._sweep.data_set)

    def send_files(self, key: str) -> None:
        """Send the files of a kept model, unless MLflow lacks the model. Raises FileNotFoundError."""
        if key in self._stored:
            self._store.log_model_files(self._stored[key], self._sweep.out / self._kept[key].folder)

    def remove(self, key: str) -> None:
        """Remove a model from MLflow's list. A model that was registered stays, because the registry refers to it."""
        if self._store.remove_model(self._stored[key]):
            del self._stored[key]
        else:
            self._registered.add(key)

    def renew(self, recommendation: Recommendation, runs: Mapping[str, StoredRun]) -> None:
        """Create the recommended model again, unless it is the newest one or was registered.

        MLflow's list of models shows the newest model first, and its UI offers no other order.
        """
        key = self._key(*recommendation.candidate)
        new, stored = self._kept.get(key), self._stored.get(key)
        if new is None or stored is None or stored is max(self._stored.values(), key=lambda model: model.created_at):
            return
        self.remove(key)
        if key not in self._stored:
            self.send(runs[new.trial_id], [new], is_repeated=True)

    def mark_frontier(self, front: Collection[Candidate], recommendation: Recommendation | None) -> None:
        """Set the tags of the models on the frontier. Reset the tags of all others, and the previous recommendation."""
        front_keys = {self._key(*candidate) for candidate in front}
        recommended_key = None if recommendation is None else self._key(*recommendation.candidate)
        for key, model in list(self._stored.items()):
            tags = {}
            if key in front_keys or PARETO in model.tags:
                tags[PARETO] = "true" if key in front_keys else "false"
            if key != recommended_key and model.tags.get(RECOMMENDED) == "true":
                tags |= _REPLACED
            self._store.set_model_tags(model, tags)

    def recommend(self, recommendation: Recommendation) -> None:
        """Set the tags of the recommended model, if MLflow has the model and its files."""
        model = self._stored.get(self._key(*recommendation.candidate))
        if model is not None and model.ready:
            self._store.set_model_tags(model, fit_tags({RECOMMENDED: "true", NOTE: recommendation.description}))

    def recommended(self) -> StoredModel | None:
        """Return the model that has the tag ``recommended``."""
        return next((model for model in self._stored.values() if model.tags.get(RECOMMENDED) == "true"), None)

    def _key(self, trial_id: str, epoch: float | None) -> str:
        if epoch is not None:
            return model_key(trial_id, epoch)
        return next((model.key for model in self._trials[trial_id][1] if model.is_last), "")
