"""``hinterland query``: several files, rows and the first of them, as tables and as JSON."""

from __future__ import annotations

import datetime
import json

import pytest
from typer.testing import CliRunner

pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")
from pyarrow import parquet  # noqa: E402

from hinterland.cli import app  # noqa: E402
