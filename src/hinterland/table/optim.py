"""Optimizers of tables: torch.optim's SGD and Adagrad on sparse gradients, which change only the rows that were in bags.

They are torch optimizers: ``step()``, ``zero_grad()``, parameter groups, schedulers and ``state_dict()`` work as ever. A step
sorts (row, bag) pairs by row, and one kernel adds up each row's gradients in that order, and reads and writes the row and its
state where they lie. No gradient of the table's rows is ever stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import torch

from ..runtime import arguments
from ..runtime.errors import ConfigError
from .embedding import TableParameter
from .embedding_launch import joined, update
from .table import Table
from .whole import fill_all, read_all, write_all


class _SparseOptimizer(torch.optim.Optimizer):
    # torch.amp.GradScaler asks for this before it hands over its scale: then step() can refuse it. Gradients of tables are not
    # among those that it looks through for infinities.
    _step_supports_amp_scaling = True

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        for name, value in defaults.items():
            defaults[name] = arguments.number(name, value)
            if not defaults[name] >= 0:
                raise ConfigError(f"{name}={value} is below 0")
        self._sums: dict[TableParameter, Table] = {}
        try:
            super().__init__(params, defaults)
        except (TypeError, ValueError, RuntimeError) as error:  # torch's, of what is no list of parameters
            if isinstance(error, ConfigError):
                raise
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ConfigError(f"params are {arguments.repr_of(params)}, but must be a list of tables: {reason}") from error

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds tables with options of their own; raises ConfigError for parameters that are no tables."""
        super().add_param_group(param_group)
        for param in self.param_groups[-1]["params"]:
            if not isinstance(param, TableParameter):
                self.param_groups.pop()
                raise ConfigError(
                    f"{type(self).__name__} is for tables, the parameters of a UnifiedEmbeddingBag, and was given a tensor of "
                    f"shape {tuple(param.shape)}; leave that one to torch.optim"
                )
        for param in self.param_groups[-1]["params"]:
            param.has_optimizer = True
            self._start(param, self.param_groups[-1])

    def _start(self, param: TableParameter, group: dict[str, Any]) -> None:
        """Makes the state of a table."""

    def _rate(self, param: TableParameter, group: dict[str, Any]) -> tuple[float, float]:
        """The rate of this step, and what is added to the divisor."""
        raise NotImplementedError

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Changes every row that has a gradient, once. Queued on the GPU that has the gradients, or done by the CPU.

        Where ``check="async"`` let a bag with a bad row number or offset pass, no row of that table is changed.

        Raises:
            ConfigError: the step was called by a GradScaler.
        """
        if getattr(self, "found_inf", None) is not None or getattr(self, "grad_scale", None) is not None:
            raise ConfigError("gradients of tables cannot be scaled by a GradScaler; use bfloat16, which needs none")
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is None:
                    continue
                device = param.rows.writer(param.gradients[0].rows.device)
                gradient = joined(param.gradients, device)
                rate, eps = self._rate(param, group)
                param.ready(device)
                update(param.rows, self._sums.get(param), gradient, rate, eps)
                param.written_on(device)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops the gradients, and frees what they hold."""
        super().zero_grad(set_to_none)
        for group in self.param_groups:
            for param in group["params"]:
                param.grad = None
                param.gradients.clear()

    def state_dict(self) -> dict[str, Any]:
        """As torch's; Adagrad's sums are tensors over the state's own memory, after waiting for steps under way, or copies
        where it lies in a file."""
        packed = super().state_dict()
        for number, param in enumerate(self._params()):
            if param in self._sums:
                param.ready(torch.device("cpu"))
                packed["state"][number] = {**packed["state"][number], "sum": read_all(self._sums[param])}
        return packed

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over the options and, in place, the state.

        Raises:
            ConfigError: a state that is not there, or not of its table's shape; nothing has changed then.
        """
        numbers = list(chain.from_iterable(group["params"] for group in state_dict["param_groups"]))
        saved = dict(zip(self._params(), (state_dict["state"].get(number, {}) for number in numbers), strict=False))
        for param, rows in self._sums.items():
            found = getattr(saved.get(param, {}).get("sum"), "shape", None)
            if found != rows.shape:
                raise ConfigError(f"the state of a table of shape {tuple(rows.shape)} has sums of shape {found}")
        light = {number: {k: v for k, v in state.items() if k != "sum"} for number, state in state_dict["state"].items()}
        super().load_state_dict({**state_dict, "state": light})
        for param, rows in self._sums.items():
            param.ready(torch.device("cpu"))
            write_all(rows, saved[param]["sum"])

    def _params(self) -> list[TableParameter]:
        return list(chain.from_iterable(group["params"] for group in self.param_groups))


class SparseSGD(_SparseOptimizer):
    """``row -= lr * gradient``, as torch.optim.SGD does it with sparse gradients, and with no more memory than the table.

    Args:
        params: ``bag.parameters()``, of one or more bags.
        lr: may be changed at any time, or by a scheduler of torch.
    """

    def __init__(self, params: Iterable[Any], lr: float = 1e-3) -> None:
        super().__init__(params, {"lr": lr})

    def _rate(self, param: TableParameter, group: dict[str, Any]) -> tuple[float, float]:
        return float(group["lr"]), 0.0


class SparseAdagrad(_SparseOptimizer):
    """Adagrad of each element, as torch.optim.Adagrad does it with sparse gradients, or of each row.

    Its sums of squares are float32 of the table's shape, or ``[rows, 1]``. They lie in host memory beside the table, or in
    another file beside a table in a file: in the same folder, without a name, and gone with the optimizer.

    Args:
        params: ``bag.parameters()``, of one or more bags.
        lr: may be changed at any time, or by a scheduler of torch; divided by ``1 + (step - 1) * lr_decay``.
        initial_accumulator_value: where the sums start.
        eps: added to their root.
        placement: where the sums lie instead, as of UnifiedTensor.
        rowwise: whether a row has one sum, of the means of its squared gradients, as in FBGEMM and torchrec.

    Raises:
        ConfigError: an option that cannot be.
        OutOfMemory: the sums do not fit; nothing has been allocated then.
        StorageError: their file cannot be made.

    Source: Duchi, Hazan and Singer, "Adaptive subgradient methods for online learning and stochastic optimization", JMLR 2011;
    of rows Mudigere et al., "Software-hardware co-design for fast and scalable training of deep learning recommendation
    models", ISCA 2022.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        placement: str | None = None,
        rowwise: bool = False,
    ) -> None:
        self._placement, self._rowwise = placement, arguments.switch("rowwise", rowwise)
        options = {"lr": lr, "lr_decay": lr_decay, "initial_accumulator_value": initial_accumulator_value, "eps": eps}
        super().__init__(params, options)

    def _start(self, param: TableParameter, group: dict[str, Any]) -> None:
        rows, dim = param.rows.shape
        sums = self._sums[param] = param.beside((rows, 1 if self._rowwise else dim), torch.float32, self._placement, "sums")
        begin = group["initial_accumulator_value"]
        if begin != 0 or sums.file is None:  # whose file is zeros
            fill_all(sums, lambda rows: rows.fill_(begin))
        self.state[param]["step"] = torch.tensor(0.0)

    def _rate(self, param: TableParameter, group: dict[str, Any]) -> tuple[float, float]:
        step = self.state[param]["step"]
        step += 1
        return float(group["lr"]) / (1 + (step.item() - 1) * group["lr_decay"]), group["eps"]
