"""bfloat16 and FP8 in safetensors files: the same bytes by every way to read and write rows."""

import numpy as np
import pytest
import torch

import hinterland as hl
from hinterland import StorageArray, UnifiedTensor
from hinterland.runtime.errors import ConfigError, FormatError
from hinterland.storage import safetensors

ROWS, DIM = 60, 12
TYPES = [torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]


def content(dtype):
    return torch.randn(ROWS, DIM, generator=torch.Generator().manual_seed(1)).to(dtype)


def same(rows, expected):
    return rows.dtype == expected.dtype and torch.equal(
        rows.cpu().contiguous().view(torch.uint8), expected.contiguous().view(torch.uint8)
    )


@pytest.fixture(params=TYPES, ids=str)
def file(request, tmp_path):
    """A file as the library that is called safetensors writes it, of two tensors; the name of one, and what it holds."""
    values = content(request.param)
    library = pytest.importorskip("safetensors.torch")
    library.save_file({"scales": torch.ones(3), "rows": values}, tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors", values


def test_read(file, device):
    path, values = file
    index = torch.randint(0, ROWS, (200,))
    with StorageArray.open(path, name="rows") as array:
        tables = {
            "memory": UnifiedTensor.from_file(path, name="rows"),
            "stored": UnifiedTensor.from_file(path, name="rows", placement="storage"),
            "placed": hl.open_table(path, name="rows").place(),
            "over": UnifiedTensor.over(values),
            "array": array,
        }
        for name in ("memory", "array"):
            tables[f"tiers of {name}"] = tables[name].tiered(16 * DIM, scores=torch.rand(ROWS), devices=[device])
        tables["cached"] = tables["memory"].cached("64KiB", device)
        for name, table in tables.items():
            assert same(table[index.to(device)], values[index]), name
            assert torch.equal(table[index].float(), values[index].float()), name
            assert torch.equal(torch.nn.functional.embedding(index, table).float(), values[index].float()), name
        assert same(tables["memory"].to("cpu", torch.float32, copy=True), values.float())
        assert same(tables["memory"].view(torch.uint8).cpu(), values.view(torch.uint8))


def test_written(tmp_path, device):
    index = torch.randperm(ROWS)[:20]
    for dtype in TYPES:
        values, rows = content(dtype), content(dtype)[20:40]
        path = tmp_path / f"{dtype}.safetensors"
        with StorageArray.create(path, (ROWS, DIM), dtype) as array:
            array[:] = values
            array.scatter_(index.to(device), rows.to(device))
            array[3] = 2.0
        values[index] = rows
        values[3] = 2.0
        with StorageArray.open(path, "r+") as array, array.tiered(16 * DIM, host=16 * DIM, devices=[device]) as tiers:
            assert same(array[:], values)
            tiers.scatter_(torch.tensor([0, 59], device=device), rows[:2].to(device))
            values[[0, 59]] = rows[:2]
            tiers.flush()
            assert same(array[:], values)
        assert same(UnifiedTensor.from_file(path).cpu(), values)


def test_which_tensor_is_said(file, tmp_path):
    path, _ = file
    with pytest.raises(ConfigError, match="rows"):
        UnifiedTensor.from_file(path)
    with pytest.raises(ConfigError, match="holds torch"):
        UnifiedTensor.from_file(path, name="rows", dtype=torch.int16)
    np.save(tmp_path / "a.npy", np.zeros(3))
    with pytest.raises(ConfigError, match="holds nothing that has a name"):
        UnifiedTensor.from_file(tmp_path / "a.npy", name="rows")
    size = path.stat().st_size
    raw = UnifiedTensor.from_file(path, dtype=torch.uint8, shape=(size,))  # said to be raw binary, it is
    assert raw.cpu().numpy().tobytes() == path.read_bytes()
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FormatError, match="truncated"):
        UnifiedTensor.from_file(path, name="rows")


def test_a_mapped_file_is_a_table(file):
    path, values = file
    found = safetensors.find(str(path), path.stat().st_size, "rows", safetensors.read_header(str(path), path.stat().st_size))
    mapped = np.memmap(path, "u1", "r", found.offset, (found.nbytes,))
    table = UnifiedTensor.over(mapped).view(found.shape, dtype=found.dtype)
    index = torch.randint(0, ROWS, (50,))
    assert same(table[index], values[index])
