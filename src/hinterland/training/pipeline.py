"""A pipeline of stages, each with a thread and, on a GPU, a stream of its own (Min 2022, section 3.3.3: producer and consumer).

While a model trains on one batch, the rows of the next are gathered and the neighbours of the one after are sampled. A stage
hands on what it made together with an event, so that the next stage's stream waits and the CPU does not. Between two stages
there is room for ``depth`` batches: that bounds memory.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from ..runtime import arguments, devices
from ..runtime.errors import ConfigError
from ..runtime.watch import Done, Watch
from .trace import span

PATIENCE = 0.5  # seconds that each stage gets to finish what it does when the pipeline is closed
_RECENT = 9  # items: their median does not hear of one in which something was captured
_ALIGNED = 128  # bytes, a line of the GPU's caches: kernels read arrays in one allocation as they read their own


@dataclasses.dataclass
class Stage:
    """One step of a pipeline: ``work`` makes of each item the next stage's, in order.

    Attributes:
        seconds: what ``work`` took, of all items together; ``items``: how many.
        recent: what the last items took.
    """

    name: str
    work: Callable[[Any], Any]
    seconds: float = 0.0
    items: int = 0
    recent: deque[float] = dataclasses.field(default_factory=lambda: deque(maxlen=_RECENT))

    def count(self, seconds: float) -> None:
        """Adds an item that took so long."""
        self.seconds += seconds
        self.items += 1
        self.recent.append(seconds)


class Pipeline:
    """The items of a source, led through stages that work at the same time; iterating it starts the threads anew.

    What a stage raises is raised where the pipeline is iterated, with its own traceback. However iteration ends, by its end, a
    break, an error or Ctrl-C, the threads end with it.

    Args:
        source: what the first stage takes, one after another, in the first stage's thread.
        stages: at least one.
        device: where the stages run.
        depth: items that may wait between two stages, and before the consumer.
        timeout: seconds without an item after which the consumer gets PipelineStalled, which names the stage that is stuck.
    """

    def __init__(
        self,
        source: Iterable[Any],
        stages: Sequence[Stage],
        device: torch.device,
        depth: int = 2,
        timeout: float = 300.0,
    ) -> None:
        self.depth = arguments.at_least_one("depth", depth, "leaves no room between stages; use 1 or more")
        if not isinstance(source, Iterable) or (
            isinstance(source, torch.Tensor) and arguments.dense("source", source).ndim == 0
        ):
            raise ConfigError(f"source is {arguments.repr_of(source)}, which has no items; use a list or an iterator of them")
        arguments.instance("device", device, torch.device, "as torch.device('cpu') is")
        if not isinstance(stages, Sequence) or not stages or not all(isinstance(stage, Stage) for stage in stages):
            raise ConfigError(f"stages are a list of Stage, one at least, not {arguments.repr_of(stages)}")
        self.source, self.stages, self.device = source, list(stages), device
        self.timeout = arguments.seconds("timeout", timeout)

    def __iter__(self) -> Generator[Any]:
        watch, channels = Watch(self.timeout), [_Channel(self.depth) for _ in self.stages]
        workers = []
        taken: Iterator[Any] = ((item, None) for item in self.source)
        for stage, channel in zip(self.stages, channels, strict=True):
            workers.append(_Worker(stage, taken, channel, self.device, watch))
            taken = iter(channel)
        try:
            for worker in workers:
                worker.start()
            with watching(watch, self.device):
                yield from self._items(channels[-1], watch)
        finally:
            if watch.is_own:
                for channel in channels:
                    channel.close()
                for worker in filter(_Worker.is_alive, workers):  # Ctrl-C may come before all are started
                    worker.join(PATIENCE)

    def _items(self, channel: _Channel, watch: Watch) -> Iterator[Any]:
        while True:
            watch.require_own()
            try:
                item, ready = channel.get(watch.glance)
            except TimeoutError:
                watch.look()
                continue
            except StopIteration:
                return
            if isinstance(item, _Failure):
                raise item.error
            receive(item, ready, self.device)
            watch.leaves()
            yield item
            watch.came()


def watching(watch: Watch, device: torch.device) -> AbstractContextManager[None]:
    """Has a thread look, beside the caller's, at what the caller launches on a GPU."""
    if device.type == "cpu":
        return nullcontext()
    return watch.beside(_marks(torch.cuda.current_stream(device)), str(device))


def _marks(stream: torch.cuda.Stream) -> Callable[[], Done | None]:
    """What puts marks behind all that was launched on a stream, for another thread."""
    from cuda.bindings import driver

    handle, none = stream.cuda_stream, driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE

    def mark() -> Done | None:
        devices.give_context(stream.device)  # the driver takes the default stream of no thread without one
        # Graphs that other threads capture meanwhile are not to be disturbed: torch's own watch over NCCL does the same.
        driver.cuThreadExchangeStreamCaptureMode(driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
        status, capturing, *_ = driver.cuStreamIsCapturing(handle)
        if status != driver.CUresult.CUDA_SUCCESS or capturing != none:
            return None
        return stream.record_event().query

    return mark


@contextmanager
def own_stream(device: torch.device) -> Iterator[torch.cuda.Stream | None]:
    """A stream for the work of a thread; None on the CPU."""
    stream = torch.cuda.Stream(device) if device.type == "cuda" else None
    with nullcontext() if stream is None else torch.cuda.stream(stream):
        yield stream


def at_a_time(stages: int, depth: int) -> int:
    """The most items that there are at once: one in each stage, ``depth`` after it, and the consumer's."""
    return stages * (1 + depth) + 1


@dataclasses.dataclass
class _Failure:
    error: BaseException


class _Worker(threading.Thread):
    """The thread of one stage: takes from the stage before, works, hands on."""

    def __init__(self, stage: Stage, taken: Iterator[Any], given: _Channel, device: torch.device, watch: Watch) -> None:
        super().__init__(name=f"hinterland {stage.name}", daemon=True)
        self.stage, self.taken, self.given, self.device, self.watch = stage, taken, given, device, watch

    def run(self) -> None:
        try:
            with own_stream(self.device) as stream:
                for item, ready in self.taken:
                    if isinstance(item, _Failure):
                        self.given.put((item, None))
                        return
                    if not self.given.put(self._work(item, ready, stream)):
                        return
            self.given.end()
        except BaseException as error:
            self.given.put((_Failure(error), None))

    def _work(self, item: Any, ready: torch.cuda.Event | None, stream: torch.cuda.Stream | None) -> tuple[Any, Any]:
        with self.watch.over(repr(self.stage.name), self.stage.items) as work, span(self.stage.name):
            receive(item, ready, self.device)
            made = self.stage.work(item)
            done = stream.record_event() if stream is not None else None
        self.stage.count(work.seconds)
        return made, done


class _Channel:
    """A queue of bounded length that either side can close."""

    def __init__(self, room: int) -> None:
        self._room, self._items = room, deque[Any]()
        self._ended = self._closed = False
        self._changed = threading.Condition()

    def put(self, item: Any) -> bool:
        """Waits for room; False if nobody takes any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._items) < self._room)
            if not self._closed:
                self._items.append(item)
                self._changed.notify_all()
            return not self._closed

    def get(self, timeout: float | None = None) -> Any:
        """The next item; StopIteration after the last, TimeoutError if none comes."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._closed or self._ended or self._items, timeout):
                raise TimeoutError
            if self._closed or not self._items:
                raise StopIteration
            self._changed.notify_all()
            return self._items.popleft()

    def __iter__(self) -> Iterator[Any]:
        while True:
            try:
                item = self.get()
            except StopIteration:
                return
            yield item

    def end(self) -> None:
        """No item follows."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def close(self) -> None:
        """Nobody takes or gives any more; what waits is dropped."""
        with self._changed:
            self._closed = True
            self._items.clear()
            self._changed.notify_all()


def receive(item: Any, ready: torch.cuda.Event | None, device: torch.device) -> None:
    """Makes an item of another stream usable on the current one, and keeps its memory until that is done with it."""
    if ready is None:
        return
    stream = torch.cuda.current_stream(device)
    stream.wait_event(ready)
    for tensor in tensors_of(item):
        if tensor.is_cuda:
            tensor.record_stream(stream)


def moved(item: Any, device: torch.device) -> Any:
    """The item with its tensors, all that :func:`tensors_of` finds, on ``device``."""
    return replaced(item, lambda one: one.to(device))


def in_one(item: Any, device: torch.device) -> tuple[torch.Tensor, Any]:
    """One allocation on ``device``, uint8 ``[bytes]``, and the item with places in it for its tensors: one copy then moves
    all. It has zeros."""
    memory = torch.zeros(sum(_padded(one.nbytes) for one in tensors_of(item)), dtype=torch.uint8, device=device)
    end = 0

    def place(one: torch.Tensor) -> torch.Tensor:
        nonlocal end
        begin, end = end, end + _padded(one.nbytes)
        return memory[begin : begin + one.nbytes].view(one.dtype).view(one.shape)

    return memory, replaced(item, place)


def _padded(count: int) -> int:
    return -(-count // _ALIGNED) * _ALIGNED


def replaced(item: Any, change: Callable[[Any], Any]) -> Any:
    """The item with what ``change`` makes of its tensors, and of what has ``to()`` as they do, as PyG's Data."""
    if hasattr(item, "to"):
        return change(item)
    if isinstance(item, dict):
        return {key: replaced(value, change) for key, value in item.items()}
    if isinstance(item, list | tuple):
        parts = [replaced(value, change) for value in item]
        return type(item)(*parts) if hasattr(item, "_fields") else type(item)(parts)
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        fields = dataclasses.fields(item)
        return dataclasses.replace(item, **{field.name: replaced(getattr(item, field.name), change) for field in fields})
    return item


def tensors_of(item: Any) -> Iterator[torch.Tensor]:
    """All tensors in an item: in containers, dataclasses and what knows ``to_dict()``, as PyG's Data does."""
    if isinstance(item, torch.Tensor):
        yield item
    elif isinstance(item, dict):
        for value in item.values():
            yield from tensors_of(value)
    elif isinstance(item, list | tuple):
        for value in item:
            yield from tensors_of(value)
    elif dataclasses.is_dataclass(item) and not isinstance(item, type):
        for field in dataclasses.fields(item):
            yield from tensors_of(getattr(item, field.name))
    elif hasattr(item, "to_dict"):
        yield from tensors_of(item.to_dict())
