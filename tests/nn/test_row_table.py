"""Row tables: what is gathered and written is what torch has, whatever lies in slots, and the slots are CLOCK's and LRU's."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland.nn import RowTable
from hinterland.runtime.errors import ConfigError, IndexOutOfRange

from ..table.test_cached import Ring, state
from ..table.test_ops import INDUCTOR
from ..together import by_threads

FLOAT8 = torch.float8_e4m3fn


class Recent:
    """LRU by batches, slot by slot: of slots that one batch asked for, those that waited longest stay before the others."""

    def __init__(self, capacity: int) -> None:
        self.row_of, self.order = [-1] * capacity, list(range(capacity))

    def admit(self, asked: list[int]) -> None:
        rows = [row for row in asked if row >= 0]
        new = [row for row in dict.fromkeys(rows) if row not in self.row_of]
        marked = {self.row_of.index(row) for row in set(rows) if row in self.row_of}
        for slot, row in zip([slot for slot in self.order if slot not in marked], new, strict=False):
            self.row_of[slot] = row
            marked.add(slot)
        self.order = [slot for slot in self.order if slot not in marked] + [slot for slot in self.order if slot in marked]


def host(device: torch.device, source: torch.Tensor) -> hl.UnifiedTensor:
    return hl.UnifiedTensor.from_tensor(source, "pageable" if device.type == "cpu" else "host")


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().cpu().view(torch.uint8)


def same(found: torch.Tensor, want: torch.Tensor) -> bool:
    return found.dtype == want.dtype and torch.equal(as_bytes(found), as_bytes(want))


BATCHES = st.lists(st.tuples(st.sampled_from(["gather", "resolve", "write", "flush"]), st.integers(0, 40)), max_size=10)


@given(
    rows=st.lists(st.integers(1, 60), min_size=1, max_size=3),
    units=st.sampled_from([1, 2, 3, 8, 16, 36, 41]),
    slots=st.integers(0, 40),
    eviction=st.sampled_from(["clock", "lru"]),
    write=st.sampled_from(["back", "through"]),
    batches=BATCHES,
    seed=st.integers(0, 1000),
)
def check_batches(device, rows, units, slots, eviction, write, batches, seed):
    random = torch.Generator().manual_seed(seed)
    truth = [torch.randint(0, 256, (n, 16 * units), dtype=torch.uint8, generator=random) for n in rows]
    tables = [host(device, source) for source in truth]
    table = RowTable(tables, slots, device=device, eviction=eviction, write=write)
    first = torch.tensor([0, *rows]).cumsum(0)[:-1, None]
    capacity = min(slots, sum(rows))
    model = Ring(capacity) if eviction == "clock" else Recent(capacity)
    for kind, size in batches:
        if kind == "flush":
            table.flush()
            continue
        size = min(size, *rows) if kind == "write" else size
        local = torch.stack([torch.randperm(n, generator=random)[:size] if kind == "write"
                             else torch.randint(0, n, (size,), generator=random) for n in rows])  # fmt: skip
        negative = torch.rand(local.shape, generator=random) < 0.3
        asked = torch.where(negative, local - torch.tensor(rows)[:, None], local).to(device)
        asked = asked.int() if seed % 2 else asked
        if kind == "gather":
            want = torch.stack([source[index] for source, index in zip(truth, local, strict=True)])
            assert same(table(asked), want)
        elif kind == "write":
            values = torch.randint(0, 256, (*local.shape, 16 * units), dtype=torch.uint8, generator=random)
            table.write(asked, values.to(device))
            for source, index, new in zip(truth, local, values, strict=True):
                source[index] = new
        else:
            found = table.resolve(asked).cpu().flatten()
        numbers = (first + local).flatten()
        if capacity and size:
            model.admit(numbers.tolist())
            kept, order, _ = state(table._rows.clock)
            assert kept == model.row_of and order == (model.used if eviction == "clock" else model.order)
        if kind == "resolve":
            assert found.tolist() == [model.row_of.index(n) if n in model.row_of else -1 for n in numbers.tolist()]
            held = as_bytes(table.buffer)[found[found >= 0].long()]
            assert same(held, torch.cat(truth)[numbers[found >= 0]])
        if write == "through" and device.type == "cpu":
            assert all(same(ours.cpu(), source) for ours, source in zip(tables, truth, strict=True))
    table.flush()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    assert all(same(ours.cpu(), source) for ours, source in zip(tables, truth, strict=True))


def test_batches_of_reads_and_writes(device):
    settings(max_examples=12 if device.type == "cuda" else 60)(check_batches)(device)


@pytest.mark.parametrize("slots", [0, 30, 512])
@pytest.mark.parametrize("out", [torch.bfloat16, torch.float16, torch.float32])
def test_fewer_bits_are_torchs_times_the_scale(device, out, slots):
    """All 256 of eight, NaN and numbers below the least normal one as well, over several tables; and bfloat16."""
    bits = torch.arange(256, dtype=torch.uint8).repeat(2, 1).view(-1, 16)
    sources = [bits.view(FLOAT8), bits.flip(0).contiguous().view(FLOAT8)]
    scales = [torch.rand(32) * 3, torch.randn(32)]
    tables = [host(device, source) for source in sources]
    table = RowTable(tables, slots, device=device, dtype=out, scales=scales)
    plain = RowTable(tables, slots, device=device, dtype=out)
    rows = torch.stack([torch.randperm(32), torch.randperm(32)])
    for _ in range(2):  # from the tables, and from slots
        for made, factors in ((table, scales), (plain, [torch.ones(32)] * 2)):
            found = made(rows.to(device)).cpu()
            for i, source in enumerate(sources):
                want = (source[rows[i]].float() * factors[i][rows[i]][:, None]).to(out)
                assert torch.equal(found[i].isnan(), want.isnan())
                assert same(found[i].nan_to_num(7), want.nan_to_num(7))
    short = torch.randn(50, 8).bfloat16()
    table, rows = RowTable(host(device, short), slots, device=device, dtype=torch.float32), torch.randint(0, 50, (4, 9))
    assert same(table(rows.to(device)), short.float()[rows])


def test_rows_as_serving_engines_have_them(device):
    """Many of 576 and 656 bytes in several blocks and chunks, read and written, with slots for a few."""
    for row_bytes in (576, 656):
        truth = torch.randint(0, 256, (5000, row_bytes), dtype=torch.uint8)
        table = RowTable(host(device, truth), 3000, device=device)
        for _ in range(4):
            rows = torch.randperm(5000)[:1500]
            values = torch.randint(0, 256, (1500, row_bytes), dtype=torch.uint8)
            table.write(rows.to(device), values.to(device))
            truth[rows] = values
            rows = torch.randint(0, 5000, (3500,))
            assert same(table(rows.to(device)), truth[rows])
        table.flush()
        assert same(table(torch.arange(5000, device=device)), truth)


def test_rows_of_one_batch_share_a_slot(device):
    table = RowTable(host(device, torch.zeros(9, 4)), 2, device=device)
    found = table.resolve(torch.tensor([3, 3, -1, 3, 8, 5], device=device)).tolist()
    assert found == [found[0], found[0], found[2], found[0], found[2], -1] and sorted({*found}) == [-1, 0, 1]


@pytest.mark.parametrize("slots", [0, 3])
def test_bad_rows(device, slots):
    """Zeros, no slot, not written; the CPU raises at once, and a GPU at the next call."""
    source = torch.ones(2, 5, 4)
    table = RowTable([host(device, part) for part in source], slots, device=device)
    rows = torch.tensor([[0, 5], [-6, 2]], device=device)
    raises = pytest.raises(IndexOutOfRange, match=r"index 5 at position 1 is outside a table of 5 rows \(2 such positions\)")
    calls = (lambda: table(rows), lambda: table.resolve(rows), lambda: table.write(rows, torch.zeros(2, 2, 4, device=device)))
    for call in calls:
        if device.type == "cpu":
            with raises:
                call()
            continue
        found = call()
        torch.cuda.synchronize()
        with raises:
            table(rows)
        if found is not None:
            assert found[0, 1].eq(0 if found.is_floating_point() else -1).all()
    good = torch.arange(5).repeat(2, 1).to(device)
    left = table(good)
    assert left[0, 0].eq(0).all() and left[1, 2].eq(0).all() and left.sum() == 8 * 4


def test_operators_are_torchs(device):
    table = RowTable(host(device, torch.randn(40, 4)), 8, device=device)
    rows = torch.randint(0, 40, (6,), device=device)
    takes = {"gather": [rows], "resolve": [rows], "write": [rows, torch.ones(6, 4, device=device)], "flush": [], "refresh": []}
    for name, others in takes.items():
        operator = getattr(torch.ops.hinterland, f"row_table_{name}").default
        torch.library.opcheck(operator, (table.token, *others, table._number))


@pytest.mark.timeout(240)
@pytest.mark.parametrize("backend", ["aot_eager", INDUCTOR])
def test_compiles_whole(device, backend):
    torch._dynamo.reset()
    source = torch.randn(50, 8)
    table = RowTable(host(device, source), 6, device=device)

    @torch.compile(fullgraph=True, backend=backend)
    def step(rows, values):
        before = table(rows) * 2
        table.write(rows, values)
        return before, table(rows), table.resolve(rows)

    for _ in range(3):
        rows, values = torch.randperm(50)[:4], torch.randn(4, 8)
        before, after, slots = step(rows.to(device), values.to(device))
        assert torch.equal(before.cpu(), source[rows] * 2) and torch.equal(after.cpu(), values)
        assert sorted(slots.tolist()) == slots.unique().tolist() and slots.min() >= 0
        source[rows] = values
    torch._dynamo.reset()


def test_what_is_refused():
    table = host(torch.device("cpu"), torch.zeros(8, 4))
    float8 = host(torch.device("cpu"), torch.zeros(8, 16).to(FLOAT8))
    for call, sentence in (
        (lambda: RowTable([], device="cpu"), "one type and shape"),
        (lambda: RowTable([table, float8], device="cpu"), "one type and shape"),
        (lambda: RowTable(torch.zeros(8, 4), device="cpu"), "UnifiedTensor"),
        (lambda: RowTable(host(torch.device("cpu"), torch.zeros(8, 3)), device="cpu"), "rows of 12 bytes"),
        (lambda: RowTable(host(torch.device("cpu"), torch.zeros(8, 0)), device="cpu"), "rows of 0 bytes"),
        (lambda: RowTable(table.tiered(local=64, devices="cpu"), device="cpu"), "one piece of memory"),
        (lambda: RowTable(table, dtype=torch.float16, device="cpu"), "not gathered as"),
        (lambda: RowTable(table, scales=torch.ones(8), device="cpu"), "give dtype="),
        (lambda: RowTable(float8, dtype=torch.float32, scales=torch.ones(7), device="cpu"), r"\[7\] scales for \[8\] rows"),
        (lambda: RowTable([table, table], device="cpu")(torch.zeros(3, 2, dtype=torch.int64)), r"are \[2, ...\]"),
        (lambda: RowTable(table, device="cpu")(torch.zeros(3)), "int32 or int64"),
        (lambda: RowTable(table, device="cpu")(torch.tensor([1]).to_sparse()), "rows has the layout"),
        (lambda: RowTable(table, device="cpu").write(torch.tensor([1]), torch.zeros(1, 3)), "values are"),
        (lambda: copy.deepcopy(RowTable(table, device="cpu")), "not copied"),
        (lambda: torch.ops.hinterland.row_table_flush(torch.zeros(1), 1 << 40), "is gone"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            call()


def test_no_rows(device):
    table = RowTable(host(device, torch.zeros(0, 4)), 3, device=device)
    assert table(torch.zeros(0, dtype=torch.int64, device=device)).shape == (0, 4) and table.buffer.shape == (0, 4)
    table = RowTable(host(device, torch.zeros(4, 4)), 3, device=device)
    assert table.resolve(torch.zeros(0, 2, dtype=torch.int32, device=device)).shape == (0, 2)


def test_a_model_file_is_read_into_place(tmp_path):
    """Safetensors, as models come: each tensor is read to where it is served from."""
    path = tmp_path / "model.safetensors"
    source = torch.randn(64, 32).to(FLOAT8)
    with hl.StorageArray.create(path, source.shape, FLOAT8) as file:
        file.scatter_(torch.arange(64), source)
    table = RowTable(hl.UnifiedTensor.holding(hl.StorageArray.open(path)), 8, device="cpu", dtype=torch.float32)
    assert torch.equal(table(torch.arange(64)), source.float())


@pytest.mark.gpu
@pytest.mark.parametrize("slots", [0, 100, 1000])
@pytest.mark.parametrize("eviction", ["clock", "lru"])
def test_replays_read_and_write_what_is_there_then(gpu, slots, eviction):
    truth = torch.randn(1000, 64)
    table = RowTable(host(gpu, truth), slots, device=gpu, eviction=eviction)
    rows, values = torch.zeros(90, dtype=torch.int64, device=gpu), torch.zeros(90, 64, device=gpu)
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    table.write(rows[:1], truth[:1].to(gpu))
    with torch.cuda.stream(stream):  # kernels are compiled, and the stream's faults have a place
        table.write(rows[:1], truth[:1].to(gpu)), table.resolve(rows), table(rows)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            before = table(rows)
            table.write(rows, values)
            found = table.resolve(rows)
            after = table(rows)
    for _ in range(50):
        new, index = torch.randn(90, 64), torch.randperm(1000)[:90]
        rows.copy_(index), values.copy_(new)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(before.cpu(), truth[index]) and torch.equal(after.cpu(), new)
        assert (found.min() >= 0) == (slots > 0)
        truth[index] = new
    table.flush()
    torch.cuda.synchronize()
    assert torch.equal(table.tables[0].cpu(), truth)
    rows[7] = 1000
    graph.replay()
    torch.cuda.synchronize()
    with pytest.raises(IndexOutOfRange, match="index 1000 at position 7"):
        table(rows)


@pytest.mark.gpu
def test_streams_take_turns(gpu):
    truth = torch.randn(5000, 64)
    table = RowTable(host(gpu, truth), 700, device=gpu)
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    found = []
    for step in range(60):
        rows = torch.randperm(5000)[:600]
        on_gpu, new = rows.to(gpu), torch.randn(600, 64)
        values = new.to(gpu)
        with torch.cuda.stream(streams[step % 2]):
            streams[step % 2].wait_stream(torch.cuda.default_stream())
            table.write(on_gpu, values)
            truth[rows] = new
        with torch.cuda.stream(streams[1 - step % 2]):
            asked = torch.randint(0, 5000, (900,))
            found.append((table(asked.to(gpu)), truth[asked], on_gpu, values))
    torch.cuda.synchronize()
    assert all(torch.equal(ours.cpu(), want) for ours, want, *_ in found)


@pytest.mark.gpu
@pytest.mark.parametrize("slots", [0, 700])
@pytest.mark.parametrize("eviction", ["clock", "lru"])
def test_replays_and_calls_take_turns(gpu, slots, eviction):
    truth = torch.randn(5000, 64)
    table = RowTable(host(gpu, truth), slots, device=gpu, eviction=eviction)
    streams, graph = [torch.cuda.Stream(), torch.cuda.Stream()], torch.cuda.CUDAGraph()
    rows, values, asked = torch.arange(600, device=gpu), torch.randn(600, 64, device=gpu), torch.arange(900, device=gpu)
    with torch.cuda.graph(graph, stream=streams[0]):
        table.write(rows, values)
        replayed = table(asked)
    found = []
    for step in range(60):
        new, index, others = torch.randn(600, 64), torch.randperm(5000)[:600], torch.randint(0, 5000, (900,))
        truth[index] = new
        with torch.cuda.stream(streams[step % 2]):
            if step % 2:
                table.write(index.to(gpu), new.to(gpu))
                found.append((table(others.to(gpu)), truth[others]))
            else:
                rows.copy_(index), values.copy_(new), asked.copy_(others)
                graph.replay()
                found.append((replayed.clone(), truth[others]))
    torch.cuda.synchronize()
    assert all(torch.equal(ours.cpu(), want) for ours, want in found)


@pytest.mark.gpu
def test_a_gpu_keeps_what_the_cpu_keeps_by_lru(gpu):
    """Many chunks of places, and moves up."""
    truth = torch.randn(200_000, 4)
    ours, theirs = (RowTable(host(on, truth), 90_001, device=on, eviction="lru") for on in (gpu, torch.device("cpu")))
    for size in (50_000, 1, 700, 200_000, 90_001, 30_000, 30_000, 60_000, 5, 150_000):
        rows = (torch.rand(size) ** 2 * len(truth)).long()
        assert torch.equal(ours(rows.to(gpu)).cpu(), theirs(rows))
        assert state(ours._rows.clock) == state(theirs._rows.clock)


@pytest.mark.parametrize("eviction", ["clock", "lru"])
@pytest.mark.parametrize("write", ["back", "through"])
def test_what_others_write_is_there_after_a_refresh(device, eviction, write):
    """Rows keep their slots, and those that are ahead of their table stay."""
    truth = torch.randn(2, 50, 36)
    tables = [host(device, part) for part in truth]
    table = RowTable(tables, 60, device=device, eviction=eviction, write=write)
    table.refresh()
    rows = torch.arange(40).repeat(2, 1).to(device)
    slots = table.resolve(rows[:, :30])
    table.write(rows[:, 20:25], torch.ones(2, 5, 36, device=device))
    for part in tables:
        if device.type == "cuda":
            torch.cuda.synchronize()
        part.cpu().fill_(2)
    assert table(rows[:, :1]).cpu().ne(2).all()
    table.refresh()
    assert torch.equal(table.resolve(rows[:, :30]), slots)
    found = table(rows).cpu()
    assert found[:, 20:25].eq(1 if write == "back" else 2).all() and found[:, :20].eq(2).all() and found[:, 25:].eq(2).all()


@pytest.mark.parametrize("slots", [0, 1, 5])
@pytest.mark.parametrize("write", ["back", "through"])
def test_a_row_that_is_written_twice_is_everywhere_the_same(device, slots, write):
    """The first time, when it has no slot, and the second; beside rows that find none."""
    table = RowTable(host(device, torch.zeros(8, 16, dtype=torch.uint8)), slots, device=device, write=write)
    for _ in range(2):
        rows, values = torch.tensor([3] * 40 + [5, 6] + [3] * 400, device=device), torch.arange(442, device=device) % 250
        table.write(rows, values.byte()[:, None].expand(442, 16))
        found = table(torch.arange(8, device=device)).cpu()
        assert len(found[3].unique()) == 1 and found[5, 0] == 40 and found[6, 0] == 41 and found[7, 0] == 0
        table.flush()
        table.resolve(torch.tensor([0, 1, 2, 4, 7], device=device))  # row 3 leaves its slot
        assert same(table(torch.arange(8, device=device)), found) and same(table.tables[0].cpu(), found)


def test_threads_take_turns(device):
    truth = torch.randn(20_000, 64)
    table = RowTable(host(device, truth), 3000, device=device)

    def agrees(seed):
        random = torch.Generator().manual_seed(seed)
        batches = [torch.randint(0, 20_000, (2500,), generator=random) for _ in range(10)]
        return all(torch.equal(table(rows.to(device)).cpu(), truth[rows]) for rows in batches)

    assert all(by_threads(agrees))
