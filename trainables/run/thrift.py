"""What a run does to need less memory: the same steps in smaller forward passes, then activations computed twice."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace

from trainables.spec import TrialSpec


@dataclass(frozen=True, slots=True)
class Thrift:
    """At most so many examples a forward pass of training (None: the batch) and of evaluation; checkpointing or not."""

    micro_batch: int | None
    gradient_checkpointing: bool
    eval_batch_size: int

    @classmethod
    def of(cls, spec: TrialSpec) -> Thrift:
        """What a trial asks for."""
        return cls(spec.micro_batch, spec.gradient_checkpointing, spec.eval_batch_size)

    def more(self, batch_size: int, *, unused: Container[str] = ()) -> Thrift | None:
        """The next thriftier one: passes half as large, down to one example, then checkpointing; None is the end.

        ``unused`` names what the kind of model cannot do, of ``micro_batch`` and ``gradient_checkpointing``.
        """
        size = min(self.micro_batch or batch_size, batch_size)
        smaller = replace(self, eval_batch_size=-(-self.eval_batch_size // 2))
        if size > 1 and "micro_batch" not in unused:
            return replace(smaller, micro_batch=-(-size // 2))
        if not self.gradient_checkpointing and "gradient_checkpointing" not in unused:
            return replace(smaller, gradient_checkpointing=True)
        return None

    def __str__(self) -> str:
        parts = [] if self.micro_batch is None else [f"micro_batch {self.micro_batch}"]
        parts += ["gradient_checkpointing"] if self.gradient_checkpointing else []
        return ", ".join([*parts, f"eval_batch_size {self.eval_batch_size}"])
