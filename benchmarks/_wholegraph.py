"""WholeGraph's own gather of the same rows, and its mini-batches (``pylibwholegraph-cu13``), from continuous host memory.

It takes six wheels, 57 MB without torch's own: pip install pylibwholegraph-cu13 libwholegraph-cu13 libraft-cu13 librmm-cu13
rmm-cu13 rapids-logger. It leaves torch one thread and a process group, so it has a process of its own:

python -m benchmarks._wholegraph rates BYTES ROWS ROW_BYTES...
python -m benchmarks._wholegraph batches SCALE
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
    return _said("rates", table_bytes, rows, *WIDTHS)


def batches(scale: int) -> list[dict[str, Any]]:
    """Its milliseconds a batch of ``gnn``: sampled, and gathered as well; nothing where it is not installed or fails."""
    return _said("batches", scale)


def _said(what: str, *numbers: int) -> list[dict[str, Any]]:
    """What its own process has printed at last."""
    if find_spec("pylibwholegraph") is None:
        print("WholeGraph is left out: no module pylibwholegraph; pip install pylibwholegraph-cu13", file=sys.stderr)
        return []
    command = [sys.executable, "-m", "benchmarks._wholegraph", what, *map(str, numbers)]
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
    table, values = _table(wholegraph, comm, shape, torch.int64)
    torch.arange(values.numel(), out=values)
    sets = row_numbers(shape[0], rows, device, REPEATS)
    gbs = rows * row_bytes / median(each_of([partial(table.gather, index) for index in sets], device)[1:]) / 1e9
    expected = sets[-1][:, None] * words + torch.arange(words, device=device)
    assert torch.equal(table.gather(sets[-1]), expected), "WholeGraph returned other rows"
    wholegraph.destroy_wholememory_tensor(table)
    return {"row_bytes": row_bytes, "gbs": gbs}


def _table(wholegraph: Any, comm: Any, shape: list[int], dtype: torch.dtype) -> tuple[Any, torch.Tensor]:
    """A tensor of its own in host memory, and all its numbers in one dimension, for the CPU."""
    table = wholegraph.create_wholememory_tensor(comm, "continuous", "cpu", shape, dtype, None)
    held = table.get_global_tensor(host_view=True)
    return table, (held[0] if isinstance(held, tuple) else held).view(-1)


def _batches(wholegraph: Any, comm: Any, scale: int) -> dict[str, Any]:
    """The graph, the features and the seeds of ``gnn``, in its memory."""
    from . import gnn

    device = torch.device("cuda", 0)
    graph = gnn.kronecker(scale, "cuda")
    features = gnn.random_features(graph.num_vertices, "cuda")
    tables = []
    for given in (graph.indptr, graph.indices, features):
        table, values = _table(wholegraph, comm, list(given.shape), given.dtype)
        values.copy_(given.cuda().reshape(-1))
        tables.append(table)
    lists = wholegraph.GraphStructure()
    lists.set_csr_graph(*tables[:2])
    seeds = gnn.random_seeds(graph, (gnn.WARM_UP + gnn.BATCHES) * gnn.BATCH).to(device, graph.indices.dtype).split(gnn.BATCH)
    counts = [0, 0]

    def sampled(roots: torch.Tensor) -> torch.Tensor:
        nodes, edges, _, _ = lists.multilayer_sample_without_replacement(roots, gnn.FANOUTS)
        counts[0] += len(nodes[0])
        counts[1] += sum(hop.shape[1] for hop in edges)
        return nodes[0]

    def gathered(roots: torch.Tensor) -> torch.Tensor:
        return tables[2].gather(sampled(roots))

    found = {}
    for name, call in (("sample_ms", sampled), ("sample_and_gather_ms", gathered)):
        found[name] = 1e3 * median(each_of([partial(call, roots) for roots in seeds], device)[gnn.WARM_UP :])
    rows, edges = (count / 2 / len(seeds) for count in counts)
    roots = seeds[0][:64]
    assert torch.equal(tables[2].gather(roots), features[roots.long()]), "WholeGraph returned other rows"
    return {**found, "rows_a_batch": round(rows), "edges_a_batch": round(edges)}


def main(what: str, *numbers: int) -> None:
    import pylibwholegraph.torch as wholegraph

    threads = torch.get_num_threads()
    comm, _ = wholegraph.init_torch_env_and_create_wm_comm(0, 1, 0, 1, wm_log_level="warn")
    torch.set_num_threads(threads)
    if what == "batches":
        print(json.dumps([_batches(wholegraph, comm, *numbers)]))
        return
    table_bytes, rows, *widths = numbers
    print(json.dumps([_measure(wholegraph, comm, table_bytes, rows, row_bytes) for row_bytes in widths]))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
