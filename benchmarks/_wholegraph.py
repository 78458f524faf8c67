"""WholeGraph's own gather of the same rows (``pylibwholegraph-cu13``), from continuous host memory.

It takes six wheels, 57 MB without torch's own: pip install pylibwholegraph-cu13 libwholegraph-cu13 libraft-cu13 librmm-cu13
rmm-cu13 rapids-logger. It leaves torch one thread and a process group, so it has a process of its own:

python -m benchmarks._wholegraph BYTES ROWS ROW_BYTES...
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import torch

from ._gather_widths import REPEATS, row_numbers
from ._timing import each_of

ROOT = Path(__file__).resolve().parent.parent
WIDTHS = (128, 512, 1024)


def rates(table_bytes: int, rows: int) -> list[dict[str, Any]]:
    """Its GB/s by the bytes of a row; nothing, and a sentence, where it is not installed or fails."""
    if find_spec("pylibwholegraph") is None:
        print("WholeGraph is left out: no module pylibwholegraph; pip install pylibwholegraph-cu13", file=sys.stderr)
        return []
    command = [sys.executable, "-m", "benchmarks._wholegraph", *map(str, (table_bytes, rows, *WIDTHS))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600, cwd=ROOT)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(f"WholeGraph is left out: {error}: {str(error.stderr)[-500:]}", file=sys.stderr)
        return []
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def _measure(wholegraph: Any, comm: Any, table_bytes: int, rows: int, row_bytes: int) -> dict[str, Any]:
    """Rows of int64, each of which is its own number in the table."""
    device, words = torch.device("cuda", 0), row_bytes // 8
    shape = [table_bytes // row_bytes, words]
    table = wholegraph.create_wholememory_tensor(comm, "continuous", "cpu", shape, torch.int64, None)
    held = table.get_global_tensor(host_view=True)
    values = (held[0] if isinstance(held, tuple) else held).view(-1)
    torch.arange(values.numel(), out=values)
    sets = row_numbers(shape[0], rows, device, REPEATS)
    gbs = rows * row_bytes / median(each_of([partial(table.gather, index) for index in sets], device)[1:]) / 1e9
    expected = sets[-1][:, None] * words + torch.arange(words, device=device)
    assert torch.equal(table.gather(sets[-1]), expected), "WholeGraph returned other rows"
    wholegraph.destroy_wholememory_tensor(table)
    return {"row_bytes": row_bytes, "gbs": gbs}


def main(table_bytes: int, rows: int, *widths: int) -> None:
    import pylibwholegraph.torch as wholegraph

    threads = torch.get_num_threads()
    comm, _ = wholegraph.init_torch_env_and_create_wm_comm(0, 1, 0, 1, wm_log_level="warn")
    torch.set_num_threads(threads)
    print(json.dumps([_measure(wholegraph, comm, table_bytes, rows, row_bytes) for row_bytes in widths]))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
