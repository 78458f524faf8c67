"""Pages of neighbour lists that several GPUs of a process keep together (Min 2022, section 4.4.5, deals structure out).

The hottest pages are in each GPU's memory; of the next each is in one GPU's, in turn. GPUs of a process have one address space,
and a page table counts pages from an address on. So an entry may name a page in a peer's memory, and kernels read it as any
other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ..memory.peers import GpuBlock
from ..runtime.warned import warn
from .device_graph import DealtPages, DeviceGraph, Kept

_MOST = 1 << 31  # entries of a page table are int32


def deal_pages(views: Sequence[DeviceGraph], kept: Kept, page_scores: torch.Tensor) -> list[DealtPages]:
    """Copies the hottest ``kept.pages`` to each device, and deals the next ``kept.dealt`` over all; what each device reads by.

    Args:
        views: the same lists as each device reads them, with a single array of which pages are kept.
        page_scores: as of :meth:`.DeviceGraph.keep`.
    """
    (nbytes,) = views[0].page_sizes(kept.weighted)
    hottest = torch.topk(page_scores.cpu(), kept.pages + kept.dealt).indices
    copied, dealt = hottest[: kept.pages].sort().values, hottest[kept.pages :]
    shares = [dealt[i :: len(views)].sort().values for i in range(len(views))]
    held = kept.pages + math.ceil(kept.dealt / len(views))
    # A page more: pages begin at a multiple of their size, from which all devices count.
    blocks = [GpuBlock((held + 1) * nbytes, view.device) for view in views]
    begins = [-(-block.address(block.device) // nbytes) for block in blocks]
    parts = []
    for view, block, begin, share in zip(views, blocks, begins, shares, strict=True):
        mine = torch.cat([copied, share]).to(view.device)
        part = block.part(begin * nbytes - block.address(view.device), held * nbytes).view(view.edges.dtype)
        pages = view.edges[: view.num_pages * view.page].view(view.num_pages, view.page)
        torch.index_select(pages, 0, mine, out=part.view(held, view.page)[: len(mine)])
        parts.append(part)
    lowest = min(begins)
    found = []
    for view, own in zip(views, begins, strict=True):
        slots = torch.full((view.num_pages + 1,), -1, dtype=torch.int32)
        slots[copied] = torch.arange(own - lowest, own - lowest + kept.pages).int()
        for block, begin, share in zip(blocks, begins, shares, strict=True):
            block.address(view.device)  # opens it to this device
            if begin - lowest + held < _MOST:
                slots[share] = torch.arange(begin - lowest + kept.pages, begin - lowest + kept.pages + len(share)).int()
            else:
                warn(f"{view.device} reads pages of lists from the host: {block.device} has them at too far an address")
        found.append(DealtPages(slots.to(view.device), parts[begins.index(lowest)], blocks))
    return found
