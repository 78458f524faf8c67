"""Pictures that matplotlib draws: what a file's name says about its kind, and writing it whole or not at all."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .errors import ConfigError
from .files import replacing

FORMATS = ("pdf", "png", "svg")


def check_plot(path: Path) -> str:
    """The kind of picture that ``path`` names, one of ``FORMATS``; asked before anything is computed.

    Raises:
        ConfigError: matplotlib is missing, or the name ends in none of .pdf, .png and .svg.
    """
    kind = path.suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise ConfigError(f"{path} cannot be plotted: its name ends in none of {', '.join('.' + name for name in FORMATS)}")
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ConfigError("plots need matplotlib: pip install 'hinterland[plot]'") from error
    return kind


@contextmanager
def picture(path: Path, width: float, height: float) -> Iterator[Any]:
    """An empty matplotlib figure of so many inches; at the end of the with-block it is written as what the name's end says.

    Raises:
        ConfigError: as :func:`check_plot`.
        StorageError: the file cannot be written.
    """
    kind, drawn = check_plot(path), io.BytesIO()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    yield figure
    figure.savefig(drawn, format=kind)
    with replacing(path) as output:
        output.write(drawn.getvalue())
