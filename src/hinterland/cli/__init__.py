"""The ``hinterland`` command. Each command is one file beside this one, named as the command is.

A command imports what it runs when it runs: ``--help`` and a wrong option are answered without torch.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading

COMMANDS = (
    "bc",
    "bench",
    "bfs",
    "cc",
    "convert",
    "dataset",
    "demo",
    "generate",
    "hotness",
    "info",
    "kernels",
    "msbfs",
    "pagerank",
    "probe",
    "sssp",
    "sswp",
    "traffic",
    "train",
)


class _Interrupted(BaseException):
    """Ctrl-C. Not KeyboardInterrupt, which typer turns into an exit status that depends on its version."""


def _interrupt(signal_number: int, frame: object) -> None:
    raise _Interrupted


def main() -> None:
    """Runs the command line; exit status 0, 1 (an error of ours, said in a sentence), 2 (usage) or 130 (Ctrl-C)."""
    before = signal.signal(signal.SIGINT, _interrupt)
    try:
        _run()
    finally:
        signal.signal(signal.SIGINT, before)


def _run() -> None:
    try:
        import typer
    except ImportError:
        sys.exit("hinterland: the command line needs typer and rich: pip install 'hinterland[cli]'")
    from ..runtime.errors import HinterlandError

    app = typer.Typer(
        name="hinterland",
        help="GPU code reads data larger than GPU memory directly: graphs and tables in host memory, at link speed.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    for name in ("version", *COMMANDS):
        importlib.import_module(f".{name}", __name__).register(app)
    try:
        app()
    except HinterlandError as error:
        print(f"hinterland: {error}", file=sys.stderr)
        sys.exit(1)
    except _Interrupted:
        print("hinterland: interrupted", file=sys.stderr)
        if any(thread.daemon for thread in threading.enumerate()):
            # A stage is still in C++ code. Python would end its thread there, and C++ then aborts the process.
            sys.stdout.flush()
            os._exit(130)
        sys.exit(130)
