"""The kernel cache: content-addressed, whole or absent, one compile at a time. NVRTC needs no GPU."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from hinterland.runtime import jit
from hinterland.runtime.errors import ConfigError, DeviceError, StorageError

from .. import forked

pytest.importorskip("cuda.bindings.nvrtc")

SOURCE = """
#include "hinterland/core/philox.hpp"
namespace hinterland {
template <class T>
__global__ void draw(T* out, int64_t n) {
  const int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = static_cast<T>(Philox{1}.below(10, i));
}
}
"""

# A process that compiles the same kernel into the folder given; argv: file, folder.
CHILD = """
import sys
from pathlib import Path
from hinterland.runtime import jit
jit.PACKAGE = Path(sys.argv[1]).parent
file = jit.KernelFile(Path(sys.argv[1]).name, ("hinterland::draw<int>",))
original = jit._compile
def announced(*args):
    print("compiling", flush=True)
    if len(sys.argv) > 3:
        import time; time.sleep(60)
    return original(*args)
jit._compile = announced
print(file.build("sm_90", Path(sys.argv[2])), flush=True)
"""


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    (tmp_path / "draw.cu").write_text(SOURCE)
    monkeypatch.setattr(jit, "PACKAGE", tmp_path)
    monkeypatch.setattr(jit, "REGISTRY", {})
    return jit.KernelFile("draw.cu", ("hinterland::draw<int>", "hinterland::draw<long long>"))


def child(source, folder, *more):
    command = [sys.executable, "-c", CHILD, str(source), str(folder), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_an_entry_holds_a_cubin_with_every_instance(kernel, tmp_path):
    entry = kernel.build("sm_90", tmp_path / "cache")
    symbols, cubin = jit._load(entry)
    assert set(symbols) == set(kernel.instances)
    assert cubin.startswith(b"\x7fELF") and len(set(symbols.values())) == 2


def test_a_second_build_compiles_nothing(kernel, tmp_path, monkeypatch):
    entry = kernel.build("sm_90", tmp_path / "cache")
    monkeypatch.setattr(jit, "_compile", lambda *_: pytest.fail("compiled again"))
    assert kernel.build("sm_90", tmp_path / "cache") == entry


def test_the_key_follows_source_headers_instances_and_architecture(kernel, tmp_path, monkeypatch):
    keys = {kernel.key("sm_90"), kernel.key("sm_80")}
    keys.add(jit.KernelFile("draw.cu", ("hinterland::draw<int>",)).key("sm_90"))
    (tmp_path / "draw.cu").write_text(SOURCE + "// changed\n")
    keys.add(kernel.key("sm_90"))
    headers = tmp_path / "include" / "hinterland" / "core"
    headers.mkdir(parents=True)
    for name in ("nvrtc.hpp", "philox.hpp", "platform.hpp"):
        (headers / name).write_text((jit.INCLUDE_DIR / "hinterland/core" / name).read_text())
    with open(headers / "platform.hpp", "a") as header:  # reached through philox.hpp only
        header.write("// changed\n")
    monkeypatch.setattr(jit, "INCLUDE_DIR", tmp_path / "include")
    keys.add(kernel.key("sm_90"))
    assert len(keys) == 5


def test_another_packages_files_include_its_headers_and_ours(tmp_path, monkeypatch):
    """They are what it is compiled from, so each of them decides the key."""
    monkeypatch.setattr(jit, "REGISTRY", {})
    folder = tmp_path / "above" / "draws"
    folder.mkdir(parents=True)
    (folder / "most.hpp").write_text("#pragma once\nnamespace hinterland::draws { inline constexpr int kMost = 10; }\n")
    text = '#include "draws/most.hpp"\n' + SOURCE.replace("below(10", "below(draws::kMost")
    (folder / "draw.cu").write_text(text)
    file = jit.KernelFile("draws/draw.cu", ("hinterland::draw<int>",), beside=tmp_path / "above")
    assert file.build("sm_90", tmp_path / "cache").stat().st_size
    keys = {file.key("sm_90")}
    for changed in (folder / "most.hpp", folder / "draw.cu"):
        changed.write_text(changed.read_text() + "// changed\n")
        keys.add(file.key("sm_90"))
    assert len(keys) == 3


def test_a_folder_of_our_name_beside_the_user_is_not_read(kernel, tmp_path, monkeypatch):
    before, there = kernel.key("sm_90"), tmp_path / "there" / "hinterland" / "core"
    there.mkdir(parents=True)
    (there / "philox.hpp").write_text("#error not ours\n")
    monkeypatch.chdir(tmp_path / "there")
    assert kernel.key("sm_90") == before
    assert kernel.build("sm_90", tmp_path / "cache").stat().st_size


@pytest.mark.parametrize(
    "damage",
    [lambda b: b[:-7], lambda b: b[:-99] + bytes([b[-99] ^ 1]) + b[-98:], lambda b: b"", lambda b: b"junk"],
    ids=["cut short", "one bit", "empty", "another file"],
)
def test_a_damaged_entry_is_built_again(kernel, tmp_path, damage):
    entry = kernel.build("sm_90", tmp_path / "cache")
    whole = jit._load(entry)
    entry.write_bytes(damage(entry.read_bytes()))
    assert jit._load(entry) is None
    kernel.build("sm_90", tmp_path / "cache")
    assert jit._load(entry)[0].keys() == whole[0].keys()


def test_two_processes_compile_once(kernel, tmp_path):
    pair = [child(tmp_path / "draw.cu", tmp_path / "cache") for _ in range(2)]
    output = "".join(p.communicate(timeout=120)[0] for p in pair)
    assert [p.returncode for p in pair] == [0, 0]
    assert output.count("compiling") == 1
    assert len(list((tmp_path / "cache").glob("*.cubin"))) == 1


def test_a_killed_compile_leaves_nothing_behind(kernel, tmp_path):
    victim = child(tmp_path / "draw.cu", tmp_path / "cache", "slowly")
    assert victim.stdout.readline() == "compiling\n"
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    assert not list((tmp_path / "cache").glob("*.cubin"))
    start = time.monotonic()
    survivor = child(tmp_path / "draw.cu", tmp_path / "cache")
    assert survivor.wait(timeout=60) == 0 and time.monotonic() - start < 50  # the lock died with its holder


def test_a_kernel_that_does_not_compile_says_what_nvrtc_said(kernel, tmp_path):
    (tmp_path / "draw.cu").write_text(SOURCE.replace("Philox{1}", "Philux{1}"))
    with pytest.raises(DeviceError, match="Philux"):
        kernel.build("sm_90", tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*.cubin"))


def test_a_cache_that_cannot_be_written_names_the_remedy(kernel, tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(ConfigError, match="HINTERLAND_CACHE_DIR"):
        kernel.build("sm_90", tmp_path / "cache")


def test_a_full_disk_leaves_no_half_entry(kernel, tmp_path, monkeypatch):
    def no_space(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(jit.os, "fsync", no_space)
    with pytest.raises(StorageError, match="No space left"):
        kernel.build("sm_90", tmp_path / "cache")
    assert {path.suffix for path in (tmp_path / "cache").iterdir()} == {".lock"}


root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def compiled(monkeypatch, kernel):
    """Counts compilations, which take no time here."""
    done = []

    def compile(*of):
        done.append(of)
        return {"name": "symbol"}, b"cubin"

    monkeypatch.setattr(jit, "_compile", compile)
    return done


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.chmod(0o664),
        lambda path: path.chmod(0o646),
        pytest.param(lambda path: os.chown(path, 1234, 1234), marks=root),
    ],
    ids=["its group", "everybody", "another user"],
)
def test_an_entry_that_others_could_write_is_built_again(kernel, compiled, tmp_path, change):
    """It is consistent with itself, whoever made it."""
    entry = kernel.build("sm_90", tmp_path / "cache")
    change(entry)
    assert jit._load(entry) is None
    assert kernel.build("sm_90", tmp_path / "cache") == entry and len(compiled) == 2
    assert jit._load(entry) == ({"name": "symbol"}, b"cubin")
    assert len(compiled) == 2


@root
def test_whoever_is_no_root_trusts_root(kernel, compiled, tmp_path, monkeypatch):
    """Administrators build kernels for all."""
    entry = kernel.build("sm_90", tmp_path / "cache")
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    assert kernel.build("sm_90", tmp_path / "cache") == entry and len(compiled) == 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda path: path.chmod(0o775), "has mode 775"),
        (lambda path: path.chmod(0o1777), "has mode 1777"),
        pytest.param(lambda path: os.chown(path, 1234, 1234), "belongs to user 1234", marks=root),
    ],
)
def test_a_cache_folder_that_others_could_write_is_refused(kernel, compiled, tmp_path, change, says):
    kernel.build("sm_90", tmp_path / "cache")
    change(tmp_path / "cache")
    with pytest.raises(ConfigError, match=rf"the kernel cache {tmp_path}/cache {says}: .*chmod go-w .*HINTERLAND_CACHE_DIR"):
        kernel.build("sm_90", tmp_path / "cache")
    assert len(compiled) == 1


def test_what_is_written_is_ours_whatever_the_umask(kernel, compiled, tmp_path, monkeypatch):
    monkeypatch.setenv("HINTERLAND_CACHE_DIR", str(tmp_path))
    before = os.umask(0)
    try:
        own = kernel.build("sm_90", jit.cache_dir())
        handed_on = kernel.build("sm_90", tmp_path / "image")
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (own.parent, own, handed_on.parent, handed_on)] == [
        0o700,
        0o644,
        0o755,
        0o644,
    ]
    kernel.build("sm_90", jit.cache_dir())
    assert len(compiled) == 2


def test_an_unknown_architecture_is_refused(kernel, tmp_path):
    with pytest.raises(ConfigError, match="sm_90"):
        list(jit.build_all(["hopper"], tmp_path))


def test_the_cache_folder_can_be_chosen(monkeypatch, tmp_path):
    monkeypatch.setenv("HINTERLAND_CACHE_DIR", str(tmp_path))
    assert jit.cache_dir() == tmp_path / "kernels"
    monkeypatch.delenv("HINTERLAND_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert jit.cache_dir() == tmp_path / "xdg" / "hinterland" / "kernels"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_cache_names_the_remedy(kernel, tmp_path):
    (tmp_path / "cache").mkdir(mode=0o500)
    with pytest.raises(ConfigError, match="HINTERLAND_CACHE_DIR"):
        kernel.build("sm_90", tmp_path / "cache")


def test_building_for_no_architecture_is_an_error():
    with pytest.raises(ConfigError, match="no architecture"):
        list(jit.build_all([]))


def test_who_waits_for_a_compile_is_told_once(kernel, tmp_path, monkeypatch):
    pytest.importorskip("cuda.core")
    said = []
    monkeypatch.setattr(jit, "notice", said.append)
    for _ in range(2):
        kernel.build("sm_90", tmp_path / "cache", announced=True)
    assert said == [f"hinterland: compiling draw.cu for sm_90 (once; kept in {tmp_path / 'cache'})"]


def test_every_kernel_is_known_to_the_command_that_builds_them():
    text = (
        "from hinterland.cli import kernels\n"
        "from hinterland.runtime import jit\n"
        "jit.build_all = lambda *_: iter(())\n"
        "kernels.build()\n"
        "print(*sorted(jit.REGISTRY))"
    )
    done = forked.run("-c", text, check=True)
    files = {path.relative_to(jit.PACKAGE).as_posix() for path in jit.PACKAGE.rglob("*.cu")}
    assert set(done.stdout.splitlines()[-1].split()) == files
