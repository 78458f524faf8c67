"""Computes rows that were put off (:mod:`.host`): pass by pass, each in blocks that come from host memory and go back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from .host_nodes import Given, Node, Reduced, Values, row_wise, stored
from .host_passes import Block, Name, Same
from .host_plan import HostPlan, Key, Planner, Visit, key_form, needs_gradient, stages_of, visits_of
from .host_stream import HostArray, HostRoom, Lane
from .partitioned import PartitionedGraph
from .plan import room_of
from .rows import Rows


def computed(p: PartitionedGraph, node: Node, on_host: bool) -> list[Tensor]:
    """A node's rows for each of this process's parts, with a gradient: on the parts' devices, or in host memory.

    Raises:
        OutOfMemory: the parts' devices have not enough, or may not take as much; before anything is computed.
    """
    program = _Program(p, node, on_host)
    return list(_Computed.apply(program, *program.given, *program.parameters))


def plans(p: PartitionedGraph) -> list[HostPlan]:
    """Those of the last computations, one for each kind."""
    return list(p.kept("host plans", dict[Any, HostPlan]).values())


class _Computed(Function):
    @staticmethod
    def forward(ctx: Any, program: _Program, *inputs: Tensor) -> tuple[Tensor, ...]:
        ctx.program = program
        ctx.save_for_backward(*inputs)
        return tuple(program.forward())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        _ = ctx.saved_tensors  # refuses what was written meanwhile: functions would be computed anew with other values
        return None, *ctx.program.backward(grads)


class _Program:
    """All passes that some rows need.

    Attributes:
        given, parameters: tensors that have gradients.
    """

    def __init__(self, p: PartitionedGraph, node: Node, on_host: bool) -> None:
        self.p = p
        if not isinstance(node, Reduced):
            node = Reduced(node.sample, Same(self.p), (node,))
        self.result, self.on_host = node, on_host
        self.stages = stages_of(node)
        self.sources = [one for one in stored(one for stage in self.stages for one in stage.inputs) if isinstance(one, Given)]
        self.given = [tensor for one in self.sources for tensor in one.tensors]
        inputs = [one for stage in self.stages for one in stage.inputs]
        owned = [t for one in row_wise(inputs) for t in one.parameters] + [t for one in self.stages for t in one.parameters]
        self.parameters = list({id(one): one for one in owned}.values())
        self.with_gradient = torch.is_grad_enabled() and needs_gradient(node)
        self.visits = visits_of(self.stages, self.with_gradient)
        self.plan = self.p.world.agreed(self._planned)
        self.lanes: list[Lane] = self.p.kept("lanes", lambda: [Lane(on) for on in self.p.world.devices])
        self.room: HostRoom = self.p.kept("host room", HostRoom)
        self.arrays: dict[Key, list[Tensor]] = {(one, "out"): one.tensors for one in self.sources}
        self.seen: dict[Key, list[Tensor]] = {}
        self.leases: dict[Key, list[HostArray]] = {}
        self.kept: dict[Reduced, list[dict[str, Tensor]]] = {one: [{} for _ in self.p.parts] for one in self.stages}
        self.sums: dict[int, Tensor] = {}
        self.last = {key: i for i, visit in enumerate(self.visits) for key in visit.keys}

    def _planned(self) -> HostPlan:
        always: set[Key] = {(one, name) for one in self.sources if one.tensors[0].is_cuda for name in ("out", "grad")}
        if not self.on_host:
            always |= {(self.result, "out"), (self.result, "grad")}
        fixed: set[Key] = {(one, name) for one in self.sources for name in ("out", "grad")} | {
            (self.result, "out"),
            (self.result, "grad"),
        }
        budget = self.p.gpu_budget
        planner = Planner(self.p, self.visits, always, fixed)
        found = planner.plan(min(map(room_of, self.p.world.devices)) + planner.graph if budget is None else budget)
        form = tuple((type(stage.reduction).__name__, *stage.sample.shape, stage.sample.dtype) for stage in self.stages)
        self.p.kept("host plans", dict[Any, HostPlan])[form, self.with_gradient] = found
        return found

    def forward(self) -> list[Tensor]:
        made: list[Tensor] = []
        with self._around(made):
            for i, visit in enumerate(self.visits):
                if not visit.is_gradient:
                    self._visit(visit)
                    self._release(i)
            made += self.arrays[self.result, "out"]
        self._wait()
        return made

    def backward(self, grads: Sequence[Tensor]) -> list[Tensor | None]:
        self.arrays[self.result, "grad"] = [one.contiguous() for one in grads]
        with self._around([]):
            for i, visit in enumerate(self.visits):
                if visit.is_gradient:
                    self._visit(visit)
                    self._release(i)
        self._wait()
        found: list[Tensor | None] = []
        for one in self.sources:
            held = self.arrays.pop((one, "grad"), None)
            found += [None] * len(one.tensors) if held is None else held
        return found + [self.sums.get(id(one)) for one in self.parameters]

    def _around(self, made: list[Tensor]) -> AbstractContextManager[None]:
        return self.p.world.turn(made)

    def _wait(self) -> None:
        """What lies in host memory is there for the CPU, too."""
        for lane, on in zip(self.lanes, self.p.world.devices, strict=True):
            lane.fence()
            if on.type == "cuda":
                torch.cuda.current_stream(on).synchronize()

    def _visit(self, visit: Visit) -> None:
        ranges = [self._ranges(i) for i in range(len(self.p.parts))]
        fresh = [key for key in visit.writes if key not in self.arrays]
        for key in fresh:
            self._allocate(key)
        width, pieces = visit.stage.sample.shape[1], self.plan.columns[visit.stage]
        step = -(-width // pieces)
        devices = [on.index for on in self.p.world.devices if on.type == "cuda"]
        with torch.random.fork_rng(sorted(set(devices))):
            for first in range(0, max(width, 1), max(step, 1)):
                columns = slice(first, first + step) if pieces > 1 else None
                tables = self._filled(visit, ranges, columns)
                for i in range(len(self.p.parts)):
                    with self.p.world.on(i):
                        self._stepped(visit, i, ranges[i], tables[i], columns, set(fresh) if not first else set())
                        self.lanes[i].fence()

    def _ranges(self, i: int) -> list[slice]:
        rows = self.p.parts[i].rows
        return [slice(first, min(first + self.plan.block, rows)) for first in range(0, rows, self.plan.block)]

    def _allocate(self, key: Key) -> None:
        """Rows between passes; such as are asked for in host memory are new, others come from what other steps left."""
        (width, dtype), held, seen, leases = key_form(key), [], [], []
        for i, (part, on) in enumerate(zip(self.p.parts, self.p.world.devices, strict=True)):
            if key in self.plan.on_gpu:
                with self.p.world.on(i):
                    held.append(torch.empty(part.rows, width, dtype=dtype, device=on))
                continue
            is_given = isinstance(key[0], Given) or (key == (self.result, "out") and self.on_host)
            array = HostArray(part.rows, width, dtype, on) if is_given else self.room.lease(part.rows, width, dtype, on)
            held.append(array.rows)
            seen.append(array.seen)
            if not is_given:
                leases.append(array)
        self.arrays[key], self.seen[key], self.leases[key] = held, seen or held, leases

    def _release(self, i: int) -> None:
        """Lets go of rows that nothing reads from here on."""
        for key in self.visits[i].keys:
            if self.last[key] == i and not isinstance(key[0], Given) and key != (self.result, "out"):
                self.arrays.pop(key, None)
                self.seen.pop(key, None)
                for array in self.leases.pop(key, ()):
                    self.room.give(array)
        stage = self.visits[i].stage
        if all(visit.stage is not stage for visit in self.visits[i + 1 :]) or not self.visits[i].is_gradient:
            self.kept[stage] = [{} for _ in self.p.parts]

    def _blocks(self, i: int, ranges: Sequence[slice], keys: Sequence[Key]) -> Any:
        """The block's rows by key, on the device, block by block."""
        sources = [self.arrays[key][i] for key in keys]
        for rows, values in self.lanes[i].blocks(ranges, sources):
            yield rows, dict(zip(keys, values, strict=True))

    def _block(
        self, visit: Visit, i: int, rows: slice, found: dict[Key, Tensor], names: Sequence[Name], values: Values
    ) -> Block:
        on, held = self.p.world.devices[i], {}
        for name in names:
            held[name] = values.of(visit.stage.inputs[name]) if isinstance(name, int) else found[visit.stage, name]
        given = [one.detach().to(on) for one in visit.stage.parameters]
        rows_of = {name: one.detach() for name, one in held.items()}
        return Block(i, rows.start, rows.stop, self.p.parts[i].rows, rows_of, self.kept[visit.stage][i], given)

    def _filled(self, visit: Visit, ranges: Sequence[Sequence[slice]], columns: slice | None) -> list[list[Rows]]:
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
                    values = self._values(i, rows, found)
                    filled = run.fill(self._block(visit, i, rows, found, run.fills, values))
                    filled = [one if columns is None else one[:, columns] for one in filled]
                    if not held:
                        held = [one.new_empty(part.rows, one.shape[1]) for one in filled]
                    for one, to in zip(filled, held, strict=True):
                        to[rows].copy_(one)
                tables.append(held or self._empty(visit, i, columns))
        graph = self.p.transposed if run.turned else self.p
        if graph.world.parts == 1:
            return [[Rows(one) for one in held] for held in tables]
        halos = [graph.fetch(of) for of in zip(*tables, strict=True)]
        return [[Rows(one, halos[k][i]) for k, one in enumerate(held)] for i, held in enumerate(tables)]

    def _empty(self, visit: Visit, i: int, columns: slice | None) -> list[Tensor]:
        """The tables of a part without rows."""
        found = {key: one[:0].to(self.p.world.devices[i]) for key in visit.fills for one in [self.arrays[key][i]]}
        block = self._block(visit, i, slice(0, 0), found, visit.run.fills, self._values(i, slice(0, 0), found))
        return [one if columns is None else one[:, columns].contiguous() for one in visit.run.fill(block)]

    def _values(self, i: int, rows: slice, found: dict[Key, Tensor], leaves: dict[Node, Tensor] | None = None) -> Values:
        on = self.p.world.devices[i]
        there = {node: one for (node, name), one in found.items() if name == "out"} if leaves is None else leaves
        parameter: Callable[[Tensor], Tensor] = lambda one: one.detach().to(on)  # noqa: E731
        return Values(dict(there), parameter, rows.start)

    def _stepped(
        self, visit: Visit, i: int, ranges: Sequence[slice], tables: list[Rows], columns: slice | None, fresh: set[Key]
    ) -> None:
        keys = [key for key in visit.steps if key not in fresh]
        for rows, found in self._blocks(i, ranges, keys):
            if visit.run.gives:
                self._pulled(visit, i, rows, found, tables, columns)
                continue
            with torch.no_grad():
                block = self._block(visit, i, rows, found, visit.run.needs, self._values(i, rows, found))
                block.tables = tables
                self._take(visit, i, rows, visit.run.step(block), columns)

    def _take(self, visit: Visit, i: int, rows: slice, made: dict[Name, Tensor], columns: slice | None) -> None:
        """Stores a block's results."""
        for name, one in made.items():
            if name == "parameter":
                self._add(visit.stage.parameters[0], one)
            elif (visit.stage, name) in visit.writes:
                self._store((visit.stage, str(name)), i, rows, one, columns)

    def _store(self, key: Key, i: int, rows: slice, made: Tensor, columns: slice | None = None) -> None:
        if columns is not None:
            self.seen[key][i][rows, columns] = made
        else:
            self.lanes[i].write(self.arrays[key][i][rows], made.to(self.arrays[key][i].dtype))

    def _pulled(
        self, visit: Visit, i: int, rows: slice, found: dict[Key, Tensor], tables: list[Rows], columns: slice | None
    ) -> None:
        """A block's gradients, from those of the reduction's inputs through the functions that these come from."""
        run, stage = visit.run, visit.stage
        wanted = [j for j in run.gives if needs_gradient(stage.inputs[j])]
        leaves = {node: one.detach() for (node, name), one in found.items() if name == "out"}
        for node, one in leaves.items():
            one.requires_grad_(needs_gradient(node))
        owned: dict[int, tuple[Tensor, Tensor]] = {}

        def parameter(one: Tensor) -> Tensor:
            if id(one) not in owned:
                here = one.detach().to(self.p.world.devices[i]).requires_grad_(one.requires_grad)
                owned[id(one)] = (one, here)
            return owned[id(one)][1]

        values = Values(dict(leaves), parameter, rows.start)
        with torch.enable_grad():
            outputs = {j: values.of(stage.inputs[j]) for j in wanted if not isinstance(stage.inputs[j], Given | Reduced)}
        with torch.no_grad():
            block = self._block(visit, i, rows, found, run.needs, values)
            block.tables = tables
            made = run.step(block)
        self._take(visit, i, rows, {name: one for name, one in made.items() if name == "parameter"}, None)
        grads = {j: self._whole(made[j], stage.inputs[j], columns) for j in wanted}  # type: ignore[index]
        of_leaves: dict[Node, Tensor] = {}

        def add(node: Node, grad: Tensor) -> None:
            of_leaves[node] = of_leaves[node] + grad if node in of_leaves else grad

        for j, grad in grads.items():
            if j not in outputs:
                add(stage.inputs[j], grad)
        if outputs:
            inputs = [(node, one) for node, one in leaves.items() if one.requires_grad]
            held = [(one, here) for one, here in owned.values() if here.requires_grad]
            differentiable = [j for j, one in outputs.items() if one.requires_grad]
            results = torch.autograd.grad(
                [outputs[j] for j in differentiable],
                [one for _, one in inputs] + [here for _, here in held],
                [grads[j].to(outputs[j].dtype) for j in differentiable],
                allow_unused=True,
            )
            for (node, _), grad in zip(inputs, results, strict=False):
                if grad is not None:
                    add(node, grad)
            for (one, _), grad in zip(held, results[len(inputs) :], strict=True):
                if grad is not None:
                    self._add(one, grad)
        for node in {key[0]: None for key in visit.writes}:
            before = found.get((node, "grad"))
            if node not in of_leaves and before is not None:
                continue
            known = of_leaves.get(node, torch.zeros_like(leaves[node]) if node in leaves else None)
            assert known is not None  # what no function names is given to the stage itself
            self._store((node, "grad"), i, rows, known if before is None else known + before)

    def _whole(self, grad: Tensor, of: Node, columns: slice | None) -> Tensor:
        """The gradient of all columns, where some were computed."""
        if columns is None:
            return grad
        whole = grad.new_zeros(len(grad), of.sample.shape[1])
        whole[:, columns] = grad
        return whole

    def _add(self, parameter: Tensor, grad: Tensor) -> None:
        if not parameter.requires_grad:
            return
        grad = grad.to(parameter.device, parameter.dtype).view_as(parameter)
        held = self.sums.get(id(parameter))
        if held is None:
            self.sums[id(parameter)] = grad.clone()
        else:
            held += grad
