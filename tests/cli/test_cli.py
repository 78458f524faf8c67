"""The command line's promises: exit statuses, JSON alone on standard output, everything else on standard error."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time

import pytest

import hinterland as hl
from hinterland import cli
from hinterland.cli import algorithms, kernels
from hinterland.probe import link
from hinterland.runtime import jit, watch

from .. import forked

HINTERLAND = [sys.executable, "-m", "hinterland.cli"]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A cache folder that the tests of this file share: the machine is measured once, as if it had little memory: soon."""
    return {**os.environ, "HINTERLAND_CACHE_DIR": str(tmp_path_factory.mktemp("cache")), "HINTERLAND_HOST_MEMORY": "600MiB"}


def hinterland(environment, *arguments: object) -> subprocess.CompletedProcess:
    return forked.run("-m", "hinterland.cli", *arguments, env=environment)


@pytest.fixture(autouse=True)
def own_interrupt():
    """main() takes over Ctrl-C and SIGTERM, which the test runner wants back."""
    handlers = {stop: signal.getsignal(stop) for stop in (signal.SIGINT, signal.SIGTERM)}
    yield
    for stop, handler in handlers.items():
        signal.signal(stop, handler)


@pytest.fixture
def here(environment, monkeypatch, command_line):
    """Runs a command in this process, which spares the import of torch: exit status, standard output, standard error."""
    monkeypatch.setenv("HINTERLAND_CACHE_DIR", environment["HINTERLAND_CACHE_DIR"])
    return lambda *words: command_line(cli.main, "hinterland", *words)


def test_what_ends_a_stuck_command_does_not_end_who_called_it(here):
    """Only while a command runs may its watch end the process, and only for threads of its own."""
    left, ends = threading.Event(), threading.Thread(target=lambda: left.wait(), daemon=True)
    ends.start()
    assert here("--version")[0] == 0 and here("bfs", "no such graph.hl")[0] == 1
    assert watch.on_stuck is watch.say_and_let_end
    left.set()
    ends.join()


def test_help_names_every_command(here):
    status, out, _ = here("--help")
    assert status == 0
    for name in (*cli.COMMANDS, *algorithms.commands()):
        assert name in out


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-command"],
        ["probe", "--no-such-option"],
        ["demo", "--scale", "many"],
        ["demo", "--scale", "0"],
        ["demo", "--scale", "4", "--graph", "g.hl"],
    ],
)
def test_wrong_usage_ends_with_2(here, arguments):
    status, out, error = here(*arguments)
    assert status == 2
    assert out == "" and "Usage" in error


@pytest.mark.parametrize(
    "arguments",
    [["query", ""], ["bfs", ""], ["hotness", ""], ["train", ""], ["storage", "bench", ""], ["storage", "cufile", ""]],
)
def test_an_empty_name_is_no_folder(here, arguments):
    status, out, error = here(*arguments)
    assert status == 2
    assert out == "" and "it is empty; name a file or folder" in error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["kernels", "build", "--arch", "h200"], "not an architecture: 'h200'"),
        (["demo", "--graph", "/no/such/graph.mtx"], "/no/such/graph.mtx"),
    ],
)
def test_an_error_of_ours_ends_with_1_and_a_sentence(here, arguments, words):
    status, out, error = here(*arguments)
    assert status == 1
    assert out == "" and words in error
    assert error.splitlines()[-1].startswith("hinterland: ")


def test_probe_measures_no_disk_that_is_not_there(here, tmp_path):
    (tmp_path / "file").touch()
    for name in ("missing", "file"):
        status, out, err = here("probe", "--disk-path", tmp_path / name)
        assert status == 1 and not out and f"{name}: no folder is there; name one" in err
    status, out, err = here("probe", "--html", tmp_path / "missing" / "page.html")
    assert status == 1 and not out and "make the folder" in err
    assert os.listdir(tmp_path) == ["file"]


def test_probe_prints_one_json_object_and_keeps_it(environment, tmp_path):
    page = tmp_path / "machine.html"
    found = hinterland(environment, "probe", "--json", "--html", str(page), "--disk-path", str(tmp_path))
    assert found.returncode == 0
    machine = json.loads(found.stdout)
    assert machine["cpu"]["read"] > 0 and machine["disk"]["path"] == str(tmp_path)
    assert "CPU memory" in found.stderr
    assert page.read_text().startswith("<!doctype html>")
    assert [file.name for file in tmp_path.iterdir()] == ["machine.html"]

    again = hinterland(environment, "probe", "--json")
    assert json.loads(again.stdout) == machine and again.stderr == ""

    table = hinterland(environment, "probe")
    assert table.returncode == 0 and "read in sequence" in table.stdout and "\x1b" not in table.stdout

    refused = hinterland(environment, "probe", "--html", str(tmp_path / "no" / "page.html"))
    assert refused.returncode == 1 and "page.html: cannot be written" in refused.stderr


def test_kernels_build_prints_one_json_object(here, tmp_path, monkeypatch):
    pytest.importorskip("cuda.core")
    monkeypatch.setattr(kernels, "register_all", lambda: None)
    monkeypatch.setattr(jit, "REGISTRY", {"probe/link.cu": link.KERNELS})
    status, out, error = here("kernels", "build", "--arch", "sm_90", "--output", str(tmp_path), "--json")
    assert status == 0
    assert [kernel["kernel"] for kernel in json.loads(out)["kernels"]] == ["probe/link.cu"]
    assert "probe/link.cu" in error


def test_without_typer_there_is_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.setattr(sys, "argv", ["hinterland", "probe"])
    with pytest.raises(SystemExit, match=r"pip install 'hinterland\[cli\]'"):  # sys.exit(text): status 1, on stderr
        cli.main()


def test_ctrl_c_ends_with_130_and_leaves_nothing(environment, tmp_path):
    with subprocess.Popen(
        [*HINTERLAND, "probe", "--refresh", "--disk-path", str(tmp_path)],
        env={**environment, "HINTERLAND_CACHE_DIR": str(tmp_path / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None and process.stdout is not None
        for line in process.stderr:
            if line.startswith("disk"):
                break
        time.sleep(0.3)  # into the writing
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(timeout=30) == 130
        assert "interrupted" in rest and "Traceback" not in rest and process.stdout.read() == ""
    assert list(tmp_path.iterdir()) == []


def interrupted(script, environment):
    """Runs what interrupts itself, and then sleeps for a minute."""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stderr) == (130, "hinterland: interrupted\n")


def test_ctrl_c_in_a_finalizer_is_not_lost(environment):
    """Between two runs memory is let go of, and Python drops what is raised there."""
    script = (
        "import signal, time, weakref\n"
        "from hinterland import cli\n"
        "class Memory: pass\n"
        "def command(there, *program):\n"
        "    memory = Memory()\n"
        "    weakref.finalize(memory, signal.raise_signal, signal.SIGINT)\n"
        "    del memory\n"
        "    time.sleep(60)\n"
        "cli._run = command\n"
        "cli.main()\n"
    )
    interrupted(script, environment)


@pytest.mark.parametrize("imported", ["numpy.lib", "numpy.exceptions", "pandas", "torch.distributed", "pyarrow.compute"])
def test_ctrl_c_within_an_import_is_heard_after_it(environment, imported):
    """Raised there it had been lost (numpy.lib), or had come as an error of a module that was imported in part."""
    pytest.importorskip(imported)
    script = (
        "import signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {imported!r}:\n"
        "            sys.meta_path.remove(self)\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from hinterland import cli\n"
        "def command(there, *program):\n"
        f"    import {imported}, time\n"
        "    time.sleep(60)\n"
        "cli._run = command\n"
        "cli.main()\n"
    )
    interrupted(script, environment)


def test_a_signal_that_was_not_heard_comes_again():
    """One that comes just before the main thread sleeps does not wake it."""
    come = []
    before = signal.signal(signal.SIGUSR1, lambda *_: come.append(1))
    try:
        cli._again(signal.SIGUSR1)
        deadline = time.monotonic() + 30
        while len(come) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        cli._heard.set()
        time.sleep(0.1)
        signal.signal(signal.SIGUSR1, before)
    assert len(come) >= 2


def test_sigterm_ends_with_143_and_leaves_what_was_there(here, environment, tmp_path):
    """SIGTERM is what SLURM and docker stop send. It comes while the features are written."""
    out = tmp_path / "out"
    arguments = ["dataset", "generate", "--scale", "1e-5", "--device", "cpu", "--output", str(out)]
    assert here(*arguments)[0] == 0
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    script = (
        "import sys, time\n"
        "from hinterland import cli\n"
        "from hinterland.runtime.files import Output\n"
        "written = Output.write_tensor\n"
        "def slowly(*of):\n"
        "    written(*of)\n"
        "    print('writing', flush=True)\n"
        "    time.sleep(60)\n"
        "Output.write_tensor = slowly\n"
        "cli.main()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, *arguments, "--seed", "2", "--overwrite"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "writing\n"
        assert len(os.listdir(tmp_path)) == 2
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        assert process.wait(timeout=60) == 143
    assert rest.splitlines()[-1] == "hinterland: terminated" and "Traceback" not in rest
    assert os.listdir(tmp_path) == ["out"]
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before


def test_a_terminal_gets_a_table(environment):
    """On a terminal the table may use its features; that it is one at all is what is tested."""
    controller, terminal = pty.openpty()
    with subprocess.Popen([*HINTERLAND, "probe"], env=environment, stdout=terminal, stderr=subprocess.DEVNULL) as process:
        os.close(terminal)
        shown = b""
        while True:
            try:
                block = os.read(controller, 65536)
            except OSError:  # the other end is closed
                break
            if not block:
                break
            shown += block
        assert process.wait(timeout=240) == 0
    os.close(controller)
    assert b"CPU memory" in shown and b"\x1b[1m" in shown


FULL, CLOSED = (">/dev/full", "No space left on device; the result is lost"), (">&-", "standard output is closed")


@pytest.mark.parametrize(
    ("words", "output"), [("--help", FULL), ("--help", CLOSED), ("info {}", FULL), ("info {} --json", CLOSED)]
)
def test_an_output_that_takes_nothing_is_told(environment, tmp_path, words, output):
    (place, reason), graph = output, tmp_path / "g.hl"
    hl.save_graph(hl.generate("grid", rows=2, cols=2), graph)
    ended = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m hinterland.cli {words.format(graph)} {place}"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert ended.returncode == 1 and ended.stdout == ""
    assert ended.stderr.startswith("hinterland: ") and ended.stderr.count("\n") == 1 and reason in ended.stderr
