"""What is stuck is told in a sentence, in time, and the process can end: in processes of their own, which nothing else ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

ENDS = 60  # seconds within which a process must end that was told to, or that ends by itself


@contextmanager
def stuck(what):
    above = os.pathsep.join([str(Path(__file__).parents[2]), *(path for path in sys.path if path)])
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("stuck.py")), what],
        env={**os.environ, "PYTHONPATH": above},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    end = threading.Timer(2 * ENDS, process.kill)  # and whoever waits for what it says hears that it said nothing
    end.start()
    try:
        yield process
    finally:
        end.cancel()
        process.kill()


def sentence_of(process):
    """What it says of being stuck, as it says it."""
    for line in process.stderr:
        if line.startswith("hinterland: "):
            return line
    pytest.fail("it ended without a word")


def error_of(what):
    """The end of what it writes once it has ended by itself."""
    with stuck(what) as process:
        error = process.communicate(timeout=ENDS)[1]
        assert process.returncode == 1, error
    return error.strip().splitlines()[-1]


def check_ctrl_c(process):
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    assert process.wait(ENDS) == -signal.SIGINT


def test_a_reader_that_is_stuck():
    last = error_of("reader")
    said = "hinterland.runtime.errors.PipelineStalled: stage 'gather' has worked on item 0 for "
    assert last.startswith(said) and "no item came for 0.5 s in all; raise timeout= if it may take that long" in last


def test_a_consumer_that_does_not_come_back_is_ended_by_ctrl_c():
    with stuck("consumer") as process:
        said = sentence_of(process)
        assert said.startswith("hinterland: what was launched on cuda:0 with batch 0 or before it has run for ")
        remedy = "end the process, as Ctrl-C does at once now, or raise timeout= if it may take that long\n"
        assert said.endswith(f"does not end; {remedy}")
        check_ctrl_c(process)


def test_a_process_of_the_librarys_own_ends():
    said = error_of("consumer, which ends by itself")
    assert said.endswith("does not end; the process ends here: raise timeout= if it may take that long")


@pytest.mark.gpu
@pytest.mark.parametrize("what, stage, item", [("kernel of a stage", "gather", 2), ("kernel of a replay", "sample", 8)])
def test_a_kernel_that_never_ends(what, stage, item):
    said = f"PipelineStalled: stage '{stage}' on cuda:0 has worked on item {item} for 2 s, and no item came for 2 s"
    assert said in error_of(what)


@pytest.mark.gpu
def test_a_trainer_that_never_ends():
    """Of factored execution, where the samples of later batches wait for it."""
    said = error_of("replay of a trainer's step")
    assert "PipelineStalled: stage 'train' on cuda:0 has worked on batch " in said and "no batch came for 2 s" in said


@pytest.mark.gpu
@pytest.mark.parametrize(
    "what, says",
    [
        ("kernel of a stage that is waited for", "stage 'gather' on cuda:0 has worked on item 2 for "),
        ("kernel of the step", "what was launched on cuda:0 with item 0 or before it has run for "),
        ("replay of the step", "what was launched on cuda:0 with item "),
    ],
)
def test_a_consumer_that_waits_for_a_kernel_that_never_ends(what, says):
    with stuck(what) as process:
        assert sentence_of(process).startswith(f"hinterland: {says}")
        check_ctrl_c(process)


@pytest.mark.gpu
def test_a_process_of_the_librarys_own_ends_while_a_kernel_does_not():
    assert "what was launched on cuda:0" in error_of("kernel of the step, which ends by itself")
