"""Every program in examples/ runs, and prints what it says it prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import forked

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example(path):
    found = forked.run(path)
    assert found.returncode == 0, found.stderr
    for line in path.read_text().splitlines():
        if line.startswith("print(") and "  # " in line:
            assert found.stdout.strip() == line.partition("  # ")[2]
    assert found.stdout.strip()


def test_there_are_examples():
    assert {path.name for path in EXAMPLES} >= {"pyg_neighbor_loader.py", "table.py", "train.py", "traversal.py"}
    assert {path.name for path in EXAMPLES} >= {"embedding.py", "full_graph.py", "table.py", "traversal.py"}
    assert {path.name for path in EXAMPLES} >= {"table_on_disk.py", "kernel_on_disk.py", "query.py"}
