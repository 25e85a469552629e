"""The record of a data set: its source, its options, and its loader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from search_spaces.messages import expected_one_of
from trainables.data.errors import DataError


class TaskData(Protocol):
    """The data of an unlearning task, in any modality: what to forget, what to retain, and the evaluation sets.

    Each set has a length and yields hashable items, whose type depends on the modality. The class
    :class:`~trainables.data.examples.UnlearningData` documents each set.
    """

    modality: ClassVar[str]
    """The name of the data's :class:`~trainables.modality.modality.Modality`."""

    @property
    def name(self) -> str: ...
    @property
    def forget(self) -> Any: ...
    @property
    def retain(self) -> Any: ...
    @property
    def full(self) -> Any: ...
    @property
    def forget_eval(self) -> Any: ...
    @property
    def retain_eval(self) -> Any: ...
    @property
    def holdout(self) -> Any: ...

    @property
    def content_hash(self) -> str:
        """A hash of the content. Equal content gives equal hashes in all processes."""

    def with_loss_examples(self, most: int) -> Self:
        """Return a copy that measures retain losses on at most ``most`` items of ``retain_eval``."""

    def retain_task(self) -> Self:
        """Return a copy for training the retain model, with ``retain`` as ``full`` and ``retain_eval`` as
        ``forget``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """One data set in the registry.

    Attributes:
        name: the value of ``--dataset``.
        modality: the name of the data set's modality.
        description: a text about the content, the size, and the part to forget.
        citation: the publication; empty for the user's own data.
        hub_id: the repository on the Hugging Face hub, or None.
        files: the files that ``--data-dir`` must contain if the hub is not used; None if the data set needs no files.
        forget_splits: the names of the forget sets, if there are several.
        forget_split: the default forget set.
        forget_class: the default class to forget; None if the examples have no classes.
        max_length: the default maximum length of training sequences, in tokens; None for the general default.
        unit: the number of retain examples in a group, such as the questions about one author. ``limit`` keeps or drops
            a group as a whole.
        generated: whether the data are generated, so that a different seed gives different data of the same kind.
        learns_more: whether the target is trained on more than the forget set and the retain set.
        loader: the function that loads the data. Its arguments are ``limit`` and, if they apply, ``forget_split``,
            ``forget_class`` and ``data_dir``. A ``seed`` is passed only if it is not 0. The loader imports its
            dependencies when it is called.
    """

    name: str
    modality: str
    description: str
    citation: str = ""
    hub_id: str | None = None
    files: str | None = None
    forget_splits: tuple[str, ...] = ()
    forget_split: str | None = None
    forget_class: str | None = None
    max_length: int | None = None
    unit: int = 1
    generated: bool = False
    learns_more: bool = False
    loader: Callable[..., TaskData]

    def load(
        self,
        *,
        forget_split: str | None = None,
        forget_class: str | None = None,
        data_dir: Path | None = None,
        limit: int | None = None,
        seed: int = 0,
    ) -> TaskData:
        """Load the data from ``data_dir`` or the hub, with the chosen forget set and at most ``limit`` retain examples.

        Raises:
            DataError: an argument does not apply, a file is missing or malformed, or the hub cannot be reached.
        """
        if problems := self.choice_problems(forget_split, forget_class, seed) + self.folder_problems(data_dir):
            raise DataError(*problems)
        choices = {
            "forget_split": forget_split or self.forget_split,
            "forget_class": forget_class or self.forget_class,
            "data_dir": data_dir,
            "seed": seed or None,
        }
        return self.loader(limit=limit, **{name: value for name, value in choices.items() if value is not None})

    def choice_problems(self, forget_split: str | None, forget_class: str | None, seed: int) -> list[str]:
        """Return a message for each argument that the data set does not support. Loading checks the class name."""
        found = []
        if forget_split is not None and forget_split not in self.forget_splits:
            splits = self.forget_splits
            expected = expected_one_of(forget_split, splits) if splits else "this data set has only one forget set"
            found.append(f"data set {self.name} has no forget split '{forget_split}': {expected}")
        if forget_class is not None and self.forget_class is None:
            found.append(f"forget_class does not apply to data set {self.name}, whose examples have no classes")
        if seed and not self.generated:
            found.append(f"data_seed does not apply to data set {self.name}, because its data are not generated")
        return found

    def folder_problems(self, data_dir: Path | str | None) -> list[str]:
        """Return a message if ``data_dir`` is needed but missing, or is given although the data set needs no files."""
        if data_dir is None and self.files is not None and self.hub_id is None:
            return [f"data set {self.name} needs --data-dir DIR with {self.files}"]
        if data_dir is not None and self.files is None:
            return [f"--data-dir does not apply to data set {self.name}, which needs no files"]
        return []
