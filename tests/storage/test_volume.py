"""Tables that several files hold together, against numpy and what can go wrong with one of them."""

import json
import os
import shutil
import struct
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland.runtime.errors import ConfigError, FormatError, OutOfMemory, StorageError
from hinterland.storage import safetensors

BASE = 65536  # of the files of a striped table


def dealt(content: bytes, files: int, stripe: int) -> list[bytes]:
    """What each of so many files has of the bytes."""
    pieces = [content[at : at + stripe] for at in range(0, len(content), stripe)]
    return [b"".join(pieces[i::files]) for i in range(files)]


def names(folder: Path, count: int, ending: str) -> list[Path]:
    return [folder / f"{i}{ending}" for i in range(count)]


def striped(folder: Path, files: int = 3, rows: int = 1000, stripe: int | str = 4096) -> tuple[list[Path], torch.Tensor]:
    """A striped table of numbers, and what it holds."""
    folder.mkdir(exist_ok=True)
    paths, x = names(folder, files, ".safetensors"), torch.arange(rows * 33, dtype=torch.int32).view(rows, 33)
    with hl.StorageArray.create(paths, x.shape, x.dtype, spread="striped", stripe=stripe) as a:
        a[:] = x
    return paths, x


def copies(folder: Path, files: int = 2, rows: int = 1000) -> tuple[list[Path], torch.Tensor]:
    """Copies of a table of numbers, and what they hold."""
    x = np.random.default_rng(1).random((rows, 33), dtype=np.float32)
    for path in names(folder, files, ".npy"):
        np.save(path, x)
    return names(folder, files, ".npy"), torch.from_numpy(x)


@st.composite
def tables(draw: st.DrawFn) -> tuple[int, int, int, int, tuple[int, int]]:
    """Files, bytes of a stripe, bytes of a page, bytes before the table, and its shape, in 16-bit numbers."""
    page = draw(st.sampled_from((512, 4096)))
    shape = (draw(st.integers(1, 60)), draw(st.sampled_from((1, 3, 64, 700))))
    return draw(st.integers(1, 4)), page * draw(st.integers(1, 5)), page, draw(st.sampled_from((0, 2, 510, 4096))), shape


@settings(max_examples=60, deadline=None)
@given(table=tables(), spread=st.sampled_from(("striped", "replicated", "made")), data=st.data())
def test_reads_and_writes_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, table: tuple, spread: str, data: st.DataObject
) -> None:
    """Against a tensor; at the end each file is read by numpy."""
    files, stripe, page, offset, shape = table
    folder = tmp_path_factory.mktemp("any")
    paths = names(folder, files, ".safetensors" if spread == "made" else ".bin")
    cache = hl.StorageCache(data.draw(st.integers(8, 40)) * (page + 64), page, data.draw(st.sampled_from(("auto", "threads"))))
    x = torch.randint(-(2**15), 2**15, shape, dtype=torch.int16)
    around = b"\xaa" * offset, b"\xbb" * 5
    if spread == "made":
        a = hl.StorageArray.create(paths, shape, torch.int16, spread="striped", stripe=stripe, cache=cache)
        x.zero_()
    else:
        content = around[0] + x.numpy().tobytes() + around[1]
        for path, part in zip(paths, dealt(content, files, stripe if spread == "striped" else len(content)), strict=True):
            path.write_bytes(part if spread == "striped" else content)
        given_stripe = stripe if spread == "striped" else None
        raw = {"dtype": torch.int16, "shape": shape, "offset": offset}
        a = hl.StorageArray.open(paths, "r+", spread=spread, stripe=given_stripe, cache=cache, **raw)
    with a:
        for turn in range(data.draw(st.integers(1, 6))):
            index = torch.tensor(data.draw(st.lists(st.integers(0, shape[0] - 1), max_size=40)), dtype=torch.int64)
            if data.draw(st.booleans()):
                assert torch.equal(a[index], x[index])
            else:
                a[index] = torch.full((len(index), shape[1]), turn, dtype=torch.int16)
                x[index] = turn
            if data.draw(st.booleans()):
                a.flush()
        assert torch.equal(a[:], x)
        a.flush()
        begin = data.draw(st.integers(0, shape[0] - 1))
        past = torch.empty(data.draw(st.integers(0, shape[0] - begin)), shape[1], dtype=torch.int16)
        a.read_into(past, begin)
        assert torch.equal(past, x[begin : begin + len(past)]), "past the cache"
    held = x.numpy().tobytes()
    if spread == "made":
        assert [path.read_bytes()[BASE:] for path in paths] == dealt(held, files, stripe) + [b""] * (
            files - len(dealt(held, files, stripe))
        )
        with hl.StorageArray.open(paths, spread="striped", cache=cache) as again:
            assert torch.equal(again[:], x)
    else:
        content = around[0] + held + around[1]
        assert [path.read_bytes() for path in paths] == (
            dealt(content, files, stripe) if spread == "striped" else [content] * files
        ), "neither more nor less was written"


def test_parts_say_what_they_are(tmp_path: Path) -> None:
    """Their order, how many there are, of which table they are; other programs read them as bytes."""
    (a, b, c), x = striped(tmp_path / "one")
    (other, *_), _ = striped(tmp_path / "other")
    with hl.StorageArray.open([a, b, c], spread="striped", dtype=torch.int32, shape=(-1, 33), stripe=4096) as table:
        assert torch.equal(table[:], x) and table.volume.paths == (str(a), str(b), str(c)) and table.path == str(a)

    def refused(paths: list[Path], sentence: str, **more: object) -> None:
        with pytest.raises(ConfigError, match=sentence):
            hl.StorageArray.open(paths, **{"spread": "striped", **more})

    refused([b, a, c], f"another order: {a}, {b}, {c}")
    refused([a, b], "has 3 files, and part 3 is missing")
    refused([a, b, b], "has 3 files, and part 3 is missing")
    refused([a, b, c, c], "has 3 files, and one is named twice")
    refused([other, b, c], f"{b} is a part of another table than {other}")
    (tmp_path / "x.bin").write_bytes(bytes(100_000))
    refused([a, tmp_path / "x.bin", c], "x.bin is no part of a striped table")
    refused([a, b, c], "leave stripe= and offset= out", stripe=8192)
    refused([a, b, c], "leave stripe= and offset= out", offset=4)
    refused([a, b, c], "not dtype=torch.float32", dtype=torch.float32)
    refused([a, b, c], "nothing that has a name", name="stripes")
    refused([a, b, c], "is part 1 of 3 of a striped table; open all of its files", spread="replicated")
    with pytest.raises(ConfigError, match="is part 2 of 3"):
        hl.StorageArray.open(b)
    header = safetensors.read_header(str(a), a.stat().st_size)
    assert header.begin == BASE and list(header.tensors) == ["stripes"] and header.tensors["stripes"]["dtype"] == "U8"


def test_damaged_parts_are_refused(tmp_path: Path) -> None:
    paths, _ = striped(tmp_path / "x")
    whole = paths[1].read_bytes()
    (length,) = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8 : 8 + length])
    paths[1].write_bytes(whole[:-1])
    with pytest.raises(FormatError, match=r"1\.safetensors: truncated: its part takes"):
        hl.StorageArray.open(paths, spread="striped")
    for key, value, sentence in (
        ("hinterland.part", "x", "damaged header"),
        ("hinterland.part", "4 of 3", "do not fit together"),
        ("hinterland.stripe", "1000", "whole number of pages"),
        ("hinterland.dtype", "F13", "damaged header"),
        ("hinterland.shape", "[-1]", "do not fit together"),
        ("hinterland.shape", "[9223372036854775807, 9]", "do not fit together"),
        ("hinterland.shape", "[" * 100_000, "damaged header"),
        ("hinterland.table", None, "damaged header"),
        ("hinterland.shape", "[10]", "of one table, but not the same of it"),
    ):
        said = {**header, "__metadata__": {**header["__metadata__"], key: value}}
        if value is None:
            del said["__metadata__"][key]
        text = json.dumps(said).encode()
        room = max(length, len(text))
        paths[1].write_bytes(struct.pack("<Q", room) + text.ljust(room) + whole[8 + length :])
        with pytest.raises(FormatError, match=sentence):
            hl.StorageArray.open(paths, spread="striped")
    paths[1].write_bytes(whole)
    hl.StorageArray.open(paths, spread="striped").close()


def test_raw_stripes_that_do_not_fit_together(tmp_path: Path) -> None:
    a, b, c = names(tmp_path, 3, ".bin")
    for path, part in zip((a, b, c), dealt(bytes(range(250)) * 100, 3, 4096), strict=True):
        path.write_bytes(part)
    given = {"spread": "striped", "dtype": torch.uint8, "shape": (-1,)}
    assert len(hl.StorageArray.open([a, b, c], **given, stripe=4096)) == 25_000
    for paths, stripe in (([b, a, c], 4096), ([c, a], 4096), ([a, b, c], 3072)):
        with pytest.raises(ConfigError, match="check the stripe, the files' order, and whether one is missing"):
            hl.StorageArray.open(paths, **given, stripe=stripe)
    with pytest.raises(ConfigError, match="give dtype, shape and stripe"):
        hl.StorageArray.open([a, b, c], **given)
    with pytest.raises(FormatError, match="needs 30000 bytes"):
        hl.StorageArray.open([a, b, c], **{**given, "shape": (30_000,)}, stripe=4096)


def test_wrong_arguments_get_a_sentence(tmp_path: Path) -> None:
    paths, _ = copies(tmp_path)
    new = names(tmp_path / "new", 2, ".safetensors")
    os.makedirs(tmp_path / "new")
    for asked, more, sentence in (
        ([], {}, "0 files for one table; name 1 to 64"),
        (paths * 33, {"spread": "replicated"}, "66 files for one table"),
        (paths, {}, "say whether each is a copy, spread='replicated', or a part, spread='striped'"),
        (paths, {"spread": "mirrored"}, "mirrored' is not one of striped, replicated"),
        (paths, {"spread": "replicated", "stripe": 4096}, "is of spread='striped'"),
        (paths[0], {"stripe": 4096}, "is of spread='striped'"),
        (paths, {"spread": "striped", "stripe": "12 apples"}, "not a size in bytes"),
        (paths, {"spread": "striped", "stripe": 1000}, "stripe=1000: a stripe is a whole number of pages"),
        ([paths[0], 3], {"spread": "replicated"}, "a file of a table is a path"),
        (3, {}, "the file of a table is a path"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            hl.StorageArray.open(asked, **more)
    for asked, more, sentence in (
        ([new[0], new[0]], {"spread": "striped"}, "a file comes twice"),
        ([new[0], tmp_path / "new" / "x.npy"], {"spread": "striped"}, r"end their names in \.safetensors"),
        ([new[0], tmp_path / "new" / "x.npy"], {"spread": "replicated"}, "would be no copy of"),
        (new, {}, "say whether each is a copy"),
        (new[0], {"stripe": "1MiB"}, "is of spread='striped'"),
        (new, {"spread": "striped", "stripe": 512}, "stripe=512: stripes are whole pages of the cache, of 4096 bytes; give a"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            hl.StorageArray.create(asked, (4,), **more)
    with pytest.raises(OutOfMemory, match="a cache of 1 bytes holds no set"):
        hl.StorageArray.create(new, (4,), spread="striped", host_budget=1)
    assert not os.listdir(tmp_path / "new")
    new[1].write_bytes(b"x")
    for spread in ("striped", "replicated"):
        with pytest.raises(StorageError, match="is there already"):
            hl.StorageArray.create(new, (4,), spread=spread)
    assert os.listdir(tmp_path / "new") == [new[1].name]
    os.link(paths[0], tmp_path / "same.npy")
    with pytest.raises(StorageError, match="are one file; name each once"):
        hl.StorageArray.open([paths[0], tmp_path / "same.npy"], spread="replicated")
    with pytest.raises(StorageError, match="no whole pages of 65536; open .* with a cache of smaller pages"):
        hl.StorageArray.open(striped(tmp_path / "x")[0], spread="striped", cache=hl.StorageCache("2MiB", 65536))


def test_copies_are_alike(tmp_path: Path) -> None:
    (a, b), x = copies(tmp_path)
    np.save(b, x.numpy()[:-1])
    with pytest.raises(ConfigError, match=r"1\.npy is no copy of .*0\.npy: it holds torch\.float32 of shape \(999, 33\)"):
        hl.StorageArray.open([a, b], spread="replicated")
    np.save(b, x.numpy())
    with b.open("ab") as file:
        file.write(b"more")
    with pytest.raises(ConfigError, match=r"1\.npy is no copy of .*0\.npy: it has \d+ bytes, and that"):
        hl.StorageArray.open([a, b], spread="replicated")


def test_copies_of_every_format(tmp_path: Path) -> None:
    graph = hl.generate("kronecker", scale=8, edge_factor=8, seed=1)
    x = torch.arange(3000, dtype=torch.int32).view(-1, 3)
    for i in range(3):
        hl.save_graph(graph, tmp_path / f"{i}.hl")
        torch.save(x, tmp_path / f"{i}.pt")
        with hl.StorageArray.create(tmp_path / f"{i}.safetensors", x.shape, x.dtype) as a:
            a[:] = x
    for ending, name, held in ((".hl", "indices", graph.indices.cpu()), (".pt", None, x), (".safetensors", "data", x)):
        with hl.StorageArray.open(names(tmp_path, 3, ending), spread="replicated", name=name, host_budget="1MiB") as a:
            assert torch.equal(a[:], held) and a.stats().failed_reads == 0
    made = names(tmp_path, 2, ".made.npy")
    with hl.StorageArray.create(made, (1000, 3), torch.int32, spread="replicated") as a:
        a[:] = x
    assert made[0].read_bytes() == made[1].read_bytes() and (np.load(made[1]) == x.numpy()).all()


def test_reads_go_to_all_copies(tmp_path: Path) -> None:
    """A page is read from one of them. (That each has its share is in copies.cpp.)"""
    paths, x = copies(tmp_path, files=3, rows=20_000)
    with hl.StorageArray.open(paths, spread="replicated") as a:
        assert torch.equal(a[:], x)
        pages = -(-paths[0].stat().st_size // 4096)
        assert pages <= a.stats().reads < 1.1 * pages  # a page that is read ahead may have to make room before its turn
    opened = [int(path.rsplit("/", 1)[1]) for path in hl.StorageArray.open(paths, spread="replicated").open_paths]
    assert len(set(opened)) == 3


def test_a_file_of_several_has_one_writer(tmp_path: Path) -> None:
    (a, b), _ = copies(tmp_path)
    with hl.StorageArray.open([a, b], "r+", spread="replicated"):
        for second in (a, b):
            with pytest.raises(StorageError, match=rf"cannot write {second}: it is open for writing already"):
                hl.StorageArray.open(second, "r+")
        hl.StorageArray.open([a, b], spread="replicated").close()
    with hl.StorageArray.open(b, "r+"), pytest.raises(StorageError, match=rf"cannot write {b}"):
        hl.StorageArray.open([a, b], "r+", spread="replicated")
    hl.StorageArray.open(a, "r+").close()  # the refused one has let go of it


@pytest.mark.parametrize("engine", ("auto", "threads"))
def test_a_copy_that_cannot_be_read(tmp_path: Path, engine: str) -> None:
    """Rows come from the other, a warning says so once, and when both fail, an exception."""
    (a, b), x = copies(tmp_path, rows=20_000)
    table = hl.StorageArray.open([a, b], spread="replicated", cache=hl.StorageCache("256KiB", engine=engine))
    os.truncate(b, 10_000)
    with pytest.warns(UserWarning, match=rf"cannot read {b} at offset \d+: the file is shorter.*another copy is read"):
        assert torch.equal(table[:], x)
    failed = table.stats().failed_reads
    assert failed > 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(table[::7], x[::7]), "said once"
        past = torch.empty_like(x)
        table.read_into(past)
        assert torch.equal(past, x)
    assert table.stats().failed_reads - failed < 10, "whoever failed is not asked again"
    os.truncate(a, 10_000)
    with pytest.raises(StorageError, match=r"cannot read .* shorter than when it was opened"):
        table[:]  # more than the cache has
    with pytest.raises(StorageError, match="shorter than when it was opened"):
        table.read_into(past)


def test_past_the_cache_a_copy_may_fail_as_well(tmp_path: Path) -> None:
    (a, b), x = copies(tmp_path)
    table = hl.StorageArray.open([a, b], spread="replicated")
    os.truncate(a, 10_000)
    past = torch.empty_like(x)
    with pytest.warns(UserWarning, match=f"{a} is shorter than when it was opened.*another copy is read"):
        table.read_into(past)
    assert torch.equal(past, x)


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[list[str]]:
    """Two block devices, one larger than the other."""
    found = []
    for size in (3000, 4001):
        path = tmp_path / f"{size}.disk"
        path.touch()
        os.truncate(path, size * 1024)
        found += subprocess.run(["losetup", "-f", "--show", path], capture_output=True, text=True).stdout.split()
    try:
        if len(found) < 2:
            pytest.skip("this user may not make block devices of files")
        yield found
    finally:
        for disk in found:
            subprocess.run(["losetup", "-d", disk], check=True)


def test_block_devices(tmp_path: Path, disks: list[str]) -> None:
    x = torch.arange(700_000, dtype=torch.int32).view(-1, 1000)
    given = {"spread": "striped", "stripe": 4096, "dtype": torch.int32}
    with hl.StorageArray.open(disks, "r+", shape=x.shape, **given) as a:
        a[:] = x
    with hl.StorageArray.open(disks, shape=(-1, 128), **given) as a:
        assert len(a) == 3000 * 2 * 2 and torch.equal(a[:].view(-1)[: x.numel()], x.view(-1)), "as far as the smaller one goes"
    parts = dealt(x.numpy().tobytes(), 2, 4096)
    for disk, part in zip(disks, parts, strict=True):
        assert Path(disk).read_bytes()[: len(part)] == part
    with pytest.raises(ConfigError, match="is no copy of"):
        hl.StorageArray.open(disks, spread="replicated", dtype=torch.int32, shape=(10,))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a mebibyte."""
    place = tmp_path / "small"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", place], capture_output=True).returncode != 0:
        pytest.skip("this user may not mount a file system")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_a_copy_that_was_cut_short_is_not_written_to(tmp_path: Path) -> None:
    """Or there would be a hole in it that reads as zeros."""
    (a, b), x = copies(tmp_path)
    with hl.StorageArray.open([a, b], "r+", spread="replicated") as table:
        whole = os.path.getsize(b)
        os.truncate(b, whole // 2)
        table[-1] = 5.0
        for _ in range(2):
            with pytest.raises(StorageError, match=rf"cannot write {b} at offset \d+: the file is shorter than when"):
                table.flush()
            assert os.path.getsize(b) == whole // 2
        shutil.copyfile(a, b)
        table.flush()
    assert all((np.load(path)[-1] == 5).all() and np.array_equal(np.load(path)[:-1], x[:-1]) for path in (a, b))


def test_a_copy_that_cannot_be_written(tmp_path: Path, small_disk: Path) -> None:
    """The write has failed, and it is said where; the other copy has it, and both once there is room."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * (600 << 10))
    paths = [tmp_path / "x.bin", small_disk / "x.bin"]
    a = hl.StorageArray.create(paths, (1024, 1024), torch.uint8, spread="replicated", host_budget="4MiB")
    a[:] = 3
    with pytest.raises(StorageError, match=f"cannot write {paths[1]} at offset .*No space left"):
        a.flush()
    assert (np.fromfile(paths[0], dtype=np.uint8) == 3).all()
    assert not (np.fromfile(paths[1], dtype=np.uint8) == 3).all()
    ballast.unlink()
    a.flush()
    assert (np.fromfile(paths[1], dtype=np.uint8) == 3).all()
    a.close()
