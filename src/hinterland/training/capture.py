"""Training steps as CUDA graphs: forward, backward and the optimizer's step of a batch are replayed in one launch, or in two
between which several ranks sum their gradients.

A graph reads the buffer in which a :class:`.Loader` makes its batch, so there is one for each buffer. What a replay would not
see (:mod:`.capture_key`) is compared before each, and the step captured anew when something else is so.
"""

from __future__ import annotations

import dataclasses
import pickle
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.parallel import DataParallel, DistributedDataParallel

from ..memory.ranks import Ranks
from ..runtime import arguments
from ..runtime.capture import captured
from ..runtime.errors import ConfigError, PipelineStalled, RankLost
from ..runtime.thresholds import BATCH_BUFFERS, UNSTEADY_STEPS
from ..runtime.warned import warn
from .capture_key import Held, Key, difference, key_of, modes
from .gradients import GradientAllReduce
from .graphed_optimizer import GraphedOptimizer
from .mini_batch import Batch
from .pipeline import tensors_of
from .prefetch import stage_stream
from .replayed_batches import unpadded

_STREAM = -1  # the loader's stages count theirs from 0
_OVER_ROWS = ("GraphNorm", "PairNorm", "MeanSubtractionNorm", "GraphSizeNorm", "DiffGroupNorm", "InstanceNorm")  # PyG's

Loss = Callable[[Any, Any], torch.Tensor]


@dataclasses.dataclass
class StepGraph:
    """The step on one buffer: ``inputs`` says where that lies, ``gradients`` are those of the parameters after a replay. Of
    several ranks ``graph`` is what comes before their sum, and ``update`` what comes behind it. ``made`` is a subclass's."""

    graph: torch.cuda.CUDAGraph
    update: torch.cuda.CUDAGraph | None
    inputs: tuple[Any, ...]
    loss: torch.Tensor
    gradients: list[tuple[torch.Tensor, torch.Tensor | None]]
    made: Any = None


class CapturedSteps:
    """Steps of training, replayed where that can be; :func:`capture` makes it. Each ``iter()`` is an epoch of the loader.

    Attributes:
        replayed: steps so far that were replays; ``steps``: all.
        why_not: the sentence why steps are not captured, once that is known; None before.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        optimizer: torch.optim.Optimizer,
        loader: Iterable[Any],
        before_step: Callable[[nn.Module], Any] | None = None,
        *,
        all_reduce: GradientAllReduce | None = None,
        after_step: Callable[[nn.Module], Any] | None = None,
        others: Sequence[torch.device] = (),
    ) -> None:
        """``model`` to ``before_step``: as of :func:`capture`.

        Args:
            all_reduce: what sums the gradients of several ranks; None of one.
            after_step: ``after_step(model)`` runs behind the optimizer's step, captured as well.
            others: GPUs on which a step runs besides that of its batch's seeds, and which read each other's memory.
        """
        self.model, self.loss, self.optimizer, self.loader, self.before_step = model, loss, optimizer, loader, before_step
        self.all_reduce, self.after_step, self.others = all_reduce, after_step, others
        self.replayed = self.steps = 0
        self.why_not: str | None = None
        self._graphs: dict[int, StepGraph] = {}
        self._key: Key = []  # of the last step on a batch of fixed shape
        self._held: Held | None = None  # what it was made of
        self._steady = False  # which did not change it
        self._unsteady = 0  # such steps since the last replay
        self._graphed: GraphedOptimizer | None = None
        self._pool: Any = None  # of all graphs: they never run at the same time

    def __iter__(self) -> Iterator[tuple[Any, torch.Tensor]]:
        if self._loader_captures:
            self.refuse(unfit(self.model))
        for batch in self.batches():
            yield self.step(batch)

    def batches(self) -> Iterator[Any]:
        """Those of the loader.

        Raises:
            RankLost: none came in time, for steps that were launched wait for another rank.
        """
        try:
            yield from self.loader
        except PipelineStalled as stalled:
            if self.all_reduce is None or not self.all_reduce.waits():
                raise
            raise RankLost(f"another rank died or is stuck: its gradients have not come ({stalled})") from stalled

    @property
    def _loader_captures(self) -> bool:
        return bool(getattr(self.loader, "capture", False))

    def step(self, batch: Any) -> tuple[Any, torch.Tensor]:
        """Trains on a batch. Gives it, without padding if it had some that this step could not bear, and the loss, which nobody
        waited for."""
        if not _is_replayable(batch):
            return batch, self._eager(batch)
        if self.why_not is not None:
            batch = _without_padding(batch)
            return batch, self._eager(batch)
        graph = self._graph_of(batch)
        if graph is not None:
            return batch, self._replay(graph)
        return self.step(batch) if self.why_not is not None else (batch, self._warm_up(batch))

    def _graph_of(self, batch: Any) -> StepGraph | None:
        """The graph that trains on the batch; None if a step has to come before it, or it cannot be."""
        if self._graphed is None:
            self._graphed = GraphedOptimizer(self.optimizer, batch.seeds.device)
        if self._held is None or not self._held.same() or self._key[-2:] != self._beside():
            key, self._held = self._now(), Held(self.model, self.optimizer)
            if key != self._key:
                self._drop(list(self._graphs))
                self.refuse(unfit(self.model))
                if self._unsteady >= UNSTEADY_STEPS:
                    self.refuse(f"{difference(self._key, key)} changes from step to step, which a replay would not see")
                self._steady, self._key = False, key
        if not self._steady or self.why_not is not None:
            return None
        inputs = _inputs(batch)
        found = self._graphs.get(batch.buffer)
        if found is None or found.inputs != inputs:
            # Those of buffers that the loader has let go are the oldest.
            self._drop([batch.buffer, *list(self._graphs)[: len(self._graphs) + 1 - BATCH_BUFFERS]])
            found = self._captured(batch, inputs)
        return found

    def _drop(self, buffers: Iterable[int]) -> None:
        for buffer in buffers:
            self._graphs.pop(buffer, None)
        if not self._graphs:
            self._pool = None  # torch takes no pool again that nobody used for a while

    def _now(self) -> Key:
        return [*key_of(self.model, self.optimizer), *self._beside()]

    def _beside(self) -> Key:
        """What of a key is no object's."""
        assert self._graphed is not None
        return [("torch", modes()), (type(self.optimizer).__name__, self._graphed.constants())]

    def _eager(self, batch: Any) -> torch.Tensor:
        """A step that is no replay. Where others will be it makes the same sums of the same numbers."""
        self.steps += 1
        if self._graphed is None and self.why_not is None and self._loader_captures:
            self._graphed = GraphedOptimizer(self.optimizer, batch.seeds.device)
        if self._graphed is None:
            return self._one(batch)
        with self._side_stream(), self._graphed.settings():
            return self._one(batch)

    def _warm_up(self, batch: Any) -> torch.Tensor:
        """A step on a batch of fixed shape as it will be captured; the next one can be if this changes nothing but values."""
        drawn = _drawn_on_cpu()
        loss = self._eager(batch)
        key = self._now()
        self._steady, self._unsteady = key == self._key, self._unsteady + 1
        if _drawn_on_cpu() != drawn:
            self.refuse("the model or the loss draws random numbers on the CPU, which a replay would not draw again")
        elif self._unsteady >= UNSTEADY_STEPS and not self._steady:
            self.refuse(f"{difference(self._key, key)} changes at each step, which a replay would not see")
        self._key, self._held = key, None
        return loss

    def _one(self, batch: Any) -> torch.Tensor:
        loss = self._descent(batch)
        if self.all_reduce is not None:
            self.all_reduce.reduce()
            self._update()
        return loss

    def _descent(self, batch: Any) -> torch.Tensor:
        """The step, of several ranks up to their sum."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.model, batch)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise ConfigError(f"loss gave {arguments.repr_of(loss)}; give a tensor of one number, as a mean over seeds is")
        if not loss.requires_grad:
            what = arguments.repr_of(loss)
            raise ConfigError(f"loss gave {what}, which has no gradients; compute it from a parameter that requires_grad")
        loss.backward()  # type: ignore[no-untyped-call]
        if self.all_reduce is None:
            self._update()
        else:
            self.all_reduce.pack()
        return loss.detach()

    def _update(self) -> None:
        """The step from the gradients on, of several ranks from their sum on."""
        if self.all_reduce is not None:
            self.all_reduce.unpack()
        if self.before_step is not None:
            self.before_step(self.model)
        self.optimizer.step()
        if self.after_step is not None:
            self.after_step(self.model)

    def _replay(self, graph: StepGraph) -> torch.Tensor:
        assert self._graphed is not None
        self._graphed.follow()
        others = [torch.cuda.current_stream(other) for other in self.others]
        for stream in others:
            torch.cuda.current_stream(self._graphed.device).wait_stream(stream)
        graph.graph.replay()
        if self.all_reduce is not None and graph.update is not None:
            self.all_reduce.reduce()
            graph.update.replay()
        for stream in others:
            stream.wait_stream(torch.cuda.current_stream(self._graphed.device))
        for parameter, gradient in graph.gradients:
            parameter.grad = gradient
        self.replayed, self.steps, self._unsteady = self.replayed + 1, self.steps + 1, 0
        return graph.loss.clone()

    @contextmanager
    def _side_stream(self) -> Iterator[list[torch.cuda.Stream]]:
        """A with-block on the streams that are captured, of the other GPUs and at last of the step's own, between what the
        current streams have and what they get."""
        assert self._graphed is not None
        devices = [*self.others, self._graphed.device]
        currents = [torch.cuda.current_stream(device) for device in devices]
        streams = [stream for device in devices if (stream := stage_stream(device, _STREAM)) is not None]
        for stream, current in zip(streams, currents, strict=True):
            stream.wait_stream(current)
        cached = torch.is_autocast_cache_enabled()
        torch.set_autocast_cache_enabled(False)  # what a graph has cast must follow the parameters
        torch.clear_autocast_cache()
        try:
            with ExitStack() as within:
                for stream in streams:
                    within.enter_context(torch.cuda.stream(stream))
                if self.others:  # autograd's threads would launch on the default streams of all GPUs but their own
                    within.enter_context(torch.autograd.set_multithreading_enabled(False))
                yield streams
        finally:
            torch.set_autocast_cache_enabled(cached)
            for stream, current in zip(streams, currents, strict=True):
                current.wait_stream(stream)

    def _captured(self, batch: Any, inputs: tuple[Any, ...]) -> StepGraph | None:
        """The step on this buffer; None, with everything as it was, if it cannot be captured."""
        assert self._graphed is not None
        device = batch.seeds.device
        draw_again = _generators(device)
        try:
            with self._side_stream() as (*others, stream), self._graphed.settings():
                self._pool = self._pool or torch.cuda.graph_pool_handle()
                graph, loss = captured(device, lambda: self._descent(batch), self._pool, stream, others)
                update = None if self.all_reduce is None else captured(device, self._update, self._pool, stream, others)[0]
        except BaseException as error:
            draw_again()
            self.optimizer.zero_grad(set_to_none=True)
            self._drop(list(self._graphs))
            if not isinstance(error, Exception):
                raise
            said = str(error).strip().splitlines() or [""]
            self.refuse(f"{type(error).__name__}: {said[0][:200]}")
            return None
        parameters = {id(p): p for p in self.model.parameters()}
        parameters |= {id(p): p for group in self.optimizer.param_groups for p in group["params"]}
        found = StepGraph(graph, update, inputs, loss, [(p, p.grad) for p in parameters.values()])
        self._graphs[batch.buffer] = found
        return found

    def refuse(self, why: str | None) -> None:
        """Steps are not captured from now on, and the loader makes batches without padding from the next epoch on."""
        if why is None or self.why_not is not None:
            return
        self.why_not = why
        self._drop(list(self._graphs))
        if self._graphed is not None:
            self._graphed.undo()
            self._graphed = None
        if self._loader_captures:
            self.loader.capture = False  # type: ignore[attr-defined]
        warn(f"training steps are not captured, and run as usual: {why}")


def capture(
    model: nn.Module,
    loss: Loss,
    optimizer: torch.optim.Optimizer,
    loader: Iterable[Any],
    *,
    before_step: Callable[[nn.Module], Any] | None = None,
    ranks: Ranks | None = None,
) -> CapturedSteps:
    """Steps of training that are replayed as CUDA graphs (docs/captured.md says how they differ from eager ones).

    Iterating it trains for an epoch of ``loader``, and gives each batch and its loss (a tensor of one number, detached, on the
    model's device) after the step on it was launched. Steps on batches that lie in no buffer run as usual, and so do all on the
    CPU. Where a step cannot be captured a warning says why, once.

    Args:
        model: any module, on one device.
        loss: ``loss(model, batch)`` is the mean loss of the batch, a tensor of one number. It, and the model, run on the GPU
            alone: nothing looks at a value, as ``.item()`` does. Labels behind a short batch's seeds are -100, torch's
            ``ignore_index``: with a loss that takes them for classes, give the loader ``drop_last=True``.
        optimizer: any of torch; its learning rate may change at any time, other settings capture the step anew.
        loader: a Loader made with ``capture=``, or any iterable of batches.
        before_step: ``before_step(model)`` runs between backward and the optimizer's step, captured as well: clips gradients,
            for example.
        ranks: who trains together (:func:`.joined`), each on its share of the batches (``rank`` and ``world_size`` of its
            loader): gradients are averaged over them before ``before_step``, and buffers become those of rank 0, as statistics
            of BatchNorm. Their models begin with the same parameters and buffers.

    Raises:
        ConfigError: an argument that is none of these.
        RankLost: while it is iterated: another rank died, or gave no gradients for the loader's ``timeout``.
    """
    arguments.instance("model", model, nn.Module, "as torch.nn.Linear is")
    if loss is None:
        raise ConfigError("loss=None is no function; pass one of the model and a batch")
    arguments.function("loss", loss)
    arguments.instance("optimizer", optimizer, torch.optim.Optimizer, "as torch.optim.Adam is")
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ConfigError("optimizer is an LBFGS, which asks for several losses a step; use another, as torch.optim.Adam")
    arguments.instance("loader", loader, Iterable, "as a Loader is")
    arguments.function("before_step", before_step)
    arguments.instance("ranks", ranks, (Ranks, type(None)), "as training.joined() gives")
    all_reduce = None if ranks is None or ranks.world_size == 1 else GradientAllReduce(optimizer, True, model)
    return CapturedSteps(model, loss, optimizer, loader, before_step, all_reduce=all_reduce)


def unfit(model: nn.Module) -> str | None:
    """Why steps of a model are not to be captured, by what its modules are; None where nothing speaks against it."""
    for module in model.modules():
        if isinstance(module, DataParallel | DistributedDataParallel):
            return (
                f"the model is a {type(module).__name__}, whose replicas wait for each other, and graphs are of one device's "
                "steps; give the module in it, and ranks= to average gradients between graphs"
            )
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.sparse:
            return (
                f"gradients of an {type(module).__name__} with sparse=True have a size that the CPU waits for; use sparse=False"
            )
    return sees_padding(model)


def sees_padding(model: nn.Module) -> str | None:
    """Why a model must not be given rows of padding: a module whose result for a row depends on others."""
    for module in model.modules():
        kind = type(module).__name__
        running = isinstance(module, _BatchNorm) and not module.training and module.track_running_stats
        of_pyg = kind in _OVER_ROWS or (kind == "LayerNorm" and getattr(module, "mode", "node") == "graph")
        if not running and (isinstance(module, _BatchNorm | _InstanceNorm) or of_pyg):
            return (
                f"{kind} takes statistics over all rows, and those of padding would count; use torch.nn.LayerNorm, for example"
            )
    return None


def _is_replayable(batch: Any) -> bool:
    return getattr(batch, "buffer", None) is not None and batch.seeds.is_cuda


def _drawn_on_cpu() -> tuple[Any, ...]:
    """How far the generators of torch, Python and NumPy have come."""
    of_numpy = pickle.dumps(np.random.get_state(legacy=False))
    return torch.get_rng_state().numpy().tobytes(), random.getstate(), of_numpy


def _generators(device: torch.device) -> Callable[[], None]:
    """What puts the generators of the CPU and of a GPU back to where they are now."""
    generator = torch.cuda.default_generators[device.index]
    on_cpu, on_gpu = torch.get_rng_state(), generator.clone_state()

    def back() -> None:
        torch.set_rng_state(on_cpu)
        generator.graphsafe_set_state(on_gpu)  # the state that a failed capture leaves may take itself for captured

    return back


def _inputs(batch: Any) -> tuple[Any, ...]:
    """Where a batch lies."""
    held: Iterable[torch.Tensor | None] = tensors_of(batch)
    if isinstance(batch, Batch):
        sample = batch.sample
        held = (batch.x, batch.y, batch.seeds, sample.node, sample.row, sample.col, sample.edge, sample.ends)
    return tuple(None if tensor is None else (tensor.data_ptr(), tensor.shape, tensor.dtype) for tensor in held)


def _without_padding(batch: Any) -> Any:
    """The same batch, as long as it is. Waits for the GPU."""
    if not isinstance(batch, Batch):
        return batch
    counts = batch.sample.ends.tolist()
    sample = unpadded(batch.sample, counts)
    seeds, rows = counts[0][0], counts[0][-1]
    x, y = (None if held is None else held[:most] for held, most in ((batch.x, rows), (batch.y, seeds)))
    return dataclasses.replace(batch, sample=sample, x=x, y=y, seeds=batch.seeds[:seeds], buffer=None)
