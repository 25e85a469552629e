"""Shared settings are pickled with a class or function. Only large settings go through Ray's object store."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray import cloudpickle, tune

from sweeper.execution import ray_payload
from sweeper.execution.ray_payload import task_with, trainable_with


def together(*, first: object, second: object) -> tuple[object, object]:
    return first, second


def test_only_settings_too_large_for_a_pickle_go_through_the_object_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray ends a process that calls ``ray.put`` if the node of the object store is lost."""
    put: list[object] = []
    sent: list[tuple[object, object]] = []

    def remote(**options: object) -> Callable[..., Any]:
        return lambda function: SimpleNamespace(
            remote=lambda **given: sent.append((options, pickle.loads(cloudpickle.dumps(function))(**given)))
        )

    monkeypatch.setattr(ray, "put", lambda value: put.append(value) or value)
    monkeypatch.setattr(ray, "remote", remote)
    monkeypatch.setattr(tune, "with_parameters", lambda trainable, **settings: put.append(settings))
    task_with(together, {"first": 1}, num_cpus=2.0)(second=2)
    assert (sent.pop(), put) == (({"num_cpus": 2.0}, (1, 2)), [])
    pixels = bytes(ray_payload.LARGEST_CLASS)
    task_with(together, {"first": pixels})(second=2)
    trainable_with(target=pixels, cpus=1.0)
    assert (sent.pop(), put) == (({}, (pixels, 2)), [pixels, {"target": pixels, "cpus": 1.0}])
