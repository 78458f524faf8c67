"""torch.ops.hinterland.gather and tiered_gather: the operators' contract, gradients, and torch.compile."""

import pytest
import torch

from hinterland import UnifiedTensor
from hinterland.runtime import devices
from hinterland.runtime.errors import ConfigError, IndexOutOfRange

gather = torch.ops.hinterland.gather
tiered_gather = torch.ops.hinterland.tiered_gather
# On a CPU it compiles C++ for seconds: there test_compiles_whole alone has it for every change.
INDUCTOR = pytest.param("inductor", marks=pytest.mark.slow if devices.cuda_available() else pytest.mark.nightly)


def tiered(source, device):
    """The rows of ``source`` in every tier: the last ones in all homes, others dealt out, the first ones on the host."""
    homes = ["cpu", "cpu"] if device.type == "cpu" else [str(device)]
    table = UnifiedTensor.from_tensor(source).tiered(1536, 1024, scores=torch.arange(len(source)), devices=homes)
    assert table.plan.slot_bytes and 0 < table.plan.local_rows < len(source) - 1
    assert (table.plan.peer_rows > 0) == (device.type == "cpu") and table.plan.resident < len(source)
    return table


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("index_shape", [(5,), (2, 3), (0,)])
def test_opcheck(device, dtype, index_shape):
    table = torch.randn(20, 4, dtype=dtype, device=device)
    index = torch.randint(0, 20, index_shape, device=device)
    torch.library.opcheck(gather.default, (table, index))
    torch.library.opcheck(gather.default, (table.clone().requires_grad_(), index, 2))


def test_gradient_is_torchs(device):
    table = torch.randn(20, 4, 3, dtype=torch.float64, device=device)
    index = torch.tensor([[3, -1, 3], [0, 19, -20]], device=device)
    ours, theirs = table.clone().requires_grad_(), table.clone().requires_grad_()
    weight = torch.randn(2, 3, 4, 3, dtype=torch.float64, device=device)
    (gather(ours, index) * weight).sum().backward()
    (theirs[index] * weight).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_gradcheck():
    table = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: gather(t, torch.tensor([[0, 5], [-1, 0]])), (table,))


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compiles_whole(device, backend):
    torch._dynamo.reset()
    source = torch.randn(50, 8)
    table = UnifiedTensor.from_tensor(source)
    index = torch.randint(0, 50, (7, 2), device=device)
    expected = source[index.cpu()] * 2 + 1

    @torch.compile(fullgraph=True, backend=backend)
    def by_operator(t, i):
        return gather(t, i, -1) * 2 + 1

    @torch.compile(fullgraph=True, backend=backend)
    def closed_over(i):
        return table[i] * 2 + 1

    view = table.cpu() if device.type == "cpu" else table.cuda(device)
    torch.testing.assert_close(by_operator(view, index).cpu(), expected)
    torch.testing.assert_close(closed_over(index).cpu(), expected)
    torch.testing.assert_close(closed_over(index[:3]).cpu(), expected[:3])
    torch._dynamo.reset()


def test_errors(device):
    table = torch.randn(5, 3, device=device)
    with pytest.raises(IndexOutOfRange, match="index 9 at position 1"):
        gather(table, torch.tensor([0, 9], device=device))
    with pytest.raises(ConfigError, match="contiguous"):
        gather(table.t(), torch.tensor([0], device=device))
    with pytest.raises(ConfigError, match="int32 or int64"):
        gather(table, torch.tensor([0.5], device=device))


def test_tables_at_any_address(device):
    """Views that begin off a line, or off 16 bytes."""
    base = torch.randint(0, 256, (9000,), dtype=torch.uint8, device=device)
    for start in (0, 1, 2, 4, 8, 16, 33, 100):
        for row in (16, 48, 130, 257, 512):
            table = base[start : start + 12 * row].view(12, row)
            index = torch.randint(0, 12, (50,), device=device)
            assert torch.equal(gather(table, index), table[index])


def test_a_table_that_learns():
    table = UnifiedTensor.from_tensor(torch.randn(5, 3))
    table.cpu().requires_grad_()
    table[torch.tensor([1, 1, 2])].sum().backward()
    assert table.cpu().grad[:, 0].tolist() == [0, 2, 1, 0, 0]


# Tiers


@pytest.mark.parametrize("index_shape", [(5,), (2, 3), (0,)])
def test_opcheck_of_tiers(device, index_shape):
    table = tiered(torch.randn(20, 64), device)
    beside = table.host.cpu() if device.type == "cpu" else table.host.cuda(device)
    index = torch.randint(0, 20, index_shape, device=device)
    torch.library.opcheck(tiered_gather.default, (beside, index, table._number))
    torch.library.opcheck(tiered_gather.default, (beside.detach().requires_grad_(), index, table._number, 2))


def test_gradcheck_of_tiers():
    """The operator reads the tiers, and not its argument: both must change for a numerical gradient."""
    source = torch.randn(6, 64, dtype=torch.float64)
    index = torch.tensor([[0, 4], [-1, 0]])

    def rows(t):
        with tiered(t.detach(), index.device) as table:
            return tiered_gather(t, index, table._number)

    assert torch.autograd.gradcheck(rows, (source.requires_grad_(),))


@pytest.mark.parametrize("backend", ["aot_eager", INDUCTOR])
def test_tiers_compile_whole(device, backend):
    torch._dynamo.reset()
    source = torch.randn(50, 64)
    table = tiered(source, device)
    index = torch.randint(0, 50, (7, 2), device=device)

    @torch.compile(fullgraph=True, backend=backend)
    def closed_over(i):
        return table[i] * 2 + 1

    torch.testing.assert_close(closed_over(index).cpu(), source[index.cpu()] * 2 + 1)
    torch.testing.assert_close(closed_over(index[:3]).cpu(), source[index[:3].cpu()] * 2 + 1)
    table.scatter_(index[:1], torch.zeros(1, 2, 64, device=device))  # the compiled function reads what was written
    assert (closed_over(index[:1]) == 1).all()
    table = tiered(-source, device)  # another one is no reason to fail
    torch.testing.assert_close(closed_over(index).cpu(), source[index.cpu()] * -2 + 1)
    torch._dynamo.reset()


def test_tiers_that_learn():
    table = tiered(torch.randn(10, 64), torch.device("cpu"))
    table.host.cpu().requires_grad_()
    table[torch.tensor([1, 1, 9])].sum().backward()
    assert table.host.cpu().grad[:, 0].tolist() == [0, 2, *[0] * 7, 1]


def test_errors_of_tiers(device):
    table = tiered(torch.randn(50, 64), device)
    index = torch.tensor([0, 90], device=device)
    beside = table.host.cpu() if device.type == "cpu" else table.host.cuda(device)
    with pytest.raises(IndexOutOfRange, match="index 90 at position 1"):
        tiered_gather(beside, index, table._number)
    with pytest.raises(ConfigError, match=r"are none over a table of shape \(50, 2\); keep the TieredTensor"):
        tiered_gather(beside[:, :2], index, table._number)
    number = table._number
    table.close()
    with pytest.raises(ConfigError, match="has been closed"):
        tiered_gather(beside, index, number)
    del table
    with pytest.raises(ConfigError, match="keep the TieredTensor"):
        tiered_gather(beside, index, number)
