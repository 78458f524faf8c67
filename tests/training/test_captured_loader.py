"""Replayed batches: those of an ordinary loader, with padding; what does not fit, what changes, what cannot be captured.

Without a GPU something stands for graphs that does again what was captured, so that all but CUDA is tried here.
"""

from __future__ import annotations

import gc
import io
import itertools
import warnings

import pytest
import torch

import hinterland as hl
from hinterland.runtime import devices
from hinterland.runtime.errors import ConfigError, IndexOutOfRange
from hinterland.sampling import NeighborSampler
from hinterland.sampling.envelope import Envelope, PaddedSample
from hinterland.training import Loader, replayed_batches
from hinterland.training.converted_rows import ConvertedRows
from hinterland.training.envelope_estimate import EnvelopeEstimate
from hinterland.training.pipeline import tensors_of
from hinterland.training.replayed_batches import unpadded

from .captured_steps import stand_in_for_batches

pytestmark = pytest.mark.filterwarnings("error:batches are made without")
BATCH, FIRST = 64, 8


@pytest.fixture
def place(device, monkeypatch):
    """A processor where batches are replayed."""
    if device.type == "cpu":
        stand_in_for_batches(monkeypatch)
    return device


@pytest.fixture(scope="module")
def graph():
    return hl.generate("kronecker", scale=12, edge_factor=16, seed=3, placement="host")


@pytest.fixture(scope="module")
def rows(graph):
    return torch.randn(graph.num_vertices, 8, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def seeds(graph):
    return graph.indptr.diff().nonzero()[:1500, 0]  # of 24 batches the last has 28


def made(graph, seeds, device, features=None, labels="numbers", fanouts=(6, 4), batch_size=BATCH, **options):
    sampler = NeighborSampler(graph, fanouts, seed=2, device=device)
    labels = torch.arange(graph.num_vertices) if isinstance(labels, str) else labels
    options = {"shuffle": True, "seed": 5, **options}
    return Loader(sampler, seeds, batch_size, features=features, labels=labels, device=device, **options)


@pytest.fixture
def pair(graph, rows, seeds, place):
    """A loader that captures, and one that does not."""
    return [made(graph, seeds, place, rows.to(place), capture=capture) for capture in (True, False)]


def drawn(batch):
    """What is no padding, on the CPU, since the next batch overwrites it."""
    sample, count = batch.sample, batch.batch_size
    if batch.buffer is not None:
        assert isinstance(sample, PaddedSample)
        counts = sample.ends.tolist()
        sample, count = unpadded(sample, counts), counts[0][0]
        assert batch.batch_size == batch.sample.num_sampled_nodes[0]
        if batch.y is not None and not batch.y.is_floating_point():
            assert (batch.y[count:] == -100).all()
        if batch.x is not None:
            assert len(batch.x) == len(batch.sample.node) and batch.x.isfinite().all()
    found = [batch.seeds[:count], sample.node, sample.row, sample.col, sample.edge]
    found += [] if batch.x is None else [batch.x[: len(sample.node)]]
    found += [] if batch.y is None else [batch.y[:count]]
    return [tensor.cpu().clone() for tensor in found] + [sample.num_sampled_nodes, sample.num_sampled_edges]


def same(ours, theirs):
    ours, theirs = list(ours), list(theirs)
    assert len(ours) == len(theirs)
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        for a, b in zip(one, other, strict=True):
            assert torch.equal(a, b) and a.dtype == b.dtype if isinstance(a, torch.Tensor) else a == b, number
    return True


def epoch(loader, buffers=None):
    for batch in loader:
        if buffers is not None:
            buffers.append(batch.buffer)
        yield drawn(batch)


def shrunk(loader):
    """With an envelope that half of the batches do not fit."""
    estimate = loader._replays.estimate
    counts = sorted(met[0][-1] for met in estimate._met)
    vertices = estimate.envelope.vertices
    estimate.envelope = Envelope((*vertices[:-1], counts[len(counts) // 2]), estimate.envelope.edges)


def table_of(kind, rows, place):
    if kind in ("managed", "pinned"):
        return hl.UnifiedTensor.from_tensor(rows, kind if place.type == "cuda" else "host")
    if kind == "tensor":
        return rows.to(place)
    table = hl.UnifiedTensor.from_tensor(rows)
    if kind == "tiered":
        return table.tiered(local="8KiB", devices=[str(place)]) if place.type == "cuda" else table.tiered(local="8KiB")
    if kind == "converted":
        return ConvertedRows(hl.UnifiedTensor.from_tensor(rows.to(torch.float8_e4m3fn)), scales=rows.abs().amax(1))
    return table.cached("32KiB", str(place)) if kind == "cached" else None


@pytest.mark.parametrize("kind", ["managed", "pinned", "tensor", "tiered", "cached", "converted", "none"])
def test_batches_are_those_of_an_ordinary_loader(graph, rows, seeds, place, kind):
    features = table_of(kind, rows, place)
    ours, theirs = (made(graph, seeds, place, features, capture=capture) for capture in (True, False))
    assert ours.capture and not theirs.capture
    buffers = []
    for _ in range(3):
        assert same(epoch(ours, buffers), epoch(theirs))
    replayed = [number for number in buffers if number is not None]
    assert buffers[:FIRST] == [None] * FIRST and set(replayed) <= set(range(9))
    found = ours.captured
    assert found.replayed == len(replayed) and found.overflowed == len(buffers) - FIRST - len(replayed)
    assert found.replayed > 0.8 * len(buffers) - FIRST
    assert 0 < found.padding < 0.3
    assert ours.stages[0].items == len(buffers)


def test_every_third_batch_lies_in_the_same_buffer(graph, rows, seeds, place):
    loader = made(graph, seeds, place, rows.to(place), capture=True)
    met = {}
    for i, batch in enumerate(loader):
        if batch.buffer is not None:
            assert batch.buffer == (i - FIRST) % 3
            where = [tensor.data_ptr() for tensor in tensors_of(batch)]
            assert met.setdefault(batch.buffer, where) == where
    assert set(met) == {0, 1, 2}


@pytest.mark.parametrize("form", [hl.compress, lambda graph: hl.reorder(graph, "degree")], ids=["compressed", "reordered"])
def test_of_a_graph_in_another_form(graph, rows, seeds, place, form):
    another = form(graph)
    ours, theirs = (made(another, seeds, place, rows.to(place), capture=capture) for capture in (True, False))
    assert same(epoch(ours), epoch(theirs)) and ours.captured.replayed > 0


@pytest.mark.parametrize("blocks", [None, 2])  # few blocks copy whole lines in bulk
@pytest.mark.parametrize("kind", ["managed", "pinned", "tiered", "cached", "converted"])
def test_rows_of_padding_are_that_of_vertex_0(graph, rows, seeds, place, kind, blocks):
    features = table_of(kind, rows.repeat(1, 16), place)
    for batch in made(graph, seeds, place, features, gather_blocks=blocks, capture=True):
        if batch.buffer is not None:
            assert len(batch.x) > int(batch.sample.ends[0, -1])
            assert torch.equal(batch.x, features.gather(batch.sample.node))
            batch.x.mul_(3)  # as a model may that computes in place


@pytest.mark.parametrize(
    "edges, batch_size, fanouts, count",
    [(0, 4, (3, 2), 30), (1, 1, (2,), 30), (300, 100, (500, 500), 30), (300, 4, (3, 0), 30), (300, 7, (2, 2, 2), 1)],
    ids=["no edges", "one seed", "more than a list has", "a fanout of 0", "one seed again and again"],
)
def test_of_odd_shapes(place, edges, batch_size, fanouts, count):
    ends = torch.randint(30, (2, edges), generator=torch.Generator().manual_seed(4))
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), ends[0].bincount(minlength=30).cumsum(0)])
    odd, column = hl.Graph(offsets, ends[1]), hl.UnifiedTensor.from_tensor(torch.rand(30, 1))
    options = {"labels": torch.arange(30), "fanouts": fanouts, "batch_size": batch_size}
    ours, theirs = (made(odd, torch.arange(30)[:count], place, column, capture=capture, **options) for capture in (True, False))
    for _ in range(11):
        assert same(epoch(ours), epoch(theirs))
    assert ours.captured.replayed > 0


@pytest.mark.parametrize(
    "dtype", [torch.int8, torch.int32, torch.float16, torch.complex64, torch.uint8, torch.bool, "columns", "table", None]
)
def test_labels_of_any_kind(graph, seeds, place, dtype):
    """Where none can say that a seed is not there, a short batch is ordinary."""
    number = torch.arange(graph.num_vertices) % 100
    if dtype == "columns":
        labels = torch.stack([number, number + 1], dim=1)
    elif dtype == "table":
        labels = hl.UnifiedTensor.from_tensor(number)
    else:
        labels = None if dtype is None else number.to(dtype)  # without labels nothing says so either
    ours, theirs = (made(graph, seeds, place, None, labels, capture=capture) for capture in (True, False))
    buffers = []
    assert same(epoch(ours, buffers), epoch(theirs))
    replayed = dtype in (torch.int8, torch.int32, "table")
    assert (buffers[-1] is not None) == replayed and buffers[-2] is not None


@pytest.mark.parametrize("drop_last", [False, True])
def test_of_two_ranks(graph, rows, seeds, place, drop_last):
    for rank in range(2):
        options = {"rank": rank, "world_size": 2, "drop_last": drop_last}
        ours, theirs = (made(graph, seeds, place, rows.to(place), capture=capture, **options) for capture in (True, False))
        assert all(same(epoch(ours), epoch(theirs)) for _ in range(2)) and ours.captured.replayed > 0


def test_what_does_not_fit_is_an_ordinary_batch(pair):
    ours, theirs = pair
    buffers = []
    assert same(epoch(ours), epoch(theirs))
    before = ours.captured
    shrunk(ours)
    assert same(epoch(ours, buffers), epoch(theirs))
    overflowed = ours.captured.overflowed - before.overflowed
    assert overflowed == buffers.count(None) > 5 and ours.captured.replayed - before.replayed == len(ours) - overflowed
    # Too many: the next epoch has room for all that were met, in buffers with other numbers.
    again = []
    assert same(epoch(ours, again), epoch(theirs))
    assert again.count(None) <= 2 and not set(again) & (set(buffers) - {None})


def test_epochs_shorter_than_the_first_batches(graph, rows, seeds, place):
    ours, theirs = (made(graph, seeds[:300], place, rows.to(place), capture=capture) for capture in (True, False))
    buffers = []
    for _ in range(4):
        assert same(epoch(ours, buffers), epoch(theirs))
    # 5 batches an epoch, of which the last says nothing of full ones.
    assert buffers[:9] == [None] * 9 and buffers[10:] and None not in buffers[15:]


@pytest.mark.parametrize("stop", [3, FIRST, 11, 24, 30])
def test_a_state_goes_on_with_the_same_shapes(graph, rows, seeds, place, stop):
    whole, first, second = (made(graph, seeds, place, rows.to(place), capture=True) for _ in range(3))
    buffers = []
    expected = [batch for _ in range(3) for batch in epoch(whole, buffers)]
    given = 0
    while given < stop:
        for _ in itertools.islice(first, stop - given):
            given += 1
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    second.load_state_dict(torch.load(io.BytesIO(file.getvalue()), weights_only=True))
    rest, again = [], []
    while len(rest) < len(expected) - stop:
        rest += epoch(second, again)
    assert same(rest, expected[stop:])
    assert [number is None for number in again] == [number is None for number in buffers[stop:]]
    assert second.state_dict() == whole.state_dict()


def test_what_a_table_brings_to_a_gpu_once_is_there_before_a_capture(graph, rows, seeds, place):
    """A loader whose first batches are replayed has gathered nothing before."""
    first, second, theirs = (
        made(graph, seeds, place, table_of("converted", rows, place), capture=capture) for capture in (True, True, False)
    )
    assert same(epoch(first), epoch(theirs))
    second.load_state_dict(first.state_dict())
    buffers = []
    assert same(epoch(second, buffers), epoch(theirs)) and buffers[0] is not None


def test_other_states(graph, seeds, place):
    ours, theirs = (made(graph, seeds, place, capture=capture) for capture in (True, False))
    old = {key: value for key, value in theirs.state_dict().items() if key != "capture"}
    for state in (old, theirs.state_dict()):
        ours.load_state_dict(state)
        assert ours._replays.estimate.envelope is None
    list(ours)
    theirs.load_state_dict(ours.state_dict())
    assert theirs.position == (1, 0)
    other = made(graph, seeds, place, capture=True, fanouts=(3, 3, 3))
    with pytest.raises(ConfigError, match="batches of 64 seeds and 2 hops, but this loader has 64 and 3; make it with"):
        other.load_state_dict(ours.state_dict())


def test_an_epoch_that_was_left_goes_on(pair):
    ours, theirs = pair
    left = [drawn(batch) for batch in itertools.islice(ours, 12)]
    assert same(left + list(epoch(ours)), epoch(theirs))


def test_two_loaders_at_once(graph, rows, seeds, place):
    one, other = (made(graph, seeds, place, rows.to(place), capture=True, seed=seed) for seed in (5, 6))
    theirs = [list(epoch(made(graph, seeds, place, rows.to(place), seed=seed))) for seed in (5, 6)]
    pairs = [(drawn(a), drawn(b)) for a, b in zip(one, other, strict=True)]
    assert same([a for a, _ in pairs], theirs[0]) and same([b for _, b in pairs], theirs[1])


def test_an_iterator_that_another_takes_over_goes_on_without_graphs(pair):
    ours, theirs = pair
    expected = list(epoch(theirs))
    older = epoch(ours)
    got = [next(older) for _ in range(11)]
    assert same(itertools.islice(epoch(ours), 5), expected[11:16])
    assert same(got + list(older), expected)


def test_capture_can_be_switched_off(pair):
    ours, theirs = pair
    got, buffers = [], []
    for batch in ours:
        got.append(drawn(batch))
        buffers.append(batch.buffer)
        ours.capture = len(got) < 12
    assert same(got, epoch(theirs))
    assert None not in buffers[FIRST:12] and buffers[12:] == [None] * 12
    assert same(epoch(ours, buffers), epoch(theirs)) and buffers[24:] == [None] * 24


def test_a_capture_that_fails_is_told_and_done_without(pair, monkeypatch):
    def fails(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(replayed_batches, "captured", fails)
    ours, theirs = pair
    with pytest.warns(UserWarning, match="made without CUDA graphs, whose capture failed: CUDA out of memory") as told:
        assert same(epoch(ours), epoch(theirs))
    assert len(told) == 1 and not ours.capture
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same(epoch(ours), epoch(theirs))


CHANGES = {
    "features": lambda loader: setattr(loader, "features", 2 * loader.features),
    "labels": lambda loader: setattr(loader, "labels", loader.labels + 7),
    "sampler": lambda loader: setattr(
        loader, "sampler", NeighborSampler(loader.sampler.graph, [3, 2], seed=9, device=loader.device)
    ),
    "fanouts": lambda loader: setattr(loader.sampler, "fanouts", [2, 7]),
    "seed of the sampler": lambda loader: setattr(loader.sampler, "seed", 77),
    "batch_size": lambda loader: setattr(loader, "batch_size", 50),
    "seeds": lambda loader: setattr(loader, "seeds", loader.seeds[200:]),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_changes_is_captured_anew(pair, what):
    ours, theirs = pair
    assert same(epoch(ours), epoch(theirs))
    for loader in pair:
        CHANGES[what](loader)
    buffers = []
    assert all(same(epoch(ours, buffers), epoch(theirs)) for _ in range(2))
    assert set(buffers) - {None, 0, 1, 2}


@pytest.mark.parametrize("kind", ["tiered", "cached"])
def test_a_table_that_was_closed_is_told_before_a_replay(graph, rows, seeds, place, kind):
    features = table_of(kind, rows, place)
    loader = made(graph, seeds, place, features, capture=True)
    list(epoch(loader))
    made_before = loader.stages[0].items
    features.close()
    with pytest.raises(ConfigError, match="has been closed"):
        next(iter(loader))
    assert loader.stages[0].items == made_before


def test_what_was_served_is_counted_as_of_ordinary_batches(graph, rows, seeds, place, monkeypatch):
    monkeypatch.setattr("hinterland.training.loader._COUNTED_EVERY", 5)
    features = hl.UnifiedTensor.from_tensor(rows)
    options = {"cache": "degree", "gpu_budget": "64KiB"}
    ours, theirs = (made(graph, seeds, place, features, capture=capture, **options) for capture in (True, False))
    assert ours.cache_plan.split.rows > 0 and same(epoch(ours), epoch(theirs))
    found, expected = ([batch.served for batch in loader] for loader in (ours, theirs))
    assert found == expected and ours.captured.replayed > 0 and sum(one is not None for one in found) == 5


def test_auto_leaves_alone_what_cannot_be_captured(graph, rows, seeds):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours, theirs = (made(graph, seeds, "cpu", rows, capture=capture) for capture in ("auto", False))
        assert not ours.capture and same(epoch(ours), epoch(theirs))
    assert ours.captured.replayed == 0 and ours.state_dict() == theirs.state_dict()
    with pytest.raises(ConfigError, match="capture=True: CUDA graphs are captured on a GPU, and batches are made on the CPU"):
        made(graph, seeds, "cpu", rows, capture=True)
    for wrong in ("always", 1, None):
        with pytest.raises(ConfigError, match=r"capture=.* is none of False, True and 'auto'"):
            made(graph, seeds, "cpu", rows, capture=wrong)


def test_what_is_refused(graph, rows, seeds, monkeypatch):
    """By what a loader for a GPU would say, that is not touched."""
    gpu = torch.device("cuda", 0)
    monkeypatch.setattr("hinterland.runtime.devices.as_device", lambda device=None: gpu if str(device) == "cuda" else device)

    def refused(sentence, features=None, sampler=None, fanouts=(6, 4), **options):
        sampler = sampler or NeighborSampler(graph, fanouts, device=torch.device("cpu"), **options.pop("draws", {}))
        if sampler.device.type == "cpu" and not options.pop("stays", False):
            sampler.device = gpu
        monkeypatch.setattr("hinterland.training.loader.gather_blocks_for", lambda *_, **__: None)
        with pytest.raises(ConfigError, match=f"capture=True: {sentence}"):
            Loader(sampler, seeds, BATCH, features=features, device="cuda", capture=True, **options)
        assert not Loader(sampler, seeds, BATCH, features=features, device="cuda", capture="auto", **options).capture

    class Other:
        device = gpu

        def sample(self, seeds, batch=0):
            raise AssertionError

    host = hl.UnifiedTensor.from_tensor(rows, "pageable")
    refused("batches of a Other are not captured; use a NeighborSampler", sampler=Other())
    refused("batches that stats= counts are waited for", stats={})
    refused("rows that the CPU helps to gather", host_threads=2)
    refused("the sampler is on cpu, and batches are made on cuda:0; make both there", stays=True)
    refused("samples of fixed shape", fanouts=(6, -1))
    refused("samples of fixed shape", draws={"disjoint": True})
    refused("samples of fixed shape", draws={"times": torch.zeros(graph.num_vertices, dtype=torch.int64)})
    refused("features are a tensor on cpu; make a table of them", rows)
    refused("features lie in pageable memory, which no GPU reads; make the table with placement='host'", host)
    refused("features learn, and rows that a CUDA graph gathers have no gradients", torch.nn.Parameter(rows))
    shorter = hl.UnifiedTensor.from_tensor(rows[: int(seeds.max()) + 1])
    refused(f"features have {len(shorter)} rows, but the graph has {graph.num_vertices} vertices; give a row for each", shorter)


def test_an_estimate_is_of_full_batches():
    most = Envelope.largest(10, [5, 5], 10_000)
    estimate = EnvelopeEstimate(most)
    full = [[[10, 40 + n, 150 + 3 * n], [0, 45 + n, 200 + n]] for n in range(FIRST)]
    for counts in full:
        assert estimate.envelope is None
        estimate.note([[7, 900, 900], [0, 900, 900]])
        estimate.note(counts)
    assert estimate.missing == 0 and estimate.envelope == Envelope.of(torch.tensor(full), most)
    estimate.replayed, estimate.overflowed = 99, 1
    before = estimate.envelope
    estimate.end_epoch()
    assert estimate.envelope is before and (estimate.replayed, estimate.overflowed) == (99, 1)
    estimate.note([[10, 59, 300], [0, 50, 300]])
    estimate.overflowed += 1
    estimate.end_epoch()
    assert not before.holds([10, 59, 300], [50, 300]) and estimate.envelope.holds([10, 59, 300], [50, 300])
    assert (estimate.replayed, estimate.overflowed) == (0, 0)


@pytest.mark.gpu
def test_a_gpu_fills_its_cache_before_it_captures(graph, rows, seeds, monkeypatch):
    monkeypatch.setattr(devices, "free_bytes", lambda device: 8 << 30)  # which other processes take and give back
    features = hl.UnifiedTensor.from_tensor(rows)
    options = {"cache": "auto"}
    ours, theirs = (made(graph, seeds, "cuda:0", features, capture=c, **options) for c in (True, False))
    assert all(same(epoch(ours), epoch(theirs)) for _ in range(2))
    assert ours.captured.replayed > len(ours) and ours.cache_plan.split.rows > 0
    assert ours.cache_plan.budget <= theirs.cache_plan.budget


@pytest.mark.gpu
@pytest.mark.parametrize("left", [None, 12])
def test_a_loader_gives_its_memory_back(graph, rows, seeds, left):
    features = hl.UnifiedTensor.from_tensor(rows)
    list(epoch(made(graph, seeds, "cuda:0", features)))
    torch.cuda.synchronize()
    gc.disable()  # by reference counts alone
    try:
        before = torch.cuda.memory_allocated()
        loader = made(graph, seeds, "cuda:0", features, capture=True)
        for batch in itertools.islice(loader, left):
            assert batch.x is not None
        held = torch.cuda.memory_allocated() - before
        del loader, batch
        torch.cuda.synchronize()
        assert held > 1 << 18 and torch.cuda.memory_allocated() - before < held // 2
    finally:
        gc.enable()


@pytest.mark.gpu
def test_a_seed_that_is_no_vertex_is_told(graph, seeds):
    wrong = torch.cat([seeds[: 15 * BATCH], torch.tensor([graph.num_vertices + 3]), seeds[15 * BATCH :]])
    loader = made(graph, wrong, "cuda:0", None, None, shuffle=False, capture=True)
    got = 0
    with pytest.raises(IndexOutOfRange, match=r"no vertex: there are 4096, .*batch 15"):
        for batch in loader:
            got += batch.batch_size > 0
    assert got >= 13


@pytest.mark.gpu
def test_beside_training_that_reads_late(graph, rows, seeds):
    """A consumer whose kernels lag behind finds in each batch what was there: it is overwritten after them."""
    features = hl.UnifiedTensor.from_tensor(rows)
    ours, theirs = (made(graph, seeds, "cuda:0", features, capture=capture) for capture in (True, False))
    sums = []
    for loader in (ours, theirs):
        found = []
        for batch in loader:
            torch.cuda._sleep(3_000_000)
            real = torch.arange(len(batch.x), device="cuda:0") < (
                batch.sample.ends[0, -1] if batch.buffer is not None else len(batch.x)
            )
            found.append((batch.x.double() * real[:, None]).sum())
        sums.append(torch.stack(found))
    assert torch.allclose(*sums)
