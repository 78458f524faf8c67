"""Features that are not finite, whose scores are no numbers: found before they cost a run, and named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from ..memory.ranks import Ranks
from ..runtime.errors import GraphError
from .row_gather import rows_of

_PIECE = 64 << 20  # bytes that are looked at together
_NAMED = 5  # vertices in a sentence


def check_splits(features: Any, splits: Mapping[str, torch.Tensor], ranks: Ranks) -> None:
    """Looks once at the row of every vertex of every split; that is less than evaluating the splits reads once.

    Raises:
        GraphError: in all ranks alike: names the split and the vertices.
    """
    step = rows_at_once(features.shape[1])
    for name, split in splits.items():
        most = -(-len(split) // ranks.world_size)  # from a sharded table all ranks gather equally often
        mine = split[ranks.rank :: ranks.world_size].to(ranks.device)
        pieces = (mine[begin : begin + step] for begin in range(0, most, step))
        found = not_finite(("", piece, rows_of(features, piece)) for piece in pieces)
        ranks.raise_together(_refusal(name, found, "of its vertices") if found else None)


def rows_at_once(width: int) -> int:
    """How many rows are looked at together."""
    return max(_PIECE // (4 * max(width, 1)), 1)


def not_finite(batches: Iterable[tuple[str, torch.Tensor, torch.Tensor]]) -> list[str]:
    """Of the type of vertices (empty where there is one), vertices and their rows: the vertices whose rows have a value that
    float32 holds as NaN or infinity."""
    found: dict[str, None] = {}
    for kind, vertices, rows in batches:
        bad = ~rows.float().isfinite().all(1)
        if bool(bad.any()):
            found.update(dict.fromkeys(f"{kind} {vertex}".lstrip() for vertex in vertices[bad].tolist()))
    return list(found)


def refuse_neighbours(split: str, found: list[str], ranks: Ranks) -> None:
    """Raises the error of the first rank that found rows that are not finite among what the split's vertices hear from.

    Raises:
        GraphError: in all ranks alike: names the split and the vertices.
    """
    ranks.raise_together(_refusal(split, found, "that its vertices hear from") if found else None)


def _refusal(split: str, found: list[str], whose: str) -> GraphError:
    named = ", ".join(found[:_NAMED]) + (f" and {len(found) - _NAMED:,} more" if len(found) > _NAMED else "")
    return GraphError(
        f"split {split!r}: rows of features {whose} are NaN, infinite or beyond float32: {named}; correct them, or leave the "
        "vertices out: no score comes of them"
    )
