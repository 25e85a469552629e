"""Send settings to workers inside the pickled trainable class or task function, not through Ray's object store.

``tune.with_parameters`` and ``ray.put`` use the object store. If a node with a stored object is lost, Ray ends the
driver without a message. Therefore the object store is used only for settings that are larger than
:data:`LARGEST_CLASS`, such as the pixels of CIFAR.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, partialmethod
from typing import Any

import ray
from ray import cloudpickle, tune

from trainables.worker.ray_trainable import UnlearningTrainable

LARGEST_CLASS = 8_000_000
"""The maximum size of settings in a class, in bytes. Ray warns above 10 MB and rejects classes above 95 MB."""


def trainable_with(**settings: Any) -> type[tune.Trainable]:
    """Return a trainable class whose method ``setup`` receives the settings as keyword arguments."""
    if _is_large(settings):
        stored: type[tune.Trainable] = tune.with_parameters(UnlearningTrainable, **settings)
        return stored
    base = UnlearningTrainable
    setup = partialmethod(base.setup, **settings)
    return type(base.__name__, (base,), {"setup": setup, "__module__": base.__module__})


def task_with(
    function: Callable[..., Any], settings: Mapping[str, Any], **options: Any
) -> Callable[..., ray.ObjectRef[Any]]:
    """Return a function that submits a Ray task with ``options``. The task calls ``function(..., **settings)``."""
    if _is_large(settings):
        stored_settings = {name: ray.put(value) for name, value in settings.items()}
        return partial(ray.remote(**options)(function).remote, **stored_settings)

    def with_settings(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs, **settings)

    submit: Callable[..., ray.ObjectRef[Any]] = ray.remote(**options)(with_settings).remote
    return submit


def _is_large(settings: Mapping[str, Any]) -> bool:
    return len(cloudpickle.dumps(settings)) > LARGEST_CLASS
