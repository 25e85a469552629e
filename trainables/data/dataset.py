"""What a data set is: one record that says where it comes from and what may be chosen of it, and that loads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from search_spaces.messages import expected_one_of
from trainables.data.errors import DataError


class TaskData(Protocol):
    """An unlearning problem, whatever it is made of: what to forget, what to keep, what both are judged on.

    Each set has a length, is iterated over by items that can be hashed, and is opaque to all but its modality; see
    :class:`~trainables.data.examples.UnlearningData` for what each is.
    """

    modality: ClassVar[str]
    """The name of its :class:`~trainables.modality.modality.Modality`."""

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
        """Names the problem: equal content has an equal one, in every process."""

    def with_loss_examples(self, most: int) -> Self:
        """The same problem with the retain loss of at most so many items of ``retain_eval``."""

    def retain_task(self) -> Self:
        """The retain set in the place of what a target learns and is asked for: the retain model's problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """One data set; ``loader`` imports what it needs when it is called.

    Attributes:
        name: what ``--dataset`` takes.
        modality: the name of its modality.
        description: what it is, how large, and what is forgotten of it.
        citation: where it was published; empty for one's own.
        hub_id: its repository on the Hugging Face hub; None where it has none.
        files: what ``--data-dir`` must hold in place of the hub; None where the data set needs no files.
        forget_splits: the names of its forget sets, where it has several.
        forget_split: the one that is forgotten unless told otherwise.
        forget_class: the class that is forgotten unless told otherwise, where the forget set is one of several classes.
        max_length: tokens of a training sequence unless told otherwise; None where the usual number does.
        unit: a limit keeps whole units of so many retain examples.
        generated: whether it is made here, and a seed makes another one of its kind.
        learns_more: whether the target learns more than the forget and the retain set.
        loader: called with ``limit``, and with ``forget_split``, ``forget_class``, ``data_dir`` and a ``seed`` that is
            not 0 where they apply.
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
        """The data: one of its forget sets, from ``data_dir`` or the hub, with at most ``limit`` retain examples.

        Raises:
            DataError: a choice does not apply, a file is missing or malformed, or the hub cannot be reached.
        """
        problems = self.choice_problems(forget_split, forget_class)
        problems += self.folder_problems(data_dir)
        problems += self.seed_problems(seed)
        if problems:
            raise DataError(*problems)
        choices = {
            "forget_split": forget_split or self.forget_split,
            "forget_class": forget_class or self.forget_class,
            "data_dir": data_dir,
            "seed": seed or None,
        }
        return self.loader(limit=limit, **{name: value for name, value in choices.items() if value is not None})

    def choice_problems(self, forget_split: str | None, forget_class: str | None) -> list[str]:
        """Why this forget set cannot be chosen; whether there is such a class, only the data can tell."""
        found = []
        if forget_split is not None and forget_split not in self.forget_splits:
            splits = self.forget_splits
            expected = expected_one_of(forget_split, splits) if splits else "this data set has no such choice"
            found.append(f"forget split '{forget_split}' does not fit data set {self.name}: {expected}")
        if forget_class is not None and self.forget_class is None:
            found.append(f"forget_class does not apply to data set {self.name}: its examples have no classes")
        return found

    def seed_problems(self, seed: int) -> list[str]:
        """Why there is no data set of this seed."""
        if seed and not self.generated:
            return [f"data_seed does not apply to data set {self.name}, which is read and not generated"]
        return []

    def folder_problems(self, data_dir: Path | str | None) -> list[str]:
        """Why there must be a folder of files, or must be none."""
        if data_dir is None and self.files is not None and self.hub_id is None:
            return [f"data set {self.name} needs --data-dir DIR with {self.files}"]
        if data_dir is not None and self.files is None:
            return [f"--data-dir does not apply to data set {self.name}, which needs no files"]
        return []
