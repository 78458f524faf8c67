"""What a gather of host rows costs the training step beside it (Min 2022, section 3.3.2): by blocks on all multiprocessors, and
in a green context of a few of them, which is what MPS was to the dissertation.

Steps are CUDA graphs, one for each of six batches in turn, so that no CPU thread waits for another: what shows is what the
gather takes of the GPU.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

import hinterland as hl
from hinterland.training import Loader

BLOCKS = (1, 2, 3, 4, 8)  # below 8 in bulk
GREEN = (8, 16)  # multiprocessors of the gather's context
TIMES = 50  # replays of each step


def run(loader: Loader, features: hl.UnifiedTensor, model: torch.nn.Module, learn: Callable[..., None]) -> list[dict[str, Any]]:
    """The step alone, on average of the batches, and beside each gather. ``learn``: as of :func:`.gnn.learn`."""
    batches = [batch for batch, _ in zip(loader, range(6), strict=False)]
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, capturable=True, fused=True)
    index = torch.cat([batch.sample.node for batch in batches])
    out = torch.empty((len(index), *features.shape[1:]), device="cuda")

    def captured(stream: torch.cuda.Stream) -> list[torch.cuda.CUDAGraph]:
        return [_captured(lambda b=batch: learn(model, optimizer, b.x, b.sample, b.y), stream) for batch in batches]

    def gather(blocks: int) -> int:
        return features.gather(index, out=out, max_blocks=blocks).nbytes

    everywhere, beside = torch.cuda.Stream(), torch.cuda.Stream()
    steps = captured(everywhere)
    alone = _replay(steps, everywhere)
    cases: list[dict[str, Any]] = [_case("none", 0, "all", 0.0, alone, alone)]
    for blocks in BLOCKS:
        found = _beside(lambda b=blocks: gather(b), lambda: torch.cuda.stream(beside), steps, everywhere)
        cases.append(_case("all", blocks, "all", *found, alone))
    for multiprocessors in GREEN:
        try:
            green, rest = _divided(multiprocessors)
        except RuntimeError as error:  # of drivers before 12.4
            cases.append({"gather": f"green {multiprocessors}", "step": str(error)})
            continue
        for blocks in (2, 8):
            found = _beside(lambda b=blocks: gather(b), green.current, steps, everywhere)
            cases.append(_case(f"green {green.size}", blocks, "all", *found, alone))
        with rest.current():
            kept = captured(rest.stream)
            cases.append(_case("none", 0, f"green {rest.size}", 0.0, _replay(kept, rest.stream), alone))
            for blocks in (2, 8):
                found = _beside(lambda b=blocks: gather(b), green.current, kept, rest.stream)
                cases.append(_case(f"green {green.size}", blocks, f"green {rest.size}", *found, alone))
    return cases


def _case(where: str, blocks: int, step_where: str, rate: float, seconds: float, alone: float) -> dict[str, Any]:
    slower = seconds / alone - 1
    return {
        "gather": where,
        "blocks": blocks,
        "step": step_where,
        "gather_gb_s": rate,
        "step_ms": 1e3 * seconds,
        "slower": slower,
    }


class _Green:
    """A green context over some of the multiprocessors, and a stream of it."""

    def __init__(self, resource: Any) -> None:
        from cuda.bindings import driver

        self.size = resource.sm.smCount
        described = _checked(driver.cuDevResourceGenerateDesc([resource], 1))
        flag = driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM.value
        self._green = _checked(driver.cuGreenCtxCreate(described, _checked(driver.cuDeviceGet(0)), flag))
        self._context = _checked(driver.cuCtxFromGreenCtx(self._green))
        handle = _checked(driver.cuGreenCtxStreamCreate(self._green, driver.CUstream_flags.CU_STREAM_NON_BLOCKING.value, 0))
        self.stream = torch.cuda.ExternalStream(int(handle), torch.device("cuda", 0))

    @contextmanager
    def current(self) -> Iterator[None]:
        from cuda.bindings import driver

        _checked(driver.cuCtxPushCurrent(self._context))
        try:
            with torch.cuda.stream(self.stream):
                yield
        finally:
            driver.cuCtxPopCurrent()


def _divided(multiprocessors: int) -> tuple[_Green, _Green]:
    """Green contexts of so many, and of the others."""
    from cuda.bindings import driver

    kind = driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
    whole = _checked(driver.cuDeviceGetDevResource(_checked(driver.cuDeviceGet(0)), kind))
    groups, _, rest = _checked(driver.cuDevSmResourceSplitByCount(1, whole, 0, multiprocessors))
    return _Green(groups[0]), _Green(rest)


def _checked(result: tuple[Any, ...]) -> Any:
    error, *values = result
    if int(error):
        raise RuntimeError(f"CUDA: {error.name}")
    return values[0] if len(values) == 1 else values


def _beside(
    gather: Callable[[], int],
    around: Callable[[], AbstractContextManager[Any]],
    steps: list[torch.cuda.CUDAGraph],
    stream: torch.cuda.Stream,
) -> tuple[float, float]:
    """What the gather moves, GB/s, and seconds of a step."""
    stop, moved = threading.Event(), [0]

    def work() -> None:
        with around():
            while not stop.is_set():
                moved[0] += gather()

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.05)
    before, began = moved[0], time.perf_counter()
    seconds = _replay(steps, stream)
    rate = (moved[0] - before) / (time.perf_counter() - began) / 1e9
    stop.set()
    thread.join()
    return rate, seconds


def _captured(work: Callable[[], None], stream: torch.cuda.Stream) -> torch.cuda.CUDAGraph:
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.synchronize()
    step = torch.cuda.CUDAGraph()
    with torch.cuda.graph(step, stream=stream):
        work()
    return step


def _replay(steps: list[torch.cuda.CUDAGraph], stream: torch.cuda.Stream) -> float:
    """Seconds of one replay."""
    with torch.cuda.stream(stream):
        for step in steps:
            step.replay()
        stream.synchronize()
        began = time.perf_counter()
        for _ in range(TIMES):
            for step in steps:
                step.replay()
        stream.synchronize()
    return (time.perf_counter() - began) / (TIMES * len(steps))
