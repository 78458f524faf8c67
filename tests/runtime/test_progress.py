from __future__ import annotations

import io
import sys
import time

import pytest

from hinterland.runtime.progress import notice, progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_silent_where_there_is_no_terminal():
    stream = io.StringIO()
    with progress("reading", 100, stream=stream) as step:
        time.sleep(0.12)
        step(50)
    assert stream.getvalue() == ""


def test_shows_share_rate_and_time_left_and_wipes_its_line():
    stream = Terminal()
    with progress("reading g.mtx", 4 << 20, stream=stream) as step:
        time.sleep(0.12)
        step(1 << 20)
    text = stream.getvalue()
    assert "reading g.mtx" in text and "25%" in text and "1.00 MiB of 4.00 MiB" in text
    assert "GB/s" in text and "s left" in text
    assert text.endswith("\r\x1b[K")


def test_counts_in_other_units_and_without_a_total():
    stream = Terminal()
    with progress("sorting", unit="edges", stream=stream) as step:
        time.sleep(0.12)
        step(12345)
    assert "12,345 edges" in stream.getvalue() and "left" not in stream.getvalue()


def test_writes_at_most_ten_times_a_second():
    stream = Terminal()
    with progress("reading", 10**6, stream=stream) as step:
        for _ in range(100_000):
            step(1)
    assert stream.getvalue().count("reading") <= 15


def test_wipes_its_line_after_an_exception():
    stream = Terminal()
    with pytest.raises(KeyboardInterrupt), progress("reading", 10, stream=stream):
        raise KeyboardInterrupt
    assert stream.getvalue() == "\r\x1b[K"


def test_a_vanished_terminal_does_not_stop_the_task():
    stream = Terminal()
    with progress("reading", 10, stream=stream) as step:
        stream.close()
        time.sleep(0.12)
        step(1)
        step(1)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_notice_is_for_terminals(terminal, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    notice("compiling")
    assert capsys.readouterr() == ("", "compiling\n" if terminal else "")
