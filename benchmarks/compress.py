"""Packed neighbour lists: bits an edge beside other formats, in the natural order and others, and the rates of both processors.

Sizes are of scale 20 (small: 14) and of the real graphs beside the checkout, if they are there. On a GPU, all lists of scale-25
graphs are read once from host memory and from the GPU's own, plain and packed.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import hinterland as hl
from hinterland.graph import Graph, Scan, simplify
from hinterland.graph.compress import bits_per_edge
from hinterland.graph.reorder import ORDERS
from hinterland.probe import timing
from hinterland.probe.link import copy_rates
from hinterland.runtime import devices

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
REAL = ("soc-Epinions1.txt", "email-Eu-core.csv", "netscience.mtx")
BLOCK = 32
RUNS = 5


def run(small: bool) -> dict[str, Any]:
    results: dict[str, Any] = {"sizes": [], "cpu": []}
    for name, graph in _graphs(14 if small else 20).items():
        for order in (None, *ORDERS):
            start = time.perf_counter()
            ordered = graph if order is None else hl.reorder(graph, order)
            reorder_seconds = time.perf_counter() - start
            results["sizes"].append({"graph": name, "order": order or "as it is", **_sizes(ordered)})
            results["cpu"].append({"graph": name, "order": order or "as it is", **_rates(ordered, reorder_seconds)})
    if devices.cuda_available():
        results["copy_engine"] = copy_rates(torch.device("cuda", 0), 1 << 30)[0]
        results["gpu"] = [row for kind in ("kronecker", "uniform") for row in _on_gpu(kind, 14 if small else 25)]
    return results


def _graphs(scale: int) -> dict[str, Graph]:
    found = {f"{kind} {scale}": hl.generate(kind, scale=scale) for kind in ("kronecker", "uniform", "web")}
    side = 1 << scale // 2
    found[f"grid {side} x {side}"] = hl.generate("grid", rows=side, cols=side)
    for name in REAL:
        if (DATA / name).exists():
            found[name] = simplify(hl.load_graph(DATA / name), symmetrize=True, remove_duplicates=True)
    return found


def _sizes(graph: Graph) -> dict[str, float]:
    """Bits an edge: ours, delta blocks with the same directory, variable-length bytes, and Elias and Fano's for whole lists."""
    offsets, neighbors = graph.indptr.numpy(), graph.indices.numpy().astype(np.int64)
    vertices, edges = graph.num_vertices, graph.num_edges
    degrees = np.diff(offsets)
    place = np.arange(edges) - np.repeat(offsets[:-1], degrees)
    gaps = np.diff(neighbors, prepend=0)
    gaps[place == 0] = neighbors[place == 0]
    variable = np.ceil(np.maximum(_bits(gaps), 1) / 7).sum() * 8

    starts = np.flatnonzero(place % BLOCK == 0)
    lengths = np.diff(starts, append=edges)
    gaps[starts] = 0
    rows = np.repeat(np.arange(vertices), -(-degrees // BLOCK))
    number_bits = int(_bits(np.array([vertices - 1]))[0])
    blocks = -(-degrees // BLOCK)
    positions = np.where(blocks > 1, _bits(np.maximum(blocks - 1, 0) * (BLOCK - 1) * number_bits), 0)
    delta = np.bincount(
        rows, number_bits + 5 + positions[rows] + (lengths - 1) * _bits(np.maximum.reduceat(gaps, starts)), vertices
    )
    present = degrees[degrees > 0]
    return {
        "edges": edges,
        "packed": bits_per_edge(hl.compress(graph)),
        "delta_blocks": float((np.ceil(delta / 8) * 8).sum() / edges),
        "varint": float(variable / edges),
        "elias_fano_bound": float((present * (2 + np.maximum(np.log2(vertices / present), 0))).sum() / edges),
        "offsets": 64 * (vertices + 1) / edges,
    }


def _bits(values: np.ndarray) -> np.ndarray:
    return np.ceil(np.log2(values + 1.0)).astype(np.int64)


def _rates(graph: Graph, reorder_seconds: float) -> dict[str, float]:
    """Edges a second that the CPU reorders, packs and unpacks."""
    packed = hl.compress(graph)
    return {
        "reorder_seconds": reorder_seconds,
        "pack": graph.num_edges / _median(lambda: hl.compress(graph), "cpu"),
        "unpack": graph.num_edges / _median(lambda: hl.decompress(packed), "cpu"),
    }


def _on_gpu(kind: str, scale: int) -> list[dict[str, Any]]:
    """Edges a second of reading all lists once, and the bytes a second that this moves. The sums must agree."""
    rows = []
    plain = hl.generate(kind, scale=scale, placement={"indptr": "gpu", "indices": "host"}, device="cuda")
    total = int(plain.indices.sum(dtype=torch.int64))
    for order in (None, "degree"):
        ordered = plain if order is None else hl.reorder(plain, order)
        for graph in (ordered, hl.compress(ordered)):
            # What a prepared graph may keep: its offsets, or everything.
            state = 8 * graph.num_vertices + (64 << 20)
            for place, budget in (("host", state + 24 * graph.num_vertices), ("gpu", None)):
                with hl.prepare(graph, budget, "cuda") as prepared:
                    if place == "host" and not prepared.out.over_link:
                        continue
                    scan = Scan(prepared)
                    seconds = _median(scan, "cuda")
                    metered = Scan(prepared, stats=True)
                    metered()
                    found, moved = metered.result()
                    assert order is not None or found == total
                rows.append(
                    {
                        "graph": f"{kind} {scale}",
                        "order": order or "as it is",
                        "lists": "packed" if graph.is_compressed else "plain",
                        "place": place,
                        "bits_per_edge": bits_per_edge(graph),
                        "milliseconds": seconds * 1e3,
                        "edges_per_second": graph.num_edges / seconds,
                        "bytes_per_second": moved / seconds,
                    }
                )
    return rows


def _median(work: Callable[[], object], device: str) -> float:
    """Seconds; the first of a GPU's launches may compile."""
    return statistics.median([timing.seconds(work, torch.device(device)) for _ in range(RUNS + 1)][1:])
