"""A sparse matrix times rows by cuSPARSE, with its descriptors, buffers and preprocessing kept from call to call.

``torch.sparse`` makes all of these anew in every call, and takes one algorithm. cusparseSpMM in
https://docs.nvidia.com/cuda/cusparse says what may change between calls that share a buffer.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hinterland.runtime.errors import ConfigError, DeviceError

from . import _libcusparse as libcusparse
from ._libcusparse import ALG2, ALG3, DEFAULT, available, call

ALGORITHMS = (DEFAULT, ALG2, ALG3)  # CUSPARSE_SPMM_CSR_ALG1 is the slowest everywhere, and fails at some widths
_ALIGNED = 16


class SpMM:
    """The matrix A of a CSR: ``run(x, out)`` makes ``out = A @ x``.

    cuSPARSE multiplies by values of x's type, whether there are weights or not. Without weights an array of ones is made for
    each type when it is first used: an element an edge of memory, read in every call beside the column. Weights of another type
    are converted once; so they are rounded to 16 bits where x has 16. Sums are of float32, of float64 where x is of float64.

    What is kept is made by the first call of its kind. One object serves one stream at a time, and outlives the
    work that it was given.

    Args:
        offsets: where each row's edges begin, ``[rows + 1]``, int32 or int64, on a GPU, from 0 to the number of edges.
        places: columns, ``[edges]``, int32 or int64, each in ``[0, columns)``. cuSPARSE takes both arrays of one type: the
            offsets are copied to that of the places, and places of int32 to int64 where there are 2**31 edges or more.
        weights: ``[edges]``, or None for ones.
        columns: rows of x.

    Raises:
        ConfigError: arrays that do not fit together.
        DeviceError: no cuSPARSE, or it failed.
    """

    def __init__(self, offsets: Tensor, places: Tensor, weights: Tensor | None, columns: int) -> None:
        self.device = offsets.device
        if not available() or self.device.type != "cuda":
            raise DeviceError(
                f"cuSPARSE needs an NVIDIA GPU, {libcusparse.SONAME} and arrays on the GPU; these are on {self.device}"
            )
        edges, ends = len(places), offsets[[0, -1]].tolist()
        fits = places.dtype in libcusparse.INDEX_TYPES and (weights is None or weights.shape == places.shape)
        if not fits or ends != [0, edges] or places.device != self.device:
            raise ConfigError(
                f"offsets from {ends[0]} to {ends[1]} on {self.device}, {edges} places of {places.dtype} on {places.device} and"
                f" weights of shape {None if weights is None else list(weights.shape)} form no matrix: one place (int32 or"
                " int64) and one weight an edge, on one GPU"
            )
        index = torch.int64 if edges >= 2**31 else places.dtype
        self._offsets, self._places = offsets.to(index).contiguous(), places.to(index).contiguous()
        self.shape, self._weights = (len(offsets) - 1, columns), weights
        self._values: dict[torch.dtype, Tensor] = {}
        self._plans: dict[tuple[int, ...], _Plan] = {}
        handle = ctypes.c_void_p()
        with torch.cuda.device(self.device):
            torch.cuda.current_stream().synchronize()  # makes the GPU's context current: the handle belongs to that
            call("cusparseCreate", ctypes.byref(handle))
        self._handle = handle
        weakref.finalize(self, _destroy, self.device, handle, self._plans).atexit = False  # then the driver may be gone

    def run(self, x: Tensor, out: Tensor, beta: float = 0.0, algorithm: int = DEFAULT) -> Tensor:
        """``out = A @ x + beta * out``, on torch's current stream; what was in ``out`` is not read where ``beta`` is 0.

        Args:
            x: ``[columns, D]``, float32, float64, float16 or bfloat16; rows may be farther apart than D.
            out: ``[rows, D]`` of x's type.
            algorithm: one of ALGORITHMS.

        Returns:
            ``out``.
        """
        self._check(x, out)
        if not out.numel() or not self._places.numel():
            return out.mul_(beta) if beta else out.zero_()
        with torch.cuda.device(self.device):
            call("cusparseSetStream", self._handle, torch.cuda.current_stream().cuda_stream)
            plan = self._plan(x, out, algorithm)
            call("cusparseDnMatSetValues", plan.x, x.data_ptr())
            call("cusparseDnMatSetValues", plan.out, out.data_ptr())
            call("cusparseSpMM", *self._product(plan, x.dtype, beta, algorithm), plan.buffer.data_ptr())
        return out

    def fastest(self, x: Tensor, repeats: int = 5) -> int:
        """The algorithm that takes x and is the quickest, without preprocessing; waits for the GPU, and keeps no buffer."""
        out, found, refused = x.new_empty(self.shape[0], x.shape[1]), {}, None
        before = set(self._plans)
        for algorithm in ALGORITHMS:
            try:
                found[algorithm] = self._timed(x, out, algorithm, repeats)
            except DeviceError as error:  # cuSPARSE has not every algorithm for every type
                refused = error
            for key in self._plans.keys() - before:
                _let_go(self._plans.pop(key))
        if refused is not None and not found:
            raise refused
        return min(found, key=lambda algorithm: found[algorithm])

    def _timed(self, x: Tensor, out: Tensor, algorithm: int, repeats: int) -> float:
        with torch.cuda.device(self.device):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            for _ in range(2):
                self.run(x, out, algorithm=algorithm)
            begin.record()
            for _ in range(repeats):
                self.run(x, out, algorithm=algorithm)
            end.record()
            end.synchronize()
        return begin.elapsed_time(end) / repeats

    def _check(self, x: Tensor, out: Tensor) -> None:
        fits = x.dtype in libcusparse.VALUE_TYPES and x.dtype == out.dtype and x.device == out.device == self.device
        fits = fits and x.dim() == out.dim() == 2 and (out.shape[0], x.shape[0]) == self.shape and x.shape[1] == out.shape[1]
        if not fits or any(t.shape[1] > 1 and (t.stride(1) != 1 or t.stride(0) < t.shape[1]) for t in (x, out)):
            raise ConfigError(
                f"a matrix of {list(self.shape)} on {self.device} takes x [{self.shape[1]}, D] and out [{self.shape[0]}, D] "
                "there, of one type (float32, float64, float16 or bfloat16), each row in one piece; given were "
                + " and ".join(f"{list(t.shape)} {t.dtype} on {t.device}, strides {t.stride()}" for t in (x, out))
            )

    def _plan(self, x: Tensor, out: Tensor, algorithm: int) -> _Plan:
        """Descriptors and an active buffer. The matrix has a descriptor in each: preprocessing ties one buffer to it."""
        steps = [max(t.stride(0), t.shape[1]) for t in (x, out)]
        key = (algorithm, libcusparse.VALUE_TYPES[x.dtype], x.shape[1], *steps, *(t.data_ptr() % _ALIGNED for t in (x, out)))
        if key not in self._plans:
            plan = _Plan(ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), x.new_empty(_ALIGNED, dtype=torch.uint8))
            try:
                self._plans[key] = self._prepared(plan, x, out, steps, algorithm)
            except BaseException:
                _let_go(plan)
                raise
        return self._plans[key]

    def _prepared(self, plan: _Plan, x: Tensor, out: Tensor, steps: list[int], algorithm: int) -> _Plan:
        kind, index = libcusparse.VALUE_TYPES[x.dtype], libcusparse.INDEX_TYPES[self._places.dtype]
        if x.dtype not in self._values:
            given = self._weights
            self._values[x.dtype] = x.new_ones(len(self._places)) if given is None else given.to(x.dtype).contiguous()
        arrays = [t.data_ptr() for t in (self._offsets, self._places, self._values[x.dtype])]
        sizes = (*self.shape, len(self._places))
        call("cusparseCreateCsr", ctypes.byref(plan.matrix), *sizes, *arrays, index, index, libcusparse.BASE_ZERO, kind)
        for made, rows, step in ((plan.x, x, steps[0]), (plan.out, out, steps[1])):
            call("cusparseCreateDnMat", ctypes.byref(made), *rows.shape, step, rows.data_ptr(), kind, libcusparse.ROW_MAJOR)
        product, needed = self._product(plan, x.dtype, 0.0, algorithm), ctypes.c_size_t()
        call("cusparseSpMM_bufferSize", *product, ctypes.byref(needed))
        plan = plan._replace(buffer=x.new_empty(max(needed.value, _ALIGNED), dtype=torch.uint8))
        call("cusparseSpMM_preprocess", *product, plan.buffer.data_ptr())
        return plan

    def _product(self, plan: _Plan, dtype: torch.dtype, beta: float, algorithm: int) -> tuple[Any, ...]:
        """What the three calls of a product have in common. cuSPARSE reads the factors, in host memory, before it returns."""
        wide, same = dtype == torch.float64, libcusparse.AS_IT_IS
        number = ctypes.c_double if wide else ctypes.c_float
        one, factor = ctypes.byref(number(1.0)), ctypes.byref(number(beta))
        compute = libcusparse.VALUE_TYPES[torch.float64 if wide else torch.float32]
        return self._handle, same, same, one, plan.matrix, plan.x, factor, plan.out, compute, algorithm


class _Plan(NamedTuple):
    matrix: ctypes.c_void_p
    x: ctypes.c_void_p
    out: ctypes.c_void_p
    buffer: Tensor


def _let_go(plan: _Plan) -> None:
    for kind, made in (("SpMat", plan.matrix), ("DnMat", plan.x), ("DnMat", plan.out)):
        if made.value:
            call(f"cusparseDestroy{kind}", made)


def _destroy(device: torch.device, handle: ctypes.c_void_p, plans: dict[tuple[int, ...], _Plan]) -> None:
    with torch.cuda.device(device):
        for plan in plans.values():
            _let_go(plan)
        call("cusparseDestroy", handle)
