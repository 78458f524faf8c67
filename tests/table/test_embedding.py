"""UnifiedEmbeddingBag and its optimizers against torch.nn.EmbeddingBag and torch.optim in float64."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import time
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland import UnifiedEmbeddingBag, UnifiedTensor, memory
from hinterland.memory import allocator, limits
from hinterland.runtime.errors import ConfigError, IndexOutOfRange, OutOfMemory
from hinterland.table import SparseAdagrad, SparseSGD, whole

MODES = ["sum", "mean", "max"]
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


class RowwiseAdagrad(torch.optim.Adagrad):
    """With one sum a row, as torchrec says it, of one table."""

    def __init__(self, params, **options):
        super().__init__(params, **options)
        self.table = self.param_groups[0]["params"][0]
        self.state[self.table]["sum"] = self.state[self.table]["sum"][:, :1].clone()

    @torch.no_grad()
    def step(self):
        group, state, slope = self.param_groups[0], self.state[self.table], self.table.grad.to_dense()
        rate = group["lr"] / (1 + state["step"] * group["lr_decay"])
        state["step"] += 1
        state["sum"] += slope.square().mean(dim=1, keepdim=True)
        self.table -= rate * slope / (state["sum"].sqrt() + group["eps"])


ADAGRAD = {"lr": 0.1, "lr_decay": 0.01, "initial_accumulator_value": 0.2, "eps": 1e-8}
OPTIMIZERS = {
    "sgd": (SparseSGD, torch.optim.SGD, {"lr": 0.3}),
    "adagrad": (SparseAdagrad, torch.optim.Adagrad, ADAGRAD),
    "rowwise": (partial(SparseAdagrad, rowwise=True), RowwiseAdagrad, ADAGRAD),
}
shared_fixture = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _oracle(weight, **options):
    """torch's module over the same rows, in float64. It does not support sparse gradients of maxima."""
    sparse = options.get("mode") != "max"
    return torch.nn.EmbeddingBag.from_pretrained(weight.double().clone(), freeze=False, sparse=sparse, **options)


def _rounding(dtype):
    """Relative and absolute error of a result of this type, of sums of some tens of numbers near 1."""
    return {"rtol": 2 * torch.finfo(dtype).eps, "atol": 1e-5}


@shared_fixture
@given(
    dtype=st.sampled_from(DTYPES),
    mode=st.sampled_from(MODES),
    rows=st.integers(1, 40),
    dim=st.integers(1, 70) | st.sampled_from([128, 132, 300]),
    lengths=st.lists(st.integers(0, 12), max_size=15),
    widths=st.tuples(st.booleans(), st.booleans()),
    closed=st.booleans(),
    weighted=st.booleans(),
    padded=st.booleans(),
    seed=st.integers(0, 999),
)
def test_bags_match_torch(device, dtype, mode, rows, dim, lengths, widths, closed, weighted, padded, seed):
    torch.manual_seed(seed)
    weight = torch.randn(rows, dim, dtype=dtype)
    options = {"mode": mode, "include_last_offset": closed, "padding_idx": rows // 3 if padded else None}
    bag, expected = UnifiedEmbeddingBag.from_pretrained(weight, **options), _oracle(weight, **options)
    index = torch.randint(0, rows, (sum(lengths),), dtype=torch.int64 if widths[0] else torch.int32)
    offsets = torch.tensor([0, *lengths]).cumsum(0)[: len(lengths) + closed].to(torch.int64 if widths[1] else torch.int32)
    shares = torch.randn(len(index)) if weighted and mode == "sum" else None
    found = bag(index.to(device), offsets.to(device), None if shares is None else shares.to(device))
    assert (found.device, found.dtype, found.shape) == (device, dtype, (len(lengths), dim))
    if not lengths:
        return
    want = expected(index.long(), offsets.long(), None if shares is None else shares.double())
    torch.testing.assert_close(found.cpu().double(), want.detach(), **_rounding(dtype))


@pytest.mark.parametrize("mode", MODES)
def test_bags_of_equal_length(device, mode):
    weight = torch.randn(50, 12)
    bag, expected = UnifiedEmbeddingBag.from_pretrained(weight, mode=mode), _oracle(weight, mode=mode)
    index = torch.randint(0, 50, (6, 9))
    for given_index in (index, index.int(), index[:, ::2], index.t(), index[:1], index[:, :1]):
        found = bag(given_index.to(device))
        torch.testing.assert_close(
            found.cpu().double(), expected(given_index.long().contiguous()).detach(), rtol=1e-5, atol=1e-5
        )
    assert bag(index[:0].to(device)).shape == (0, 12)
    assert bag(index[:, :0].to(device)).tolist() == [[0.0] * 12] * 6
    strided = torch.stack([index.view(-1)] * 2, dim=1)[:, 0]
    offsets = torch.stack([torch.arange(6) * 9] * 2, dim=1)[:, 0]
    assert torch.equal(bag(strided.to(device), offsets.to(device)), bag(index.to(device)))


def test_every_float16_is_read_and_written():
    numbers = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int16)
    for dtype in (torch.float16, torch.bfloat16):
        rows = numbers.view(dtype)[:, None]
        bag = UnifiedEmbeddingBag.from_pretrained(rows, mode="sum")
        found = bag(torch.arange(1 << 16)[:, None])
        nans = rows.isnan()
        assert torch.equal(found.isnan(), nans)
        assert torch.equal(found[~nans] + 0, rows[~nans] + 0)  # sums begin with 0, which makes -0 one


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_steps_round_to_nearest(device, dtype):
    """Between all exponents, ties, subnormal numbers and overflow."""
    torch.manual_seed(0)
    weight = (torch.randn(4000, 1) * 2.0 ** torch.randint(-26, 16, (4000, 1))).to(dtype)
    slope = (torch.randn(4000, 1) * 2.0 ** torch.randint(-26, 16, (4000, 1))).to(dtype)
    weight[:4] = torch.tensor([[1.0], [1.0], [60000.0], [0.0]])
    slope[:4] = torch.tensor([[2.0**-9], [-(2.0**-9)], [-8000.0], [0.0]])
    bag = UnifiedEmbeddingBag.from_pretrained(weight, freeze=False, mode="sum")
    optimizer = SparseSGD(bag.parameters(), lr=1.0)
    bag(torch.arange(4000, device=device)[:, None]).backward(slope.to(device))
    optimizer.step()
    assert torch.equal(bag.weight.cpu(), (weight.float() - slope.float()).to(dtype))


def _both(mode, padding, rows=23, dim=20, dtype=torch.float32):
    weight = torch.randn(rows, dim, dtype=dtype)
    options = {"mode": mode, "padding_idx": padding}
    return UnifiedEmbeddingBag.from_pretrained(weight, freeze=False, **options), _oracle(weight, **options)


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("padding", [None, -2])
@pytest.mark.parametrize("mode", [*MODES, "weighted"])
def test_many_steps_match_torch(device, mode, padding, kind):
    torch.manual_seed(3)
    ours, theirs, options = OPTIMIZERS[kind]
    bag, expected = _both("sum" if mode == "weighted" else mode, padding)
    optimizers = ours(bag.parameters(), **options), theirs(expected.parameters(), **options)
    schedulers = [torch.optim.lr_scheduler.StepLR(optimizer, 10, 0.7) for optimizer in optimizers]
    target = torch.randn(20)
    for step in range(40):
        lengths = torch.randint(0, 7, (8,))
        index, offsets = torch.randint(0, 23, (int(lengths.sum()),)), lengths.cumsum(0) - lengths
        shares = torch.randn(len(index)) if mode == "weighted" else None
        for module, place, dtype in ((bag, device, torch.float32), (expected, torch.device("cpu"), torch.float64)):
            given_shares = None if shares is None else shares.to(place, dtype)
            found = module(index.to(place), offsets.to(place), given_shares)
            ((found - target.to(place, dtype)) ** 2).mean().backward()
        if step % 3 != 1:  # else the gradients of two passes are one
            for optimizer, scheduler in zip(optimizers, schedulers, strict=True):
                optimizer.step()
                optimizer.zero_grad()
                scheduler.step()
    torch.testing.assert_close(bag.weight.cpu().double(), expected.weight.detach(), rtol=1e-4, atol=2e-5)
    if kind != "sgd":
        found, want = (next(iter(o.state_dict()["state"].values())) for o in optimizers)
        assert found["step"] == want["step"]
        torch.testing.assert_close(found["sum"].double(), want["sum"], rtol=1e-4, atol=1e-6)
    assert torch.equal(bag.weight.cpu()[-2].double(), expected.weight[-2]) == (padding is not None)


@shared_fixture
@given(
    mode=st.sampled_from(MODES),
    dtype=st.sampled_from(DTYPES),
    rows=st.integers(1, 9),
    dim=st.integers(1, 40) | st.sampled_from([128, 300]),
    bags=st.integers(0, 9),
    each=st.integers(0, 9),
    kind=st.sampled_from(list(OPTIMIZERS)),
    seed=st.integers(0, 999),
)
def test_one_step_matches_torch(device, mode, dtype, rows, dim, bags, each, kind, seed):
    torch.manual_seed(seed)
    bag, expected = _both(mode, None, rows, dim, dtype)
    ours, theirs, options = OPTIMIZERS[kind]
    index, slope = torch.randint(0, rows, (bags, each)), torch.randn(bags, dim).to(dtype)
    optimizer, other = ours(bag.parameters(), **options), theirs(expected.parameters(), **options)
    bag(index.to(device)).backward(slope.to(device))
    optimizer.step()
    if index.numel():
        expected(index).backward(slope.double())
        other.step()
    torch.testing.assert_close(bag.weight.cpu().double(), expected.weight.detach(), rtol=2 * torch.finfo(dtype).eps, atol=2e-5)


@pytest.mark.parametrize("mode", MODES)
def test_shared_in_one_pass(device, mode):
    """Two bags of one graph are one gradient, and so is a graph that is gone through twice."""
    bag, expected = _both(mode, None)
    optimizer, other = SparseAdagrad(bag.parameters()), torch.optim.Adagrad(expected.parameters())
    index = torch.randint(0, 23, (2, 4, 6))
    for module, place in ((bag, device), (expected, torch.device("cpu"))):
        loss = (module(index[0].to(place)) * module(index[1].to(place))).sum()
        loss.backward(retain_graph=True)
        loss.backward()
    optimizer.step()
    other.step()
    torch.testing.assert_close(bag.weight.cpu().double(), expected.weight.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:Input #0 requires gradient and is not a double")
def test_weights_of_entries_have_gradients(device):
    bag = UnifiedEmbeddingBag.from_pretrained(torch.randn(9, 5), mode="sum", padding_idx=2)
    index, offsets = torch.randint(0, 9, (14,)), torch.tensor([0, 3, 3, 9])
    index[:2] = 2
    shares = torch.randn(14, requires_grad=True, device=device)
    # The bags are linear in the weights, so a wide step has no error but rounding.
    call = lambda shares: bag(index.to(device), offsets.to(device), shares)  # noqa: E731
    assert torch.autograd.gradcheck(call, (shares,), eps=0.5, atol=1e-4, rtol=1e-4, fast_mode=False)
    call(shares).sum().backward()
    assert shares.grad[:2].tolist() == [0, 0]
    assert not bag.table.gradients  # the table is frozen


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [1, 7, 64, 300])
def test_gradients_of_weights_match_torch(device, dim, dtype):
    torch.manual_seed(1)
    bag, expected = _both("sum", 4, 20, dim, dtype)
    index = torch.randint(0, 20, (6, 5))
    shares = torch.randn(6, 5).to(dtype)
    mine, other = shares.to(device, copy=True).requires_grad_(), shares.double().requires_grad_()
    slope = torch.randn(6, dim).to(dtype)
    bag(index.to(device), per_sample_weights=mine).backward(slope.to(device))
    expected(index, per_sample_weights=other).backward(slope.double())
    assert mine.grad.dtype == dtype
    torch.testing.assert_close(mine.grad.cpu().double(), other.grad, rtol=4 * torch.finfo(dtype).eps, atol=1e-4)


def test_threads_do_not_matter(set_threads):
    torch.manual_seed(0)
    weight, index = torch.randn(500, 100), torch.randint(0, 500, (300, 20)) ** 2 // 500
    results = []
    for threads in (1, 2, 5):
        set_threads(threads)
        bag = UnifiedEmbeddingBag.from_pretrained(weight, freeze=False, mode="sum")
        optimizer = SparseAdagrad(bag.parameters(), lr=0.1)
        shares = torch.linspace(-1, 1, 6000).view(300, 20).requires_grad_()
        bag(index, per_sample_weights=shares).sin().sum().backward()
        optimizer.step()
        results.append((bag.weight.cpu(), shares.grad))
    for weights, slopes in results[1:]:
        assert torch.equal(weights, results[0][0])
        assert torch.equal(slopes, results[0][1])


@pytest.mark.gpu
@pytest.mark.parametrize("mode", MODES)
def test_processors_agree(mode):
    torch.manual_seed(0)
    weight, index = torch.randn(5000, 96), torch.randint(0, 5000, (400, 30))
    found = []
    for device in ("cpu", "cuda"):
        bag = UnifiedEmbeddingBag.from_pretrained(weight, freeze=False, mode=mode)
        optimizer = SparseAdagrad(bag.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            bags = bag(index.to(device))
            bags.sin().sum().backward()
            optimizer.step()
        found.append((bags.detach().cpu(), bag.weight.cpu()))
    for ours, others in zip(*found, strict=True):
        torch.testing.assert_close(ours, others, rtol=1e-5, atol=1e-5)


def test_starts_as_torch_does():
    torch.manual_seed(5)
    bag = UnifiedEmbeddingBag(40, 6, padding_idx=-1)
    torch.manual_seed(5)
    assert torch.equal(bag.weight.cpu(), torch.nn.EmbeddingBag(40, 6, padding_idx=-1).weight)
    assert bag.mode == "mean"
    assert bag.padding_idx == 39
    assert "40, 6, mode='mean'" in repr(bag)
    half = UnifiedEmbeddingBag(40, 6, dtype=torch.bfloat16, include_last_offset=True)
    assert half.weight.dtype == torch.bfloat16
    assert "include_last_offset=True" in repr(half)


def test_is_no_part_of_what_moves():
    model = torch.nn.Sequential(UnifiedEmbeddingBag(10, 4), torch.nn.Linear(4, 2))
    address = model[0].weight.cpu().data_ptr()
    model.to(torch.float64)
    model.half()
    assert (model[0].weight.dtype, model[0].weight.cpu().data_ptr()) == (torch.float32, address)
    assert sum(p.numel() for p in model.parameters()) == 10
    model.requires_grad_(False)
    assert not model[0](torch.tensor([[1]])).requires_grad


def test_a_table_of_the_users(device):
    table = UnifiedTensor.from_tensor(torch.randn(10, 4))
    bag = UnifiedEmbeddingBag.from_pretrained(table, freeze=False)
    assert bag.weight is table
    optimizer = SparseSGD(bag.parameters(), lr=1)
    before = table.cpu().clone()
    bag(torch.tensor([[3, 3], [5, 5]], device=device)).sum().backward()
    optimizer.step()
    changed = bag.weight.cpu() != before
    assert changed.any(dim=1).nonzero().flatten().tolist() == [3, 5]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tiers", [{"local": 9000}, {"peers": 16000}, {"local": 4000, "peers": 8000}])
def test_a_table_in_tiers(device, tiers, mode, tmp_path):
    """Rows in GPU memory, or in what stands for it, learn as those of the host do."""
    torch.manual_seed(2)
    weight, order = torch.randn(200, 20), torch.randperm(200)
    homes = ["cpu", "cpu"] if device.type == "cpu" else [device]
    below = UnifiedTensor.from_tensor(weight)
    table = below.tiered(**tiers, order=order, devices=homes)
    assert 0 < table.plan.resident < 200
    bags = [UnifiedEmbeddingBag.from_pretrained(rows, freeze=False, mode=mode) for rows in (table, weight)]
    optimizers = [SparseAdagrad(bag.parameters(), lr=0.1, rowwise=mode == "mean") for bag in bags]
    index = torch.randint(0, 200, (5, 30, 6), device=device)

    def train():
        for batch in index:
            for bag, optimizer in zip(bags, optimizers, strict=True):
                optimizer.zero_grad()
                (bag(batch) ** 2).sum().backward()
                optimizer.step()

    def same():
        assert bags[0].weight is table
        assert torch.equal(table[torch.arange(200, device=device)].cpu(), bags[1].weight.cpu())
        assert torch.equal(bags[0].state_dict()["weight"], bags[1].weight.cpu())

    train()
    same()
    torch.save(bags[0].state_dict(), tmp_path / "weights.pt")
    train()
    for bag in bags:
        bag.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
    same()
    for bag in bags:
        torch.manual_seed(4)
        bag.reset_parameters()
    same()
    other = copy.deepcopy(bags[0])
    assert torch.equal(other.weight.cpu(), bags[1].weight.cpu())
    index = index.cpu()  # gradients on the CPU go to where the tiers are, whose arithmetic may round otherwise
    train()
    torch.testing.assert_close(bags[0].state_dict()["weight"], bags[1].weight.cpu(), rtol=1e-5, atol=1e-5)
    table.close()
    torch.testing.assert_close(below.cpu(), bags[1].weight.cpu(), rtol=1e-5, atol=1e-5)


def on_storage(path, weight, tiers=None):
    """A table in a file that holds ``weight``, or tiers over it."""
    file = hl.StorageArray.create(path, tuple(weight.shape), weight.dtype, host_budget="64KiB")
    file[:] = weight
    return file if tiers is None else file.tiered(**tiers)


def tiers_of(device):
    """Some rows in GPU memory, some in the host's, most in the file."""
    homes = ["cpu", "cpu"] if device.type == "cpu" else [device]
    return {"local": 4000, "host": 3000, "order": torch.randperm(200), "devices": homes}


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("tiered", [False, True])
@pytest.mark.parametrize("mode", [*MODES, "weighted"])
def test_a_table_on_storage(device, mode, tiered, kind, tmp_path):
    """The same numbers as of a table in memory, in the file once they are flushed."""
    torch.manual_seed(2)
    weight = torch.randn(200, 20)
    table = on_storage(tmp_path / "x.bin", weight, tiers_of(device) if tiered else None)
    options = {"freeze": False, "mode": "sum" if mode == "weighted" else mode, "padding_idx": 7}
    bags = [UnifiedEmbeddingBag.from_pretrained(rows, **options) for rows in (table, weight)]
    assert bags[0].weight is table and "placement='storage'" in repr(bags[0])
    ours, _, rates = OPTIMIZERS[kind]
    optimizers = [ours(bag.parameters(), **rates) for bag in bags]
    for step in range(12):
        lengths = torch.randint(0, 7, (9,))
        index = torch.randint(0, 200, (int(lengths.sum()),), dtype=torch.int32 if step % 2 else torch.int64, device=device)
        index[:2], offsets, slopes = 7, (lengths.cumsum(0) - lengths).to(device), []
        for bag, optimizer in zip(bags, optimizers, strict=True):
            torch.manual_seed(step)
            shares = torch.randn(len(index), device=device, requires_grad=True) if mode == "weighted" else None
            (bag(index, offsets, shares) ** 2).sum().backward()
            slopes.append(None if shares is None else shares.grad)
            if step % 3 != 1:  # else the gradients of two passes are one
                optimizer.step()
                optimizer.zero_grad()
        assert shares is None or torch.equal(*slopes)
    assert torch.equal(bags[0].state_dict()["weight"], bags[1].weight.cpu())
    if kind != "sgd":
        assert torch.equal(*(optimizer.state_dict()["state"][0]["sum"] for optimizer in optimizers))
    table.flush()
    assert torch.equal(torch.from_numpy(np.fromfile(tmp_path / "x.bin", dtype=np.float32)).view(200, 20), bags[1].weight.cpu())
    assert os.listdir(tmp_path) == ["x.bin"]


@pytest.mark.parametrize("tiered", [False, True])
def test_a_batch_that_was_prefetched_is_in_memory(tmp_path, device, tiered):
    """Its rows and their sums: the step reads nothing, and gives what it gives otherwise."""
    weight, index = torch.randn(400, 256), torch.randint(100, 400, (3, 8), device=device)
    on_storage(tmp_path / "x.bin", weight).close()
    file = hl.StorageArray.open(tmp_path / "x.bin", "r+", dtype=torch.float32, shape=(400, 256))
    table = file.tiered(**tiers_of(device) | {"order": torch.arange(20)}) if tiered else file
    bag, expected = (UnifiedEmbeddingBag.from_pretrained(rows, freeze=False) for rows in (table, weight))
    optimizer, other = (SparseAdagrad(one.parameters(), rowwise=True) for one in (bag, expected))
    (sums,) = bag.table.states
    before = file.stats().reads
    bag.prefetch(index)
    asked = sum(rows.count(index).tiers["storage"]["requests"] for rows in (table, sums))
    for _ in range(1000):
        if file.stats().reads == before + asked:
            break
        time.sleep(0.01)
    for one, step in ((bag, optimizer), (expected, other)):
        one(index).square().sum().backward()
        step.step()
    assert file.stats().reads == before + asked
    assert torch.equal(table[index], expected.weight[index])
    with pytest.raises(IndexOutOfRange, match="400"):
        bag.prefetch(index + 400)
    expected.prefetch(index)  # in memory there is nothing to do
    del optimizer, sums
    gc.collect()
    assert not bag.table.states


def trained_and_resumed(first, second, batches, folder):
    """Models with their optimizers: one that trains on all batches, and one that goes on from its checkpoint halfway."""

    def train(model, optimizer, batches):
        for batch in batches:
            optimizer.zero_grad()
            (model(batch) ** 2).sum().backward()
            optimizer.step()

    train(*first, batches[:3])
    torch.save([one.state_dict() for one in first], folder / "checkpoint.pt")
    train(*first, batches[3:])
    for one, state in zip(second, torch.load(folder / "checkpoint.pt", weights_only=True), strict=True):
        one.load_state_dict(state)
    train(*second, batches[3:])
    return *first, *second


@pytest.mark.parametrize("placement", [None, "host", "storage"])
def test_checkpoints_of_a_table_on_storage(tmp_path, device, placement):
    torch.manual_seed(0)
    batches = [torch.randint(0, 200, (5, 4), device=device) for _ in range(6)]
    weight = torch.randn(200, 20)

    def fresh(name):
        table = on_storage(tmp_path / name, weight, tiers_of(device))
        bag = UnifiedEmbeddingBag.from_pretrained(table, freeze=False, mode="sum")
        return bag, SparseAdagrad(bag.parameters(), lr=0.1, initial_accumulator_value=0.5, placement=placement)

    bag, optimizer, resumed, its_optimizer = trained_and_resumed(fresh("x.bin"), fresh("y.bin"), batches, tmp_path)
    assert torch.equal(bag.state_dict()["weight"], resumed.state_dict()["weight"])
    assert torch.equal(*(one.state_dict()["state"][0]["sum"] for one in (optimizer, its_optimizer)))
    resumed.load_state_dict(resumed.state_dict())  # onto itself
    assert torch.equal(bag.state_dict()["weight"], resumed.state_dict()["weight"])
    other = copy.deepcopy(bag)
    assert isinstance(other.weight, UnifiedTensor) and torch.equal(other.weight.cpu(), bag.state_dict()["weight"])
    with pytest.raises(RuntimeError, match=r"size mismatch for weight: the checkpoint has \(20, 9\)"):
        bag.load_state_dict({"weight": torch.zeros(20, 9)})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 5, 34, 40, 66, 201])
def test_starts_as_torch_does_on_storage(tmp_path, monkeypatch, rows, dtype):
    """Also where all rows do not fit into memory at once."""
    monkeypatch.setattr(whole, "BOUNCE_BYTES", 700)
    bag = UnifiedEmbeddingBag.from_pretrained(on_storage(tmp_path / "x.bin", torch.zeros(rows, 5, dtype=dtype)), padding_idx=-1)
    expected = UnifiedEmbeddingBag(rows, 5, padding_idx=-1, dtype=dtype, placement="pageable")
    for module in (bag, expected):
        torch.manual_seed(5)
        module.reset_parameters()
    assert torch.equal(bag.state_dict()["weight"], expected.weight.cpu())


def test_what_cannot_be_done_with_a_table_on_storage(tmp_path, monkeypatch):
    file = on_storage(tmp_path / "x.bin", torch.randn(200, 20))
    bag = UnifiedEmbeddingBag.from_pretrained(file, freeze=False, mode="sum")
    with pytest.raises(IndexOutOfRange, match=r"index -1 at position 2 is outside a table of 200 rows; .* from 0 to 199"):
        bag(torch.tensor([[1, 199, -1]]))
    with pytest.raises(ConfigError, match="offset 7 at position 1 does not fit 3 row numbers"):
        bag(torch.tensor([1, 2, 3]), torch.tensor([0, 7]))
    assert bag(torch.empty((0, 3), dtype=torch.int64)).shape == (0, 20)
    assert bag(torch.empty((2, 0), dtype=torch.int64)).tolist() == [[0.0] * 20] * 2
    for tensor in (bag, SparseAdagrad(bag.parameters())):
        monkeypatch.setattr(limits, "host_memory", lambda held: (0, "this test"))
        monkeypatch.setattr(allocator, "ALWAYS_FITS", 0)
        with pytest.raises(OutOfMemory, match=r"StorageArray.* does not fit .*After flush\(\) its file has all rows"):
            tensor.state_dict()
        monkeypatch.undo()
    file.close()
    read_only = hl.StorageArray.open(tmp_path / "x.bin", dtype=torch.float32, shape=(200, 20))
    for rows in (read_only, read_only.tiered(host=1000)):
        UnifiedEmbeddingBag.from_pretrained(rows)(torch.tensor([[1]]))
        with pytest.raises(ConfigError, match="mode='r\\+'"):
            UnifiedEmbeddingBag.from_pretrained(rows, freeze=False)
    with pytest.raises(ConfigError, match="has a file"):
        UnifiedEmbeddingBag(4, 4, placement="storage")
    with pytest.raises(ConfigError, match="has a file"):
        SparseAdagrad(UnifiedEmbeddingBag(4, 4).parameters(), placement="storage")


def test_gradients_wait_and_go_as_torchs(device):
    model = torch.nn.Sequential(UnifiedEmbeddingBag(10, 4, mode="sum"))
    bag = model[0]
    bag.weight.cpu().zero_()
    optimizer = SparseSGD(bag.parameters(), lr=1)
    index = torch.tensor([[1]], device=device)

    def first():
        return bag.weight.cpu()[1, 0].item()

    optimizer.step()  # nothing waits
    bag(index).sum().backward()
    assert first() == 0
    optimizer.step()
    optimizer.step()  # as with torch, a gradient stays until it is dropped
    assert first() == -2
    optimizer.zero_grad()
    optimizer.step()
    assert first() == -2
    for drop in (optimizer.zero_grad, model.zero_grad, lambda: optimizer.zero_grad(set_to_none=False)):
        bag(index).sum().backward()
        bag(index).sum().backward()
        drop()
        bag(index).sum().backward()
        optimizer.step()
        assert len(bag.table.gradients) == 1
    assert first() == -5
    model.zero_grad()
    optimizer.step()
    assert first() == -5
    with torch.no_grad():
        assert not bag(index).requires_grad


def test_other_gradients_leave_the_table_alone():
    bag = UnifiedEmbeddingBag(10, 4, mode="sum")
    index, shares = torch.tensor([[1, 2]]), torch.ones(1, 2, requires_grad=True)
    bag(index, per_sample_weights=shares).sum().backward()
    torch.autograd.grad(bag(index, per_sample_weights=shares).sum(), shares)
    assert len(bag.table.gradients) == 1


def test_a_closure_is_called():
    bag = UnifiedEmbeddingBag(10, 4)
    optimizer = SparseSGD(bag.parameters(), lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = bag(torch.tensor([[1]])).sum()
        loss.backward()
        return loss

    before = bag.weight.cpu()[1].sum()
    assert optimizer.step(closure) == before
    torch.testing.assert_close(bag.weight.cpu()[1].sum(), before - 0.4)


@pytest.mark.parametrize("rowwise", [False, True])
def test_checkpoints(tmp_path, device, rowwise):
    torch.manual_seed(0)
    batches = [torch.randint(0, 20, (5, 4), device=device) for _ in range(6)]

    def fresh():
        model = torch.nn.Sequential(UnifiedEmbeddingBag(20, 8, mode="sum"))
        return model, SparseAdagrad(model.parameters(), lr=0.1, lr_decay=0.1, rowwise=rowwise)

    model, optimizer, resumed, its_optimizer = trained_and_resumed(fresh(), fresh(), batches, tmp_path)
    assert list(model.state_dict()) == ["0.weight"]
    assert torch.equal(model[0].weight.cpu(), resumed[0].weight.cpu())
    assert torch.equal(optimizer.state_dict()["state"][0]["sum"], its_optimizer.state_dict()["state"][0]["sum"])
    resumed.load_state_dict(resumed.state_dict())  # onto itself


def test_checkpoints_of_torch():
    theirs = torch.nn.EmbeddingBag(20, 8, mode="sum", sparse=True)
    bag = UnifiedEmbeddingBag(20, 8, mode="sum")
    bag.load_state_dict(theirs.state_dict())
    assert torch.equal(bag.weight.cpu(), theirs.weight)
    old, optimizer = torch.optim.Adagrad(theirs.parameters(), lr=0.5), SparseAdagrad(bag.parameters())
    theirs(torch.tensor([[1, 2]])).sum().backward()
    old.step()
    optimizer.load_state_dict(old.state_dict())
    assert optimizer.param_groups[0]["lr"] == 0.5
    assert torch.equal(optimizer.state_dict()["state"][0]["sum"], old.state_dict()["state"][0]["sum"])
    theirs.load_state_dict(bag.state_dict())


def test_checkpoints_that_do_not_fit():
    bag = UnifiedEmbeddingBag(20, 8)
    with pytest.raises(RuntimeError, match=r"size mismatch for weight: the checkpoint has \(20, 9\)"):
        bag.load_state_dict({"weight": torch.zeros(20, 9)})
    with pytest.raises(RuntimeError, match="Missing key.*weight"):
        bag.load_state_dict({})
    with pytest.raises(RuntimeError, match="Unexpected key.*bias"):
        bag.load_state_dict({"weight": torch.zeros(20, 8), "bias": torch.zeros(1)})
    bag.load_state_dict({"bias": torch.zeros(1)}, strict=False)
    optimizer = SparseAdagrad(bag.parameters(), initial_accumulator_value=3)
    rowwise = SparseAdagrad(bag.parameters(), rowwise=True)
    for other in (SparseAdagrad(UnifiedEmbeddingBag(20, 9).parameters()), SparseSGD(bag.parameters()), rowwise):
        with pytest.raises(ConfigError, match=r"a table of shape \(20, 8\) has sums of shape"):
            optimizer.load_state_dict(other.state_dict())
    assert (optimizer.state_dict()["state"][0]["sum"] == 3).all()


@pytest.mark.parametrize("at", [0, 3, 11])
@pytest.mark.parametrize("value", [-1, 10, 2**40])
@pytest.mark.parametrize("mode", MODES)
def test_rows_out_of_range(device, mode, value, at):
    bag = UnifiedEmbeddingBag(10, 4, mode=mode)
    optimizer = SparseSGD(bag.parameters(), lr=1)
    before = bag.weight.cpu().clone()
    index = torch.randint(0, 10, (3, 4))
    index.view(-1)[at] = value
    with pytest.raises(IndexOutOfRange, match=rf"index {value} at position {at} is outside a table of 10 rows; .* from 0 to 9"):
        bag(index.to(device)).sum().backward()
    optimizer.step()
    assert torch.equal(bag.weight.cpu(), before)
    index[:] = value
    with pytest.raises(IndexOutOfRange, match="12 such positions"):
        bag(index.to(device))
    index[:] = 9
    bag(index.to(device))


@pytest.mark.parametrize(
    ("offsets", "closed", "position", "value"),
    [
        ([1, 3], False, 0, 1),
        ([0, 4, 3], False, 2, 3),
        ([0, 7], False, 1, 7),
        ([0, -1], False, 1, -1),
        ([0, 3, 5], True, 2, 5),
        ([0, 3, 2**40], True, 2, 2**40),
    ],
)
def test_offsets_that_are_no_bags(device, offsets, closed, position, value):
    bag = UnifiedEmbeddingBag(10, 4, include_last_offset=closed)
    index = torch.arange(6, device=device)
    with pytest.raises(ConfigError, match=rf"offset {value} at position {position} does not fit 6 row numbers"):
        bag(index, torch.tensor(offsets, device=device))
    assert bag(index, torch.tensor([0, 2, 6], device=device)).shape == (3 - closed, 4)


def test_bad_arguments():
    bag = UnifiedEmbeddingBag(10, 4, mode="sum")
    index, offsets = torch.arange(6), torch.tensor([0, 2])
    for call, message in [
        (lambda: bag(index), "1-D input needs offsets"),
        (lambda: bag(index.view(2, 3), offsets), "offsets are for 1-D input"),
        (lambda: bag(index.view(1, 2, 3)), r"input is \[B, N\], or \[n\] with offsets, not of shape \(1, 2, 3\)"),
        (lambda: bag(index.float(), offsets), "row numbers are int32 or int64, not torch.float32"),
        (lambda: bag([1, 2], offsets), "input must be a torch tensor, not list"),
        (lambda: bag(index.to("meta"), offsets), "input is on the meta device"),
        (lambda: bag(index, [0, 2]), "offsets must be a torch tensor"),
        (lambda: bag(index, offsets.view(1, 2)), r"offsets are 1-D and on cpu"),
        (lambda: bag(index, offsets.to("meta")), "offsets is on the meta device"),
        (lambda: bag(index, offsets[:0]), "6 row numbers, but no bag"),
        (lambda: bag(index, offsets, torch.ones(5)), r"of the input's shape \(6,\)"),
        (lambda: bag(index, offsets, torch.ones(6).double()), "of type torch.float32, not torch.float64"),
        (lambda: bag(index, offsets, 1.0), "of type torch.float32, not float"),
        (lambda: UnifiedEmbeddingBag(10, 4)(index, offsets, torch.ones(6)), "for mode='sum', not 'mean'"),
        (lambda: UnifiedEmbeddingBag(10, 4, include_last_offset=True)(index, offsets[:0]), "at least one entry"),
        (lambda: UnifiedEmbeddingBag(0, 4), "at least one row of one element, not 0 of 4"),
        (lambda: UnifiedEmbeddingBag(4, 0), "not 4 of 0"),
        (lambda: UnifiedEmbeddingBag(4, 4, mode="min"), "mode 'min' is not one of sum, mean, max"),
        (lambda: UnifiedEmbeddingBag(4, 4, padding_idx=4), "padding_idx=4 is no row of 4"),
        (lambda: UnifiedEmbeddingBag(4, 4, dtype=torch.float64), "of type torch.float32, .* not torch.float64"),
        (lambda: UnifiedEmbeddingBag(4, 4, placement="gpu"), "placement 'gpu'"),
        (lambda: UnifiedEmbeddingBag(4, 4, check="never"), "check='never'"),
        (lambda: UnifiedEmbeddingBag.from_pretrained(torch.zeros(4)), r"shape \[rows, dim\], not \(4,\)"),
        (lambda: UnifiedEmbeddingBag.from_pretrained([[1.0]]), "not list"),
        (lambda: UnifiedEmbeddingBag.from_pretrained(torch.zeros(4, 4).int()), "not torch.int32"),
        (lambda: SparseSGD(bag.parameters(), lr=-1), "lr=-1 is below 0"),
        (lambda: SparseAdagrad(bag.parameters(), eps=float("nan")), "eps=nan"),
        (lambda: SparseSGD(torch.nn.Linear(2, 3).parameters()), r"SparseSGD is for tables, .* shape \(3, 2\)"),
    ]:
        with pytest.raises(ConfigError, match=message):
            call()
    optimizer = SparseSGD(bag.parameters())
    with pytest.raises(ConfigError, match="for tables"):
        optimizer.add_param_group({"params": torch.nn.Linear(2, 3).parameters()})
    assert len(optimizer.param_groups) == 1


def test_too_large_is_said_before_anything_is_allocated(monkeypatch):
    monkeypatch.setenv("HINTERLAND_HOST_MEMORY", "1GiB")
    gc.collect()
    held = memory.report().nbytes
    with pytest.raises(OutOfMemory, match="asked for"):
        UnifiedEmbeddingBag(1 << 40, 128)
    bag = UnifiedEmbeddingBag(1 << 10, 128)
    monkeypatch.setenv("HINTERLAND_HOST_MEMORY", f"{held + (1 << 19) + 1000}")
    with pytest.raises(OutOfMemory):
        SparseAdagrad(bag.parameters())
    monkeypatch.undo()
    del bag
    gc.collect()
    assert memory.report().nbytes == held


def test_nothing_is_kept_of_a_graph():
    bag = UnifiedEmbeddingBag(10, 4, mode="max")
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(200):
            bag(torch.tensor([[1, 2]])).sum().backward()
            bag.zero_grad()
        assert len(gc.get_objects()) < before + 150
    finally:
        gc.enable()


def test_a_second_derivative_is_refused():
    bag = UnifiedEmbeddingBag(10, 4, mode="sum")
    shares = torch.ones(1, 2, requires_grad=True)
    loss = (bag(torch.tensor([[1, 2]]), per_sample_weights=shares) ** 2).sum()
    (slope,) = torch.autograd.grad(loss, shares, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        slope.sum().backward()


def test_input_that_changes_before_backward_is_noticed():
    bag = UnifiedEmbeddingBag(10, 4, mode="sum")
    index = torch.tensor([[1, 2]])
    loss = bag(index).sum()
    index.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_input_that_changes_after_backward_does_not_matter(device):
    bag = UnifiedEmbeddingBag(10, 4, mode="sum")
    optimizer = SparseSGD(bag.parameters(), lr=1)
    before = bag.weight.cpu().clone()
    index, slope, shares = (
        torch.tensor([[1, 2]], device=device),
        torch.ones(1, 4, device=device),
        torch.ones(1, 2, device=device),
    )
    bag(index, per_sample_weights=shares).backward(slope)
    for tensor in (index, slope, shares):
        tensor.zero_()
    optimizer.step()
    assert (before - bag.weight.cpu()).sum(dim=1).round().tolist() == [0, 4, 4, *[0] * 7]


def test_a_scaler_is_refused():
    bag = UnifiedEmbeddingBag(10, 4)
    optimizer = SparseSGD(bag.parameters())
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(bag(torch.tensor([[1]])).sum()).backward()
    with pytest.raises(ConfigError, match="GradScaler"):
        scaler.step(optimizer)
    disabled = torch.amp.GradScaler("cpu", enabled=False)
    disabled.step(SparseSGD(bag.parameters()))


def test_copies():
    model = torch.nn.Sequential(UnifiedEmbeddingBag(10, 4, padding_idx=1))
    model.requires_grad_(False)
    other = copy.deepcopy(model)
    assert torch.equal(other[0].weight.cpu(), model[0].weight.cpu())
    assert not other[0].table.requires_grad
    other[0].weight.cpu().zero_()
    assert model[0].weight.cpu().any()
    assert other[0](torch.tensor([[2]])).tolist() == [[0.0] * 4]
    again = pickle.loads(pickle.dumps(model))
    assert torch.equal(again[0].weight.cpu(), model[0].weight.cpu()) and not again[0].table.requires_grad
    assert again[0].weight.placement == model[0].weight.placement and again[0].padding_idx == 1


def test_options_of_each_table():
    bags = [UnifiedEmbeddingBag.from_pretrained(torch.zeros(3, 2), freeze=False, mode="sum") for _ in range(2)]
    optimizer = SparseSGD([{"params": bags[0].parameters(), "lr": 2.0}, {"params": bags[1].parameters()}], lr=1.0)
    sum(bag(torch.tensor([[1]])).sum() for bag in bags).backward()
    optimizer.step()
    assert [bag.weight.cpu()[1, 0].item() for bag in bags] == [-2, -1]


@pytest.mark.parametrize("rate", [1e39, float("inf"), float("nan")])
def test_a_rate_that_float32_does_not_hold_changes_no_row(rate):
    bag = UnifiedEmbeddingBag.from_pretrained(torch.ones(10, 4), freeze=False, mode="sum")
    optimizer = SparseSGD(bag.parameters(), lr=1.0)
    bag(torch.tensor([[1, 2]])).sum().backward()
    optimizer.param_groups[0]["lr"] = rate
    with pytest.raises(ConfigError, match="the rate of a step is"):
        optimizer.step()
    assert torch.equal(bag.weight.cpu(), torch.ones(10, 4))


def test_in_a_compiled_function():
    bag = UnifiedEmbeddingBag.from_pretrained(torch.zeros(10, 4), freeze=False, mode="sum")
    optimizer = SparseSGD(bag.parameters(), lr=1)
    compiled = torch.compile(lambda index: (bag(index) * 2).sum(), backend="eager")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        compiled(torch.tensor([[1, 1, 3]])).backward()
    assert not [w for w in warned if "does not know how to trace" in str(w.message)]
    optimizer.step()
    assert bag.weight.cpu()[:, 0].tolist() == [0, -4, 0, -2, *[0] * 6]


def test_learns():
    """Whether two rows are of one kind: a table and a dense layer, each with its optimizer."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(hl.UnifiedEmbeddingBag(50, 8, mode="sum"), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    tables = [p for p in model.parameters() if isinstance(p, hl.training.TableParameter)]
    rest = [p for p in model.parameters() if not isinstance(p, hl.training.TableParameter)]
    optimizers = SparseAdagrad(tables, lr=0.3), torch.optim.Adagrad(rest, lr=0.1)
    kind = torch.randint(0, 2, (50,)) * 2.0 - 1
    losses = []
    for _ in range(150):
        index = torch.randint(0, 50, (128, 2))
        loss = torch.nn.functional.soft_margin_loss(model(index).squeeze(1), kind[index].prod(dim=1))
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]


@pytest.mark.gpu
def test_deferred_check():
    bag = UnifiedEmbeddingBag(10, 4, mode="sum", check="async")
    optimizer = SparseSGD(bag.parameters(), lr=1)
    before = bag.weight.cpu().clone()
    for index, offsets, error in (([1, 10, 2], [0, 1], IndexOutOfRange), ([1, 2, 3], [0, 9], ConfigError)):
        bags = bag(torch.tensor(index, device="cuda"), torch.tensor(offsets, device="cuda"))
        assert bags.shape == (2, 4)
        bags.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        with pytest.raises(error, match="position 1"):
            memory.synchronize()
        assert torch.equal(bag.weight.cpu(), before)
    memory.synchronize()
    bag(torch.tensor([[1]], device="cuda")).sum().backward()
    optimizer.step()
    assert bag.weight.cpu()[1].sum() != before[1].sum()


@pytest.mark.gpu
@pytest.mark.parametrize("placement", ["managed", "pinned"])
def test_bags_take_no_memory_but_their_own(placement):
    bag = UnifiedEmbeddingBag(1 << 18, 128, mode="sum", placement=placement)
    index = torch.randint(0, 1 << 18, (1 << 10, 64), device="cuda")
    bag(index)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    with torch.no_grad():
        found = bag(index)
    assert torch.cuda.max_memory_allocated() - before <= found.nbytes + (1 << 20)
    want = torch.nn.functional.embedding_bag(index.cpu(), bag.weight.cpu(), mode="sum")
    torch.testing.assert_close(found.cpu(), want, rtol=1e-5, atol=1e-4)


@pytest.mark.gpu
def test_pageable_is_not_visible():
    with pytest.raises(ConfigError, match="pageable"):
        UnifiedEmbeddingBag(4, 4, placement="pageable")(torch.tensor([[1]], device="cuda"))


@pytest.mark.gpu
def test_other_streams_see_the_last_step():
    bag = UnifiedEmbeddingBag.from_pretrained(torch.zeros(1 << 16, 256), freeze=False, mode="sum")
    optimizer = SparseSGD(bag.parameters(), lr=1)
    index = torch.arange(1 << 16, device="cuda")[:, None]
    bag(index).sum().backward()
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    optimizer.step()
    with torch.cuda.stream(side):
        assert (bag(index) == -1).all()
    optimizer.step()
    assert (bag(index.cpu()) == -2).all()
    optimizer.step()
    assert (bag.state_dict()["weight"] == -3).all()


@pytest.mark.gpu
def test_gradients_of_two_processors_are_one():
    bag = UnifiedEmbeddingBag.from_pretrained(torch.zeros(10, 4), freeze=False, mode="sum")
    optimizer = SparseAdagrad(bag.parameters(), lr=1)
    for device in ("cuda", "cpu"):
        bag(torch.tensor([[1]], device=device)).sum().backward()
    optimizer.step()
    assert optimizer.state_dict()["state"][0]["sum"][1].tolist() == [4.0] * 4


# Torch's own optimizers


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.SparseAdam, torch.optim.Adagrad])
def test_an_optimizer_that_never_changes_a_table_is_refused(optimizer):
    bag = UnifiedEmbeddingBag(10, 4)
    before = bag.weight.cpu().clone()
    other = optimizer(bag.parameters(), lr=0.1)
    bag(torch.tensor([[1, 2]])).sum().backward()
    name = optimizer.__name__
    with pytest.raises(
        ConfigError, match=rf"{name} was given a table of shape \(10, 4\).*SparseSGD or SparseAdagrad.*{name} the"
    ):
        other.step()
    assert torch.equal(bag.weight.cpu(), before)
    SparseSGD(bag.parameters(), lr=0.1).step()
    assert not torch.equal(bag.weight.cpu(), before)
    bag.zero_grad()  # of a dense tensor without elements, which SparseAdam refuses
    other.step()  # it may stand in both


def test_an_optimizer_of_parameters_and_of_a_table_that_does_not_learn():
    model = torch.nn.Sequential(UnifiedEmbeddingBag(10, 4), torch.nn.Linear(4, 1))
    model[0].requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.tensor([[1, 2]])).sum().backward()
    optimizer.step()
    model[0].requires_grad_(True)
    with pytest.raises(ConfigError, match="Adam was given a table"):
        optimizer.step()


def test_the_sparse_option_of_torch_is_taken():
    assert UnifiedEmbeddingBag(10, 4, mode="sum", sparse=True).mode == "sum"
    for make in (
        UnifiedEmbeddingBag,
        lambda *shape, sparse: UnifiedEmbeddingBag.from_pretrained(torch.zeros(shape), sparse=sparse),
    ):
        with pytest.raises(ConfigError, match="sparse=False: gradients of tables are of the rows in bags alone"):
            make(10, 4, sparse=False)


@pytest.mark.parametrize(
    ("optimizer", "options"), [("SparseAdam", {}), ("SGD", {}), ("Adagrad", {}), ("SGD", {"momentum": 0.9})]
)
@pytest.mark.parametrize("operator", [True, False])
def test_torchs_optimizers_train_a_table_by_sparse_gradients(device, optimizer, options, operator):
    """Over the same bytes, as they train torch.nn.Embedding(sparse=True)."""
    torch.manual_seed(3)
    weight = torch.randn(40, 5)
    table = UnifiedTensor.from_tensor(weight)
    leaf = table.to(device).requires_grad_()
    theirs = torch.nn.Embedding.from_pretrained(weight.clone(), freeze=False, sparse=True).to(device)
    make = getattr(torch.optim, optimizer)
    ours, expected = make([leaf], lr=0.1, **options), make(theirs.parameters(), lr=0.1, **options)
    for _ in range(3):
        index = torch.randint(0, 40, (6, 2), device=device)
        rows = (
            torch.ops.hinterland.gather(leaf, index, sparse=True)
            if operator
            else torch.nn.functional.embedding(index, table, sparse=True)
        )
        for step, taken in ((ours, rows), (expected, theirs(index))):
            step.zero_grad()
            (taken**2).sum().backward()
        assert leaf.grad.is_sparse and leaf.grad._nnz() <= 12
        ours.step()
        expected.step()
    torch.testing.assert_close(table.cpu().detach(), theirs.weight.detach().cpu())
    assert not torch.equal(table.cpu().detach(), weight)


def test_sparse_gradients_of_tiers(device):
    host = UnifiedTensor.from_tensor(torch.randn(20, 4))
    table = host.tiered(32, devices=["cpu" if device.type == "cpu" else device])
    leaf = host.to(device).requires_grad_()
    index = torch.tensor([1, -1, 1], device=device)
    torch.ops.hinterland.tiered_gather(leaf, index, table._number, sparse=True).sum().backward()
    assert leaf.grad.is_sparse and leaf.grad.to_dense()[:, 0].tolist() == [0, 2, *[0] * 17, 1]
    if device.type == "cpu":
        with pytest.raises(TypeError, match="embedding takes tensors"):
            torch.nn.functional.embedding(index.abs(), table, sparse=True)
