"""Tests of the networkx backend, which is there where the package is installed."""

from __future__ import annotations

import networkx as nx
import pytest


@pytest.fixture(autouse=True, scope="module")
def backend():
    """networkx warns whenever it uses a converted graph again."""
    if "hinterland" not in nx.utils.backends.backends:
        pytest.skip("networkx finds backends of installed packages only: pip install .")
    before = set(nx.config.warnings_to_ignore)
    nx.config.warnings_to_ignore.add("cache")
    yield
    nx.config.warnings_to_ignore = before
