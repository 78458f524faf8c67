"""Programs of others that a benchmark runs beside ours: where they are, and what they print. Nothing of them is kept here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from hinterland import _core


@dataclass(frozen=True)
class Rival:
    """Programs in one folder. ``time``: what a run prints for each trial, a number; ``unit``: of that in seconds."""

    name: str
    variable: str
    programs: tuple[str, ...]
    get: str
    time: str
    unit: float

    def folder(self, option: Path | None) -> Path | None:
        """Where the programs are; None, and a sentence, if they are not there."""
        given = option or (Path(os.environ[self.variable]) if os.environ.get(self.variable) else None)
        missing = [name for name in self.programs if given is None or not (given / name).exists()]
        if not missing:
            return given
        where = f"{self.variable} and the option are not set" if given is None else f"{given} has no {', '.join(missing)}"
        print(f"{self.name}'s programs are left out: {where}; {self.get}", file=sys.stderr)
        return None

    def run(self, folder: Path, program: str, *arguments: object, limit: float = 400) -> list[float]:
        """Seconds of each trial, by as many threads as ours; SystemExit with what it said if it fails."""
        command = [str(folder / program), *map(str, arguments)]
        threads = str(_core.num_threads())
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=limit, env={**os.environ, "OMP_NUM_THREADS": threads}
        )
        found = [float(number) * self.unit for number in re.findall(self.time, done.stdout)]
        if done.returncode or not found:
            raise SystemExit(f"{' '.join(command)} failed ({done.returncode}): {done.stdout[-500:]}{done.stderr[-500:]}")
        return found


GAP = Rival(
    "GAP",
    "GAPBS",
    ("bfs", "cc", "sssp", "pr", "bc"),
    "git clone https://github.com/sbeamer/gapbs, make -C gapbs, and name the folder with --gap or GAPBS",
    r"Trial Time:\s+([\d.]+)",
    1.0,
)
EMOGI = Rival(
    "EMOGI",
    "EMOGI",
    ("bfs", "cc", "sssp", "pagerank"),
    "git clone https://github.com/illinois-impact/EMOGI, make -C EMOGI (CUDA 13's cudaMemAdvise takes a location, no device), "
    "and name the folder with --emogi or EMOGI",
    r"time:?\s+([\d.]+) ms",
    1e-3,
)
