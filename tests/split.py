"""Host memory of two mappings for tests: as the allocator makes it, the boundary in the middle of a small tensor.

Without a GPU, private pages take the part of managed memory: the addresses are laid out in the same way, and no driver is
asked.
"""

from contextlib import ExitStack
from unittest import mock

from hinterland import UnifiedTensor, _core
from hinterland.memory import allocator
from hinterland.memory.allocator import Buffer
from hinterland.memory.mapping import GRAIN, Limit, MappingPlan, managed_limit
from hinterland.runtime import devices

_REST = 16 << 20  # bytes behind the boundary, for the second halves of what tests make
_BALLAST = 64  # times GRAIN bytes of managed memory at most
_free = []  # buffers that no tensor lies in; kept, since the driver does not place every small one as it is wanted


def across_boundary(tensor):
    """A copy of ``tensor`` from the beginning of a cache line on, its first half managed and its second half pinned;
    all of it is, where it fits in one line."""
    tensor = tensor.contiguous()
    front = -(-tensor.nbytes // 2) // _core.LINE_BYTES * _core.LINE_BYTES
    assert front <= GRAIN and tensor.nbytes - front <= _REST
    whole = _free.pop() if _free else split(GRAIN + _REST)
    held = ExitStack()
    held.callback(_free.append, whole)
    part = Buffer(whole.address + GRAIN - front, tensor.nbytes, "split", held, managed=front)
    made = UnifiedTensor(part, tensor.dtype, tensor.shape)
    made.cpu().copy_(tensor)
    return made


def split(nbytes):
    """A buffer of ``nbytes`` bytes, the first GRAIN of them mapped."""
    limit = managed_limit() if devices.cuda_available() else Limit(GRAIN, "a test")
    plan = MappingPlan(nbytes, GRAIN, limit, 0)
    if devices.cuda_available():
        with ExitStack() as ballast:  # fills what the driver has in stock for small allocations
            made = allocator._split(nbytes, plan)
            for _ in range(_BALLAST):
                if made is not None:
                    break
                allocator.take_managed(GRAIN, ballast)
                made = allocator._split(nbytes, plan)
    else:
        with (
            mock.patch.multiple(allocator, take_managed=_private),
            mock.patch.multiple(allocator.cuda, keep_on_host=mock.DEFAULT, register=mock.DEFAULT, unregister=mock.DEFAULT),
        ):
            made = allocator._split(nbytes, plan)
    assert made is not None, "the two mappings found no place beside each other"
    allocator._held.discard(made)  # no test counts it
    return made


def _private(nbytes, undo, limit):
    address = _core.map_pages(-1, nbytes)
    undo.callback(_core.unmap_pages, address, nbytes)
    return address
