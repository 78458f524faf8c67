"""A training run between two epochs: what it has come to, the best of it, and its checkpoint."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

import torch
from torch import nn

from ..memory.ranks import Ranks
from ..runtime.errors import ConfigError, HinterlandError
from . import checkpoint as checkpoints
from .finite import check_splits, not_finite, refuse_neighbours
from .row_gather import rows_of
from .settings import Learning

M = TypeVar("M", bound=nn.Module)


class TrainingRun(Generic[M]):
    """What training by mini-batches and by whole graphs have in common.

    Args:
        dataset: what is trained on.
        config: what a run that goes on must have in common with this one; with ``seed``, ``lr`` and ``weight_decay``.
        ranks: who trains.
        checkpoint: the file, or None.
        make: the model, which has its convolutions in ``convs``.
    """

    def __init__(
        self, dataset: Any, config: dict[str, Any], ranks: Ranks, checkpoint: str | Path | None, make: Callable[[], M]
    ) -> None:
        self.dataset, self.config, self.ranks, self.checkpoint = dataset, config, ranks, checkpoint
        self.splits = {name: part for name, part in dataset.splits.items() if len(part)}
        if "test" in self.splits:  # without vertices whose labels are held back
            self.splits["test"] = self.splits["test"][rows_of(dataset.labels, self.splits["test"]) != -1]
        torch.manual_seed(config["seed"])
        self.model = make().to(ranks.device)
        convs = self.model.get_submodule("convs")
        first = [p for p in convs.get_submodule("0").parameters() if p.dim() > 1]
        rest = [p for p in self.model.parameters() if not any(p is one for one in first)]
        groups = [{"params": first, "weight_decay": config["weight_decay"]}, {"params": rest}]
        self.optimizer = torch.optim.Adam(groups, lr=config["lr"], fused=ranks.device.type == "cuda")
        self.history: list[dict[str, Any]] = []
        self.best: dict[str, Any] | None = None

    def go(self, settings: Learning, resume: bool, on_epoch: Callable[[dict[str, Any]], None] | None) -> None:
        """Trains for what is left of the epochs, from the checkpoint on if that is wanted and there.

        Raises:
            GraphError: features of a split's vertices are not finite.
        """
        if resume:
            self.resume()
        features = self.dataset.features
        if isinstance(features, Mapping):
            features = features.get(self.dataset.target)
        if features is not None:
            check_splits(features, self.splits, self.ranks)
        while len(self.history) < settings.epochs and not self._is_over(settings.patience):
            self.epoch()
            if on_epoch is not None and self.ranks.is_first:
                on_epoch(self.history[-1])

    def _is_over(self, patience: int | None) -> bool:
        """Whether validation has not improved for ``patience`` epochs."""
        return patience is not None and self.best is not None and len(self.history) - self.best["epoch"] > patience

    def epoch(self) -> None:
        """Trains for an epoch, :meth:`conclude`-s it, and writes the checkpoint."""
        raise NotImplementedError

    def evaluate(self, split: str) -> dict[str, float] | None:
        """Loss and accuracy on a split, of all ranks; None where it is empty."""
        raise NotImplementedError

    def read(self, split: str) -> Iterable[tuple[str, torch.Tensor, torch.Tensor]]:
        """Vertices that those of a split hear from, their type (empty where there is one), and their rows of features."""
        raise NotImplementedError

    def position(self) -> Mapping[str, Any]:
        """What a checkpoint has of this run besides."""
        return {}

    def go_to(self, state: Mapping[str, Any]) -> None:
        """Goes to a :meth:`position`."""

    def conclude(self, found: dict[str, Any], valid: dict[str, float] | None) -> None:
        """Adds an epoch to the history, of which ``valid`` is what :meth:`evaluate` gives of the validation split."""
        number = found["epoch"]
        if not math.isfinite(found["loss"]):
            self._refuse("train", f"the loss of epoch {number}")
        if valid is not None:
            if not math.isfinite(valid["loss"]):
                self._refuse("valid", f"the validation loss after epoch {number}")
            valid["loss"] += self._decay()
            found |= {"valid_loss": valid["loss"], "valid_accuracy": valid["accuracy"]}
            if self.best is None or valid["loss"] < self.best["loss"]:
                model = {name: value.clone() for name, value in self.model.state_dict().items()}
                self.best = {"epoch": number, **valid, "model": model}
        self.history.append(found)

    @torch.no_grad()
    def _decay(self) -> float:
        """What the decayed weights add to the loss that training minimizes.

        Without it a strong decay, which goes on improving the model long after the cross entropy's lowest value, would end too
        early; Shchur et al. 2018 stop by the sum, too.
        """
        decayed = self.optimizer.param_groups[0]
        if not decayed["weight_decay"]:
            return 0.0
        return float(decayed["weight_decay"]) / 2 * sum(float(p.square().sum()) for p in decayed["params"])

    def _refuse(self, split: str, what: str) -> NoReturn:
        """Says why a loss is not finite: rows of features among the neighbours, or else the training."""
        refuse_neighbours(split, not_finite(self.read(split)), self.ranks)
        raise ConfigError(f"{what} is not finite; lower lr={self.config['lr']}, or look for huge values in features")

    def save(self) -> None:
        """Writes the checkpoint, in rank 0."""
        if self.checkpoint is None or not self.ranks.is_first:
            return
        state = {
            "config": self.config,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "history": self.history,
            "best": self.best,
            **self.position(),
        }
        checkpoints.save(self.checkpoint, state)

    def resume(self) -> None:
        """Goes on where the checkpoint is, if there is one."""
        path = self.checkpoint
        assert path is not None
        state = self.ranks.from_first(lambda: checkpoints.load(path) if Path(path).exists() else None)
        if state is None:
            return
        try:
            saved = state["config"]
            precision = saved.get("dtype", "float32")  # as it was called of whole graphs, and was without one
            checkpoints.check_same_run(path, {"precision": precision, **saved}, self.config)
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.go_to(state)
            self.history, self.best = list(state["history"]), state["best"]
        except HinterlandError:
            raise
        except Exception as error:  # whatever another program's tensors lead to
            raise checkpoints.no_checkpoint(path, error) from error

    def take_best(self) -> dict[str, Any] | None:
        """The best epoch, whose parameters the model has from then on; None without validation."""
        if self.best is None:
            return None
        self.model.load_state_dict(self.best["model"])
        return {key: value for key, value in self.best.items() if key != "model"}
