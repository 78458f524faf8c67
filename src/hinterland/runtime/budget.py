"""What every plan for a budget of bytes says: what is kept, in the order in which the budget is spent, and what that takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .units import format_bytes


@dataclass(frozen=True)
class BudgetItem:
    """One thing of which something is kept, or which stays where it lies.

    Attributes:
        name: of the thing.
        kept: how much of it, as ``8 rows (10.0%)``.
        nbytes: bytes of the budget that this takes.
    """

    name: str
    kept: str
    nbytes: int = 0


class Plan(Protocol):
    """What is kept near a processor, of something that lies elsewhere: offsets, adjacency prefixes, pages, rows or slots."""

    @property
    def budget(self) -> int | None:
        """Bytes that may be held; None where nobody has said so."""

    @property
    def held_bytes(self) -> int:
        """Bytes that are held."""

    def about(self) -> str:
        """Of what it is kept."""

    def parts(self) -> Sequence[BudgetItem]:
        """What is kept, in the order in which the budget is spent."""

    def notes(self) -> Sequence[str]:
        """What else there is to say."""


class Explained:
    """A :class:`Plan` that says what it keeps."""

    def notes(self) -> Sequence[str]:
        """What else there is to say: nothing, if a plan does not say otherwise."""
        return ()

    def explain(self: Plan) -> str:
        """What is kept and the bytes of each part, in the order in which the budget is spent, a line each."""
        parts = self.parts()
        width = max((len(part.name) for part in parts), default=0)
        taken = [f", {format_bytes(part.nbytes)}" if part.nbytes else "" for part in parts]
        lines = [f"{part.name:<{width}}  {part.kept}{size}" for part, size in zip(parts, taken, strict=True)]
        of = "" if self.budget is None else f" of {format_bytes(self.budget)}"
        return "\n".join([self.about(), *lines, f"held {format_bytes(self.held_bytes)}{of}", *self.notes()])


def share(count: int, of: int) -> str:
    """``count`` of so many, in per cent."""
    return f"({count / max(of, 1):.1%})"
