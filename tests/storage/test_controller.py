"""The controller in software, with memory, files and several of them behind it, and the store's files, as programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..programs import DEVICES, NATIVE, as_one, compiled, needs_compiler, run, tried_by_threads

CONTROLLER = ["request", "serving", "controller"]
FILES = [*CONTROLLER, "file_namespace", "file_backend"]
TRANSFERS = ["transfers", "uring", "pread_pool"]
VOLUMES = ["volumes", "volume", "file", "rings", "routed_transfers"]
STORE = ["store", "planned", "pinned", "read_ahead", "host_pages", "page_cache", "expected", *VOLUMES]
URING = ["-DHINTERLAND_URING=1"] if Path("/usr/include/liburing.h").exists() else []


@needs_compiler
@pytest.mark.parametrize(
    ("name", "sources", "more"),
    [
        pytest.param("serving", CONTROLLER, [], id="memory", marks=tried_by_threads),
        pytest.param("serving", CONTROLLER, ["-DSTAGES=true"], id="stages"),
        pytest.param("spread", [*CONTROLLER, "spread_namespace"], [], id="spread", marks=tried_by_threads),
        pytest.param("copies", STORE, [], id="copies"),
        pytest.param("file_serving", FILES, ["-DPLAIN=true"], id="plain"),
        pytest.param("file_serving", FILES + TRANSFERS, [], id="threads", marks=tried_by_threads),
        pytest.param(
            "file_serving", FILES + TRANSFERS, URING, id="uring", marks=pytest.mark.skipif(not URING, reason="no liburing")
        ),
    ],
)
def test_commands_do_what_they_say_or_say_why_not(tmp_path, name, sources, more):
    files = [f"tests/storage/{name}.cpp", *(f"native/storage/{source}.cpp" for source in sources)]
    if sources is STORE:
        files = [as_one(tmp_path, *files)]
    else:
        files += DEVICES
    libraries = ("-luring",) if more == URING and URING else ()
    run(compiled(tmp_path, *files, flags=["-O1", "-fopenmp", *more, *NATIVE], libraries=libraries))
