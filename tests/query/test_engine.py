"""DuckDB, as queries on a CPU use it: who starts it, what it may fetch, how many threads it takes, what ends a question."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

import hinterland as hl  # noqa: E402
from hinterland.query import engine  # noqa: E402
from hinterland.runtime.errors import ConfigError, HinterlandError, OutOfMemory  # noqa: E402

from .tables import write  # noqa: E402


@pytest.fixture
def path(tmp_path):
    return write(pa.table({"x": range(1000), "t": ["a", "b"] * 500}), tmp_path / "t", "arrow", 100)


def test_the_library_does_not_import_it(path):
    program = "import sys, hinterland; print('duckdb' in sys.modules, 'pyarrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_where_it_is_missing(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ConfigError, match=r"queries on a CPU need DuckDB: pip install 'hinterland\[query\]'"):
        hl.query(path).filter("x > 1").agg("sum(x)")
    assert hl.query(path).agg("count()").rows == [{"count()": 1000}]


def test_nothing_is_fetched(path, monkeypatch, tmp_path):
    """Neither extensions, nor files that a text names, nor variables of Python's; and no folder is made."""
    monkeypatch.chdir(tmp_path)
    hl.query(path).group_by("t").agg("sum(x)")
    settings = ("autoinstall_known_extensions", "autoload_known_extensions", "python_enable_replacements", "temp_directory")
    cursor = engine._opened.cursor()
    found = [str(cursor.execute(f"select current_setting('{name}')").fetchall()[0][0]).lower() for name in settings]
    assert found == ["false", "false", "false", ""]
    assert os.listdir(tmp_path) == ["t"]


@pytest.mark.parametrize("threads", [1, 3])
def test_it_takes_as_many_threads_as_the_library(path, threads, set_threads):
    set_threads(threads)
    assert hl.query(path).filter("x >= 500").agg("sum(x)").rows == [{"sum(x)": sum(range(500, 1000))}]
    assert engine._opened.cursor().execute("select current_setting('threads')").fetchall() == [(threads,)]


def test_what_batches_raise_comes_out_as_it_is():
    def batches():
        yield pa.record_batch({"x": [1]})
        raise FileNotFoundError("gone")

    with pytest.raises(FileNotFoundError, match="gone"):
        engine.ask("t", f"select sum(x) from {engine.ROWS}", [], pa.schema([("x", pa.int64())]), batches())


def test_memory_that_is_not_there(path, monkeypatch):
    import duckdb

    def refuses(*given):
        raise duckdb.OutOfMemoryException("Out of Memory Error: 2 of 1 bytes")

    monkeypatch.setattr(
        engine, "_cursor", lambda module: type("Cursor", (), {"execute": refuses, "close": lambda self: None})()
    )
    with pytest.raises(OutOfMemory, match="does not fit this machine's memory"):
        hl.query(path).agg("sum(x)")


@pytest.mark.parametrize("where", ["in a batch", "in DuckDB"])
def test_a_question_that_is_interrupted(where):
    """And the next one is answered."""
    rows = 1000 if where == "in a batch" else 1_000_000
    batch = pa.record_batch({"x": np.ones(rows)})

    def batches():
        for _ in range(10**6):
            if where == "in a batch":
                time.sleep(0.001)
            yield batch

    schema = pa.schema([("x", pa.float64())])
    what = "x" if where == "in a batch" else " + ".join(f"sin(x + {i})" for i in range(200))
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        engine.ask("t", f"select sum({what}) from {engine.ROWS}", [], schema, batches())
    assert time.monotonic() - begun < 60
    assert engine.ask("t", f"select count(*) from {engine.ROWS}", [], schema, iter([])) == [(0,)]


@pytest.mark.parametrize("kind", [ValueError, TimeoutError, OSError, MemoryError])
def test_what_a_signals_handler_raises_is_no_damaged_file(path, monkeypatch, kind):
    class Handler:
        def __call__(self, *_):
            raise kind("mine")

    def rows(*_):
        signal.raise_signal(signal.SIGUSR1)
        time.sleep(1)  # a bytecode after the signal

    def raised(*_):
        raise kind("the file's")

    monkeypatch.setattr(engine, "ask", rows)
    for handler in (Handler(), Handler().__call__, lambda *_: Handler()()):
        before = signal.signal(signal.SIGUSR1, handler)
        try:
            with pytest.raises(kind, match="mine") as found:
                hl.query(path).agg("sum(x)")
            assert type(found.value) is kind
            monkeypatch.setattr(engine, "ask", raised)
            with pytest.raises(HinterlandError, match="the file's"):
                hl.query(path).agg("sum(x)")
            monkeypatch.setattr(engine, "ask", rows)
        finally:
            signal.signal(signal.SIGUSR1, before)


def test_a_query_is_pickled_by_its_path(path):
    """And opens the file where it is asked again."""
    asked = hl.query(path).filter("x > 1").group_by("t")
    assert pickle.loads(pickle.dumps(asked)).agg("sum(x)").rows == asked.agg("sum(x)").rows


def test_a_table_without_columns(tmp_path):
    path = write(pa.table({}), tmp_path / "none", "arrow", 1)
    with pytest.raises(ConfigError, match="has no column 'x'; it has none"):
        hl.query(path).agg("sum(x)")


def test_a_forked_child_ends_as_it_says(path):
    """Whether it asks or not."""
    program = f"""
import os, sys, hinterland as hl
hl.query({str(path)!r}).agg("sum(x)")
for asks in (False, True):
    child = os.fork()
    if child == 0:
        if asks:
            assert hl.query({str(path)!r}).agg("sum(x)").rows == [{{"sum(x)": 499500}}]
        sys.exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "7\n7\n", done.stderr
