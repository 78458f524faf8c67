"""Computes rows that were put off (:mod:`.host`): pass by pass, each in blocks that come from host memory and go back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ..runtime.errors import ConfigError
from .aggregate_launch import PartRows, dense
from .host_nodes import InputRows, Node, Reduced, Values, parameters_of, row_wise, stored
from .host_passes import Name, RowBlock, Same
from .host_plan import GpuShare, HostPlan, Key, PassVisit, Planner, key_form, stages_of, visits_of
from .host_stream import HostArray, HostRoom, Lane, RowStore
from .partitioned import PartitionedGraph
from .plan import room_of


def computed(p: PartitionedGraph, node: Node, on_host: bool) -> list[Tensor]:
    """A node's rows for each of this process's parts, with a gradient: on the parts' devices, or in host memory.

    Raises:
        OutOfMemory: the parts' devices have not enough, or may not take as much; before anything is computed.
    """
    program = _Program(p, node, on_host)
    with torch.set_grad_enabled(program.with_gradient):
        return list(_Computed.apply(program, *program.given, *program.parameters))


def plans(p: PartitionedGraph) -> list[HostPlan]:
    """Those of the last computations, one for each kind."""
    return list(p.kept("host plans", dict[Any, HostPlan]).values())


class _Computed(Function):
    @staticmethod
    def forward(ctx: Any, program: _Program, *inputs: Tensor) -> tuple[Tensor, ...]:
        made = program.forward()
        ctx.program, ctx.inputs = program, len(inputs)
        ctx.save_for_backward(*inputs, *(made if program.reads_result else ()))
        return tuple(made)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        # Refuses what was written meanwhile: functions would be computed anew with other values.
        saved = ctx.saved_tensors
        return None, *ctx.program.backward(grads, saved[ctx.inputs :])


class _Program:
    """All passes that some rows need.

    Attributes:
        given, parameters: tensors that may have gradients.
    """

    def __init__(self, p: PartitionedGraph, node: Node, on_host: bool) -> None:
        self.p = p
        if not isinstance(node, Reduced):
            node = Reduced(node.sample, (node,), (), Same(self.p))
        self.result, self.on_host = node, on_host
        self.stages = stages_of(node)
        self.sources = [
            one for one in stored(one for stage in self.stages for one in stage.inputs) if isinstance(one, InputRows)
        ]
        self.given = [tensor for one in self.sources for tensor in one.tensors]
        inputs = [one for stage in self.stages for one in stage.inputs]
        owned = [*parameters_of(inputs), *(tensor for one in self.stages for tensor in one.parameters)]
        self.parameters = list({id(one): one for one in owned}.values())
        self.with_gradient = torch.is_grad_enabled() and node.needs
        self.visits = visits_of(self.stages, self.with_gradient)
        self.numbers: dict[Node, int] = {one: i for i, one in enumerate((*self.stages, *self.sources))}
        self.plan = self.p.world.agreed(self._planned)
        self.lanes: list[Lane] = self.p.kept("lanes", lambda: [Lane(on) for on in self.p.world.devices])
        limit = float("inf") if p.files is None else p.files.host_budget
        self.room: HostRoom = self.p.kept("host room", lambda: HostRoom(limit))
        self.stores: dict[Key, list[RowStore]] = {
            (one, "out"): [*map(RowStore.of, one.tensors), *map(RowStore.of_file, one.files)] for one in self.sources
        }
        self.kept: dict[Reduced, list[dict[str, Tensor]]] = {one: [{} for _ in self.p.parts] for one in self.stages}
        self.here: dict[tuple[int, int], Tensor] = {}  # copies of parameters by part, each of which has a stream of its own
        self.sums: dict[tuple[int, int], Tensor] = {}  # of parameters' gradients
        self.functions = row_wise(inputs)
        self.draws = any(one.seed is not None for one in self.functions)
        self.was_given = False

    def _planned(self) -> HostPlan:
        on_gpu = [one for one in self.sources if one.tensors and one.tensors[0].is_cuda]
        always: set[Key] = {(one, name) for one in on_gpu for name in ("out", "grad")}
        if not self.on_host:
            always |= {(self.result, "out"), (self.result, "grad")}
        fixed: set[Key] = {(one, name) for one in (*self.sources, self.result) for name in ("out", "grad")}
        budget, known = self.p.gpu_budget, self.p.kept("host plans", dict[Any, HostPlan])
        filed: set[Key] = {(one, "out") for one in self.sources if one.files}
        planner = Planner(self.p, self.visits, self.numbers, always, fixed, filed)
        form = (budget, planner.form())
        found = known.pop(form, None) if budget is not None else None
        if found is None:
            found = planner.plan(min(map(room_of, self.p.world.devices)) + planner.graph if budget is None else budget)
            if self.p.files is not None and found.in_files is not None:
                self.p.files.require(len(self.p.parts) * found.in_files.taken)
        known[form] = found  # the last one is that of the last computation
        self.lives = planner.lives(dict(zip(self.stages, found.columns, strict=True)))
        return found

    @property
    def reads_result(self) -> bool:
        """Whether gradients are made of the results, which belong to the caller and are not kept here."""
        return any(visit.is_gradient and (self.result, "out") in visit.keys for visit in self.visits)

    def forward(self) -> list[Tensor]:
        self._check()
        made: list[Tensor] = []
        with self._around(made):
            self._through(gradients=False)
            found = [one.whole for one in self.stores.pop((self.result, "out"))]
            made += [one for one in found if one.is_cuda]
        self._wait()
        for one in self.functions:
            one.was = one.state()  # what functions themselves write to, as counters
        return found

    def _check(self) -> None:
        """Raises:
        ConfigError: what results depend on has changed since it was put off.
        """
        changed = [type(one.fn).__name__ for one in self.functions if one.was != one.state()]
        changed += ["rows" for one in self.sources if one.versions != [tensor._version for tensor in one.tensors]]
        if changed:
            raise ConfigError(
                f"{changed[0]}: parameters, buffers, the mode or rows were changed after a function had been put off and "
                "before it was computed, or before its gradient; take values by p.each(rows) first"
            )

    def backward(self, grads: Sequence[Tensor], results: Sequence[Tensor]) -> list[Tensor | None]:
        if self.was_given:
            raise RuntimeError("rows that go through host memory have their gradient taken once; take p.each(rows) again")
        self._check()
        self.was_given = True
        if results:
            self.stores[self.result, "out"] = [RowStore.of(one.detach()) for one in results]
        self.stores[self.result, "grad"] = list(map(RowStore.of, dense(grads)))
        made: list[Tensor] = []
        with self._around(made):
            self._through(gradients=True)
            held = [store.whole for one in self.sources for store in self.stores.get((one, "grad"), ())]
            made += [one for one in (*held, *self.sums.values()) if one.is_cuda]
        self._wait()
        found: list[Tensor | None] = []
        for one in self.sources:
            grad = self.stores.pop((one, "grad"), None)
            found += [None] * len(one.tensors) if grad is None else [store.whole for store in grad]
        self.stores.clear()
        return found + [self._summed(one) for one in self.parameters]

    def _summed(self, parameter: Tensor) -> Tensor | None:
        """A parameter's gradient, of all parts."""
        parts = [self.sums[key] for key in ((id(parameter), i) for i in range(len(self.p.parts))) if key in self.sums]
        if not parts:
            return None
        total = parts[0].to(parameter.device)
        for one in parts[1:]:
            total = total + one.to(parameter.device)
        return total.to(parameter.dtype)

    @contextmanager
    def _around(self, made: list[Tensor]) -> Iterator[None]:
        """What comes before and after many passes: streams are joined, and torch's generators are as they were."""
        devices = sorted({on.index for on in self.p.world.devices if on.type == "cuda"})
        with torch.random.fork_rng(devices) if self.draws else nullcontext(), self.p.world.turn(made):
            yield

    def _wait(self) -> None:
        """What lies in host memory is there for the CPU, too."""
        for lane, on in zip(self.lanes, self.p.world.devices, strict=True):
            lane.fence()
            if on.type == "cuda":
                torch.cuda.current_stream(on).synchronize()

    def _through(self, gradients: bool) -> None:
        ranges = [self._ranges(i) for i in range(len(self.p.parts))]
        for number, visit in enumerate(self.visits):
            if visit.is_gradient != gradients:
                continue
            width, pieces = visit.stage.sample.shape[1], self.plan.columns[self.numbers[visit.stage]]
            step, fresh = -(-width // pieces), {key for key in visit.writes if key not in self.stores}
            for first in range(0, max(width, 1), max(step, 1)):
                columns = slice(first, first + step) if pieces > 1 else None
                tables = self._filled(visit, ranges, columns)
                if not first:
                    self._release(2 * number)
                    for key in fresh:
                        self._allocate(key)
                for i in range(len(self.p.parts)):
                    with self.p.world.on(i):
                        self._stepped(visit, i, ranges[i], tables[i], columns, set() if first else fresh)
                        self.lanes[i].fence()
                del tables  # before the next columns' are made
            self._release(2 * number + 1)
            if not gradients or all(one.stage is not visit.stage for one in self.visits[number + 1 :]):
                self.kept[visit.stage] = [{} for _ in self.p.parts]

    def _ranges(self, i: int) -> list[slice]:
        rows = self.p.parts[i].rows
        step = max(self.plan.block, 1)
        return [slice(first, min(first + step, rows)) for first in range(0, rows, step)] or [slice(0, 0)]

    def _allocate(self, key: Key) -> None:
        """Rows between passes. Such as are asked for in host memory are new there, others come from what other steps left."""
        (width, dtype), place, held = key_form(key), self.plan.places.get((self.numbers[key[0]], key[1]), GpuShare()), []
        is_given = isinstance(key[0], InputRows) or key == (self.result, "out")
        for i, (part, on) in enumerate(zip(self.p.parts, self.p.world.devices, strict=True)):
            kept, ahead = (min(rows, part.rows) for rows in (place.kept, place.ahead))
            with self.p.world.on(i):
                on_gpu = torch.empty(kept, width, dtype=dtype, device=on) if place.kept else None
                also = torch.empty(ahead - kept, width, dtype=dtype, device=on) if ahead > kept else None
            host, rest = None, part.rows - kept
            hosted = rest if is_given else self.plan.hosted(self.numbers[key[0]], key[1], rest)
            if hosted or not part.rows:
                host = (HostArray if is_given else self.room.lease)(hosted, width, dtype, on)
            file = self.p.files.lease(rest - hosted, width, dtype) if self.p.files is not None and rest > hosted else None
            held.append(RowStore(width, dtype, on_gpu, also, host, file))
        self.stores[key] = held

    def _release(self, half: int) -> None:
        """Lets go of rows that nothing reads from here on."""
        for key, (_, last, ahead) in self.lives.items():
            if key not in self.stores or isinstance(key[0], InputRows) or key == (self.result, "out"):
                continue
            if half == ahead:
                for store in self.stores[key]:
                    store.drop_ahead()
            if half == last:
                for store in self.stores.pop(key):
                    if store.host is not None:
                        self.room.give(store.host)
                    if store.file is not None and self.p.files is not None:
                        self.p.files.give(store.file)

    def _blocks(self, i: int, ranges: Sequence[slice], keys: Sequence[Key]) -> Iterator[tuple[slice, dict[Key, Tensor]]]:
        """The block's rows by key, on the device, block by block."""
        for rows, values in self.lanes[i].blocks(ranges, [self.stores[key][i] for key in keys]):
            yield rows, dict(zip(keys, values, strict=True))

    def _parameter(self, i: int, one: Tensor) -> Tensor:
        """A parameter on a part's device: itself, or a copy that is a leaf for its gradient there."""
        on = self.p.world.devices[i]
        if one.device == on:
            return one
        if (id(one), i) not in self.here:
            self.here[id(one), i] = one.detach().to(on).requires_grad_(one.requires_grad)
        return self.here[id(one), i]

    def _values(self, i: int, rows: slice, leaves: dict[Node, Tensor]) -> Values:
        begin = self.p.bounds[self.p.parts[i].rank] + rows.start  # parts draw other numbers
        return Values(dict(leaves), partial(self._parameter, i), begin)

    def _block(
        self, visit: PassVisit, i: int, rows: slice, found: dict[Key, Tensor], names: Sequence[Name], values: Values
    ) -> RowBlock:
        stage = visit.stage
        held = {name: values.of(stage.inputs[name]).detach() if isinstance(name, int) else found[stage, name] for name in names}
        given = [self._parameter(i, one).detach() for one in stage.parameters]
        return RowBlock(i, rows.start, rows.stop, self.p.parts[i].rows, held, self.kept[stage][i], given)

    def _filled(self, visit: PassVisit, ranges: Sequence[Sequence[slice]], columns: slice | None) -> list[list[PartRows]]:
        """The tables of each part, with what others have of them."""
        run = visit.run
        if not run.fills:
            return [[] for _ in self.p.parts]
        tables: list[list[Tensor]] = []
        for i, part in enumerate(self.p.parts):
            with self.p.world.on(i), torch.no_grad():
                self.lanes[i].fence()
                held: list[Tensor] = []
                for rows, found in self._blocks(i, ranges[i], visit.fills):
                    values = self._values(i, rows, _leaves(found))
                    filled = run.fill(self._block(visit, i, rows, found, run.fills, values))
                    filled = [one if columns is None else one[:, columns] for one in filled]
                    held = held or [one.new_empty(part.rows, one.shape[1]) for one in filled]
                    for one, to in zip(filled, held, strict=True):
                        to[rows] = one
                tables.append(held)
        graph = self.p.transposed if run.turned else self.p
        if graph.world.parts == 1:
            return [[PartRows(one) for one in held] for held in tables]
        halos = [graph.fetch(of) for of in zip(*tables, strict=True)]
        return [[PartRows(one, halos[k][i]) for k, one in enumerate(held)] for i, held in enumerate(tables)]

    def _stepped(
        self, visit: PassVisit, i: int, ranges: Sequence[slice], tables: list[PartRows], columns: slice | None, fresh: set[Key]
    ) -> None:
        keys = [key for key in visit.steps if key not in fresh]
        for rows, found in self._blocks(i, ranges, keys):
            if visit.run.gives:
                self._pulled(visit, i, rows, found, tables, columns)
                continue
            with torch.no_grad():
                block = self._block(visit, i, rows, found, visit.run.needs, self._values(i, rows, _leaves(found)))
                block.tables = tables
                for name, one in visit.run.step(block).items():
                    if (visit.stage, name) in visit.writes:
                        self.stores[visit.stage, str(name)][i].write(self.lanes[i], rows, one, columns)

    def _pulled(
        self, visit: PassVisit, i: int, rows: slice, found: dict[Key, Tensor], tables: list[PartRows], columns: slice | None
    ) -> None:
        """A block's gradients, from those of the reduction's inputs through the functions that these come from."""
        run, stage = visit.run, visit.stage
        wanted = [j for j in run.gives if stage.inputs[j].needs]
        leaves = {node: one.detach().requires_grad_(node.needs) for node, one in _leaves(found).items()}
        values = self._values(i, rows, leaves)
        with torch.enable_grad():
            outputs = {j: values.of(stage.inputs[j]) for j in wanted if not isinstance(stage.inputs[j], InputRows | Reduced)}
        with torch.no_grad():
            block = self._block(visit, i, rows, found, run.needs, values)
            block.tables = tables
            made = run.step(block)
        if "parameter" in made:
            self._add(i, stage.parameters[0], made["parameter"])
        grads = {j: _whole(made[j], stage.inputs[j], columns) for j in wanted}
        of_leaves: dict[Node, Tensor] = {}

        def add(node: Node, grad: Tensor | None) -> None:
            if grad is not None:
                of_leaves[node] = of_leaves[node] + grad if node in of_leaves else grad

        for j in set(grads) - set(outputs):
            add(stage.inputs[j], grads[j])
        through = [j for j, one in outputs.items() if one.requires_grad]
        if through:
            inputs = [(node, one) for node, one in leaves.items() if one.requires_grad]
            results = torch.autograd.grad(
                [outputs[j] for j in through],
                [one for _, one in inputs] + [self._parameter(i, one) for one in visit.parameters],
                [grads[j].to(outputs[j].dtype) for j in through],
                allow_unused=True,
            )
            for (node, _), grad in zip(inputs, results, strict=False):
                add(node, grad)
            for one, grad in zip(visit.parameters, results[len(inputs) :], strict=True):
                if grad is not None:
                    self._add(i, one, grad)
        for node in {key[0]: None for key in visit.writes}:
            before = found.get((node, "grad"))
            if node not in of_leaves and before is not None:
                continue
            known = of_leaves[node] if node in of_leaves else torch.zeros_like(leaves[node])
            self.stores[node, "grad"][i].write(self.lanes[i], rows, known if before is None else known + before, None)

    def _add(self, i: int, parameter: Tensor, grad: Tensor) -> None:
        if not parameter.requires_grad:
            return
        held = self.sums.get((id(parameter), i))
        if held is None:
            self.sums[id(parameter), i] = grad.view_as(parameter).clone()
        else:
            held += grad.view_as(parameter)


def _leaves(found: dict[Key, Tensor]) -> dict[Node, Tensor]:
    """Stored rows of a block by their node."""
    return {node: one for (node, name), one in found.items() if name == "out"}


def _whole(grad: Tensor, of: Node, columns: slice | None) -> Tensor:
    """The gradient of all columns, where some were computed."""
    if columns is None:
        return grad
    whole = grad.new_zeros(len(grad), of.sample.shape[1])
    whole[:, columns] = grad
    return whole
