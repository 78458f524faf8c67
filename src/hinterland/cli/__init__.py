"""The ``hinterland`` command. Each command is a function in a file beside this one, both named as the command is; those that
run an algorithm are made of its record (:mod:`.algorithms`).

A command imports what it runs when it runs: ``--help`` and a wrong option are answered without torch.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

COMMANDS = (
    "bench",
    "convert",
    "dataset",
    "demo",
    "generate",
    "hotness",
    "info",
    "kernels",
    "probe",
    "query",
    "storage",
    "traffic",
    "train",
)
_ABOUT = "GPU code reads data larger than GPU memory directly: graphs and tables in host memory, at link speed."

_heard = threading.Event()  # the last signal has been


class _Stopped(BaseException):
    """Ctrl-C or SIGTERM. Not KeyboardInterrupt, which typer turns into an exit status that depends on its version."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def _stop(number: int, frame: FrameType | None) -> None:
    """Raises, but for while something is imported: modules that begin may drop it, end the process, or stay there in half."""
    _heard.set()
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return _again(number)
        frame = frame.f_back
    raise _Stopped(number)


def _again(number: int) -> None:
    """The signal comes again, until it is heard: one that comes just before the main thread sleeps wakes nobody."""
    global _heard
    heard = _heard = threading.Event()
    main_thread = threading.get_ident()  # signals are handled there alone

    def send() -> None:
        delay = 0.01
        while not heard.wait(delay):
            signal.pthread_kill(main_thread, number)
            delay = 0.5

    threading.Thread(target=send, daemon=True).start()  # a command that ends before has ended


_STOPS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


def _stop_later(lost: sys.UnraisableHookArgs) -> None:
    """Python drops what is raised in a finalizer: a signal that came there comes again once that is done."""
    if isinstance(lost.exc_value, _Stopped):
        _again(lost.exc_value.number)
    else:
        sys.__unraisablehook__(lost)


def main(
    name: str = "hinterland",
    about: str = _ABOUT,
    package: str = __name__,
    names: Sequence[str] = ("version", *COMMANDS),
    records: bool = True,
) -> None:
    """Runs the command line, or that of a package that stands on this one: modules of ``package`` are called as their commands,
    and ``records`` of algorithms give theirs.

    Exit status 0, 1 (an error of ours, in a sentence), 2 (usage), 130 (Ctrl-C) or 143 (SIGTERM).
    """
    before = {number: signal.signal(number, _stop) for number in _STOPS}
    hook, sys.unraisablehook = sys.unraisablehook, _stop_later
    there = set(threading.enumerate())
    try:
        _run(there, name, about, package, names, records)
    except _Stopped as stop:
        _end(stop.number, there)
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, there: set[threading.Thread]) -> None:
    from ..runtime.temp_files import remove_all

    for stop in _STOPS:
        signal.signal(stop, signal.SIG_IGN)  # it ends already
    print(f"hinterland: {_STOPS[signal.Signals(number)]}", file=sys.stderr)
    remove_all()
    _leave(128 + number, there)


def _leave(status: int, there: set[threading.Thread]) -> NoReturn:
    """Ends the command; ``there``: the threads that were there before it, and are not its own."""
    if any(thread.daemon for thread in threading.enumerate() if thread not in there):
        # A stage is still in C++ code. Python would end its thread there, and C++ then aborts the process.
        sys.stdout.flush()
        os._exit(status)
    sys.exit(status)


def _run(there: set[threading.Thread], name: str, about: str, package: str, names: Sequence[str], records: bool) -> None:
    try:
        import typer
    except ImportError:
        sys.exit("hinterland: the command line needs typer and rich: pip install 'hinterland[cli]'")
    from ..runtime import watch
    from ..runtime.errors import HinterlandError, PipelineStalled
    from .algorithms import commands
    from .output import flush, lost, require_open, say
    from .parameters import spread

    app = typer.Typer(
        name=name,
        help=about,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    algorithms = commands() if records else {}
    for command in sorted((*names, *algorithms)):
        if command in algorithms:
            app.command(command)(spread(algorithms[command]))
            continue
        module = importlib.import_module(f".{command}", package)
        if hasattr(module, "register"):  # a group of commands
            module.register(app)
        else:
            app.command(command)(spread(getattr(module, command)))
    before, watch.on_stuck = watch.on_stuck, watch.say_and_end
    try:
        require_open()
        try:
            app()
        finally:
            flush()
    except PipelineStalled as error:
        say(f"hinterland: {error}")
        os._exit(1)  # what is stuck may keep the interpreter from ending
    except HinterlandError as error:
        say(f"hinterland: {error}")
        _leave(1, there)
    except OSError as error:  # where --help or a table cannot be printed; a broken pipe is typer's, and quiet
        from ..runtime.files import refused

        say(f"hinterland: {lost(error) if error.filename is None else refused(error.filename, 'used', error)}")
        sys.exit(1)
    finally:
        watch.on_stuck = before
