"""Torch files that hold more than tensors, read without running their code.

OGB stores NumPy arrays and PyG's ``Data``. torch's safe reader makes only what it is told of: NumPy's arrays and numbers,
under the names of both its generations, and stand-ins for PyG's classes, which take any content and do nothing.
"""

from __future__ import annotations

import _codecs
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from ..graph.formats.arrays import damaged
from ..graph.formats.files import require_memory, size_of
from ..runtime.errors import FormatError
from ..runtime.files import refusal, why_unsafe


class _StandIn:
    """Stands for an object of PyG: its attributes, as they were stored."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


class _Data(_StandIn):
    """``torch_geometric.data.Data``."""


class _Storage(_StandIn):
    """``torch_geometric.data.storage.GlobalStorage``, in which a ``Data`` keeps its tensors since PyG 2.0."""


_STAND_INS: list[Any] = [
    (_Data, "torch_geometric.data.data.Data"),
    (_Storage, "torch_geometric.data.storage.GlobalStorage"),
    *((_StandIn, f"torch_geometric.data.data.{name}") for name in ("DataEdgeAttr", "DataTensorAttr")),  # classes that it names
]
# What NumPy's pickles call, by the names of NumPy 1 and 2.
_REBUILD, _SCALAR = np.zeros(1).__reduce__()[0], np.float64(0).__reduce__()[0]  # type: ignore[index]
_NUMPY: list[Any] = [
    np.ndarray,
    np.dtype,
    *{type(np.dtype(kind)) for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "?")},
    _codecs.encode,
    *((_REBUILD, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")),
    *((_SCALAR, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")),
]


def load(path: str) -> Any:
    """What a torch file holds: dicts, lists, numbers, tensors (mapped from the file where it allows that), NumPy arrays.

    Raises:
        StorageError: it is missing or cannot be read.
        FormatError: it is damaged, or holds objects of other kinds.
        OutOfMemory: what is not mapped does not fit.
    """
    require_memory(path, "what is stored besides tensors", _unmapped(path))
    try:
        with _only(_STAND_INS + _NUMPY):
            try:
                return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
            except RuntimeError as error:
                if "mmap can only be used" not in str(error):
                    raise
                return torch.load(path, map_location="cpu", weights_only=True)  # of a time before torch 1.6
    except (MemoryError, KeyboardInterrupt):
        raise
    except Exception as error:  # unpickling raises whatever a damaged byte leads to
        raise refusal(path, error) or FormatError(
            f"{path}: no torch file that can be read safely: {why_unsafe(error)}; fetch the file again"
        ) from error


def _unmapped(path: str) -> int:
    """Bytes of a torch file that are read rather than mapped: what is pickled, and all of a file from before torch 1.6."""
    size = size_of(path)
    if not zipfile.is_zipfile(path):
        return size
    with damaged(path, "the archive"), zipfile.ZipFile(path) as archive:
        records = archive.infolist()
    packed = [record.filename for record in records if record.compress_type != zipfile.ZIP_STORED]
    if packed:
        raise FormatError(f"{path}: {packed[0]} is compressed, which torch does not do; save it again by torch.save")
    return sum(record.file_size for record in records if record.filename.endswith("data.pkl"))


@contextmanager
def _only(allowed: list[Any]) -> Iterator[None]:
    """What torch's safe reader may make: not what others allowed, as PyG does with the classes that stand-ins are for."""
    before = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    try:
        with torch.serialization.safe_globals(allowed):
            yield
    finally:
        torch.serialization.add_safe_globals(before)


def load_dict(path: str) -> dict[Any, Any]:
    """The dict that a torch file holds."""
    content = load(path)
    if not isinstance(content, dict):
        raise FormatError(f"{path}: holds a {type(content).__name__} where a dict is expected; fetch the file again")
    return content


def load_data(path: str) -> dict[str, torch.Tensor | int]:
    """The attributes of the one graph in a file that PyG's ``InMemoryDataset`` wrote: ``(data, slices)``."""
    content = load(path)
    data = content[0] if isinstance(content, tuple | list) and len(content) >= 2 else content
    if isinstance(data, _Data):
        data = data.__dict__
        store = data.get("_store")
        if isinstance(store, _Storage):
            data = store.__dict__.get("_mapping")
    if not isinstance(data, dict):
        raise FormatError(f"{path}: holds no graph of PyG, as (data, slices); fetch the file again")
    return {str(name): value for name, value in data.items() if value is not None}
