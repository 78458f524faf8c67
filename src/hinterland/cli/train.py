"""``hinterland train``: a graph neural network on a data set."""

from __future__ import annotations

import dataclasses
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..runtime.errors import ConfigError
from .output import emit
from .parameters import Device, Json

if TYPE_CHECKING:
    from .. import datasets
    from ..training import CachePlan, FactoredPlan, Ranks, Trained


@dataclass(frozen=True)
class Settings:
    """What decides the result, as of hinterland.training.given.Settings."""

    model: Annotated[str, typer.Option(help="One of sage, gcn, gat, pinsage.")] = "sage"
    fanout: Annotated[
        str, typer.Option(help="Neighbours of each hop, nearest to the seeds first; -1: all. For pinsage the most visited.")
    ] = "15,10,5"
    epochs: Annotated[int, typer.Option(help="In all, those before a resumption included.")] = 10
    hidden: Annotated[int, typer.Option(help="Width of the inner layers.")] = 256
    batch_size: Annotated[int, typer.Option(help="Seeds of a batch, in each process.")] = 1024
    lr: Annotated[float, typer.Option(help="Adam's learning rate.")] = 1e-3
    weight_decay: Annotated[float, typer.Option(help="Of the first layer's matrices.")] = 0.0
    dropout: Annotated[float, typer.Option(help="Share of each layer's inputs that training drops.")] = 0.5
    patience: Annotated[int | None, typer.Option(help="End after so many epochs without a lower validation loss.")] = None
    seed: Annotated[int, typer.Option(help="Of parameters, order, samples, dropout, and of splits where there are none.")] = 0


@dataclass(frozen=True)
class Home:
    """Where the features lie, as of hinterland.datasets.open."""

    placement: Annotated[
        str, typer.Option(help="Of the features: host, or storage, where batches read them from the file.")
    ] = "host"
    host_budget: Annotated[str, typer.Option(metavar="SIZE", help="Of the cache of features on storage, in each process.")] = (
        "1GiB"
    )


def train(
    dataset: Annotated[Path, typer.Argument(metavar="DATASET", help="A data set's folder, or an .npz of Shchur et al.")],
    *,
    how: Settings,
    device: Device = None,
    cache: Annotated[
        str | None,
        typer.Option(
            metavar="POLICY|SIZE",
            help="Keep hot lists and features in GPU memory: auto, features, degree, clock, none, or a size for auto, as 4GiB.",
        ),
    ] = None,
    gpu_budget: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Of the cache, as 4GiB; by default what a training step leaves free. Alone it is that of --cache auto.",
        ),
    ] = None,
    factored: Annotated[
        str | None, typer.Option("--devices", help="Sample on some and train on others, as cuda:0,cuda:1; all: every GPU.")
    ] = None,
    round: Annotated[int | None, typer.Option(help="Batches of a step with --devices; by default as many as they are.")] = None,
    features: Home,
    checkpoint: Annotated[Path | None, typer.Option(metavar="FILE", help="Write what is needed to go on, each epoch.")] = None,
    checkpoint_every: Annotated[int | None, typer.Option(help="Write it after so many batches, too.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint, if it is there.")] = False,
    json: Json = False,
) -> None:
    """Train a graph neural network to classify vertices, and say how well and how fast.

    Batches are sampled and gathered while the model trains. Under torchrun (torchrun --nproc-per-node 2 -m hinterland.cli train
    ...) each process takes its share of the seeds. The processes of one machine share one table of features; each of several
    machines holds a part of it. A data set without splits gets random ones of its largest component, 20 vertices a class for
    training and 30 for validation.
    """
    from ..runtime import devices
    from ..training import joined
    from ..training import train as training
    from ..training.cache_room import wanted
    from ..training.epoch_line import epoch_line
    from ..training.given import check_checkpoint, split_options

    options: Any = {name: value for name, value in vars(how).items() if name not in ("model", "fanout")}
    fanouts = _numbers(how.fanout)
    split_options(how.model, fanouts, options)  # refuses what makes no run
    check_checkpoint(checkpoint, checkpoint_every, resume)
    kept = wanted(cache, gpu_budget)
    if factored == "all":
        devices.require_cuda("--devices all")
    several = None if factored is None else devices.gpus() if factored == "all" else factored.split(",")
    home = several[0] if several else device
    where = devices.as_device(home)
    with joined(home) as ranks:
        loaded = _opened(dataset, how.seed, ranks, features)
        found = training(
            loaded,
            how.model,
            fanouts,
            device=device,
            devices=several,
            round=round,
            cache=cache,
            gpu_budget=gpu_budget,
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
            resume=resume,
            on_epoch=lambda epoch: print(epoch_line(epoch), file=sys.stderr),
            **options,
        )
    if not ranks.is_first:
        return
    if kept is not None and found.cache is None:
        why = "a CPU has no step's memory to measure" if where.type == "cpu" else "training ended before a step was measured"
        print(f"hinterland: --cache {kept.policy} kept nothing: {why}; name --gpu-budget", file=sys.stderr)
    if found.test is not None and not math.isfinite(found.test["loss"]):
        print("hinterland: the test loss is not finite: some features are not, of what its vertices hear from", file=sys.stderr)
    result = _report(loaded, how.model, fanouts, where.type, ranks.world_size, found)
    emit(result, json, _text(result, found.cache) + ("" if found.roles is None else f"\n{found.roles.explain()}"))


def _report(
    loaded: datasets.Dataset, model: str, fanouts: list[int], device: str, ranks: int, found: Trained
) -> dict[str, Any]:
    return {
        "dataset": {
            "name": loaded.name,
            "vertices": loaded.num_vertices,
            "edges": loaded.graph.num_edges,
            "features": list(loaded.features.shape),
            "classes": loaded.num_classes,
            "splits": {name: len(part) for name, part in loaded.splits.items()},
        },
        "model": model,
        "fanouts": fanouts,
        "device": device,
        "ranks": ranks,
        "roles": _roles(found.roles),
        "parameters": sum(p.numel() for p in found.model.parameters()),
        "epochs": found.history,
        "best": found.best,
        "test": found.test,
        "cache": None if found.cache is None else _kept(found.cache),
    }


def _numbers(fanout: str) -> list[int]:
    try:
        return [int(part) for part in fanout.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"{fanout!r} is no list of whole numbers; write one for each hop, as 15,10,5", param_hint="--fanout"
        ) from None


def _opened(path: Path, seed: int, ranks: Ranks, features: Home) -> datasets.Dataset:
    from .. import datasets
    from ..training import open_shared

    loaded = open_shared(path, ranks, **vars(features))
    if isinstance(loaded, datasets.HeteroDataset):
        raise ConfigError(f"{path}: has vertices of {len(loaded.vertex_types)} types; train takes data sets with one")
    if any(len(part) for part in loaded.splits.values()):
        return loaded
    loaded = datasets.largest_component(loaded)
    loaded.splits = datasets.random_splits(loaded, seed)
    if ranks.is_first:
        print(f"hinterland: {path} has no splits; drew some of its largest component (seed {seed})", file=sys.stderr)
    return loaded


def _roles(plan: FactoredPlan | None) -> dict[str, Any] | None:
    if plan is None:
        return None
    return {
        "trainers": list(map(str, plan.trainers)),
        "samplers": list(map(str, plan.samplers)),
        "round": plan.round,
        "seconds": None if plan.times is None else vars(plan.times),
    }


def _kept(plan: CachePlan) -> dict[str, Any]:
    """A plan as JSON types."""
    return {
        "policy": plan.policy,
        "budget": plan.budget,
        "kept": dataclasses.asdict(plan.split),
        "predicted": dataclasses.asdict(plan.predicted),
        "costs": dataclasses.asdict(plan.costs),
    }


def _text(result: dict[str, Any], cache: CachePlan | None) -> str:
    best, test, epochs = result["best"], result["test"], result["epochs"]
    lines = [f"{result['model']} with {result['parameters']:,} parameters, {len(epochs)} epochs"]
    if best is not None:
        lines.append(f"best validation loss {best['loss']:.4f} after epoch {best['epoch']}, accuracy {best['accuracy']:.2%}")
    if test is not None:
        lines.append(f"test accuracy {test['accuracy']:.2%}")
    if cache is not None:
        lines += ["", "cache, as planned:", cache.explain()]
    return "\n".join(lines)
