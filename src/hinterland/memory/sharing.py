"""Tables that go to other processes of this machine as the same memory.

A copy, a pickle and a checkpoint of a table are of its rows, as of any tensor. Multiprocessing is another matter: what it
sends, processes share, as they do tensors. Processes that it has not started are sent what :func:`pickle_shared` makes.
"""

from __future__ import annotations

import copyreg
import io
import pickle
from multiprocessing import reduction
from typing import Any

from .tiered import TieredTensor, attach
from .unified import UnifiedTensor


def pickle_shared(what: Any) -> bytes:
    """``what``, pickled: ``pickle.loads`` gives another process of this machine the same memory for the registered tables in
    it, as long as this process holds them.

    Raises:
        ConfigError: a table whose memory belongs to one process.
    """
    packed = io.BytesIO()
    pickler = pickle.Pickler(packed)
    pickler.dispatch_table = copyreg.dispatch_table | _SHARED
    pickler.dump(what)
    return packed.getvalue()


def _unified(table: UnifiedTensor) -> tuple[Any, ...]:
    return UnifiedTensor, (table._buffer, table.dtype, tuple(table.shape))


def _tiered(table: TieredTensor) -> tuple[Any, ...]:
    tiers = table._tiers
    tiers.require_open()
    return attach, (tiers.host, tiers.plan, [(home.device, home.memory) for home in tiers.homes], tiers.state.buffer)


_SHARED: dict[type, Any] = {UnifiedTensor: _unified, TieredTensor: _tiered}
for _kind, _reduce in _SHARED.items():
    reduction.register(_kind, _reduce)
