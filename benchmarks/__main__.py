"""Runs one benchmark, prints its results as tables and keeps them as JSON; ``show`` prints what is kept."""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import os
import platform
import re
import sys
from pathlib import Path
from typing import Any

import torch

from ._rows import RUN

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS = HERE / "results"


def files() -> list[Path]:
    """Those of benchmarks, and what they share, whose names begin with an underscore."""
    return [*HERE.glob("*.py"), *(ROOT / "papers" / "benchmarks").glob("*/*.py")]


def main() -> None:
    modules = {path.stem: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files() if path.stem[0] != "_"}
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=[*sorted(modules), "show"], help="NAME --help lists the options that it has of its own")
    parser.add_argument("--small", action="store_true", help="a quick run that any machine can do; kept only with --output")
    parser.add_argument("--output", type=Path, help="where to keep the results, instead of benchmarks/results/")
    module = importlib.import_module(modules[sys.argv[1]]) if sys.argv[1:] and sys.argv[1] in modules else None
    if hasattr(module, "add_options"):
        module.add_options(parser)
    options = parser.parse_args()
    if options.name == "show":
        for path in sorted(RESULTS.glob("*.json")):
            show(json.loads(path.read_text()))
        return
    module = module or importlib.import_module(modules[options.name])
    record = {
        "benchmark": module.title(options) if hasattr(module, "title") else options.name,
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "small": options.small,
    }
    output = options.output or (None if options.small else RESULTS / file_name(record))
    if options.small:
        torch.set_num_threads(1)  # more wait for each other at each small sum
    RUN.begin(record, output, getattr(options, "seconds", None))
    results = module.run(options if hasattr(module, "add_options") else options.small)
    show({**record, "results": results})
    if output is not None:
        RUN.keep(results)
        print(f"kept in {output}", file=sys.stderr)


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    found: dict[str, Any] = {"gpus": [], "driver": None}
    if torch.cuda.is_available():
        found["gpus"] = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        version = Path("/proc/driver/nvidia/version")
        match = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", version.read_text()) if version.exists() else None
        found["driver"] = match[1] if match else None
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return {
        **found,
        "cpu": model[1] if model else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
    }


def file_name(record: dict[str, Any]) -> str:
    """``gather-nvidia-h200-2026-01-31.json``; machines without a GPU go by their cores."""
    gpus, cores = record["machine"]["gpus"], record["machine"]["cores"]
    name = gpus[0] + (f"-x{len(gpus)}" if len(gpus) > 1 else "") if gpus else f"cpu-{cores}-cores"
    return f"{record['benchmark']}-{re.sub(r'[^a-z0-9]+', '-', name.lower())}-{record['date']}.json"


def show(record: dict[str, Any]) -> None:
    """Prints a record: lists of dicts as tables, everything else as lines."""
    on = record["machine"]
    where = ", ".join(on["gpus"]) or f"{on['cores']} cores of {on['cpu']}"
    print(f"\n{record['benchmark']}  ({where}, torch {on['torch']}, {record['date']})\n")
    for name, value in record["results"].items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            print(f"{name}:")
            table(value)
        elif isinstance(value, dict):
            print(f"{name}: " + ", ".join(f"{key} {text(item)}" for key, item in value.items()))
        else:
            print(f"{name}: {text(value)}")


def table(rows: list[dict[str, Any]]) -> None:
    """Prints rows with aligned columns; a column is there if any row has it."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [columns, *([text(row.get(column, "")) for column in columns] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    for line in cells:
        print("  " + "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 10 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10000 else str(value)


if __name__ == "__main__":
    main()
