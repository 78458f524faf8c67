"""What several tests of queries have in common."""

from __future__ import annotations

import importlib

import pytest


@pytest.fixture(params=[False, True], ids=["apart", "together"])
def together(request, monkeypatch):
    """Row groups of Parquet files one by one, or all that follow one another."""
    parquet = importlib.import_module("hinterland.query.parquet")  # the package's function hides the package
    monkeypatch.setattr(parquet, "_ROWS_OF_THREAD", 1 << 20 if request.param else 0)
    return request.param
