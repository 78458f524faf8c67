"""Kernels of the user's own: torch's results as the oracle, over arrays in every kind of memory."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

import hinterland as hl
from hinterland.kernels import signature
from hinterland.kernels.arguments import layout
from hinterland.runtime.errors import ConfigError, DeviceError, StorageError

from .. import forked

ADD = """
__global__ void add(array<const float> a, array<const float> b, array<float> c) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < c.size()) c[i] = a[i] + b[i];
}
"""
# Listing 5.2 of the dissertation, and, but for the types of its parameters, listing 5.3.
RANDOM = """
__global__ void total(array<const float> data, size_t n, double* out, const unsigned* randidx) {
  size_t tid = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  double own = 0;
  for (; tid < n; tid += size_t{blockDim.x} * gridDim.x) own += data[randidx[tid]];
  atomicAdd(out, own);
}
"""
ROWS, WIDTH = 1000, 12
KINDS = ("tensor", "unified", "tiered", "cached", "storage")


@pytest.fixture(scope="module")
def add() -> hl.kernels.Kernel:
    return hl.kernel(ADD)


def table(kind: str, x: torch.Tensor, device: torch.device, folder: Path):
    """The rows of ``x`` in a kind of memory."""
    if kind == "tensor":
        return x.to(device)
    if kind == "storage":
        np.save(folder / "x.npy", x.numpy())
        return hl.StorageArray.open(folder / "x.npy", host_budget="1MiB")
    held = hl.UnifiedTensor.from_tensor(x)
    if kind == "tiered":
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(5))
        return held.tiered(local=f"{ROWS * WIDTH * 2 // 1024}KiB", order=order, devices=device)
    if kind == "cached":
        cached = held.cached("40KiB", device)
        cached.admit(torch.arange(0, len(x), 3, device=device))
        return cached
    return held


@pytest.mark.parametrize("kind", KINDS)
def test_elements_are_those_of_every_kind_of_memory(kind: str, add, device: torch.device, tmp_path: Path) -> None:
    x = torch.randn(ROWS, WIDTH)
    y, out = torch.randn(ROWS * WIDTH, device=device), torch.empty(ROWS * WIDTH, device=device)
    for _ in range(2):  # of storage the second finds the cache of the first
        add(table(kind, x, device, tmp_path), y, out.zero_())
        assert torch.equal(out.cpu(), x.flatten() + y.cpu())


@pytest.mark.parametrize("width", (1, 2, 3, 12, 128))
def test_rows_of_tiers_are_divided_exactly(width: int, device: torch.device, tmp_path: Path) -> None:
    x = torch.arange(900 * width, dtype=torch.float32).view(900, width)
    tiered = hl.UnifiedTensor.from_tensor(x).tiered(local=f"{900 * width * 2}", order=torch.arange(899, -1, -1), devices=device)
    out = torch.empty(x.numel(), device=device)
    hl.kernel(ADD)(tiered, torch.zeros(x.numel(), device=device), out)
    assert torch.equal(out.cpu(), x.flatten())


@pytest.mark.parametrize("kind", KINDS)
def test_the_listing_of_the_dissertation(kind: str, device: torch.device, tmp_path: Path) -> None:
    x = torch.randint(-50, 50, (ROWS, WIDTH)).float()  # whose sums are exact in any order
    at = torch.randint(0, x.numel(), (5000,), dtype=torch.int32)
    out = torch.zeros(1, dtype=torch.float64, device=device)
    total = hl.kernel(RANDOM)
    total(table(kind, x, device, tmp_path), len(at), out, at.to(device))
    total(table(kind, x, device, tmp_path), len(at), out, at.to(device), grid=3, block=64)
    assert out.item() == 2 * x.flatten()[at.long()].double().sum().item()


def test_several_files_and_kinds_at_once(add, device: torch.device, tmp_path: Path) -> None:
    x, y = torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH)
    for name, one in (("a", x), ("b", y)):
        (tmp_path / name).mkdir()
        table("storage", one, device, tmp_path / name)
    a, b = (hl.StorageArray.open(tmp_path / name / "x.npy") for name in "ab")
    out = torch.empty(x.numel(), device=device)
    for first, second, wanted in (
        (a, b, x + y),
        (b, a, x + y),
        (a, a, x + x),
        (table("tiered", y, device, tmp_path), a, x + y),
        (a, table("unified", y, device, tmp_path), x + y),
    ):
        add(first, second, out.zero_())
        assert torch.equal(out.cpu(), wanted.flatten())


def test_what_was_written_to_a_file_is_read(add, device: torch.device, tmp_path: Path) -> None:
    x = torch.randn(ROWS, WIDTH)
    table("storage", x, device, tmp_path)
    zeros, out = torch.zeros(x.numel(), device=device), torch.empty(x.numel(), device=device)
    with hl.StorageArray.open(tmp_path / "x.npy", "r+") as array:
        for turn in range(2):
            array[torch.tensor([5, 7])] = torch.full((2, WIDTH), float(turn))
            x[[5, 7]] = float(turn)
            add(array, zeros, out)
            assert torch.equal(out.cpu(), x.flatten())


@pytest.mark.parametrize(
    ("c", "dtype"),
    (
        ("int8_t", torch.int8),
        ("unsigned char", torch.uint8),
        ("short", torch.int16),
        ("int", torch.int32),
        ("uint32_t", torch.int32),
        ("long long", torch.int64),
        ("size_t", torch.uint64),
        ("float", torch.float32),
        ("double", torch.float64),
        ("half", torch.float16),
        ("__half", torch.float16),
        ("bfloat16", torch.bfloat16),
        ("__nv_bfloat16", torch.bfloat16),
        ("bool", torch.bool),
    ),
)
def test_types(c: str, dtype: torch.dtype, device: torch.device) -> None:
    copy = hl.kernel(f"""
        __global__ void copy(const {c}* from, array<{c}> to, {c} one) {{
          size_t i = size_t{{blockIdx.x}} * blockDim.x + threadIdx.x;
          if (i < to.size() - 1) to[i] = from[i];
          if (i == to.size() - 1) to[i] = one;
        }}""")
    given = torch.tensor([0, 1, 1, 0, 1], device=device).to(dtype)
    out = torch.zeros(6, device=device).to(dtype)
    copy(given, out, dtype != torch.bool or True)
    assert out.cpu().tolist() == [*given.cpu().tolist(), 1]


@pytest.mark.parametrize(("c", "dtype"), (("half", torch.float16), ("bfloat16", torch.bfloat16)))
def test_what_has_16_bits_is_rounded_as_it_is_kept(c: str, dtype: torch.dtype, device: torch.device, tmp_path: Path) -> None:
    """Torch's results, of numbers from subnormal ones to infinity, in memory and on storage."""
    step = hl.kernel(f"""
        __global__ void step(array<const {c}> x, array<{c}> out, {c} by, float most) {{
          const int64_t i = int64_t{{blockIdx.x}} * blockDim.x + threadIdx.x;
          if (i >= x.size()) return;
          {c} own = x[i];
          own *= by;
          out[i] = own;
          out[i] += 1.5f;
          if (out[i] > most) out[i] = most;
        }}""")
    x = torch.randn(5000, generator=torch.Generator().manual_seed(3)) * 2.0 ** torch.arange(-25, 15).repeat(125)
    x = x.to(dtype)
    by = torch.tensor(0.3, dtype=dtype)
    wanted = torch.minimum((x * by).float() + 1.5, torch.tensor(3000.0)).to(dtype)
    out = torch.empty(5000, dtype=dtype, device=device)
    step(x.to(device), out, 0.3, 3000)
    assert torch.equal(out.cpu(), wanted)
    with hl.StorageArray.create(tmp_path / "x.bin", (5000,), dtype) as stored:
        step(x.to(device), stored, 0.3, 3000)
        assert torch.equal(stored[torch.arange(5000)], wanted)


def test_numbers_are_passed_as_they_are(device: torch.device) -> None:
    keep = hl.kernel("""
        __global__ void keep(signed char a, double b, uint64_t c, bool d, short e, array<double> out) {
          out[0] = a; out[1] = b; out[2] = double(c >> 32); out[3] = d; out[4] = e;
        }""")
    out = torch.zeros(5, dtype=torch.float64, device=device)
    keep(-128, 1e300, 2**64 - 1, True, -2, out, grid=1, block=1)
    assert out.tolist() == [-128, 1e300, 2.0**32 - 1, 1, -2]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    (
        (lambda x: (x, x), "takes 3 arguments, add.*was called with 2"),
        (lambda x: (x, x, x, x), "was called with 4"),
        (lambda x: (x, x.double(), x), "b is of torch.float64, and array<const float> takes torch.float32"),
        (lambda x: (x, [1.0], x), r"b takes a tensor or a table \(array<const float>\), not \[1.0\]"),
        (lambda x: (x, x, x.view(2, 3).T), "does not lie in one piece"),
        (lambda x: (x.clone().requires_grad_(), x, x), "a requires a gradient"),
        (lambda x: (x, x, hl.UnifiedTensor.from_tensor(x).tiered(devices="cpu")), "c is an array that the kernel may write"),
        (lambda x: (x, x.to_sparse(), x), "b"),
    ),
)
def test_arguments_that_do_not_fit(arguments, reason: str, add) -> None:
    with pytest.raises(ConfigError, match=reason):
        add(*arguments(torch.zeros(6)))


@pytest.mark.parametrize("value", (2**31, -(2**31) - 1, 1.5, "1", None, torch.zeros(2)))
def test_numbers_that_do_not_fit(value) -> None:
    kernel = hl.kernel("__global__ void k(int n, array<float> x) {}")
    with pytest.raises(ConfigError, match="k: n"):
        kernel(value, torch.zeros(1))
    with pytest.raises(ConfigError, match="block"):
        kernel(1, torch.zeros(1), block=2048)
    with pytest.raises(ConfigError, match="grid"):
        kernel(1, torch.zeros(1), grid=-1)


@pytest.mark.parametrize(
    ("text", "reason"),
    (
        ("void add(float* a) {}", "has no kernel"),
        ("// __global__ void add(float* a) {}", "has no kernel"),
        ("__global__ void a() {} __global__ void b() {}", "several kernels; say which by name=, of a, b"),
        ("template <class T> __global__ void add(T* a) {}", "add is a template"),
        ("__global__ void add(float4 a) {}", "'float4 a' cannot be passed"),
        ("__global__ void add(float a[4]) {}", "float a\\[4\\]"),
        ("__global__ void add(int) {}", "'int' has no name"),
        ("__global__ void add(int a", "parenthesis is missing"),
    ),
)
def test_texts_without_a_kernel_that_can_be_called(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        hl.kernel(text)


def test_a_text_is_named_by_its_kernel() -> None:
    text = "__global__ void a(int x) {} /* __global__ void c() {} */ __global__ void __launch_bounds__(256) b() {}"
    assert hl.kernel(text, "b").signature.parameters == ()
    with pytest.raises(ConfigError, match="no kernel 'c'; it has a, b"):
        hl.kernel(text, "c")
    text = "__global__ void k(const hinterland::kernels::array< double >x, const unsigned* __restrict__ y, std::size_t n) {"
    found = signature.find(text, None)
    assert [(one.name, one.kind, one.writable) for one in found.parameters] == [
        ("x", "array", True),
        ("y", "pointer", False),
        ("n", "value", False),
    ]


def test_the_compiler_names_the_users_line(device: torch.device) -> None:
    wrong = hl.kernel("__global__ void wrong(array<float> x) {\n  x[0] = 1;\n  x[1] = nothing;\n}")
    with pytest.raises(ConfigError, match=r"wrong\.cu[:(]3.*nothing") as caught:
        wrong(torch.zeros(2, device=device))
    assert "does not compile" in str(caught.value)
    const = hl.kernel("__global__ void fixed(array<const float> x) { x[0] = 1; }")
    with pytest.raises(ConfigError, match="does not compile"):
        const(torch.zeros(2, device=device))


def test_threads_that_wait_need_a_gpu() -> None:
    kernel = hl.kernel("__global__ void k(array<float> x) { __syncthreads(); }")
    with pytest.raises(ConfigError, match="has __syncthreads: on the CPU"):
        kernel(torch.zeros(2))


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nowhere/c++")
    with pytest.raises(DeviceError, match=r"no /nowhere/c\+\+; install g\+\+"):
        hl.kernel(ADD)(torch.zeros(2), torch.zeros(2), torch.zeros(2))


def test_a_page_that_cannot_be_read(add, device: torch.device, tmp_path: Path) -> None:
    """A file that has become shorter."""
    array = table("storage", torch.randn(ROWS, WIDTH), device, tmp_path)
    zeros = torch.zeros(ROWS * WIDTH, device=device)
    os.truncate(tmp_path / "x.npy", 8192)
    with pytest.raises(StorageError, match="x.npy has become shorter"):
        add(array, zeros, zeros.clone())


def test_nothing_is_launched_for_nothing(add, device: torch.device) -> None:
    empty = torch.zeros(0, device=device)
    add(empty, empty, empty)


def test_rows_in_several_pieces(add, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    with pyarrow.ipc.new_file(tmp_path / "x.arrow", pyarrow.schema([("x", pyarrow.float32())])) as file:
        for _ in range(2):
            file.write_batch(pyarrow.record_batch({"x": pyarrow.array([1.0, 2.0], pyarrow.float32())}))
    array = hl.StorageArray.open(tmp_path / "x.arrow")
    with pytest.raises(ConfigError, match="do not lie in one piece"):
        add(array, torch.zeros(4), torch.zeros(4))


def test_what_was_compiled_is_found_again(tmp_path: Path) -> None:
    program = f"import torch, hinterland as hl\nx = torch.ones(8)\nhl.kernel({ADD!r})(x, x, x)\nassert x.tolist() == [2.0] * 8"
    made, folder = [], tmp_path / "kernels"
    for turn in range(3):
        if turn == 2:  # a damaged entry is made anew
            (entry,) = folder.glob("add-cpu-*.so")
            entry.write_bytes(entry.read_bytes()[:-9])
        forked.run("-c", program, env={"HINTERLAND_CACHE_DIR": str(tmp_path)}, check=True)
        made += [one.stat().st_mtime_ns for one in folder.glob("add-cpu-*.so")]
    assert made[0] == made[1] < made[2]


def test_parameters_end_where_their_last_one_does() -> None:
    """What pads a struct is no parameter, and CUDA's driver refuses it."""
    takes = ("double a, char b", "array<int> a, int b", "")
    ends = [layout(signature.find(f"__global__ void k({one}) {{}}", None)).packed_bytes() for one in takes]
    assert ends == [9, 68, 0]
