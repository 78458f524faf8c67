"""Sums of floats in the order that include/hinterland/query/aggregate.hpp says a GPU makes them in."""

from __future__ import annotations

import math

import numpy as np

BLOCK, LANES = 4096, 32


def summed(values, rows, grouped):
    """The sum of ``values[rows]``, float64, of rows in ascending order; ``grouped``: as one group of several."""
    values, rows = np.asarray(values, np.float64), np.asarray(rows, np.int64)
    with np.errstate(invalid="ignore", over="ignore"):
        return _compensated(_in_order(values, rows) if grouped else _by_lanes(values, rows))


def _in_order(values, rows):
    """Of each block with rows, one after another."""
    blocks = {}
    for row, value in zip(rows.tolist(), values[rows].tolist(), strict=True):
        blocks[row // BLOCK] = blocks.get(row // BLOCK, 0.0) + value
    return blocks.values()


def _by_lanes(values, rows):
    """Of each block with rows: lane l has rows l, l + 32, ..., and lanes are added as a tree."""
    there = np.zeros(-(-len(values) // BLOCK) * BLOCK)
    there[rows] = values[rows]
    steps = there.reshape(-1, BLOCK // LANES, LANES)
    lanes = np.zeros((len(steps), LANES))
    for step in range(BLOCK // LANES):
        lanes = lanes + steps[:, step]
    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = lanes[:, :half] + lanes[:, half:]
    return lanes[np.unique(rows // BLOCK), 0].tolist()


def _compensated(sums):
    """Neumaier's sum of blocks."""
    total = rest = 0.0
    for one in sums:
        grown = total + one
        rest += (total - grown) + one if abs(total) >= abs(one) else (one - grown) + total
        total = grown
    return total + rest if math.isfinite(rest) else total
