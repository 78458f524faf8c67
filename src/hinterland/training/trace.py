"""A timeline of some steps of training, in Chrome's trace format: for Perfetto (https://ui.perfetto.dev) or chrome://tracing."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch.autograd import profiler
from torch.profiler import ProfilerActivity, _ExperimentalConfig, profile, record_function, schedule

from ..runtime.errors import StorageError
from ..runtime.files import replacing
from ..runtime.thresholds import TRACE_AFTER, TRACE_STEPS

_WARM_UP = 2  # steps that torch measures and throws away: its first ones wait for CUPTI


def span(name: str) -> AbstractContextManager[Any]:
    """A with-block that profilers show by this name. Where none runs it is nothing: torch's own takes some microseconds."""
    return record_function(name) if profiler._is_profiler_enabled else nullcontext()


@contextmanager
def tracing(path: Path | None, device: torch.device, steps: int) -> Iterator[Callable[[], None]]:
    """A with-block of training, which calls what it gets after every step. It writes a timeline of TRACE_STEPS of them,
    with all threads and the GPU. That begins once TRACE_AFTER steps were made, or half of all if that is sooner.

    Args:
        path: the file, which appears when these steps are done; None: there is none.
        steps: that will be made, at least 1.

    Raises:
        StorageError: the file cannot be written.
    """
    if path is None:
        yield lambda: None
        return
    before = min(TRACE_AFTER, steps // 2)
    warm = min(_WARM_UP, before)
    with warnings.catch_warnings(action="ignore"):  # torch's, of a run so short that nothing is thrown away
        planned = schedule(wait=before - warm, warmup=warm, active=TRACE_STEPS, repeat=1)
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])]
    with profile(
        activities=activities,
        schedule=planned,
        on_trace_ready=lambda found: _write(found, path),
        acc_events=True,  # there is one cycle; without it torch warns that it keeps no others
        experimental_config=_ExperimentalConfig(profile_all_threads=True),  # stages have theirs
    ) as running:
        yield running.step


def _write(found: profile, path: Path) -> None:
    with TemporaryDirectory() as folder:
        made = Path(folder, "trace.json")
        found.export_chrome_trace(str(made))
        content = made.read_bytes() if made.exists() else b""
    if not content.rstrip().endswith(b"}"):  # torch says nothing of a disk that is full
        raise StorageError(f"{path}: torch's profiler could not write its trace to {folder}; free space there, or set TMPDIR")
    with replacing(path) as output:
        output.write(content)
