"""Kernels of the user's own read and write arrays on storage: numpy's results as the oracle, also in the files afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland.runtime.errors import ConfigError, IndexOutOfRange, StorageError
from hinterland.storage import device_pages

SMALL = "4.5MiB"  # of which queues take most: 50 lines of 4 KiB are left
# Which lanes come together differs: some take the first branch, some the second, some neither, and some go round more often.
DIVERGENT = """
__global__ void pick(array<const int> x, array<const int> y, const int64_t* at, array<int64_t> out) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= out.size()) return;
  int64_t sum = 0;
  if (at[i] % 5 == 0) {
    sum = x[at[i]];
  } else if (at[i] % 5 < 3) {
    for (int64_t k = 0; k < at[i] % 7; ++k) sum += y[(at[i] + k * 1000) % y.size()];
    sum += x[at[i]];
  }
  out[i] = sum;
}
"""
ADD = """
__global__ void add(array<const double> a, array<const double> b, array<double> c) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < c.size()) c[i] = a[i] + b[i];
}
"""
# Each element is one thread's, and neighbours are of threads that are far apart.
SCATTER = """
__global__ void scatter(array<int> x, const int64_t* at, const int* by, int64_t n) {
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += int64_t{gridDim.x} * blockDim.x) {
    if (by[i] % 3 == 0) x[at[i]] += by[i];
    else if (by[i] % 3 == 1) x[at[i]] = by[i];
    else x[at[i]]--;
  }
}
"""


UP = """
__global__ void up(array<double> x, array<const double> y) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < x.size()) x[i] += 1 + 0 * y[i];
}
"""


def saved(path: Path, x: np.ndarray) -> Path:
    np.save(path, x)
    return path


def opened(path: Path, mode: str = "r+", **more) -> hl.StorageArray:
    return hl.StorageArray.open(path, mode, host_budget="1MiB", **more)


def picked(x: np.ndarray, y: np.ndarray, at: np.ndarray) -> np.ndarray:
    out = np.zeros(len(at), dtype=np.int64)
    for i, a in enumerate(at):
        if a % 5 == 0:
            out[i] = x[a]
        elif a % 5 < 3:
            out[i] = int(x[a]) + sum(int(y[(a + k * 1000) % len(y)]) for k in range(a % 7))
    return out


def scattered(x: np.ndarray, at: np.ndarray, by: np.ndarray) -> np.ndarray:
    wanted = x.copy()
    wanted[at] = np.where(by % 3 == 0, x[at] + by, np.where(by % 3 == 1, by, x[at] - 1))
    return wanted


@pytest.mark.parametrize(("volumes", "block"), ((1, 256), (2, 48), (1, 1)))
def test_lanes_read_whatever_the_others_do(volumes: int, block: int, device: torch.device, tmp_path: Path) -> None:
    random = np.random.default_rng(block)
    x, y = (random.integers(-(2**31), 2**31, 200_000, dtype=np.int32) for _ in range(2))
    if volumes == 1:
        safetensors = pytest.importorskip("safetensors.numpy")
        safetensors.save_file({"x": x, "y": y}, tmp_path / "both.safetensors")
        tables = [opened(tmp_path / "both.safetensors", "r", name=name) for name in "xy"]
    else:
        tables = [opened(saved(tmp_path / f"{name}.npy", one), "r") for name, one in (("x", x), ("y", y))]
    at = random.integers(0, len(x), 3000)
    out = torch.empty(len(at), dtype=torch.int64, device=device)
    pick = hl.kernel(DIVERGENT, cache=SMALL)
    for _ in range(2):
        pick(*tables, torch.from_numpy(at).to(device), out.zero_(), block=block)
        assert np.array_equal(out.cpu(), picked(x, y, at))


@pytest.mark.parametrize("storage", (True, False))
def test_runs_and_read_ahead(storage: bool, device: torch.device, tmp_path: Path) -> None:
    """A reader's elements, in order and not, and lines that were asked for before, are those of the array."""
    kernel = hl.kernel(
        """
        __global__ void sums(array<const short> x, array<int> out, int64_t run) {
          const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
          if (i >= out.size()) return;
          const int64_t begin = i * run, end = begin + run < x.size() ? begin + run : x.size();
          x.prefetch(begin, i % 3 * run);
          auto of = x.reader(begin, end);
          int sum = 0;
          for (int64_t k = begin; k < end; ++k) sum += of[k];
          if (begin < end) sum += of[end - 1] + of[begin];
          out[i] = sum;
        }""",
        cache=SMALL,
    )
    x = np.random.default_rng(1).integers(-100, 100, 100_003, dtype=np.int16)
    table = opened(saved(tmp_path / "x.npy", x), "r") if storage else torch.from_numpy(x).to(device)
    for run in (1, 7, 1000, 5000):
        out = torch.empty(-(-len(x) // run) + 3, dtype=torch.int32, device=device)
        kernel(table, out, run, grid=-(-len(out) // 64), block=64)
        runs = [x[i * run : (i + 1) * run] for i in range(len(out))]
        assert out.tolist() == [int(one.sum()) + (int(one[0]) + int(one[-1]) if len(one) else 0) for one in runs]


def test_vectors_on_storage_are_added(device: torch.device, tmp_path: Path) -> None:
    """Of three files that do not fit the cache (section 7.3): the sums are in the file, and in the array's own cache."""
    random = np.random.default_rng(2)
    a, b = (random.standard_normal(150_001) for _ in range(2))
    tables = [opened(saved(tmp_path / f"{name}.npy", one), "r") for name, one in (("a", a), ("b", b))]
    with hl.StorageArray.create(tmp_path / "c.npy", a.shape, torch.float64, host_budget="8MiB") as c:
        assert not c[torch.arange(1000)].any()  # pages that must be read anew
        add = hl.kernel(ADD, cache=SMALL)
        add(*tables, c, device=device)
        c.flush()
        assert np.array_equal(np.load(tmp_path / "c.npy"), a + b)
        assert torch.equal(c[torch.arange(len(a))], torch.from_numpy(a + b))
        c[torch.tensor([7])] = torch.tensor([1.5], dtype=torch.float64)  # what is in its cache only is seen
        add(c, tables[1], c, device=device)
        wanted = a + b
        wanted[7] = 1.5
        assert torch.equal(c[torch.arange(len(a))], torch.from_numpy(wanted + b))
        assert np.array_equal(np.load(tmp_path / "c.npy"), wanted + b)


@pytest.mark.parametrize("block", (256, 33))
def test_threads_write_elements_of_their_own_in_common_lines(block: int, device: torch.device, tmp_path: Path) -> None:
    random = np.random.default_rng(block)
    x = random.integers(-(2**30), 2**30, 90_000, dtype=np.int32)
    at = random.permutation(len(x))[:70_000]
    by = random.integers(0, 2**20, len(at), dtype=np.int32)
    scatter = hl.kernel(SCATTER, cache=SMALL)
    with opened(saved(tmp_path / "x.npy", x)) as table:
        scatter(table, torch.from_numpy(at).to(device), torch.from_numpy(by).to(device), len(at), grid=9, block=block)
        table.flush()
        assert np.array_equal(np.load(tmp_path / "x.npy"), scattered(x, at, by))


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_shapes_types_and_places(data: st.DataObject, device: torch.device, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Arrays that begin and end anywhere in a file: what lies beside them stays."""
    types = {"signed char": np.int8, "double": np.float64}  # each is compiled anew
    name, dtype = data.draw(st.sampled_from(sorted(types.items(), key=str)))
    count, first, step = data.draw(st.integers(1, 9000)), data.draw(st.integers(1, 700)), data.draw(st.integers(1, 5))
    after, line_bytes = data.draw(st.integers(0, 700)), data.draw(st.sampled_from((512, 4096, 16384)))
    whole = np.random.default_rng(count).integers(-100, 100, first + count + after).astype(dtype)
    path = tmp_path_factory.mktemp("shapes") / "x.bin"
    whole.tofile(path)
    triple = hl.kernel(
        f"""
        __global__ void triple(array<{name}> x, array<const {name}> same, int64_t step) {{
          const int64_t i = int64_t{{blockIdx.x}} * blockDim.x + threadIdx.x;
          if (i < x.size() && i % step == 0) x[i] = 3 * same[i] + 1;
        }}""",
        cache=SMALL,
    )
    cache = hl.StorageCache("1MiB", line_bytes)
    kind = torch.from_numpy(whole).dtype
    with hl.StorageArray.open(path, "r+", dtype=kind, shape=(count,), offset=first * whole.itemsize, cache=cache) as table:
        triple(table, table, step, device=device, block=data.draw(st.sampled_from((256, 40))))
    mine = whole[first : first + count]
    mine[::step] = (3 * mine[::step].astype(np.int64) + 1).astype(dtype)
    assert np.array_equal(np.fromfile(path, dtype=dtype), whole)


@pytest.mark.parametrize("spread", ("striped", "replicated"))
def test_several_files(spread: str, device: torch.device, tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}.safetensors" for i in range(2)]
    a = torch.randn(50_000, dtype=torch.float64)
    with hl.StorageArray.create(paths, (50_000,), torch.float64, spread=spread) as c:
        hl.kernel(ADD, cache=SMALL)(a.to(device), a.to(device), c)
    for some in (paths,) if spread == "striped" else ([paths[0]], [paths[1]]):
        with hl.StorageArray.open(some, spread=spread) if len(some) > 1 else hl.StorageArray.open(some[0]) as found:
            assert torch.equal(found[torch.arange(50_000)], a + a)


def test_what_may_not_be_written(device: torch.device, tmp_path: Path) -> None:
    a = torch.zeros(1000, dtype=torch.float64, device=device)
    path = saved(tmp_path / "c.npy", np.zeros(1000))
    add = hl.kernel(ADD)
    refused = r"add: c .*c\.npy is open for reading; open it with mode='r\+'"
    with opened(path, "r") as c, pytest.raises(ConfigError, match=refused):
        add(a, a, c)
    with opened(path) as c, c.pin([3]), pytest.raises(ConfigError, match="pinned.*unpin"):
        add(a, a, c)
    with opened(path) as c:
        with pytest.raises(StorageError, match="open for writing already"):
            opened(path)
        add(a, a, c)
        with pytest.raises(StorageError, match="open for writing already"):  # still
            opened(path)
    opened(path).close()


def test_a_cache_without_room(device: torch.device, tmp_path: Path) -> None:
    """The sentence has the budget as it was given, and another one may follow."""
    a = torch.ones(1000, dtype=torch.float64, device=device)
    with opened(saved(tmp_path / "c.npy", np.zeros(1000))) as c:
        for budget, said in ((0, "0 B"), ("32KiB", "32.00 KiB")):
            with pytest.raises(
                ConfigError, match=f"c.npy: {said} of .* hold no queues and a set of lines of 4096 .*raise device_budget"
            ):
                hl.kernel(ADD, cache=budget)(a, a, c)
        hl.kernel(ADD, cache="1MiB")(a, a, c)
        assert c[:].eq(2).all()


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(budget=112 << 10, line_bytes=4096)
@given(budget=st.integers(112 << 10, 12 << 20), line_bytes=st.sampled_from((512, 4096)))
def test_a_small_budget_has_fewer_queues_and_holds(
    budget: int, line_bytes: int, device: torch.device, tmp_path_factory: pytest.TempPathFactory
) -> None:
    x = np.arange(40_000.0)
    cache = hl.StorageCache("4MiB", line_bytes, device_budget=budget)
    with hl.StorageArray.open(saved(tmp_path_factory.mktemp("small") / "x.npy", x), cache=cache) as table:
        b, c = (torch.ones(len(x), dtype=torch.float64, device=device) for _ in range(2))
        with cache.on_devices.live(table, device) as store:
            assert store.nbytes <= budget
        hl.kernel(ADD)(table, b, c)
        assert np.array_equal(c.cpu(), x + 1)


def test_kernels_share_what_the_device_has_of_a_file(device: torch.device, tmp_path: Path) -> None:
    """Each line is read once, whichever kernel and array of the file asks for it, until the file is written to."""
    x = np.arange(100_000.0)
    tables = [opened(saved(tmp_path / "x.npy", x), cache=hl.StorageCache("1MiB"))]
    tables.append(opened(tmp_path / "x.npy", "r", cache=tables[0].cache))
    out = torch.empty(len(x), dtype=torch.float64, device=device)
    lines = -(-(tmp_path / "x.npy").stat().st_size // 4096)
    assert tables[0].stats(device).reads == 0
    for kernel in (hl.kernel(ADD), hl.kernel(ADD, cache="8MiB")):
        for table in tables:
            kernel(table, table, out)
            assert np.array_equal(out.cpu(), 2 * x)
            assert [one.stats(device).reads for one in tables] == [lines, lines]
    tables[0][[5]] = torch.tensor([-1.0], dtype=torch.float64)
    hl.kernel(ADD)(tables[1], tables[1], out)
    assert out[5] == -2 and tables[1].stats(device).reads == 2 * lines
    scale = hl.kernel("__global__ void scale(array<double> x) { x[threadIdx.x] *= 3; }")
    scale(tables[0], device=device, grid=1, block=64)
    assert tables[1].stats(device).reads == 2 * lines  # what a kernel wrote stays, too
    assert tables[1][torch.arange(64)].tolist() == [-3.0 if i == 5 else 3.0 * i for i in range(64)]
    tables[0].close()
    assert tables[1].stats(device).reads == 2 * lines
    tables[1].close()
    with pytest.raises(StorageError, match="was closed"):
        tables[1].stats(device)


def test_what_is_said_of_a_kernel(device: torch.device, tmp_path: Path) -> None:
    """Reads, bytes, hits and amplification by count: each line that holds an eighth element is read, once."""
    x = np.arange(64 << 10, dtype=np.int32)
    sparse = hl.kernel(
        """
        __global__ void sparse(array<const int> x, int* out, int64_t n, int64_t step) {
          const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
          if (i < n) out[i] = x[i * step];
        }"""
    )
    x.tofile(tmp_path / "x.bin")
    with hl.StorageArray.open(tmp_path / "x.bin", dtype=torch.int32, shape=(len(x),), host_budget="1MiB") as table:
        beside = f"of {hl.runtime.devices.as_device(device)} keep what was read, beside any gpu_budget"
        assert table.explain(device).endswith(f"x.bin: 0 B were read from the disk in 0 requests; 0 B {beside}")
        for turn, step in enumerate((1024, 1024, 2048)):
            out = torch.zeros(len(x) // step, dtype=torch.int32, device=device)
            sparse(table, out, len(out), step, grid=1, block=96)
            assert np.array_equal(out.cpu(), x[::step])
            found = table.stats(device)
            assert (found.reads, found.bytes_read) == (64, 64 * 4096)
            asked = (64, 128, 160)[turn]
            assert found.wanted_bytes == 4 * asked and found.amplification == 64 * 4096 / (4 * asked)
            assert (found.hits, found.waited) == (asked - 64, 64)
            assert found.cpu_seconds > 0
        said, taken = table.explain(device).split("; ")
        assert said.endswith(
            "256.00 KiB were read from the disk in 64 requests, 409.60 times the 640 B that kernels asked for, of which "
            "40.0% waited for the disk"
        )
        with table.cache.on_devices.live(table, device) as store:
            assert taken == f"{hl.runtime.units.format_bytes(store.nbytes)} {beside}, served by {store.controller}"
        assert table.stats().reads == table.stats().wanted_bytes == 0
        sums = hl.kernel(
            """
            __global__ void sums(array<const int> x, int* out) {
              auto of = x.reader(100, 300);
              for (int64_t i = 100; i < 300; ++i) *out += of[i];
            }"""
        )
        sums(table, out.zero_(), grid=1, block=1)
        assert out[0] == x[100:300].sum()
        assert table.stats(device).wanted_bytes == found.wanted_bytes + 4 * 200


def test_lines_of_another_size_are_for_reading(device: torch.device, tmp_path: Path) -> None:
    """And give what kernels have written through the first."""
    x = np.arange(10_000.0)
    out = torch.empty(len(x), dtype=torch.float64, device=device)
    with opened(saved(tmp_path / "x.npy", x)) as table:
        short = hl.StorageCache("1MiB", 512)
        with pytest.raises(StorageError, match="open for writing already"):
            opened(tmp_path / "x.npy", cache=short)
        with opened(tmp_path / "x.npy", "r", cache=short) as read:
            add = hl.kernel(ADD)
            add(read, read, out)
            assert np.array_equal(out.cpu(), 2 * x)
            add(out, out, table)
            add(read, read, out)
            assert np.array_equal(out.cpu(), 8 * x)
            table[[7]] = torch.tensor([1.0], dtype=torch.float64)
            table.flush()
            add(read, read, out)
            assert out[7] == 2


def test_kernels_a_chunk_loop_a_traversal_and_a_loader_at_once(device: torch.device, tmp_path: Path) -> None:
    """Of files of one StorageCache: all get what is there, and kernels together read each line once."""
    graph = hl.generate("kronecker", scale=10, edge_factor=8, seed=1, device="cpu")
    hl.save_graph(graph, tmp_path / "g.hl")
    x = np.arange(graph.num_vertices * 64.0).reshape(-1, 64)
    cache = hl.StorageCache("2MiB")
    table = hl.StorageArray.open(saved(tmp_path / "x.npy", x), cache=cache)
    stored = hl.load_graph(tmp_path / "g.hl", "storage", cache=cache)
    lines = -(-(tmp_path / "x.npy").stat().st_size // 4096)
    wanted = hl.bfs(graph, 7, device="cpu").levels
    failed: list[BaseException] = []

    def kernel() -> None:
        add, out = hl.kernel(ADD), torch.empty(x.size, dtype=torch.float64, device=device)
        for _ in range(3):
            add(table, table, out)
            assert np.array_equal(out.cpu(), 2 * x.ravel())

    def chunks() -> None:
        for _ in range(2):
            made = hl.kernels.map_chunks(lambda rows: rows.sum(1), table, cache="64KiB", device=device)
            torch.testing.assert_close(made.cpu(), torch.from_numpy(x.sum(1)))

    def traversal() -> None:
        for _ in range(3):
            assert torch.equal(hl.bfs(stored, 7, device=device).levels.cpu(), wanted)

    def loader() -> None:
        sampler = hl.sampling.NeighborSampler(stored, [5, 3], device=device)
        for batch in hl.training.Loader(sampler, torch.arange(512), 64, features=table, device=device):
            assert torch.equal(batch.x.cpu(), torch.from_numpy(x)[batch.sample.node.cpu()])

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in (kernel, kernel, chunks, traversal, loader)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed
    assert table.stats(device).reads == lines


def test_a_chunk_loop_finds_what_the_last_one_read(tmp_path: Path) -> None:
    x = torch.randn(20_000, 4)
    with opened(saved(tmp_path / "x.npy", x.numpy()), "r") as table:
        for _ in range(2):
            assert torch.equal(hl.kernels.map_chunks(lambda rows: rows * 2, table, cache="64KiB", device="cpu"), 2 * x)
            assert table.stats().reads <= -(-(tmp_path / "x.npy").stat().st_size // 4096)


@pytest.mark.parametrize("writes", (False, True))
def test_an_array_is_closed_when_nobody_reads_it(writes: bool, device: torch.device, tmp_path: Path) -> None:
    """Who closes it waits for the kernels that use its file, and another kernel is refused meanwhile."""
    x = np.arange(10_000.0)
    table, out = opened(saved(tmp_path / "x.npy", x)), torch.zeros(len(x), dtype=torch.float64, device=device)
    closed, add = threading.Event(), hl.kernel(ADD)

    def close() -> None:
        table.close()
        closed.set()

    with table.cache.on_devices.live(table, device, writes=writes) as store:
        closing = threading.Thread(target=close)
        closing.start()
        while not table.closed:
            pass
        with pytest.raises(StorageError, match="was closed"):
            add(table, table, out)
        assert not closed.is_set() and store.controller.served()
    closing.join()
    with pytest.raises(StorageError, match="was closed"), store.live():
        pass


def test_what_a_kernel_writes_while_its_array_is_closed_is_in_the_file(tmp_path: Path) -> None:
    """Also after the flush with which closing begins."""
    table, flag = opened(saved(tmp_path / "x.npy", np.zeros(5000))), torch.zeros(2, dtype=torch.int32)
    wait = hl.kernel(
        """
        __global__ void wait(array<double> x, int* flag) {
          flag[1] = 1;
          while (*static_cast<volatile int*>(flag) == 0) {}
          for (int i = 0; i < x.size(); ++i) x[i] = 3;
        }"""
    )
    threads = [
        threading.Thread(target=lambda: wait(table, flag, device="cpu", grid=1, block=1)),
        threading.Thread(target=table.close),
    ]
    threads[0].start()
    while flag[1] == 0:
        pass
    threads[1].start()
    while not table.closed:
        pass
    flag[0] = 1
    for thread in threads:
        thread.join()
    assert (np.load(tmp_path / "x.npy") == 3).all()


def test_of_two_devices_one_writes(tmp_path: Path) -> None:
    """What the other has of the file is let go, and read anew (Mailthody 2022, section 8.3)."""
    one, other = torch.device("cpu"), torch.device("cpu", 0)  # who keeps pages sees two
    with opened(saved(tmp_path / "x.npy", np.arange(3000, dtype=np.int32))) as table:
        pages = table.cache.on_devices
        with pages.live(table, one) as mine, pages.live(table, other) as read:
            assert mine is not read
        with pages.live(table, one, writes=True) as again:
            assert again is mine
        with pages.live(table, other) as anew, pages.live(table, one) as again:
            assert anew is not read and again is mine


@pytest.mark.parametrize("at", (-1, 31, 2000, 2**40, -(2**40)))
def test_beside_an_array_nothing_is_written(at: int, device: torch.device, tmp_path: Path) -> None:
    """What lies outside is said, by the array's name and its number; the rest is in the file, and nothing is kept for later."""
    whole = np.arange(3000, dtype=np.int32)
    whole.tofile(tmp_path / "x.bin")
    put = hl.kernel(
        """
        __global__ void put(array<int> y, array<int> x, int64_t outside) {
          const int64_t i = threadIdx.x;
          y[i] = -3;
          x[i == 7 ? outside : i] = -1;
        }""",
        cache=SMALL,
    )
    inner = {"dtype": torch.int32, "shape": (31,), "cache": hl.StorageCache("1MiB")}
    y, x = (hl.StorageArray.open(tmp_path / "x.bin", "r+", offset=offset, **inner) for offset in (8000, 4000))
    with y, x:
        for _ in range(2):
            with pytest.raises(IndexOutOfRange, match=rf"put writes x\[{at}\], and x .*x\.bin.* has 31 elements"):
                put(y, x, at, device=device, grid=1, block=31)
        x.flush()
        put(y, x, 7, device=device, grid=1, block=31)
    wanted = whole.copy()
    wanted[1000:1031], wanted[2000:2031] = -1, -3
    assert np.array_equal(np.fromfile(tmp_path / "x.bin", dtype=np.int32), wanted)


@pytest.mark.parametrize("at", (3000, -1, 20_000, 2**40, -(2**40), 2**62, -(2**62), 2**63 - 1))
@pytest.mark.parametrize(
    "how", ("x[at]", "x.reader(0, x.size())[at]", "x.reader(at, at)[at]", "ref[at]", "y[at] + z[0]", "(z[at] = 5)")
)
def test_what_lies_outside_is_not_read(at: int, how: str, device: torch.device, tmp_path: Path) -> None:
    """Of any array of a call that has one on storage: it reads as zero, and the first is named by kernel, array and number."""
    get = hl.kernel(
        f"""
        __global__ void get(array<const int> x, array<const int> y, array<int> z, int* to, int64_t at) {{
          array_ref ref(&x);
          *to = ref[5] - 5 + {how};
        }}""",
        cache=SMALL,
    )
    to = torch.zeros(1, dtype=torch.int32, device=device)
    y = torch.arange(3000, dtype=torch.int32, device=device)
    z = torch.zeros(3000, dtype=torch.int32, device=device)
    name = next(one for one in how if one in "xyzr").replace("r", "x")
    which = r"x .*x\.npy.*" if name == "x" else name
    with opened(saved(tmp_path / "x.npy", np.arange(3000, dtype=np.int32)), "r") as x:
        for _ in range(2):
            with pytest.raises(IndexOutOfRange, match=rf"get (reads|uses) {name}\[{at}\], and {which} has 3000 elements"):
                get(x, y, z, to, at, grid=1, block=1)
            assert to.item() == (5 if name == "z" else 0)
            get(x, y, z, to, 2999, grid=1, block=1)
            assert to.item() == (5 if name == "z" else 2999)
            z.zero_()


@pytest.mark.parametrize("at", (31, -1, 2**40))
def test_outside_of_memory_nothing_is_written(at: int, device: torch.device, tmp_path: Path) -> None:
    """Nor where an array of the call is written on storage, and elements are no places."""
    whole = torch.zeros(100, dtype=torch.float64, device=device)
    with opened(saved(tmp_path / "c.npy", np.zeros(1000))) as c:
        put = hl.kernel(
            "__global__ void put(array<double> c, array<double> x, int64_t at) { c[7] = 1; x[at] = 3; x[2] += 4; }", cache=SMALL
        )
        with pytest.raises(IndexOutOfRange, match=rf"put writes x\[{at}\], and x has 31 elements"):
            put(c, whole[40:71], at, grid=1, block=1)
        assert c[torch.tensor([7])].item() == 1
    assert whole.cpu().nonzero().tolist() == [[42]]


LISTING = """
__global__ void kernel(bam::array<float> data,
    size_t n, bam::array<float> out, unsigned* randidx) {
    bam::array_ref ref(&data);
    size_t tid = blockIdx.x * blockDim.x + threadIdx.x;
    for(; tid < n; tid += (blockIdx.x * blockDim.x))
        *output += ref[randidx[tid]];
};
"""


@pytest.mark.parametrize("stored", (True, False))
def test_listing_of_the_dissertation(stored: bool, device: torch.device, tmp_path: Path) -> None:
    """Listing 5.3 compiles as it stands, once what it calls ``output`` is declared; it runs with that being its ``out``, and
    with steps of ``gridDim.x``, for its own are 0 in the first block."""
    x = np.random.default_rng(0).integers(0, 100, 5000).astype(np.float32)
    at = torch.randint(0, 5000, (300,), dtype=torch.int32, device=device)
    out = torch.zeros(1, device=device)
    with opened(saved(tmp_path / "x.npy", x)) as table:
        data = table if stored else torch.from_numpy(x).to(device)
        hl.kernel("__device__ float *output;\n" + LISTING, cache=SMALL)(data, 0, out, at, grid=1, block=1)
        runs = LISTING.replace("*output", "*out").replace("(blockIdx.x * blockDim.x))", "(gridDim.x * blockDim.x))")
        hl.kernel(runs, cache=SMALL)(data, len(at), out, at, grid=1, block=1)
    assert out.item() == x[at.cpu().numpy()].sum()


@pytest.mark.parametrize("dtype", (np.int8, np.float64))
def test_references(dtype: type, device: torch.device, tmp_path: Path) -> None:
    """A thread's reads one array and changes another, a warp's reads runs that begin anywhere, behind the end as well."""
    name = {np.int8: "signed char", np.float64: "double"}[dtype]
    text = f"""
        __global__ void threads(array<const {name}> x, array<{name}> y, int64_t run) {{
          array_ref from(&x);
          array_ref to(&y);
          const int64_t begin = (int64_t{{blockIdx.x}} * blockDim.x + threadIdx.x) * run;
          for (int64_t i = begin; i < begin + run && i < x.size(); ++i) to[i] = from[i] + 1, to[i] += 2;
        }}
        __global__ void warps(array<const {name}> x, array<double> sums, int64_t run) {{
          warp_ref ref(x);
          const int64_t warp = (int64_t{{blockIdx.x}} * blockDim.x + threadIdx.x) / ref.kWidth;
          {name} own[3];
          double sum = 0;
          for (int64_t i = warp * run * ref.kWidth; i < (warp + 1) * run * ref.kWidth; i += 3 * ref.kWidth) {{
            ref.read(i, own);
            for (const auto each : own) sum += each;
          }}
          sums[warp * ref.kWidth + ref.lane()] = sum;
        }}"""
    x = np.random.default_rng(3).integers(0, 50, 70_001).astype(dtype)
    with (
        opened(saved(tmp_path / "x.npy", x), "r") as table,
        hl.StorageArray.create(tmp_path / "y.npy", x.shape, torch.from_numpy(x).dtype, host_budget="1MiB") as y,
    ):
        hl.kernel(text, "threads", cache=SMALL)(table, y, 999, device=device, grid=3, block=32)
        assert np.array_equal(y[:], x + dtype(3))
        sums = torch.zeros(25 * 32, dtype=torch.float64, device=device)
        hl.kernel(text, "warps", cache=SMALL)(table, sums, 2817, grid=1, block=25 * 32)  # 3 x 939 elements a lane
    assert sums.sum().item() == x.sum(dtype=np.float64)


@pytest.mark.parametrize("block", (1, 32, 5))
def test_asking_ahead_outside_asks_for_nothing(block: int, device: torch.device, tmp_path: Path) -> None:
    ask = hl.kernel(
        """
        __global__ void ask(array<const int> x, array<int> to, int64_t far) {
          x.prefetch(far, 10);
          x.prefetch(-far, far);
          x.prefetch(5, far);
          auto run = x.reader(-far, far);
          to[threadIdx.x] = run[x.size() - 1] - run[0];
        }""",
        cache=SMALL,
    )
    to = torch.zeros(block, dtype=torch.int32, device=device)
    with opened(saved(tmp_path / "x.npy", np.arange(10, 1010, dtype=np.int32)), "r") as x:
        ask(x, to, 2**62, grid=1, block=block)
    assert to.tolist() == [999] * block


def test_a_full_disk(device: torch.device, small_disk: Path) -> None:
    """Where a flush has no room all is kept, nobody reads what is older, and the next flush writes it."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(700 << 10))
    a = torch.arange(80_000, dtype=torch.float64, device=device)
    add = hl.kernel(ADD, cache="8MiB")
    c = hl.StorageArray.create(small_disk / "c.bin", (80_000,), torch.float64, host_budget="1MiB")
    add(a, a, c)
    ones = torch.ones(80_000, dtype=torch.float64)
    for use in (c.flush, lambda: c[[5]], lambda: c.__setitem__([5], ones[:1]), c.close):
        with pytest.raises(
            StorageError, match=r"c\.bin: the bytes from .* could not be written: .* next flush\(\) tries again"
        ):
            use()
    add(c, c, c)
    ballast.unlink()
    c.flush()
    assert np.array_equal(np.fromfile(small_disk / "c.bin"), 4 * np.arange(80_000.0))
    c[torch.arange(80_000)] = ones
    c.close()
    assert (np.fromfile(small_disk / "c.bin") == 1).all()


COPY = hl.kernel(
    """
    __global__ void copy(array<const double> x, double* out) {
      const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
      if (i < x.size()) out[i] = x[i];
    }"""
)


def filled(x: hl.StorageArray, fill: Callable[[torch.Tensor], object]) -> torch.Tensor:
    fill(out := torch.empty(len(x), dtype=x.dtype))
    return out


def pinned(x: hl.StorageArray) -> torch.Tensor:
    with x.pin(torch.arange(1024)):
        return x[torch.arange(len(x))]


INCREMENT = hl.kernel(UP)
READS: dict[str, Callable[[hl.StorageArray], torch.Tensor]] = {
    "rows": lambda x: x[torch.arange(len(x))],
    "rows, asked ahead": lambda x: (x.prefetch(torch.arange(len(x))), x[torch.arange(len(x))])[1],
    "rows, pinned": pinned,
    "past the cache": lambda x: filled(x, x.read_into),
    "kernel": lambda x: filled(x, lambda out: COPY(x, out)),
}


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_what_kernels_write_waits_until_somebody_asks(
    data: st.DataObject, device: torch.device, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Kernels of two devices, rows written from the host, and readers through the same cache or another: all see the last."""
    path = saved(tmp_path_factory.mktemp("behind") / "x.npy", np.zeros(9000))
    wanted = np.zeros(9000)
    cache = hl.StorageCache("1MiB", device_budget=data.draw(st.sampled_from(("120KiB", "1MiB"))))
    places = (device, torch.device("cpu", 0))  # who keeps pages sees two
    with opened(path, cache=cache) as x, opened(path, "r", cache=cache) as same:
        for step in data.draw(st.lists(st.sampled_from(("up", "write", "flush", *READS)), min_size=1, max_size=12)):
            if step == "up":
                INCREMENT(x, same, device=data.draw(st.sampled_from(places)))
                wanted += 1
            elif step == "write":
                at = data.draw(st.integers(0, 8990))
                x[torch.arange(at, at + 10)] = torch.full((10,), -1.0, dtype=torch.float64)
                wanted[at : at + 10] = -1
            elif step == "flush":
                x.flush()
                assert np.array_equal(np.load(path), wanted)
            else:
                cache.native.flush()  # rows from the host are for who reads through their cache
                with opened(path, "r") as other:  # through a cache of its own
                    assert np.array_equal(READS[step](data.draw(st.sampled_from((x, same, other)))), wanted)
    assert np.array_equal(np.load(path), wanted)


def test_a_sequence_of_kernels_writes_each_line_once(device: torch.device, tmp_path: Path) -> None:
    """Section 7.3: what stays in the device's memory from kernel to kernel is written when it is flushed, or makes room."""
    lines = -(-saved(tmp_path / "x.npy", np.zeros(9000)).stat().st_size // 4096)
    up = hl.kernel(UP)
    with opened(tmp_path / "x.npy") as x:
        for _ in range(5):
            up(x, x, device=device)
        assert (x.stats(device).reads, x.stats(device).writes) == (lines, 0)
        assert not np.load(tmp_path / "x.npy").any()
        for _ in range(2):
            x.flush()
            assert x.stats(device).writes == lines
        assert (np.load(tmp_path / "x.npy") == 5).all()
        up(x, x, device=device)
    assert (np.load(tmp_path / "x.npy") == 6).all()


def test_rows_written_past_the_cache_come_after_what_kernels_wrote(device: torch.device, tmp_path: Path) -> None:
    path, wanted = saved(tmp_path / "x.npy", np.zeros(9000)), np.ones(9000)
    with opened(path) as x:
        INCREMENT(x, x, device=device)
        x.write_from(torch.full((10,), -1.0, dtype=torch.float64), 600)
        wanted[600:610] = -1
        assert np.array_equal(filled(x, lambda out: COPY(x, out)), wanted)
    assert np.array_equal(np.load(path), wanted)


def test_what_a_cuda_graph_reads_is_written_when_a_kernel_ends(device: torch.device, tmp_path: Path) -> None:
    up = hl.kernel(UP)
    with opened(saved(tmp_path / "x.npy", np.zeros(9000))) as x:
        up(x, x, device=device)
        with pytest.raises(ConfigError, match=r"call flush\(\) before it is captured"):
            device_pages.replay(x)
        x.flush()
        device_pages.replay(x)
        up(x, x, device=device)
        assert (np.load(tmp_path / "x.npy") == 2).all()


def test_kernels_that_write_the_same_array_take_turns(device: torch.device, tmp_path: Path) -> None:
    text = """
        __global__ void count(array<int> x) {
          const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
          if (i < x.size()) x[i] += 1;
        }"""
    turns, kernels = 4, [hl.kernel(text, cache=SMALL) for _ in range(3)]
    with opened(saved(tmp_path / "x.npy", np.zeros(10_000, dtype=np.int32))) as x:
        failed: list[BaseException] = []

        def run(kernel: hl.kernels.Kernel) -> None:
            try:
                for _ in range(turns):
                    kernel(x, device=device)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=run, args=(kernel,)) for kernel in kernels]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed
        assert (x[torch.arange(10_000)] == turns * len(kernels)).all()
    assert (np.load(tmp_path / "x.npy") == turns * len(kernels)).all()


def test_kernels_that_write_what_the_other_reads_elsewhere_end(device: torch.device, tmp_path: Path) -> None:
    """Each reads the other's array through a cache of its own, which the other lets go."""
    turns, failed, caches = 20, [], [hl.StorageCache("1MiB") for _ in range(4)]
    for name in "ab":
        saved(tmp_path / f"{name}.npy", np.zeros(5000))
    written = [opened(tmp_path / f"{name}.npy", cache=cache) for name, cache in zip("ab", caches[:2], strict=True)]
    read = [opened(tmp_path / f"{name}.npy", "r", cache=cache) for name, cache in zip("ba", caches[2:], strict=True)]
    up, both = hl.kernel(UP), threading.Barrier(2)

    def run(x: hl.StorageArray, y: hl.StorageArray) -> None:
        try:
            for _ in range(turns):
                both.wait(60)
                up(x, y, device=device)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=pair) for pair in zip(written, read, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed
    for one in (*written, *read):
        assert (one[:] == turns).all()


def test_kernels_in_a_circle_of_arrays_end(device: torch.device, tmp_path: Path) -> None:
    """Each writes what the next reads, of two StorageCaches, while others read, write rows, and open and close a file."""
    turns, cache, short = 8, hl.StorageCache("1MiB", device_budget="256KiB"), hl.StorageCache("1MiB", 512)
    for name in "abc":
        saved(tmp_path / f"{name}.npy", np.zeros(5000))
    a, b, c = (opened(tmp_path / f"{name}.npy", cache=cache if name < "c" else short) for name in "abc")
    again, add = opened(tmp_path / "a.npy", "r", cache=short), hl.kernel(ADD)
    up = hl.kernel(UP)

    def reads() -> None:
        with opened(tmp_path / "a.npy", "r", cache=cache) as x:
            add(x, again, torch.empty(5000, dtype=torch.float64, device=device))

    def rows() -> None:
        b[[4999]] = torch.zeros(1, dtype=torch.float64)

    failed: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            for _ in range(turns):
                work()
        except BaseException as error:
            failed.append(error)

    circle = [lambda x=x, y=y: up(x, y, device=device) for x, y in ((a, b), (b, c), (c, a))]
    threads = [threading.Thread(target=run, args=(work,)) for work in (*circle, reads, reads, rows)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed
    for table in (a, b, c):
        assert (table[torch.arange(4000)] == turns).all()  # before the page of which a row is written
        table.close()
    assert all((np.load(tmp_path / f"{name}.npy") == turns).all() for name in "ac")
