"""The definition of a data set: its source, its options, and its loader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from search_spaces.common.messages import expected_one_of
from trainables.data.errors import DataError

if TYPE_CHECKING:
    from trainables.data.examples import UnlearningData
    from trainables.data.images import ImageData


TaskData: TypeAlias = "UnlearningData | ImageData"
"""The data of an unlearning task. Each set, such as ``data.forget``, has a length and yields hashable examples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """One data set in the registry.

    Attributes:
        name: the value of ``--dataset``.
        citation: the publication of the data; empty for the user's own data.
        hub_id: the repository on the Hugging Face hub.
        files: a text that describes the files in ``--data-dir``; None if the data set needs no files.
        forget_splits: the possible values of ``--forget-split``; empty if the data set has only one forget set.
        forget_split: the default forget set.
        sizes: for each forget split, the number of examples to forget and to retain. The key is "" if the data set has
            no forget splits. The mapping is empty if the files determine the numbers.
        forget_class: the default class to forget; None if the examples have no classes.
        max_length: the default maximum length of training sequences, in tokens.
        unit: the number of retain examples in a group that ``--limit`` keeps or drops as a whole, such as the number of
            questions about one author.
        generated: whether the data are generated from a seed.
        is_text: whether the examples are texts without questions.
        learns_more: whether the target is also trained on examples that are in neither the forget set nor the retain
            set.
        loader: the function that loads the data. Its arguments are ``limit`` and, if they apply, ``forget_split``,
            ``forget_class``, ``data_dir`` and ``seed`` (only if the seed is not 0). The function imports its
            dependencies only when it is called.
    """

    name: str
    modality: str
    description: str
    citation: str = ""
    hub_id: str | None = None
    files: str | None = None
    forget_splits: tuple[str, ...] = ()
    forget_split: str | None = None
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict, hash=False)
    forget_class: str | None = None
    max_length: int | None = None
    unit: int = 1
    generated: bool = False
    is_text: bool = False
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
        """Load the data with at most ``limit`` retain examples.

        Raises:
            DataError: an argument does not apply to the data set, a file is missing or malformed, or the hub cannot be
                reached.
        """
        if problems := self.choice_problems(forget_split, forget_class, seed) + self.folder_problems(data_dir):
            raise DataError(*problems)
        options = {
            "forget_split": forget_split or self.forget_split,
            "forget_class": forget_class or self.forget_class,
            "data_dir": data_dir,
            "seed": seed or None,
        }
        return self.loader(limit=limit, **{name: value for name, value in options.items() if value is not None})

    def choice_problems(self, forget_split: str | None, forget_class: str | None, seed: int) -> list[str]:
        """Return a message for each argument that the data set does not support."""
        problems = []
        if forget_split is not None and forget_split not in self.forget_splits:
            if self.forget_splits:
                expected = expected_one_of(forget_split, self.forget_splits)
            else:
                expected = "this data set has only one forget set, so leave out --forget-split"
            problems.append(f"data set {self.name} has no forget split '{forget_split}': {expected}")
        if forget_class is not None and self.forget_class is None:
            problems.append(f"forget_class does not apply to data set {self.name}, whose examples have no classes")
        if seed and not self.generated:
            problems.append(f"data_seed does not apply to data set {self.name}, because its data are not generated")
        return problems

    def folder_problems(self, data_dir: Path | str | None) -> list[str]:
        """Return a message if ``data_dir`` is None but needed, or given but not needed; otherwise an empty list."""
        if data_dir is None and self.files is not None and self.hub_id is None:
            return [f"data set {self.name} needs --data-dir DIR with {self.files}"]
        if data_dir is not None and self.files is None:
            return [f"--data-dir does not apply to data set {self.name}, which needs no files"]
        return []
