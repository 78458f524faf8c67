"""cuSPARSE's generic API, called through ctypes in the library that torch itself has loaded.

Names and numbers are those of cusparse.h and library_types.h.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from hinterland.runtime.errors import DeviceError

SONAME = "libcusparse.so.12"  # of CUDA 12 and of CUDA 13
DEFAULT, ALG2, ALG3 = 0, 6, 12  # CUSPARSE_SPMM_ALG_DEFAULT, CUSPARSE_SPMM_CSR_ALG2 and 3
VALUE_TYPES = {torch.float32: 0, torch.float64: 1, torch.float16: 2, torch.bfloat16: 14}  # CUDA_R_32F, _64F, _16F, _16BF
INDEX_TYPES = {torch.int32: 2, torch.int64: 3}  # CUSPARSE_INDEX_32I, CUSPARSE_INDEX_64I
AS_IT_IS, BASE_ZERO, ROW_MAJOR = 0, 0, 2  # CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_INDEX_BASE_ZERO, CUSPARSE_ORDER_ROW

_enum, _long, _pointer = ctypes.c_int, ctypes.c_int64, ctypes.c_void_p
_PRODUCT = (_pointer, _enum, _enum, *[_pointer] * 5, _enum, _enum, _pointer)
_SIGNATURES = {
    "cusparseCreate": (_pointer,),
    "cusparseDestroy": (_pointer,),
    "cusparseSetStream": (_pointer, _pointer),
    "cusparseCreateCsr": (_pointer, *[_long] * 3, *[_pointer] * 3, *[_enum] * 4),
    "cusparseDestroySpMat": (_pointer,),
    "cusparseCreateDnMat": (_pointer, *[_long] * 3, _pointer, _enum, _enum),
    "cusparseDestroyDnMat": (_pointer,),
    "cusparseDnMatSetValues": (_pointer, _pointer),
    "cusparseSpMM_bufferSize": _PRODUCT,
    "cusparseSpMM_preprocess": _PRODUCT,
    "cusparseSpMM": _PRODUCT,
}


def available() -> bool:
    """Whether torch sees a GPU and cuSPARSE is found."""
    return torch.cuda.is_available() and library() is not None


def call(name: str, *arguments: Any) -> None:
    """Calls a function of cuSPARSE; DeviceError with its own words if it refuses."""
    loaded = library()
    if loaded is None:
        raise DeviceError(f"{name} of cuSPARSE cannot be called: {SONAME} is not found beside torch {torch.__version__}")
    if status := getattr(loaded, name)(*arguments):
        said = loaded.cusparseGetErrorString(status).decode()
        raise DeviceError(f"{name} of cuSPARSE failed with status {status}: {said}")


@functools.cache
def library() -> ctypes.CDLL | None:
    """The one that torch has loaded, or that of the wheels beside it; None where there is none."""
    for name in (SONAME, *_in_wheels()):
        try:
            loaded = ctypes.CDLL(str(name))
        except OSError:
            continue
        for function, types in _SIGNATURES.items():
            getattr(loaded, function).argtypes = types
        loaded.cusparseGetErrorString.argtypes = (_enum,)
        loaded.cusparseGetErrorString.restype = ctypes.c_char_p
        return loaded
    return None


def _in_wheels() -> Iterator[Path]:
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        yield from sorted(Path(folder).glob(f"*/lib/{SONAME}"))
