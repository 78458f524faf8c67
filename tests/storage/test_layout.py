"""Where the rows of files lie: other programs write the files, and the rows are read at the places that come out."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import stat
import struct
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hinterland as hl
from benchmarks._cold import forget, resident
from hinterland.runtime import files
from hinterland.runtime.errors import ConfigError, FormatError, HinterlandError, StorageError
from hinterland.storage import layout, safetensors
from hinterland.storage.layout import Extent, Layout, create, locate

from .. import forked

pa = pytest.importorskip("pyarrow")
feather = pytest.importorskip("pyarrow.feather")

NUMPY_TYPES = ["?", "<i1", "<i2", "<i4", "<i8", "<u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8", "<c8"]
SAFETENSORS_TYPES = safetensors.TYPES


def rows_of(found: Layout) -> torch.Tensor:
    """All rows, as bytes [rows, bytes of a row], read as the layout says."""
    content = Path(found.path).read_bytes()
    parts = [content[extent.offset : extent.offset + extent.rows * found.row_bytes] for extent in found.extents]
    assert sum(extent.rows for extent in found.extents) == found.shape[0] and all(extent.rows for extent in found.extents)
    assert sum(map(len, parts)) == found.nbytes
    return torch.frombuffer(bytearray(b"".join(parts) or b"\0"), dtype=torch.uint8)[: found.nbytes]


def check(found: Layout, wanted: np.ndarray | torch.Tensor) -> None:
    wanted = wanted if isinstance(wanted, torch.Tensor) else torch.from_numpy(np.ascontiguousarray(wanted))
    assert (found.dtype, found.shape) == (wanted.dtype, tuple(wanted.shape))
    assert rows_of(found).numpy().tobytes() == content_of(wanted)


def content_of(array: torch.Tensor) -> bytes:
    return array.reshape(-1).view(torch.uint8).numpy().tobytes() if array.numel() else b""


def write_safetensors(path: Path, header: object, data: bytes = b"", length: int | None = None) -> Path:
    """As the format's specification says, whatever the header is."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def tensors(**arrays: torch.Tensor) -> tuple[dict[str, object], bytes]:
    names, header, data = {dtype: name for name, dtype in SAFETENSORS_TYPES.items()}, {}, b""
    for name, array in arrays.items():
        content = content_of(array)
        span = [len(data), len(data) + len(content)]
        header[name] = {"dtype": names[array.dtype], "shape": list(array.shape), "data_offsets": span}
        data += content
    return header, data


def write_arrow(path: Path, table: object, rows: int | None = None, **options: object) -> Path:
    with pa.ipc.new_file(path, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as file:
        file.write_table(table, max_chunksize=rows)
    return path


def lists(array: np.ndarray) -> object:
    return pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), array.shape[1])


SHAPES = st.lists(st.integers(0, 5), min_size=1, max_size=4).map(tuple)
ANYWHERE = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@ANYWHERE
@given(shape=SHAPES, kind=st.sampled_from(NUMPY_TYPES))
def test_npy(tmp_path, shape, kind):
    array = np.random.default_rng(0).integers(0, 2, shape).astype(kind)
    np.save(tmp_path / "a.npy", array)
    check(locate(tmp_path / "a.npy"), array)


def test_npy_lies_where_numpy_maps_it(tmp_path):
    np.save(tmp_path / "a.npy", np.random.default_rng(1).standard_normal((1000, 33), np.float32))
    mapped, found = np.load(tmp_path / "a.npy", mmap_mode="r"), locate(tmp_path / "a.npy")
    assert found.extents == (Extent(1000, mapped.offset),) and found.row_bytes == 132 and found.nbytes == 132000
    with open(tmp_path / "a.npy", "rb") as file:
        file.seek(found.extents[0].offset + 17 * found.row_bytes)
        assert file.read(found.row_bytes) == mapped[17].tobytes()


def test_npy_in_fortran_order(tmp_path):
    np.save(tmp_path / "a.npy", np.asfortranarray(np.zeros((3, 4))))
    with pytest.raises(FormatError, match=r"Fortran order.*hinterland storage transpose .*a\.npy rows\.npy"):
        locate(tmp_path / "a.npy")
    header = b"{'descr': '<i8', 'fortran_order': True, 'shape': (3,), }".ljust(117) + b"\n"
    (tmp_path / "b.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header + np.arange(3).tobytes())
    check(locate(tmp_path / "b.npy"), np.arange(3))


@ANYWHERE
@given(shape=SHAPES, dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.int8, torch.bool, torch.float8_e5m2]))
def test_raw_binary(tmp_path, shape, dtype):
    values = torch.randint(0, 2, shape).to(dtype)
    (tmp_path / "a.bin").write_bytes(b"12345" + content_of(values))
    check(locate(tmp_path / "a.bin", dtype=dtype, shape=shape, offset=5), values)  # at no multiple of the element's size
    if values.numel():
        for at in range(len(shape)):
            asked = (*shape[:at], -1, *shape[at + 1 :])
            check(locate(tmp_path / "a.bin", dtype=dtype, shape=asked, offset=5), values)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.float8_e4m3fn])
def test_torch_files(tmp_path, dtype):
    tensor = torch.randint(0, 2, (50, 9)).to(dtype)
    torch.save(tensor[10:], tmp_path / "a.pt")
    found = locate(tmp_path / "a.pt")
    assert found.dtype == dtype and found.shape == (40, 9)
    assert torch.equal(rows_of(found), tensor[10:].reshape(-1).view(torch.uint8))


@ANYWHERE
@given(shape=SHAPES, kind=st.sampled_from(sorted(SAFETENSORS_TYPES)), spaces=st.integers(0, 20))
def test_safetensors(tmp_path, shape, kind, spaces):
    dtype = SAFETENSORS_TYPES[kind]
    values = torch.zeros(shape, dtype=dtype)
    if values.numel():
        values.view(-1).view(torch.uint8).copy_(torch.randint(0, 2, (values.nbytes,)))
    header, data = tensors(before=torch.arange(3, dtype=torch.uint8), a=values, after=torch.ones(2))
    header["__metadata__"] = {"format": "pt"}
    path = write_safetensors(tmp_path / "a.safetensors", json.dumps(header).encode() + b" " * spaces, data)
    check(locate(path, name="a"), values)


def test_safetensors_as_their_own_library_writes_them(tmp_path):
    theirs = pytest.importorskip("safetensors.torch")
    held = {"a": torch.randn(7, 3), "b": torch.arange(5), "c": torch.randn(4, 2).to(torch.bfloat16)}
    theirs.save_file(held, tmp_path / "a.safetensors")
    for name, values in held.items():
        found = locate(tmp_path / "a.safetensors", name=name)
        assert torch.equal(rows_of(found), values.reshape(-1).view(torch.uint8))
    made = create(tmp_path / "b.safetensors", (3, 4), torch.float32)
    assert theirs.load_file(made.path)["data"].shape == (3, 4)


def test_which_tensor_of_several(tmp_path):
    path = write_safetensors(tmp_path / "a", *tensors(**{f"layer.{n}": torch.full((2,), n) for n in range(20)}))
    check(locate(path, name="layer.13"), torch.full((2,), 13))
    with pytest.raises(ConfigError, match=r"holds 20 tensors; say which by name=: 'layer\.0', 'layer\.1', .* and 12 more"):
        locate(path)
    with pytest.raises(ConfigError, match=r"holds no 'x' among its tensors; name one of them: 'layer\.0'"):
        locate(path, name="x")
    with pytest.raises(ConfigError, match="name=3 is no text"):
        locate(path, name=3)
    check(locate(write_safetensors(tmp_path / "b", *tensors(only=torch.ones(3)))), torch.ones(3))


F32 = {"dtype": "F32", "shape": [4, 2], "data_offsets": [0, 32]}


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b'{"', "damaged safetensors header"),
        (b'{"a":', "damaged"),
        (b'{"a": {"dtype": "F32"}, "a": {}}', "a name comes twice"),
        (b'{"a": \xff\xfe}', "damaged"),
        (b'{"a": ' + b"[" * 5000, "damaged"),
        (b'{"a": 1' + b"0" * 5000 + b"}", "damaged"),
        ({}, "holds no tensors"),
        ({"__metadata__": {}}, "holds no tensors"),
        ({"a": None}, "without a dtype"),
        ({"a": 7}, "without a dtype"),
        ({"a": [1, 2]}, "without a dtype"),
        ({"a": {**F32, "dtype": 3}}, "without a dtype"),
        ({"a": {**F32, "dtype": "F6"}}, "'F6', which cannot be read"),
        ({"a": {**F32, "shape": "4,2"}}, "without a dtype"),
        ({"a": {**F32, "shape": [4, True]}}, "without a dtype"),
        ({"a": {**F32, "shape": [-4, -2]}}, "without a dtype"),
        ({"a": {**F32, "shape": [4, 2.0]}}, "without a dtype"),
        ({"a": {**F32, "shape": [2**80, 0], "data_offsets": [0, 0]}}, "without a dtype"),
        ({"a": {**F32, "shape": [4, 3]}}, "48 bytes, but lies from 0 to 32"),
        ({"a": {**F32, "data_offsets": [32, 0]}}, "lies from 32 to 0"),
        ({"a": {**F32, "data_offsets": [-32, 0]}}, "without a dtype"),
        ({"a": {**F32, "data_offsets": [0]}}, "without a dtype"),
        ({"a": {**F32, "data_offsets": [1, 33]}}, "truncated: .* needs 32 bytes from offset"),
        ({"a": {**F32, "data_offsets": [2**62, 2**62 + 32]}}, "truncated"),
        ({"a": {**F32, "shape": [], "data_offsets": [0, 4]}}, "one number and no table"),
    ],
)
def test_damaged_safetensors(tmp_path, header, reason):
    path = write_safetensors(tmp_path / "a.safetensors", header, bytes(32))
    with pytest.raises(FormatError, match=reason) as caught:
        locate(path)
    assert str(path) in str(caught.value)


def test_a_safetensors_header_that_is_cut_off(tmp_path):
    path = write_safetensors(tmp_path / "a.safetensors", {"a": F32}, b"", 5000)
    with pytest.raises(FormatError, match=rf"truncated: .* ends at byte 5008, but the file holds {path.stat().st_size} bytes"):
        locate(path)
    write_safetensors(path, {"a": F32}, b"", 2**63)
    with pytest.raises(ConfigError, match="no header that is known"):
        locate(path)


def test_numbers_that_begin_as_a_safetensors_header_does(tmp_path):
    values = np.array([100, int.from_bytes(b'{"', "little"), *range(30)])
    (tmp_path / "a.bin").write_bytes(values.tobytes())
    check(locate(tmp_path / "a.bin", dtype=torch.int64, shape=(-1, 2)), values.reshape(-1, 2))
    path = write_safetensors(tmp_path / "b", *tensors(only=torch.ones(3)))
    with pytest.raises(ConfigError, match=r"holds torch\.float32 of shape \(3,\)"):  # a sound one is what it is
        locate(path, dtype=torch.int64, shape=(-1,))


ARROW_TYPES = [kind for kind in NUMPY_TYPES if kind not in ("?", "<c8")]


@ANYWHERE
@given(kind=st.sampled_from(ARROW_TYPES), rows=st.integers(0, 40), width=st.integers(1, 5), batch=st.integers(1, 12))
def test_arrow(tmp_path, kind, rows, width, batch):
    array = np.random.default_rng(rows).integers(0, 99, (rows, width)).astype(kind)
    binary = pa.array([row.tobytes() for row in array], pa.binary(array[:1].nbytes or 1))
    columns = {
        "a": lists(array),
        "text": [str(n) for n in range(rows)],
        "first": np.ascontiguousarray(array[:, 0]),
        "raw": binary,
    }
    path = write_arrow(tmp_path / "a.arrow", pa.table(columns), batch)
    found = locate(path, name="a")
    check(found, array)
    assert [extent.rows for extent in found.extents] == [min(batch, rows - n) for n in range(0, rows, batch)]
    check(locate(path, name="first"), array[:, 0].copy())
    if rows:
        check(locate(path, name="raw"), array.view(np.uint8).reshape(rows, -1))


def test_feather_structs_lists_of_lists_and_extensions(tmp_path):
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    deep = pa.FixedSizeListArray.from_arrays(pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), 3), 2)
    cube = pa.FixedShapeTensorArray.from_numpy_ndarray(array.reshape(4, 2, 3))
    parts = pa.StructArray.from_arrays([pa.array(["a", "b", "c", "d"]), lists(array)], ["text", "rows"])
    table = pa.table({"deep": deep, "cube": cube, "parts": parts})
    feather.write_feather(table, tmp_path / "a.feather", compression="uncompressed")
    check(locate(tmp_path / "a.feather", name="deep"), array.reshape(4, 2, 3))
    check(locate(tmp_path / "a.feather", name="cube"), array)
    check(locate(tmp_path / "a.feather", name="parts", field="rows"), array)
    for options, reason in (
        ({"name": "parts"}, "holds 2 fields; say which by field=: 'text', 'rows'"),
        ({"name": "parts", "field": "x"}, "holds no 'x' among its fields"),
        ({"name": "deep", "field": "x"}, "has no fields; leave field='x' out"),
        ({}, "holds 3 columns; say which by name="),
        ({"name": "x"}, "holds no 'x' among its columns; name one of them: 'deep', 'cube', 'parts'"),
        ({"name": "deep", "dtype": torch.int8}, "holds torch.float32"),
    ):
        with pytest.raises(ConfigError, match=reason):
            locate(tmp_path / "a.feather", **options)
    check(locate(tmp_path / "a.feather", name="deep", dtype=torch.float32, shape=(-1, 2, 3)), array.reshape(4, 2, 3))


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (pa.array([1, None, 3]), "has 1 nulls"),
        (pa.array([[1, 2], None, [5, 6]], pa.list_(pa.int32(), 2)), "has 1 nulls"),
        (pa.array([[1, 2], [None, 4], [5, 6]], pa.list_(pa.int32(), 2)), "has 1 nulls"),
        (pa.array(["a", "b", "c"]), "of type string, which is no table of numbers"),
        (pa.array([True, False, True]), "of type bool"),
        (pa.array([[1], [2, 3], []]), "of type list"),
        (pa.array(["a", "b", "a"]).dictionary_encode(), "of type dictionary"),
        (pa.array([1, 2, 3], pa.decimal128(5)), "of type decimal"),
        (pa.nulls(3), "of type null"),
    ],
)
def test_columns_that_are_no_tables(tmp_path, column, reason):
    path = write_arrow(tmp_path / "a.arrow", pa.table({"x": column}))
    with pytest.raises(FormatError, match=reason) as caught:
        locate(path)
    assert f"{path}: the column 'x'" in str(caught.value)


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compressed_arrow(tmp_path, codec):
    path = write_arrow(tmp_path / "a.arrow", pa.table({"x": np.zeros(10000)}), 1000, compression=codec)
    with pytest.raises(FormatError, match="is compressed, .* write it without, as pyarrow.feather.write_feather"):
        locate(path)


def test_arrow_without_batches_or_columns_and_with_two_of_one_name(tmp_path):
    schema = pa.schema([("x", pa.list_(pa.float32(), 3))])
    path = write_arrow(tmp_path / "a.arrow", schema.empty_table())
    assert locate(path) == Layout(str(path), torch.float32, (0, 3), ())
    with pytest.raises(FormatError, match="holds no columns"):
        locate(write_arrow(tmp_path / "b.arrow", pa.table({})))
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    with pytest.raises(FormatError, match="several columns called 'x'"):
        locate(write_arrow(tmp_path / "c.arrow", twice), name="x")


def test_arrow_files_that_are_cut_off_or_streams(tmp_path):
    table = pa.table({"x": np.arange(1000)})
    content = write_arrow(tmp_path / "a.arrow", table).read_bytes()
    for size in (6, 8, 11, 12, 100, len(content) // 2, len(content) - 1):
        (tmp_path / "b.arrow").write_bytes(content[:size])
        with pytest.raises(FormatError, match=f"truncated: .* these {size} bytes"):
            locate(tmp_path / "b.arrow")
    (tmp_path / "b.arrow").write_bytes(content[:200] + b"ARROW1")
    with pytest.raises(FormatError, match="damaged Arrow file"):
        locate(tmp_path / "b.arrow")
    with pa.ipc.new_stream(tmp_path / "c", table.schema) as file:
        file.write_table(table)
    with pytest.raises(ConfigError, match="perhaps an Arrow stream"):
        locate(tmp_path / "c")


def test_arrow_without_pyarrow(tmp_path, monkeypatch):
    path = write_arrow(tmp_path / "a.arrow", pa.table({"x": [1]}))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r"needs pyarrow: pip install 'hinterland\[arrow\]'"):
        locate(path)


@pytest.mark.parametrize("format", ["npy", "safetensors", "arrow", "raw"])
def test_no_rows_are_read(tmp_path, format):
    values = np.random.default_rng(0).standard_normal(4 << 20)
    path, options = tmp_path / "a", {}
    if format == "arrow":
        write_arrow(path, pa.table({"x": values}), 1 << 19)
    elif format == "safetensors":
        write_safetensors(path, *tensors(x=torch.from_numpy(values)))
    elif format == "npy":
        with open(path, "wb") as file:
            np.save(file, values)
    else:
        path.write_bytes(values.tobytes())
        options = {"dtype": torch.float64, "shape": (-1,)}
    if not forget(path):
        pytest.skip("this file system keeps files in memory")
    assert locate(path, **options).nbytes == 32 << 20
    assert resident(path) < 8 << 20  # what is read ahead around the headers


@pytest.mark.parametrize("weights", [None, torch.float32, torch.int8])
@pytest.mark.parametrize("compressed", [False, True])
def test_graphs(tmp_path, weights, compressed):
    ends = torch.tensor([0, 1, 1, 3, 4, 4]), torch.tensor([1, 2, 4, 0, 0, 3])
    graph = hl.from_edges(*ends, None if weights is None else torch.arange(6).to(weights), num_vertices=7)
    graph = hl.compress(graph) if compressed else graph
    path = tmp_path / "g.hl"
    hl.save_graph(graph, path)
    names = ["indptr", *(["packed_offsets", "packed"] if compressed else ["indices"]), *(["weights"] if weights else [])]
    for name in names:
        wanted = graph.array(name, "cpu")
        check(locate(path, name=name), wanted)
    with pytest.raises(ConfigError, match=f"holds {len(names)} arrays; say which by name=: 'indptr', "):
        locate(path)
    with pytest.raises(ConfigError, match="holds no 'order' among its arrays"):
        locate(path, name="order")
    with pytest.raises(ConfigError, match="leave field='x' out"):
        locate(path, name="indptr", field="x")
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(FormatError, match=f"{len(content)} bytes, but the file holds {len(content) - 1}; it is truncated"):
        locate(path, name="indptr")
    path.write_bytes(content[:20] + b"\xff" + content[21:])
    with pytest.raises(FormatError, match="checksum does not match"):
        locate(path, name="indptr")


def test_files_that_are_too_short(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((10, 4)))
    os.truncate(tmp_path / "a.npy", 300)
    with pytest.raises(FormatError, match=r"a\.npy: truncated: .* needs 320 bytes from offset 128 on, .* holds 300 bytes"):
        locate(tmp_path / "a.npy")
    (tmp_path / "a.bin").write_bytes(bytes(100))
    with pytest.raises(FormatError, match="needs 104 bytes from offset 0 on, but the file holds 100 bytes"):
        locate(tmp_path / "a.bin", dtype=torch.int64, shape=(13,))
    with pytest.raises(FormatError, match="no whole number of rows of 24 bytes"):
        locate(tmp_path / "a.bin", dtype=torch.int64, shape=(-1, 3))
    with pytest.raises(FormatError, match="more elements than 64 bits"):
        header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (99999999999999999999, 0), }\n"
        (tmp_path / "b.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
        locate(tmp_path / "b.npy")


def test_files_that_hold_no_table(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, reason in (
        (tmp_path / "missing", "missing: cannot be read: No such file or directory; check the path"),
        (tmp_path, "this is a folder; name a file in it"),
        (tmp_path / "pipe", "no regular file and no block device"),
        ("/dev/zero", "no regular file and no block device"),
    ):
        with pytest.raises(StorageError, match=reason):
            locate(path, dtype=torch.uint8, shape=(4,))
    (tmp_path / "empty").touch()
    with pytest.raises(ConfigError, match="give dtype and shape"):
        locate(tmp_path / "empty")
    assert locate(tmp_path / "empty", dtype=torch.int8, shape=(-1, 3)).extents == ()
    for head, reason in (
        (b"PAR1", "Parquet"),
        (b"FEA1", "Feather of version 1"),
        (b"\x1f\x8b", "gzip"),
        (b"abc", r"\): for raw"),
    ):
        (tmp_path / "other").write_bytes(head + bytes(100))
        with pytest.raises(ConfigError, match=f"no header that is known.*{reason}"):
            locate(tmp_path / "other")


def test_arguments_that_fit_no_file(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((4, 2), np.float32))
    for options in (
        *({"name": "x"}, {"field": "x"}, {"dtype": torch.int8}, {"shape": (2, 4)}, {"dtype": "float32"}, {"shape": (1.5,)}),
        *({"offset": -1}, {"offset": 2**64}, {"offset": "3"}),
    ):
        with pytest.raises(ConfigError):
            locate(tmp_path / "a.npy", **options)
    for path in (None, 3, "", "a\0b"):
        with pytest.raises(ConfigError):
            locate(path)
    (tmp_path / "b").write_bytes(b"123" + (tmp_path / "a.npy").read_bytes())
    assert locate(tmp_path / "b", offset=3).shape == locate(os.fsencode(tmp_path / "a.npy"), shape=(-1, 2)).shape == (4, 2)


def test_block_devices_hold_raw_binary(tmp_path, monkeypatch):
    np.save(tmp_path / "disk", np.zeros(16))
    path = tmp_path / "disk.npy"
    monkeypatch.setattr(stat, "S_ISREG", lambda mode: False)  # a file that passes for a device: few may make a real one
    monkeypatch.setattr(layout.stat, "S_ISBLK", lambda mode: True)
    assert locate(path, dtype=torch.uint8, shape=(-1, 64)).extents == (Extent(4, 0),)
    assert locate(path, dtype=torch.float64, shape=(-1,), offset=128).shape == (16,)
    with pytest.raises(ConfigError, match="give dtype and shape"):
        locate(path)
    with pytest.raises(FormatError, match="truncated"):
        locate(path, dtype=torch.float64, shape=(17,), offset=128)


def samples() -> list[tuple[bytes, dict[str, str]]]:
    """Small files of all formats with headers, and what to ask them for."""
    numbers, out = np.arange(30, dtype=np.float32).reshape(10, 3), io.BytesIO()
    parts = pa.StructArray.from_arrays([pa.array(range(10)), pa.array(np.arange(10.0))], ["a", "b"])
    words = pa.array(["a", "b"] * 5).dictionary_encode()
    table = pa.table({"rows": lists(numbers), "parts": parts, "words": words})
    with pa.ipc.new_file(out, table.schema) as file:
        file.write_table(table, max_chunksize=4)
    found = [(out.getvalue(), options) for options in ({"name": "rows"}, {"name": "parts", "field": "b"}, {"name": "words"})]
    header, data = tensors(a=torch.ones(4, 2), b=torch.arange(3))
    text = json.dumps(header).encode()
    found.append((struct.pack("<Q", len(text)) + text + data, {"name": "a"}))
    for save in (np.save, lambda file, array: torch.save(torch.from_numpy(array), file)):
        out = io.BytesIO()
        save(out, numbers)
        found.append((out.getvalue(), {}))
    return found


_NUMBERS = [struct.pack("<q", n) for n in (0, 1, -1, 7, 255, 2**31 - 1, -(2**31), 2**32 - 1, 2**40, 2**63 - 1, -(2**63))]


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_any_damage_is_an_error_of_ours_or_lies_within_the_file(tmp_path):
    rng, path, whole = random.Random(5), tmp_path / "a", samples()
    for _ in range(3000):
        content, options = rng.choice(whole)
        data = bytearray(content)
        for _ in range(rng.choice((1, 1, 1, 2, 4, 10))):
            at, change = rng.randrange(len(data)), rng.randrange(8)
            if change < 3:
                data[at] ^= 1 << rng.randrange(8)
            elif change < 7:
                width = rng.choice((4, 8))
                data[at : at + width] = rng.choice(_NUMBERS)[:width]
            else:
                del data[at : at + rng.choice((1, 8, 500))]
            data = data or bytearray(1)
        path.write_bytes(data)
        with contextlib.suppress(HinterlandError):
            found = locate(path, **options)
            assert sum(extent.rows for extent in found.extents) == found.shape[0]
            assert all(0 <= e.offset <= e.offset + e.rows * found.row_bytes <= len(data) for e in found.extents)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    head=st.sampled_from([b"", b"ARROW1\0\0", b'\x20\0\0\0\0\0\0\0{"', b"\x93NUMPY\1\0", b"PK\3\4", b"\x89HLG\r\n\x1a\n"]),
    body=st.binary(max_size=200),
    tail=st.sampled_from([b"", b"ARROW1", b"\x10\0\0\0ARROW1"]),
)
def test_any_bytes(tmp_path, head, body, tail):
    (tmp_path / "a").write_bytes(head + body + tail)
    with contextlib.suppress(HinterlandError):
        locate(tmp_path / "a")


@ANYWHERE
@given(shape=SHAPES, kind=st.sampled_from(NUMPY_TYPES))
def test_npy_that_is_made(tmp_path, shape, kind):
    (tmp_path / "a.npy").unlink(missing_ok=True)
    dtype = torch.from_numpy(np.empty(0, kind)).dtype
    made = create(tmp_path / "a.npy", shape, dtype)
    mapped = np.load(tmp_path / "a.npy")
    assert mapped.shape == shape and mapped.dtype == np.dtype(kind) and not mapped.any()
    assert locate(tmp_path / "a.npy") == made
    assert made.extents == ((Extent(shape[0], 4096),) if shape[0] else ())
    assert os.path.getsize(made.path) == 4096 + made.nbytes


def test_npy_that_is_made_can_be_mapped_and_written_by_numpy(tmp_path):
    made = create(tmp_path / "a.npy", (100, 7), torch.float32)
    mapped = np.load(made.path, mmap_mode="r+")
    assert mapped.offset == 4096
    mapped[:] = np.arange(700).reshape(100, 7)
    mapped.flush()
    check(locate(made.path), np.arange(700, dtype=np.float32).reshape(100, 7))


@pytest.mark.parametrize("kind", sorted(SAFETENSORS_TYPES))
def test_safetensors_that_are_made(tmp_path, kind):
    made = create(tmp_path / "a.safetensors", (5, 3), SAFETENSORS_TYPES[kind])
    content = (tmp_path / "a.safetensors").read_bytes()
    assert struct.unpack("<Q", content[:8]) == (4088,) and len(content) == 4096 + made.nbytes
    span = [0, made.nbytes]
    assert json.loads(content[8:4096]) == {"data": {"dtype": kind, "shape": [5, 3], "data_offsets": span}}
    assert (
        locate(made.path) == locate(made.path, name="data") == made == Layout(made.path, made.dtype, (5, 3), (Extent(5, 4096),))
    )


def test_files_that_are_made_are_sparse(tmp_path):
    for ending in ("npy", "safetensors", "bin"):
        made = create(tmp_path / f"a.{ending}", (1 << 28, 256), torch.float32)
        info = os.stat(made.path)
        assert info.st_size == (1 << 38) + (4096 if ending != "bin" else 0) and info.st_blocks * 512 < 1 << 20
    assert locate(tmp_path / "a.bin", dtype=torch.float32, shape=(-1, 256)) == made
    assert create(tmp_path / "b.bin", 0, torch.int8).extents == () and os.path.getsize(tmp_path / "b.bin") == 0
    assert sorted(os.listdir(tmp_path)) == ["a.bin", "a.npy", "a.safetensors", "b.bin"]


def test_what_is_there_stays(tmp_path):
    path = tmp_path / "a.npy"
    path.write_bytes(b"mine")
    (tmp_path / "link.npy").symlink_to(path)
    for name in ("a.npy", "link.npy"):
        with pytest.raises(StorageError, match=r"a\.npy: is there already; choose another name, or open it with mode='r\+'"):
            create(tmp_path / name, (3,), torch.float32)
    (tmp_path / "folder.bin").mkdir()
    with pytest.raises(HinterlandError, match="no regular file"):
        create(tmp_path / "folder.bin", (3,), torch.float32)
    assert path.read_bytes() == b"mine" and sorted(os.listdir(tmp_path)) == ["a.npy", "folder.bin", "link.npy"]


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_appears_meanwhile_stays(tmp_path, monkeypatch, links):
    def refused(*paths: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    if not links:  # as on a file system that has none
        monkeypatch.setattr(files.os, "link", refused)
    path = tmp_path / "a.bin"
    with (
        pytest.raises(StorageError, match="is there already; choose another name, or look at it first"),
        files.replacing(path, new="look at it first") as output,
    ):
        output.write(b"second")
        path.write_bytes(b"first")
    assert path.read_bytes() == b"first" and os.listdir(tmp_path) == ["a.bin"]
    path.unlink()
    assert create(path, (3,), torch.int8).nbytes == 3 and os.listdir(tmp_path) == ["a.bin"] and os.stat(path).st_nlink == 1


def test_one_of_many_makes_it(tmp_path):
    made, refused = [], []

    def make() -> None:
        try:
            made.append(create(tmp_path / "a.npy", (3,), torch.int8))
        except StorageError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=make) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1 and len(refused) == 15 and all("is there already" in text for text in refused)
    assert os.listdir(tmp_path) == ["a.npy"]


def test_arguments_that_make_no_file(tmp_path):
    for name, shape, dtype, reason in (
        ("a.npy", (3,), torch.bfloat16, r"numpy has no torch\.bfloat16; use a name that ends in \.safetensors"),
        ("a.safetensors", (3,), torch.complex128, r"safetensors files have no torch\.complex128"),
        ("a.bin", (3,), "float32", "dtype is a str, but must be a dtype"),
        ("a.bin", (3,), None, "dtype is a NoneType"),
        ("a.bin", (), torch.int8, "at least one dimension"),
        ("a.bin", (-1,), torch.int8, "each is 0 or more"),
        ("a.bin", (2.5,), torch.int8, "not a whole number"),
        ("a.bin", "ab", torch.int8, "not a whole number"),
        (None, (3,), torch.int8, "is a path"),
    ):
        with pytest.raises(ConfigError, match=reason):
            create(tmp_path / name if name else None, shape, dtype)
    assert os.listdir(tmp_path) == []


def test_places_and_sizes_that_cannot_be(tmp_path):
    with pytest.raises(StorageError, match="more than a file can have"):
        create(tmp_path / "a.bin", (1 << 62, 4), torch.int8)
    with pytest.raises(StorageError, match="cannot be written: No such file or directory"):
        create(tmp_path / "missing" / "a.bin", (4,), torch.int8)
    assert os.listdir(tmp_path) == []


_PAST_A_LIMIT = """
import resource, signal, sys, torch
from hinterland.runtime.errors import StorageError
from hinterland.storage.layout import create
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200000, 200000))
for ending in ("npy", "safetensors", "bin"):
    create(f"{sys.argv[1]}/small.{ending}", (1000, 10), torch.float32)
    try:
        create(f"{sys.argv[1]}/large.{ending}", (1000, 100), torch.float32)
    except StorageError as error:
        print(error)
"""


def test_a_file_larger_than_may_be_leaves_nothing(tmp_path):
    ran = forked.run("-c", _PAST_A_LIMIT, tmp_path, check=True)
    lines = ran.stdout.splitlines()
    assert len(lines) == 3 and all("cannot be written: File too large" in line for line in lines), ran.stdout
    assert sorted(os.listdir(tmp_path)) == ["small.bin", "small.npy", "small.safetensors"]


def test_a_full_file_system_leaves_nothing(tmp_path):
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", tmp_path]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a small file system")
    try:
        (tmp_path / "ballast").write_bytes(bytes(64 << 10))
        with pytest.raises(StorageError, match="No space left on device; the disk or the quota is full"):
            create(tmp_path / "a.npy", (1000,), torch.float32)
        assert os.listdir(tmp_path) == ["ballast"]
    finally:
        subprocess.run(["umount", tmp_path], check=True)
