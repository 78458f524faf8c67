"""What a user's compiled kernel is kept by: all that the compiler read, and all that it was told."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import hinterland as hl
from hinterland.kernels import on_cpu
from hinterland.runtime.errors import ConfigError

TEXT = '#include "mine.h"\n__global__ void k(int* x) { x[0] = 10 * V + W; }'


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a kernel cache and a compiler's variables of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HINTERLAND_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CPATH", raising=False)
    monkeypatch.setenv("CXX", "g++ -DW=1")
    return tmp_path


def header(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_values_follow_headers_paths_and_flags(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def value() -> int:
        x = torch.zeros(1, dtype=torch.int32)
        hl.kernel(TEXT)(x, grid=1, block=1)
        return int(x.item())

    header(here / "a/mine.h", "#define V 1\n")
    header(here / "b/mine.h", '#include "deep.h"\n')
    header(here / "b/deep.h", "#define V 2\n")
    monkeypatch.setenv("CPATH", "a")
    assert value() == 11
    monkeypatch.setenv("CPATH", "b")
    assert value() == 21
    header(here / "b/deep.h", "#define V 3\n")
    assert value() == 31
    monkeypatch.setenv("CXX", "g++ -DW=2")
    assert value() == 32
    monkeypatch.setattr(on_cpu, "_compile", lambda *_: pytest.fail("compiled again"))
    assert value() == 32


SCRIPT = '#!/bin/sh\nexec g++ {flags} "$@"\n'


def script(here: Path, flags: str) -> None:
    header(here / "cc.sh", SCRIPT.format(flags=flags))
    (here / "cc.sh").chmod(0o755)


@pytest.mark.parametrize(
    ("command", "variables", "first", "then"),
    [
        ("./cc.sh", {}, lambda here: script(here, "-DV=1"), lambda here: script(here, "-DV=2")),
        ("./cc.sh", {"MYFLAGS": ("-DV=1", "-DV=2")}, lambda here: script(here, "$MYFLAGS"), lambda here: None),
        (
            "./cc.sh",
            {},
            lambda here: (script(here, "-include mine.h"), header(here / "mine.h", "#define V 1\n")),
            lambda here: header(here / "mine.h", "#define V 2\n"),
        ),
        (
            "g++ -include mine.h",
            {"CPATH": ("one:two", "one:two")},
            lambda here: header(here / "two/mine.h", "#define V 1\n"),
            lambda here: header(here / "one/mine.h", "#define V 2\n"),
        ),
        (
            "g++ -include inc/mine.h",
            {},
            lambda here: (header(here / "inc/mine.h", '#include "deep.h"\n'), header(here / "inc/deep.h", "#define V 1\n")),
            lambda here: header(here / "inc/deep.h", "#define V 2\n"),
        ),
    ],
    ids=["a script", "a script's variable", "a script's header", "a header found before", "a header's header"],
)
def test_values_follow_what_the_command_brings(command, variables, first, then, here: Path, monkeypatch) -> None:
    """A text without includes, in one process: what else decides V."""
    monkeypatch.setenv("CXX", command)
    for change, expected in ((first, 1), (then, 2)):
        change(here)
        for name, values in variables.items():
            monkeypatch.setenv(name, values[expected - 1])
        x = torch.zeros(1, dtype=torch.int32)
        hl.kernel("__global__ void k(int* x) { x[0] = V; }")(x, grid=1, block=1)
        assert x.item() == expected


@pytest.fixture
def entry(here: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Where the code of a text is kept, which is neither compiled nor run."""
    monkeypatch.setattr(on_cpu, "_compile", lambda *_: b"code")
    monkeypatch.setattr(on_cpu, "_loaded", lambda entry: entry)
    return lambda text=TEXT, kinds=1: on_cpu.compiled(hl.kernel(text)._text(kinds))


def test_what_was_not_there_before(entry, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A header that is found before another one, and one that a text asks for."""
    monkeypatch.setenv("CPATH", f"{here}/first:{here}/second")
    header(here / "second/mine.h", "#define V 1\n")
    before = entry()
    assert entry() == before
    header(here / "first/mine.h", "#define V 2\n")
    found_first = entry()
    header(here / "mine.h", "#define V 3\n")
    assert len({before, found_first, entry()}) == 3
    asks = '#if __has_include("tuned.h")\n#include "tuned.h"\n#endif\n' + TEXT
    before = entry(asks)
    header(here / "tuned.h", "#define TUNED\n")
    assert entry(asks) != before


@pytest.mark.parametrize("splice", ("\\\n", "\\ \t\n", "\\\r\n"))
def test_a_word_over_two_lines(splice: str, entry, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "g++")
    text = TEXT.replace("include", f"inc{splice}lude")
    header(here / "mine.h", "#define V 1\n#define W 1\n")
    before = entry(text)
    header(here / "mine.h", "#define V 2\n#define W 1\n")
    assert entry(text) != before


def test_a_plain_compiler_is_asked_once(entry, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing can bring other headers, the preprocessor is not asked for each text, nor each folder compiled for."""
    entries = set()
    for name in ("g++", "clang++"):
        if not shutil.which(name):
            continue
        monkeypatch.setenv("CXX", name)
        entries.add(entry("__global__ void k(int* x) { x[0] = 1; }"))
        with monkeypatch.context() as patched:
            patched.setattr(on_cpu, "_asked", lambda *_: pytest.fail("asked again"))
            (here / name).mkdir()
            patched.chdir(here / name)
            on_cpu._told_once.cache_clear()
            entry("__global__ void k(int* x) { x[0] = 2; }")
            entries.add(entry("__global__ void k(int* x) { x[0] = 1; }"))
    assert len(entries) == 1 + bool(shutil.which("clang++"))


def test_what_the_compiler_is_told(entry, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flags that no header sees, in CXX and in a file that it names, and where it finds its parts."""
    text = "__global__ void k(int* x) { x[0] = 1; }"
    (here / "flags").write_text("-DA")
    entries = []
    for command in ("g++", "g++ -ffast-math", "g++ @flags"):
        monkeypatch.setenv("CXX", command)
        entries.append(entry(text))
    (here / "flags").write_text("-DB")
    entries.append(entry(text))
    monkeypatch.setenv("LIBRARY_PATH", str(here))
    entries.append(entry(text))
    assert entry(text) == entries[-1] and len(set(entries)) == 5


def test_headers_that_all_texts_have_are_looked_at_again_once_they_change(entry, here: Path, monkeypatch) -> None:
    """Another process asks the system whether they are what they were, and the preprocessor if not."""
    monkeypatch.setenv("CXX", "g++")
    text, own = "__global__ void k(int* x) { x[0] = 1; }", here / "include"
    header(own / "hinterland/kernels/on_cpu.hpp", '#include "hinterland/deep.hpp"\n#define __global__\n')
    header(own / "hinterland/kernels/array.hpp", "namespace hinterland::kernels { struct array {}; }\n")
    header(own / "hinterland/deep.hpp", "#define DEEP 1\n")
    monkeypatch.setattr(on_cpu.jit, "INCLUDE_DIR", own)
    asked, ask = [], on_cpu._asked
    monkeypatch.setattr(on_cpu, "_asked", lambda *given: asked.append(given) or ask(*given))

    def in_another_process() -> Path:
        on_cpu._read_once.cache_clear()
        asked.clear()
        return entry(text)

    first = in_another_process()
    assert asked and in_another_process() == first and not asked
    header(own / "hinterland/deep.hpp", "#define DEEP 2\n")
    second = in_another_process()
    assert asked and second != first
    assert in_another_process() == second and not asked
    header(own / "hinterland/deep.hpp", "#define DEEP 1\n")
    os.utime(own / "hinterland/deep.hpp", (0, 0))
    assert in_another_process() == first


def test_a_gpus_code_is_kept_by_what_its_text_can_include(here: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")

    def key(text: str = TEXT) -> str:
        return hl.kernel(text)._text(1).key("sm_90")

    keys = [key()]
    header(here / "mine.h", '#include "folder/deep.h"\n')
    keys.append(key())
    header(here / "folder/deep.h", '#pragma once\n#include "deeper.h"\n')
    keys.append(key())
    header(here / "folder/deeper.h", "#define V 1\n")
    keys.append(key())
    header(here / "folder/deeper.h", "#define V 2\n")
    keys.append(key())
    spliced = '#inc\\ \nlude \\\n"folder/deeper.h"\n' + TEXT
    asks = f'#if __has_include("{here}/tuned.h")\n#endif\n' + TEXT
    keys += [key(spliced), key(asks)]
    header(here / "folder/deeper.h", "#define V 3\n")
    header(here / "tuned.h", "")
    keys += [key(spliced), key(asks)]
    assert len(set(keys)) == 9 and key() == key()
    with pytest.raises(ConfigError, match=r"#include NAME: .*a macro names this one; write its name"):
        key('#define NAME "mine.h"\n#include NAME\n' + TEXT)


def test_a_folder_of_our_name_beside_the_user_is_not_read(entry, here: Path) -> None:
    text = "#define OWN  // include\n__global__ void k(array<int> x) { x[0] = 1; }"  # which has the preprocessor asked
    before = entry(text)
    for name in ("array.hpp", "on_cpu.hpp"):
        header(here / "hinterland/kernels" / name, "#error not ours\n")
    assert entry(text) == before
    pytest.importorskip("cuda.bindings.nvrtc")
    assert hl.kernel(text)._text(1).build("sm_90", here).stat().st_size


def test_a_gpus_code_has_the_header_that_its_key_has(here: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    header(here / "mine.h", "#define V 4\n#define W 2\n")
    first = hl.kernel(TEXT)._text(1).build("sm_90", here)
    header(here / "mine.h", "#define V 5\n#define W 2\n")
    second = hl.kernel(TEXT)._text(1).build("sm_90", here)
    assert first.read_bytes() != second.read_bytes()
