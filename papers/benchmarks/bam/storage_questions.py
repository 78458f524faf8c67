"""What Mailthody 2022 leaves open (sections 7.1.3 and 8.4): is it worth it to pin the lines' state in a GPU's L2, to replicate
it, and to look at completions more or less often?

``pinned``: the words of all lines are what L2 keeps (an access policy window of the stream), beside what it keeps by itself.
``replicated``: multiprocessors are dealt over four stores that each have all lines, so hits contend for a quarter of the words;
no replication of the state alone could give more. ``sleep``: the longest pause between two looks. Each pair runs by turns. A
CPU has no L2 to ask, and pauses in its own way: there only ``replicated`` runs.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch

from benchmarks._rows import Rows
from hinterland.runtime import devices
from hinterland.runtime.errors import DeviceError
from hinterland.runtime.params import Params
from hinterland.storage.on_device import DeviceStore
from hinterland_papers.bam.devices import Device
from hinterland_papers.bam.patterns import HOT, PATTERNS, REPLICAS, REPLICATED, Pattern, read_pattern, replicated

_FIRST = 65536  # lines of any size begin there
_LINE = 4096
RUNS = 5
SLEEPS = (0, 6, 10, 13)  # log2 of the longest pause; 10 is the library's, 0 none at all
READ = {name: PATTERNS[name] for name in ("in order", "a warp a line", "random")} | {"a few lines": HOT}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default=None, help="cpu or cuda; by default the GPU, if there is one")


def run(options: argparse.Namespace) -> dict[str, Any]:
    device = devices.as_device(options.device)
    small = options.small or device.type == "cpu"
    x = torch.arange((2 * _FIRST + ((256 << 10) if small else (1 << 30))) // 8)
    found = {"replicated": _replicated(x, device, small)}
    if device.type == "cuda":
        found |= {"pinned": _pinned(x, device, small), "sleep": _sleep(x, device, small)}
    return found


def _store(x: torch.Tensor, room: int, device: torch.device, small: bool, timing: str = "none") -> DeviceStore:
    threads = 2 if small else 8
    backing = Device(address=x.data_ptr(), bytes=x.nbytes, timing=timing)
    depth = 64 if small else 256
    return DeviceStore(backing, device, room, _LINE, channels=2 * threads, depth=depth, threads=threads)


def _seconds(
    pattern: Pattern,
    words: Params,
    x: torch.Tensor,
    stores: list[DeviceStore],
    reads: int | None = None,
    sources: str = "DeviceSources",
) -> float:
    device = stores[0].device
    with ExitStack() as live:
        for store in stores:
            live.enter_context(store.live())
        begin = devices.idle_at(device)
        read_pattern(pattern, words, len(x) - 2 * _FIRST // 8, _LINE, device, reads, sources)
        return devices.idle_at(device) - begin


def _medians(runs: dict[str, Any]) -> dict[str, float]:
    """Of each by turns, after one that warms it."""
    took: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(1 + RUNS):
        for name, each in runs.items():
            took[name].append(each())
    return {name: statistics.median(times[1:]) for name, times in took.items()}


def _replicated(x: torch.Tensor, device: torch.device, small: bool) -> list[dict[str, Any]]:
    stores = [_store(x, 2 * x.nbytes, device, small) for _ in range(REPLICAS)]
    one, all_of_them = stores[0].array(_FIRST), replicated(stores, _FIRST)
    found = Rows()
    for name, pattern in READ.items():
        took = _medians(
            {
                "one": partial(_seconds, pattern, one, x, stores[:1]),
                "replicated": partial(_seconds, pattern, all_of_them, x, stores, sources=REPLICATED),
            }
        )
        found.append(
            {"hits": name, **{f"{kind} ms": s * 1e3 for kind, s in took.items()}, "times": took["one"] / took["replicated"]}
        )
    for store in stores:
        store.close()
    return found


def _pinned(x: torch.Tensor, device: torch.device, small: bool) -> list[dict[str, Any]]:
    store = _store(x, 2 * x.nbytes, device, small)
    words, window = store.array(_FIRST), partial(_kept_in_l2, store.line_words)
    found = Rows()
    for name, pattern in READ.items():
        plain = partial(_seconds, pattern, words, x, [store])
        took = _medians({"as it is": partial(_on_stream, plain, nullcontext), "pinned": partial(_on_stream, plain, window)})
        found.append(
            {"hits": name, **{f"{kind} ms": s * 1e3 for kind, s in took.items()}, "times": took["as it is"] / took["pinned"]}
        )
    store.close()
    return found


def _on_stream(run: Callable[[], float], window: Callable[[], AbstractContextManager[None]]) -> float:
    with torch.cuda.stream(torch.cuda.Stream()), window():
        return run()


@contextmanager
def _kept_in_l2(memory: torch.Tensor) -> Iterator[None]:
    """What the current stream's kernels read of ``memory`` stays in the GPU's L2, as far as it may."""
    from cuda.bindings import driver

    def checked(result: Any) -> Any:
        error, *values = result
        if error != driver.CUresult.CUDA_SUCCESS:
            raise DeviceError(f"the window in L2 was refused: {error.name}")
        return values[0] if values else None

    attribute, kind = driver.CUdevice_attribute, driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
    most = checked(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE, memory.device.index))
    longest = checked(
        driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE, memory.device.index)
    )
    stream = torch.cuda.current_stream(memory.device).cuda_stream
    limit = driver.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE
    window, value = driver.CUaccessPolicyWindow(), driver.CUstreamAttrValue()
    window.base_ptr, window.num_bytes = memory.data_ptr(), min(memory.nbytes, longest)
    window.hitRatio = min(1.0, most / window.num_bytes)
    window.hitProp = driver.CUaccessProperty.CU_ACCESS_PROPERTY_PERSISTING
    window.missProp = driver.CUaccessProperty.CU_ACCESS_PROPERTY_STREAMING
    value.accessPolicyWindow = window
    checked(driver.cuCtxSetLimit(limit, most))
    checked(driver.cuStreamSetAttribute(stream, kind, value))
    try:
        yield
    finally:
        window.num_bytes = 0
        value.accessPolicyWindow = window
        checked(driver.cuStreamSetAttribute(stream, kind, value))
        checked(driver.cuCtxResetPersistingL2Cache())
        checked(driver.cuCtxSetLimit(limit, 0))


def _sleep(x: torch.Tensor, device: torch.device, small: bool) -> list[dict[str, Any]]:
    found = Rows()
    for timing in ("none", "optane"):
        store = _store(x, x.nbytes // 16, device, small, timing)
        words = store.array(_FIRST)
        for name, pattern in READ.items():
            if name == "a few lines":
                continue
            once = partial(_seconds, pattern, words, x, [store], 1 << 20)
            took = _medians({f"{1 << most if most else 0} ns": partial(once, _with_sleep(most)) for most in SLEEPS})
            found.append({"misses": name, "device": timing, **{f"{kind}: ms": s * 1e3 for kind, s in took.items()}})
        store.close()
    return found


def _with_sleep(most: int) -> str:
    return "DeviceSources" if most == 10 else f"WithSleep<{most}>"
