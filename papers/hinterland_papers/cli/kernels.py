"""``python -m hinterland_papers kernels build``: as ``hinterland kernels build``, with the papers' kernels."""

from __future__ import annotations

import typer

from hinterland.cli import kernels


def register(app: typer.Typer) -> None:
    kernels.register(app)
    register_all()


def register_all() -> None:
    """A kernel is known once its module is imported."""
    from ..bam import elements, latency, patterns, stored  # noqa: F401
    from ..emogi import traversal  # noqa: F401
    from ..mgg import kernel  # noqa: F401
