"""Entries, PRPs and queue pairs against two devices in software, the tests' and the library's, as programs of their own."""

from __future__ import annotations

import pytest

from ..programs import DEVICES, NATIVE, compiled, needs_compiler, run, tried_by_threads

SERVED = ["native/storage/request.cpp", "native/storage/serving.cpp", *DEVICES]


@needs_compiler
@pytest.mark.parametrize("served", [pytest.param(False, id="tests"), pytest.param(True, id="library")])
@pytest.mark.parametrize("name", [pytest.param("queue", marks=tried_by_threads), "device"])
def test_every_command_ends_once_whatever_the_device_does(tmp_path, name, served):
    sources, flags = (SERVED, ["-DSERVED"]) if served else ([], [])
    run(compiled(tmp_path, f"tests/storage/{name}.cpp", *sources, flags=["-O1", "-fopenmp", *flags, *NATIVE]))
