"""Host memory of two mappings for tests: as the allocator makes it, the boundary in the middle of a small tensor.

Without a GPU, private pages take the part of managed memory: the addresses are laid out in the same way, and no driver is
asked.
"""

from contextlib import ExitStack
from unittest import mock

from hinterland import UnifiedTensor, _core
from hinterland.memory import allocator
from hinterland.memory.allocator import Buffer
from hinterland.memory.mapping import GRAIN, Limit, MappingPlan
from hinterland.runtime import devices


def across_boundary(tensor):
    """A copy of ``tensor`` whose first half is mapped and whose second half is registered."""
    tensor = tensor.contiguous()
    front = tensor.numel() // 2 * tensor.itemsize
    whole = split(GRAIN + max(tensor.nbytes - front, 1))
    held = ExitStack()
    held.callback(lambda kept: None, whole)
    part = Buffer(whole.address + GRAIN - front, tensor.nbytes, "split", held, mapped=front)
    made = UnifiedTensor(part, tensor.dtype, tensor.shape)
    made.cpu().copy_(tensor)
    return made


def split(nbytes):
    """A buffer of ``nbytes`` bytes, the first GRAIN of them mapped."""
    plan = MappingPlan(nbytes, GRAIN, Limit(GRAIN, "a test"), 0)
    if devices.cuda_available():
        made = allocator._split(nbytes, plan)
    else:
        with (
            mock.patch.multiple(allocator, _managed=_private),
            mock.patch.multiple(allocator.cuda, keep_on_host=mock.DEFAULT, register=mock.DEFAULT, unregister=mock.DEFAULT),
        ):
            made = allocator._split(nbytes, plan)
    assert made is not None, "the two mappings found no place beside each other"
    return made


def _private(nbytes, undo):
    address = _core.map_pages(-1, nbytes)
    undo.callback(_core.unmap_pages, address, nbytes)
    return address
