"""How a value is annotated that is there for those who asked for it."""

from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

# ``Asked[T]`` is T where the caller gave what it takes (``stats=True``, a graph with weights), else None, as docstrings say. A
# type checker takes it for T without a test for None: whoever asked knows.
IfRequested: TypeAlias = T | Any
