"""UnifiedTensor.from_file: numpy and torch write the files, the bytes must come back."""

import contextlib
import io
import os
import struct

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hinterland import StorageArray, UnifiedTensor, memory
from hinterland.runtime.errors import ConfigError, FormatError, HinterlandError, StorageError

from .. import forked


@pytest.mark.parametrize("dtype", ["<f4", "f8", "i2", "u1", "?", "<u4", "<i8", "f2", "c8"])
@pytest.mark.parametrize("shape", [(7,), (5, 3), (0, 4), (2, 3, 4), (3, 0)])
def test_npy(tmp_path, dtype, shape):
    array = np.random.default_rng(1).integers(0, 2, shape).astype(dtype)
    np.save(tmp_path / "a.npy", array)
    table = UnifiedTensor.from_file(tmp_path / "a.npy")
    assert torch.equal(table.cpu(), torch.from_numpy(array))
    assert table.dtype == torch.from_numpy(array).dtype


def test_npy_larger_than_a_read(tmp_path):
    array = np.random.default_rng(2).standard_normal((3_000, 1_001))
    np.save(tmp_path / "a.npy", array)
    assert torch.equal(UnifiedTensor.from_file(tmp_path / "a.npy").cpu(), torch.from_numpy(array))


def test_npy_of_version_2(tmp_path):
    with open(tmp_path / "a.npy", "wb") as file:
        np.lib.format.write_array(file, np.arange(6), version=(2, 0))
    assert UnifiedTensor.from_file(tmp_path / "a.npy").cpu().tolist() == [0, 1, 2, 3, 4, 5]


def test_npy_checked_against_what_is_asked_for(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((4, 2), np.float32))
    assert UnifiedTensor.from_file(tmp_path / "a.npy", dtype=torch.float32, shape=(-1, 2)).shape == (4, 2)
    with pytest.raises(ConfigError, match=r"holds torch\.float32"):
        UnifiedTensor.from_file(tmp_path / "a.npy", dtype=torch.float64)
    with pytest.raises(ConfigError, match="shape"):
        UnifiedTensor.from_file(tmp_path / "a.npy", shape=(2, 4))


@pytest.mark.parametrize("name", ["a.bin", "headerless.npy"])
def test_raw_binary(tmp_path, name):
    values = torch.arange(60, dtype=torch.int32)
    (tmp_path / name).write_bytes(b"12345" + values.numpy().tobytes())
    read = UnifiedTensor.from_file(tmp_path / name, dtype=torch.int32, shape=(-1, 5), offset=5)
    assert torch.equal(read.cpu(), values.view(12, 5))
    read = UnifiedTensor.from_file(tmp_path / name, dtype=torch.int32, shape=(2, 3), offset=5)
    assert torch.equal(read.cpu(), values[:6].view(2, 3))
    read = UnifiedTensor.from_file(tmp_path / name, dtype=torch.bfloat16, shape=(120,), offset=5)
    assert torch.equal(read.cpu().view(torch.int32), values)
    for options, error in (
        ({}, ConfigError),
        ({"dtype": torch.int32}, ConfigError),
        ({"dtype": torch.int32, "shape": (-1, -1)}, ConfigError),
        ({"dtype": torch.int32, "shape": (-2,)}, ConfigError),
        ({"dtype": torch.int32, "shape": (-1, 7), "offset": 5}, FormatError),
        ({"dtype": torch.int32, "shape": (-1, 0)}, FormatError),
        ({"dtype": torch.int32, "shape": (61,), "offset": 5}, FormatError),
        ({"dtype": torch.int32, "shape": (1,), "offset": 500}, FormatError),
        ({"dtype": torch.int32, "shape": (1,), "offset": -1}, ConfigError),
        ({"dtype": torch.int32, "shape": ()}, HinterlandError),
    ):
        with pytest.raises(error):
            UnifiedTensor.from_file(tmp_path / name, **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.float8_e4m3fn])
def test_torch_files(tmp_path, dtype):
    tensor = torch.randint(0, 2, (50, 9)).to(dtype)
    torch.save(tensor, tmp_path / "a.pt")
    read = UnifiedTensor.from_file(tmp_path / "a.pt")
    assert read.dtype == dtype
    assert torch.equal(read.cpu().view(torch.uint8), tensor.view(torch.uint8))
    torch.save(tensor[10:], tmp_path / "b.pt")  # keeps the whole storage, and an offset into it
    read = UnifiedTensor.from_file(tmp_path / "b.pt")
    assert torch.equal(read.cpu().view(torch.uint8), tensor[10:].view(torch.uint8))


def test_torch_files_that_are_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return print, ("run by unpickling",)

    for content, reason in (
        ([torch.zeros(3)], "list"),
        (torch.zeros(3, 4).t(), "contiguous"),
        (Evil(), "read safely: it holds print, which is neither a number, a tensor nor an array; save the tensor alone"),
        (torch.tensor(3.0), "dimension"),
    ):
        torch.save(content, tmp_path / "a.pt")
        with pytest.raises(FormatError, match=reason):
            UnifiedTensor.from_file(tmp_path / "a.pt")
    torch.save(torch.zeros(1000), tmp_path / "a.pt")
    whole = (tmp_path / "a.pt").read_bytes()
    (tmp_path / "a.pt").write_bytes(whole[:3000])
    with pytest.raises(FormatError):
        UnifiedTensor.from_file(tmp_path / "a.pt")


def _npy(header, version=(1, 0), body=b"\0" * 64):
    text = header.encode() if isinstance(header, str) else header
    length = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + length + text + body


def _header(descr="'<f4'", order="False", shape="(4, 4)"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (_npy(_header(shape="(4, 5)")), "truncated"),
        (_npy(_header(shape="(99999999999999, 99999999999)")), "truncated"),
        (_npy(_header(shape="(-4, -4)")), "negative"),
        (_npy(_header(shape="()")), "dimension"),
        (_npy(_header(shape="('a',)")), "header"),
        (_npy(_header(descr="'|O'")), "objects"),
        (_npy(_header(descr="[('a', '<f4')]")), "records"),
        (_npy(_header(descr="'>f4'")), "astype"),
        (_npy(_header(descr="'<U4'")), "no type"),
        (_npy(_header(descr="'<q9'")), "header"),
        (_npy("{'descr': '<f4'}"), "header"),
        (_npy("__import__('os').abort()"), "header"),
        (_npy(b"\xff\xfe\x00"), "header"),
        (_npy("(" * 5000), "header"),
        (b"\x93NUMPY", "header"),
        (b"\x93NUMPY\x09\x00", "header"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "header"),
        (b"\x93NUMPY\x01\x00\xff\xff{}", "header"),
    ],
)
def test_damaged_npy(tmp_path, content, reason, nothing_left):
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(FormatError, match=reason) as caught:
        UnifiedTensor.from_file(tmp_path / "a.npy")
    assert str(tmp_path / "a.npy") in str(caught.value)


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0, 200), byte=st.integers(0, 255), cut=st.integers(0, 300))
def test_any_damage_is_an_error_of_ours_or_a_tensor(tmp_path, position, byte, cut):
    file = io.BytesIO()
    np.save(file, np.arange(16))
    content = bytearray(file.getvalue())
    content[position] = byte
    (tmp_path / "a.npy").write_bytes(content[: len(content) - cut] if cut < 150 else content)
    with contextlib.suppress(HinterlandError):
        UnifiedTensor.from_file(tmp_path / "a.npy")


def test_files_that_are_not_there(tmp_path, nothing_left):
    with pytest.raises(StorageError, match="No such file"):
        UnifiedTensor.from_file(tmp_path / "missing.npy")
    with pytest.raises(StorageError):
        UnifiedTensor.from_file(tmp_path)
    with pytest.raises(ConfigError, match="dtype and shape"):
        (tmp_path / "empty").touch()
        UnifiedTensor.from_file(tmp_path / "empty")
    assert memory.report().nbytes == 0


def test_lazily_conjugated_and_negated_tensors_are_refused(tmp_path):
    for number, tensor in enumerate((torch.ones(3, dtype=torch.complex64).conj(), torch._neg_view(torch.ones(3)))):
        torch.save(tensor, tmp_path / f"{number}.pt")
        with pytest.raises(FormatError, match="resolve_conj"):
            UnifiedTensor.from_file(tmp_path / f"{number}.pt")


def test_what_is_no_regular_file_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(StorageError, match="no regular file"):
            UnifiedTensor.from_file(path, dtype=torch.uint8, shape=(4,))


@pytest.mark.parametrize("options", [{"dtype": "uint8"}, {"shape": (1.5,)}, {"offset": 2**64}])
def test_options_of_another_kind_get_a_sentence(tmp_path, options):
    (tmp_path / "a.bin").write_bytes(bytes(8))
    with pytest.raises(ConfigError):
        UnifiedTensor.from_file(tmp_path / "a.bin", **{"dtype": torch.uint8, "shape": (-1,), **options})


def test_any_file_name_will_do(tmp_path):
    path = os.fsencode(tmp_path) + b"/caf\xe9.npy"
    with open(path, "wb") as file:
        np.save(file, np.arange(6))
    for name in (path, os.fsdecode(path)):
        assert UnifiedTensor.from_file(name).cpu().tolist() == list(range(6))


def test_rows_stay_in_the_file_on_storage(tmp_path, nothing_left):
    source = np.random.default_rng(1).random((500, 9), dtype=np.float32)
    np.save(tmp_path / "a.npy", source)
    (tmp_path / "a.bin").write_bytes(b"12" + source.tobytes())
    raw = {"dtype": torch.float32, "shape": (-1, 9), "offset": 2}
    for name, options in (("a.npy", {}), ("a.bin", raw)):
        table = UnifiedTensor.from_file(tmp_path / name, placement="storage", host_budget="64KiB", **options)
        assert isinstance(table, StorageArray) and (table.placement, table.mode) == ("storage", "r")
        assert table.cache.host_budget == 64 << 10 and table.stats().reads == 0
        assert torch.equal(table[[3, -1]], torch.from_numpy(source[[3, -1]]))
    assert memory.report().nbytes == 0
    with pytest.raises(ConfigError, match="host_budget='1MiB' is that of a table with placement='storage'"):
        UnifiedTensor.from_file(tmp_path / "a.npy", host_budget="1MiB")
    for make in (
        lambda: UnifiedTensor.empty((3, 4), placement="storage"),
        lambda: UnifiedTensor.from_tensor(torch.zeros(3), "storage"),
    ):
        with pytest.raises(ConfigError, match=r"has a file: hl\.StorageArray\.create\(path, shape, dtype\)"):
            make()


@pytest.mark.unsanitized
def test_on_storage_also_where_nothing_else_was_imported(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6))
    code = (
        "import sys; from hinterland.table import UnifiedTensor as T; print(T.from_file(sys.argv[1], placement='storage')[5])"
    )
    assert forked.run("-c", code, tmp_path / "a.npy", check=True).stdout == "tensor(5)\n"
