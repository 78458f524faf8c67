"""A program under Nsight Compute."""

from __future__ import annotations

import csv
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path


def ncu() -> str | None:
    """Where it is."""
    places = shutil.which("ncu"), *sorted(Path("/usr/local").glob("cuda*/bin/ncu"), reverse=True)
    return next((str(place) for place in places if place), None)


def available() -> set[str]:
    """The counters that this GPU has."""
    listed = subprocess.run([_required(), "--query-metrics"], capture_output=True, text=True, check=True).stdout
    return {line.split()[0] for line in listed.splitlines() if line.split()}


def counted(
    module: str, arguments: Iterable[object], kernels: str, metrics: Iterable[str], replay: str = "kernel"
) -> list[dict[str, str]]:
    """A row for each launch of a kernel whose name matches ``kernels`` while ``python -m module`` runs: ``metrics``, and its
    name, among others. Launches go one after another. ``replay``: what is run anew where it takes several runs to count them
    all, each launch or the whole program (``"application"``)."""
    command = [_required(), "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base"]
    command += ["--replay-mode", replay, "--kernel-name", f"regex:{kernels}", "--metrics", ",".join(metrics)]
    command += [sys.executable, "-m", module, *map(str, arguments)]
    found = {"PYTHONPATH": os.pathsep.join(sys.path)}  # what this program finds, that one does
    done = subprocess.run(command, env={**os.environ, **found}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"benchmarks: ncu failed: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return rows(done.stdout)


def rows(printed: str) -> list[dict[str, str]]:
    """Of the CSV that comes after what the program itself has printed; none where no kernel ran."""
    lines = printed.splitlines()
    head = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if head is None:
        return []
    table = [line for line in lines[head:] if line.startswith('"')]
    return list(csv.DictReader(io.StringIO("\n".join(table))))[1:]  # the first names units


def number(text: str) -> float:
    return float(text.replace(",", ""))


def _required() -> str:
    found = ncu()
    if found is None:
        raise SystemExit("benchmarks: ncu is missing; install Nsight Compute")
    return found
