"""Send the settings of all workers inside the pickled class or function, and not through Ray's object store.

``tune.with_parameters`` and ``ray.put`` would store the settings in Ray's object store. If a node that holds an object
is lost, Ray ends the driver that owns the object, with exit code 1 and without a message. Therefore only settings that
are too large for a class, such as the pixels of CIFAR, use the object store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, partialmethod
from typing import Any

import ray
from ray import cloudpickle, tune

from trainables.worker.ray_trainable import UnlearningTrainable

LARGEST_CLASS = 8_000_000
"""The maximum bytes of settings in a class. Ray warns about classes above 10 MB and rejects classes above 95 MB."""


def trainable_with(**settings: Any) -> type[tune.Trainable]:
    """Return a trainable class whose workers get ``settings`` in :meth:`~UnlearningTrainable.setup`."""
    if _is_large(settings):
        stored: type[tune.Trainable] = tune.with_parameters(UnlearningTrainable, **settings)
        return stored
    base = UnlearningTrainable
    setup = partialmethod(base.setup, **settings)
    return type(base.__name__, (base,), {"setup": setup, "__module__": base.__module__})


def task_with(
    function: Callable[..., Any], settings: Mapping[str, Any], **options: Any
) -> Callable[..., ray.ObjectRef[Any]]:
    """Return a function that submits ``function(..., **settings)`` as a Ray task with these ``options``."""
    if _is_large(settings):
        return partial(ray.remote(**options)(function).remote, **{name: ray.put(it) for name, it in settings.items()})

    def with_settings(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs, **settings)

    submit: Callable[..., ray.ObjectRef[Any]] = ray.remote(**options)(with_settings).remote
    return submit


def _is_large(settings: Mapping[str, Any]) -> bool:
    return len(cloudpickle.dumps(settings)) > LARGEST_CLASS
