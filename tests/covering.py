"""Some rows of a table of combinations: every few values meet in one of them, though not all at once."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, product
from typing import Any

import pytest


def covering(columns: Iterable[Iterable[Any]], together: int) -> list[tuple[Any, ...]]:
    """Rows of the product in which any values of any ``together`` columns meet; greedily few, and the same each time."""
    rows = list(product(*columns))
    places = list(combinations(range(len(rows[0])), together))
    of_row = {row: {(place, *(row[i] for i in place)) for place in places} for row in rows}
    chosen, left = [], set().union(*of_row.values())
    for least in range(len(places), 0, -1):
        for row in rows:
            if len(of_row[row] & left) >= least:
                left -= of_row[row]
                chosen.append(row)
    return chosen


def on_devices(*columns: Iterable[Any], together: int) -> list[Any]:
    """Parameters for a test, of which the last is the fixture ``device``: :func:`covering` on a CPU, all on a GPU."""
    columns = [list(column) for column in columns]
    few = [pytest.param(*row, "cpu") for row in covering(columns, together)]
    return few + [pytest.param(*row, "cuda:0", marks=pytest.mark.gpu) for row in product(*columns)]
