"""``python -m benchmarks``: what was measured is kept as it comes, and no case is begun without time."""

from __future__ import annotations

import json

import pytest

rows = pytest.importorskip("benchmarks._rows", reason="the benchmarks are not beside the tests")


@pytest.fixture
def run():
    yield rows.RUN
    rows.RUN.begin({}, None, None)


def test_a_run_that_ends_early_leaves_its_rows(run, tmp_path, capsys):
    path = tmp_path / "new" / "found.json"
    run.begin({"benchmark": "some"}, path, None)
    found = rows.Rows()
    found.append({"case": "one", "ms": 1.5})
    assert json.loads(path.read_text())["results"] == {"so far": [{"case": "one", "ms": 1.5}]}
    found.extend([{"case": "two"}, {"case": "three"}])
    kept = json.loads(path.read_text())
    assert kept["results"]["so far"] == found and len(found) == 3 and kept["benchmark"] == "some" and kept["seconds"] >= 0
    assert [path] == list(path.parent.iterdir()) and "case one, ms 1.5" in capsys.readouterr().err


def test_no_case_is_begun_without_time(run, capsys):
    assert list(rows.in_time("abc")) == ["a", "b", "c"]
    run.begin({}, None, -1.0)
    assert list(rows.in_time("abc")) == [] and "no time was left for a" in capsys.readouterr().err
    assert list(rows.in_time("abc", least=2)) == ["a", "b"]
