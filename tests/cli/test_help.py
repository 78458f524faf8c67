"""Help, the version and wrong options are answered without torch."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import hinterland
from hinterland import cli, datasets
from hinterland.cli import algorithms
from hinterland.graph import formats
from hinterland.graph.algorithms import known
from hinterland.training import FULL_MODELS, MODELS
from hinterland.training.cache_choice import POLICIES

HEAVY = {"torch", "numpy", "scipy", "networkx", "matplotlib", "pyarrow", "cuda"}
# Runs the command line with each line of standard input as its arguments; after each, prints the status and what it imported.
CHILD = f"""
import contextlib, io, sys
from hinterland import cli
for line in sys.stdin:
    sys.argv = ["hinterland", *line.split()]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            cli.main()
        except SystemExit as ended:
            status = ended.code or 0
    print(line.strip(), status, *sorted({HEAVY!r} & set(sys.modules)), sep="|")
"""
GROUPS = {"dataset": ("convert", "generate", "info"), "kernels": ("build",)}


def answers(*lines: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", CHILD], input="\n".join(lines), capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_help_of_every_command_imports_nothing_heavy():
    within = [f"{group} {name}" for group, names in GROUPS.items() for name in names]
    lines = ["--help", "--version", *(f"{command} --help" for command in (*cli.COMMANDS, *algorithms.commands(), *within))]
    assert answers(*lines) == [f"{line}|0" for line in lines]


def test_what_is_wrong_is_said_without_importing_anything_heavy():
    lines = ["bfs --no-such-option", "no-such-command", "train", "kernels"]
    assert answers(*lines) == [f"{line}|2" for line in lines]


def test_the_version():
    done = subprocess.run([sys.executable, "-m", "hinterland.cli", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"hinterland {hinterland.__version__}\n"


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("convert", [name for name, entry in formats.FORMATS.items() if entry.write]),
        ("dataset convert", datasets.FORMATS),
        ("dataset generate", datasets.SHAPES),
        ("train", MODELS),
        ("train", FULL_MODELS),
        ("train", POLICIES),
    ],
    ids=["formats", "data sets' formats", "shapes", "models", "models of whole graphs", "policies"],
)
def test_help_lists_the_choices_that_there_are(command, names, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["hinterland", *command.split(), "--help"])
    with pytest.raises(SystemExit):
        cli.main()
    said = " ".join(capsys.readouterr().out.split())
    assert ", ".join(names) in said


def test_the_package_is_a_program_as_well():
    done = subprocess.run([sys.executable, "-m", "hinterland", "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.strip().endswith(hinterland.__version__)


def test_what_is_read_of_a_record_is_what_it_says():
    read = {of.name: of for of in algorithms.described()}
    assert read.keys() == {record.name for record in known()}
    for record in known():
        of, takes = read[record.name], inspect.signature(record.run).parameters
        assert (of.help, of.options, of.weights) == (inspect.cleandoc(record.help), record.options, record.weights)
        assert {name: default for name, (_, default) in of.takes.items()} == {name: one.default for name, one in takes.items()}
