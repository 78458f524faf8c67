"""Files and folders that appear whole or not at all, whatever ends their writer and whoever writes beside it."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import stat
import subprocess
import threading
import time

import pytest
import torch

from hinterland.runtime import files, temp_files
from hinterland.runtime.errors import ConfigError, StorageError
from hinterland.runtime.files import check_folder_place, check_place, replacing, replacing_folder
from hinterland.runtime.signals import deferred

root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def child(tmp_path, at_file=None, at_folder=None):
    """A process that replaces a file and a folder over and over, and calls what it is given inside the blocks.

    SIGINT and SIGTERM are exceptions in it, as on the command line. Its number, and where its lines can be read.
    """
    reading, writing = os.pipe()
    number = os.fork()
    if number:
        os.close(writing)
        return number, os.fdopen(reading)
    try:
        for stop in (signal.SIGINT, signal.SIGTERM):
            signal.signal(stop, signal.default_int_handler)
        os.write(writing, b"ready\n")
        while True:
            with replacing(tmp_path / "file") as output:
                output.write(b"a" * 10)
                if at_file:
                    os.write(writing, b"file\n")
                    at_file()
                output.write(b"b" * 10)
            with replacing_folder(tmp_path / "folder", lambda folder: (folder / "whole").exists()) as temp:
                (temp / "first").write_text("b")
                if at_folder:
                    os.write(writing, b"folder\n")
                    at_folder()
                (temp / "whole").write_text("b")
    except KeyboardInterrupt:
        temp_files.remove_all()  # as when an interpreter ends
        os._exit(130)
    finally:
        os._exit(1)


def end(number):
    os.kill(number, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


@pytest.fixture
def sound(tmp_path):
    """A file and a folder that are whole; afterwards, they are still."""
    (tmp_path / "file").write_bytes(b"a" * 10 + b"b" * 10)
    (tmp_path / "folder").mkdir()
    for name in ("first", "whole"):
        (tmp_path / "folder" / name).write_text("b")
    yield
    assert (tmp_path / "file").read_bytes() == b"a" * 10 + b"b" * 10
    assert sorted(os.listdir(tmp_path / "folder")) == ["first", "whole"]


def write_both(tmp_path):
    with replacing(tmp_path / "file") as output:
        output.write(b"a" * 10 + b"b" * 10)
    with replacing_folder(tmp_path / "folder", lambda folder: True) as temp:
        for name in ("first", "whole"):
            (temp / name).write_text("b")


def modes(folder):
    return {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640, 0o666])
def test_what_is_replaced_keeps_its_permissions(tmp_path, mode):
    for umask in (0o022, 0o077):
        (tmp_path / "file").touch()
        (tmp_path / "file").chmod(mode)
        before = os.umask(umask)
        try:
            with replacing(tmp_path / "file") as output:
                output.write_tensor(torch.arange(9), 0)  # by its name, also where nobody may write to what it replaces
                output.resize(72)
                assert all(now & ~(mode | 0o600) == 0 for now in modes(tmp_path))
        finally:
            os.umask(before)
        assert modes(tmp_path) == {mode} and (tmp_path / "file").stat().st_size == 72


def test_a_folder_that_is_replaced_keeps_its_permissions(tmp_path):
    (tmp_path / "folder").mkdir(mode=0o750)
    with replacing_folder(tmp_path / "folder", lambda folder: True) as temp:
        (temp / "first").touch()
        assert all(now & 0o007 == 0 for now in modes(tmp_path))
    assert modes(tmp_path) == {0o750} and os.listdir(tmp_path / "folder") == ["first"]


def test_who_could_not_read_a_file_cannot_read_what_replaces_it(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    (tmp_path / "file").chmod(0o664)
    if os.geteuid() == 0:
        os.chown(tmp_path / "file", 1234, 1235)
        with replacing(tmp_path / "file"):
            pass
        assert ((tmp_path / "file").stat().st_uid, (tmp_path / "file").stat().st_gid) == (1234, 1235)

    def refuse(*given):
        raise PermissionError(errno.EPERM, "not yours")

    monkeypatch.setattr(os, "chown", refuse)  # as to a user that is not in the file's group
    with replacing(tmp_path / "file"):
        pass
    assert modes(tmp_path) == {0o644}


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_signals_at_any_moment_leave_nothing(tmp_path, sound, stop):
    """Two of them in a row: the second may meet the clean-up."""
    for seed in range(20):
        moments = random.Random(seed)
        number, lines = child(tmp_path)
        with lines:
            assert lines.readline() == "ready\n"
            time.sleep(moments.uniform(0, 0.02))
            for _ in range(2):
                os.kill(number, stop)
                time.sleep(moments.uniform(0, 0.0003))
            status = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
        assert status in (130, 1)
        if status == 1:  # the second came in the child's own last lines
            write_both(tmp_path)
        assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


@pytest.mark.parametrize("moment", ["file", "folder"])
def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path, sound, moment):
    number, lines = child(tmp_path, **{f"at_{moment}": signal.pause})
    with lines:
        assert [lines.readline() for _ in range(2)] == ["ready\n", f"{moment}\n"]
        write_both(tmp_path)  # while it lives, what it writes is left alone
        [temp] = {*os.listdir(tmp_path)} - {"file", "folder"}
        assert temp.startswith(f".{moment}.") and temp.endswith(".part")
        assert end(number) == -signal.SIGKILL
    assert temp in os.listdir(tmp_path)
    write_both(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


def test_only_what_writers_of_this_name_left_is_removed(tmp_path):
    """A folder without a mark may be somebody's, found under the final name when the writer was killed."""
    others = [".file.0123abcd.part.txt", ".file.short.part", ".file2.0123abcd.part", ".file.0123abcd.old", "file.part"]
    for name in others:
        (tmp_path / name).write_text("precious")
    (tmp_path / ".folder.0123abcd.part").mkdir()
    (tmp_path / ".folder.0123abcd.part" / "thesis").write_text("precious")
    os.symlink("file.part", tmp_path / ".file.0123abcd.part")
    before = {*os.listdir(tmp_path)}
    write_both(tmp_path)
    assert {*os.listdir(tmp_path)} == before | {"file", "folder"}


@pytest.mark.parametrize("during", ["remove", "_locked"], ids=["while it is cleaned up after one", "as the writing begins"])
def test_an_interrupt_leaves_what_was_there(tmp_path, sound, monkeypatch, during):
    call = getattr(temp_files, during)

    def interrupted(*of):
        signal.raise_signal(signal.SIGINT)
        return call(*of)

    monkeypatch.setattr(temp_files, during, interrupted)
    for context in (replacing(tmp_path / "file"), replacing_folder(tmp_path / "folder", lambda folder: True)):
        with pytest.raises(KeyboardInterrupt), context:
            assert during == "remove", "the block ran"
            raise KeyboardInterrupt
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


@pytest.fixture(params=["exchange", "two renames"])
def swapping(request, monkeypatch):
    """Both ways to replace a folder; the list takes what is to happen at the last moment before."""
    last: list = []
    exchange, rename = files._core.exchange, os.rename

    def here(*names):
        while last:
            last.pop()()
        return exchange(*names)

    def there(one, other):
        while last and str(other).endswith(".old"):
            last.pop()()
        return rename(one, other)

    monkeypatch.setattr(files._core, "exchange", here if request.param == "exchange" else lambda *_: errno.EINVAL)
    if request.param != "exchange":
        monkeypatch.setattr(os, "rename", there)
    return last


def test_an_interrupt_in_the_middle_of_the_swap(tmp_path, sound, swapping):
    swapping.append(lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt), replacing_folder(tmp_path / "folder", lambda folder: True) as temp:
        for name in ("first", "whole"):
            (temp / name).write_text("b")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


def ours(folder):
    if not (folder / "ours").exists():
        raise ConfigError(f"{folder}: is not ours")
    return True


def test_a_folder_that_was_filled_meanwhile_stays(tmp_path, swapping):
    """It was empty, then not there, then ours."""
    (tmp_path / "d").mkdir()

    def fill():
        shutil.rmtree(tmp_path / "d", ignore_errors=True)
        (tmp_path / "d").mkdir()
        (tmp_path / "d" / "thesis").write_text("precious")

    for _ in range(2):
        with pytest.raises(ConfigError, match=rf"^{tmp_path}/d: is not ours$"), replacing_folder(tmp_path / "d", ours):
            fill()
        assert os.listdir(tmp_path) == ["d"] and os.listdir(tmp_path / "d") == ["thesis"]
        shutil.rmtree(tmp_path / "d")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "ours").touch()
    swapping.append(fill)
    with pytest.raises(ConfigError, match=rf"^{tmp_path}/d: is not ours$"), replacing_folder(tmp_path / "d", ours):
        pass
    assert not swapping
    assert os.listdir(tmp_path) == ["d"] and os.listdir(tmp_path / "d") == ["thesis"]


def test_a_file_that_was_made_meanwhile_stays(tmp_path):
    with pytest.raises(ConfigError, match="is not ours"), replacing_folder(tmp_path / "d", ours):
        (tmp_path / "d").write_text("precious")
    assert os.listdir(tmp_path) == ["d"] and (tmp_path / "d").read_text() == "precious"


def test_a_folder_made_between_two_renames_leaves_the_old_one(tmp_path, monkeypatch):
    """Where names cannot be exchanged, and somebody is quick: nothing is lost, and the sentence says where it is."""
    monkeypatch.setattr(files._core, "exchange", lambda *_: errno.EINVAL)
    rename = os.rename

    def quick(one, other):
        rename(one, other)
        if str(other).endswith(".old"):
            (tmp_path / "d").mkdir()
            (tmp_path / "d" / "thesis").write_text("precious")

    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "ours").write_text("old")
    monkeypatch.setattr(os, "rename", quick)
    with (
        pytest.raises(StorageError, match=r"what was there before is .*/\.d\.\w+\.old"),
        replacing_folder(tmp_path / "d", ours),
    ):
        pass
    [old] = tmp_path.glob(".d.*.old")
    assert (old / "ours").read_text() == "old" and (tmp_path / "d" / "thesis").read_text() == "precious"
    assert len(os.listdir(tmp_path)) == 2


def test_what_cannot_be_put_back_is_not_removed(tmp_path, monkeypatch):
    """Somebody filled the folder at the last moment, and removed ours from its place right after."""
    exchange, calls = files._core.exchange, []

    def meddled(*names):
        calls.append(names)
        if len(calls) == 1:
            (tmp_path / "d" / "ours").unlink()
            (tmp_path / "d" / "thesis").write_text("precious")
            code = exchange(*names)
            shutil.rmtree(tmp_path / "d")
            return code
        return exchange(*names)

    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "ours").touch()
    monkeypatch.setattr(files._core, "exchange", meddled)
    says = r"d: changed while it was replaced; what was there before is in .*\.part"
    with pytest.raises(StorageError, match=says), replacing_folder(tmp_path / "d", ours) as temp:
        (temp / "ours").touch()
    temp_files.remove_all()
    with replacing_folder(tmp_path / "d", ours) as temp:
        (temp / "ours").touch()
    [kept] = tmp_path.glob(".d.*.part")
    assert (kept / "thesis").read_text() == "precious"


def test_many_threads_replace_one_name(tmp_path):
    failures = []

    def write(number):
        try:
            for _ in range(20):
                with replacing(tmp_path / "file") as output:
                    output.write(bytes([number]) * 1000)
                with replacing_folder(tmp_path / "folder", lambda folder: True) as temp:
                    for name in "abc":
                        (temp / name).write_text(str(number))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]
    assert len({*(tmp_path / "file").read_bytes()}) == 1 and (tmp_path / "file").stat().st_size == 1000
    assert len({(tmp_path / "folder" / name).read_text() for name in "abc"}) == 1
    assert sorted(os.listdir(tmp_path / "folder")) == [*"abc"]


def test_deferred_signals_come_after_the_block():
    seen = []
    before = {
        number: signal.signal(number, lambda number, _: seen.append(number)) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        with deferred(), deferred():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
            assert not seen
        assert seen == [signal.SIGTERM, signal.SIGINT]
        signal.raise_signal(signal.SIGTERM)
        assert len(seen) == 3
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@root
def test_links_of_others_are_not_followed_where_everybody_writes(tmp_path):
    shared, home = tmp_path / "shared", tmp_path / "home"
    shared.mkdir()
    shared.chmod(0o1777)
    home.mkdir()
    (home / "profile").write_text("precious")
    os.symlink(home / "profile", shared / "result")
    os.symlink(home, shared / "folder")
    for name in ("result", "folder"):
        os.chown(shared / name, 1234, 1234, follow_symlinks=False)
    for path in (shared / "result", shared / "folder" / "profile", shared / "folder" / "new"):
        for refuse in (replacing, check_place, lambda path: check_folder_place(path, lambda folder: True)):
            with pytest.raises(StorageError, match="a link that another user .number 1234. put into a folder where everybody"):
                refuse(path)
    assert (home / "profile").read_text() == "precious" and os.listdir(home) == ["profile"]
    for path, change in (("result", (0, 0)), ("folder", (1234, 0))):  # our own, and the folder's owner's
        os.chown(shared / path, *change, follow_symlinks=False)
    os.chown(shared, 1234, 1234)
    for path, content in (("result", b"new"), ("folder/profile", b"newer")):
        with replacing(shared / path) as output:
            output.write(content)
        assert (home / "profile").read_bytes() == content


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_only_read_is_refused_first(tmp_path):
    tmp_path.chmod(0o555)
    with pytest.raises(StorageError, match="file: cannot be written: Permission denied; check the permissions"):
        check_place(tmp_path / "file")


@root
def test_a_file_system_that_is_only_read_is_refused_first(tmp_path):
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,size=4k", "none", tmp_path]).returncode:
        pytest.skip("needs the right to mount a file system")
    try:
        with pytest.raises(StorageError, match="file: cannot be written: Permission denied; check the permissions"):
            check_place(tmp_path / "file")
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_links_lead_where_they_did(tmp_path, monkeypatch):
    """As os.path.realpath says, in folders of one's own."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    os.symlink("a/b", tmp_path / "to-b")
    os.symlink("../file", tmp_path / "a" / "b" / "up")
    os.symlink(tmp_path / "to-b" / "up", tmp_path / "absolute")
    os.symlink("loop", tmp_path / "loop")
    monkeypatch.chdir(tmp_path)
    for name in ("absolute", "to-b/../c", "./to-b//up", "nowhere/../d", str(tmp_path / "to-b" / "up"), "a/b/up"):
        assert files.followed(name) == files.Path(os.path.realpath(name))
    with replacing("absolute") as output:
        output.write(b"here")
    assert (tmp_path / "a" / "file").read_bytes() == b"here" and os.path.islink("absolute")
    with pytest.raises(StorageError, match="loop: Too many levels of symbolic links"):
        replacing("loop")


def test_memory_that_the_system_lacks_is_no_bad_disk():
    said = str(files.refused("x", "read", OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))))
    assert "Cannot allocate memory; the system has no memory for it: end other programs" in said
