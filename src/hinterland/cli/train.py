"""``hinterland train``: a graph neural network on a data set."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..runtime.errors import ConfigError
from ..runtime.units import format_bytes, parse_bytes
from .full_graph import Done, FullGraphOptions, Run, check_options, given_on, whole_run
from .output import emit
from .parameters import Device, Json, named_path

if TYPE_CHECKING:
    from ..datasets.dataset import AnyDataset, HeteroDataset
    from ..datasets.source import Source
    from ..training import CachePlan, FactoredPlan, Ranks


@dataclass(frozen=True)
class TrainOptionGroup:
    """What decides the result, as of hinterland.training.settings.Settings."""

    model: Annotated[
        str,
        typer.Option(
            help="One of sage, gcn, gat, pinsage; for vertices of several types of sage, gat; with --full-graph of gcn, sage, "
            "gin, gat, gatv2."
        ),
    ] = "sage"
    fanout: Annotated[
        str, typer.Option(help="Neighbours of each hop, nearest to the seeds first; -1: all. For pinsage the most visited.")
    ] = "15,10,5"
    epochs: Annotated[int, typer.Option(help="In all, those before a resumption included; 200 with --full-graph.")] = 10
    hidden: Annotated[int, typer.Option(help="Width of the inner layers.")] = 256
    batch_size: Annotated[int, typer.Option(help="Seeds of a batch, in each process.")] = 1024
    lr: Annotated[float, typer.Option(help="Adam's learning rate; 0.01 with --full-graph.")] = 1e-3
    weight_decay: Annotated[float, typer.Option(help="Of the first layer's matrices.")] = 0.0
    dropout: Annotated[float, typer.Option(help="Share of each layer's inputs that training drops.")] = 0.5
    precision: Annotated[
        str,
        typer.Option(
            help="float32, or bfloat16: models compute in it, and parameters stay float32; with --full-graph also float64."
        ),
    ] = "float32"
    patience: Annotated[int | None, typer.Option(help="End after so many epochs without a lower validation loss.")] = None
    seed: Annotated[int, typer.Option(help="Of parameters, order, samples, dropout, and of splits where there are none.")] = 0
    capture: Annotated[
        bool | None,
        typer.Option(
            "--capture/--no-capture",
            help="Replay steps as CUDA graphs; by default where they can be captured, but not with --devices.",
        ),
    ] = None


@dataclass(frozen=True)
class PlacementOptions:
    """Where features and graph lie, as of hinterland.datasets.open."""

    placement: Annotated[
        str,
        typer.Option(
            help="Of features and graph: host, or storage, where batches read both from their files; with --full-graph rows "
            "between layers lie in files, too."
        ),
    ] = "host"
    host_budget: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="With --placement storage: memory for pages of both, in each process, and with --full-graph for rows; "
            "by default 1GiB.",
        ),
    ] = None


@dataclass(frozen=True)
class Saved:
    """What a run writes, and goes on from."""

    checkpoint: Annotated[Path | None, typer.Option(metavar="FILE", help="Write what is needed to go on, each epoch.")] = None
    checkpoint_every: Annotated[int | None, typer.Option(help="Write it after so many batches, too.")] = None
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint, if it is there.")] = False
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a timeline of some steps of the first epoch, for Perfetto.")
    ] = None


def train(
    context: typer.Context,
    dataset: Annotated[
        Path, typer.Argument(metavar="DATASET", help="A data set's folder, or an .npz of Shchur et al.", parser=named_path)
    ],
    *,
    how: TrainOptionGroup,
    whole: FullGraphOptions,
    device: Device = None,
    cache: Annotated[
        str | None,
        typer.Option(
            metavar="POLICY|SIZE|FILE",
            help="Keep hot lists and features in GPU memory: auto, features, degree, presample, clock, none; a size for auto, "
            "as 4GiB or 10%; or a .npy of scores, one a vertex, whose highest rows are kept.",
        ),
    ] = None,
    gpu_budget: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Of the cache, as 4GiB, or 10% for the bytes of this share of the rows; by default what a training step "
            "leaves free. Alone it is that of --cache auto. With --devices: of each, and without a default. With --full-graph: "
            "of the graph and what is computed over it; rows lie in host memory.",
        ),
    ] = None,
    factored: Annotated[
        str | None,
        typer.Option(
            "--devices",
            help="Sample on some and train on others, as cuda:0,cuda:1; all: every GPU. With --full-graph divide it over them.",
        ),
    ] = None,
    round: Annotated[int | None, typer.Option(help="Batches of a step with --devices; by default as many as they are.")] = None,
    features: PlacementOptions,
    saved: Saved,
    json: Json = False,
) -> None:
    """Train a graph neural network to classify vertices, and say how well and how fast.

    Batches are sampled and gathered while the model trains; with --full-graph each step is on all vertices. Under torchrun
    (torchrun --nproc-per-node 2 -m hinterland.cli train ...) each process takes its share of the seeds, or its part of the
    graph. The processes of one machine share one table of features; each of several machines holds a part of it. A data set
    without splits gets random ones of its largest component, 20 vertices a class for training and 30 for validation. Of several
    types, as in MAG240M and IGBH, those with labels are classified; hops go along all relations, in both directions.
    """
    from ..runtime import devices
    from ..training import joined
    from ..training.epoch_line import epoch_line

    given = given_on(context)
    check_options(whole.full_graph, given)
    run = (
        whole_run(how, whole, saved, features, given, gpu_budget)
        if whole.full_graph
        else _batch_run(how, saved, round, cache, gpu_budget, factored is not None)
    )

    def check_types(types: int) -> None:
        kept = cache != "none"
        options = {"--full-graph": whole.full_graph, "--cache": kept and cache, "--gpu-budget": kept and gpu_budget}
        _check_types(dataset, types, how.model, [option for option, given in options.items() if given])

    if factored == "all":
        devices.require_cuda("--devices all")
    several = None if factored is None else devices.gpus() if factored == "all" else factored.split(",")
    home = several[0] if several else device
    devices.as_device(home)
    with joined(home) as ranks:
        loaded = _opened(dataset, how, ranks, features, check_types)
        done = run(loaded, device=device, devices=several, on_epoch=lambda epoch: print(epoch_line(epoch), file=sys.stderr))
    if not ranks.is_first:
        return
    for line in done.notes:
        print(line, file=sys.stderr)
    if done.found.test is not None and not math.isfinite(done.found.test["loss"]):
        print("hinterland: the test loss is not finite: some features are not, of what its vertices hear from", file=sys.stderr)
    result = _report(loaded, how.model, ranks, done)
    emit(result, json, "\n".join([_text(result), *done.text]))


def _batch_run(
    how: TrainOptionGroup, saved: Saved, round: int | None, cache: str | None, gpu_budget: str | None, several: bool
) -> Run:
    """Training on mini-batches, if the options make a run."""
    from ..training import train as training
    from ..training.cache_choice import wanted
    from ..training.factored_cache import wanted_on_devices
    from ..training.settings import check_checkpoint, split_options

    capture = "auto" if how.capture is None else how.capture
    options: Any = {name: value for name, value in vars(how).items() if name not in ("model", "fanout", "capture")}
    fanouts = _numbers(how.fanout)
    split_options(how.model, fanouts, options)  # refuses what makes no run
    check_checkpoint(**vars(saved))
    choice = _cache_choice(cache)
    kept = (wanted_on_devices if several else wanted)(choice, gpu_budget)

    def run(loaded: Any, **where: Any) -> Done:
        more: Any = {**options, "round": round, "cache": choice, "gpu_budget": gpu_budget, "capture": capture}
        found = training(loaded, how.model, fanouts, **vars(saved), **where, **more)
        plan, roles, notes = found.cache, found.roles, []
        if kept is not None and plan is None:
            on_cpu = next(found.model.parameters()).device.type == "cpu"
            why = "a CPU has no step's memory to measure" if on_cpu else "training ended before a step was measured"
            notes.append(f"hinterland: --cache {cache} kept nothing: {why}; name --gpu-budget")
        if saved.trace is not None:
            notes.append(f"hinterland: {saved.trace} is a timeline of some steps; open it on https://ui.perfetto.dev")
        report = {"fanouts": fanouts, "roles": _roles(roles), "cache": None if plan is None else _kept(plan)}
        text = [] if plan is None else ["", "cache, as planned:", plan.explain()]
        return Done(found, report, notes, text if roles is None else [*text, roles.explain()])

    return run


def _cache_choice(cache: str | None) -> Any:
    """``cache`` as ``train`` takes it: scores, where it names a file of them."""
    from ..table import UnifiedTensor

    if cache is None or not cache.endswith(".npy"):
        return cache
    return UnifiedTensor.from_file(cache).cpu().clone()


def _report(loaded: AnyDataset, model: str, ranks: Ranks, done: Done) -> dict[str, Any]:
    from ..datasets import HeteroDataset
    from ..training.row_gather import by_type

    if isinstance(loaded, HeteroDataset):
        graphs: Any = {" ".join(relation): graph for relation, graph in loaded.graphs.items()}
        target = {"target": loaded.target}
    else:
        graphs, target = loaded.graph, {}
    return {
        "dataset": {
            "name": loaded.name,
            "vertices": loaded.num_vertices,
            "edges": by_type(lambda graph: graph.num_edges, graphs),
            "features": by_type(lambda table: list(table.shape), loaded.features),
            **target,
            "classes": loaded.num_classes,
            "splits": {name: len(part) for name, part in loaded.splits.items()},
        },
        "model": model,
        "device": ranks.device.type,
        "ranks": ranks.world_size,
        "parameters": sum(p.numel() for p in done.found.model.parameters()),
        "epochs": done.found.history,
        "best": done.found.best,
        "test": done.found.test,
        **done.report,
    }


def _numbers(fanout: str) -> list[int]:
    try:
        return [int(part) for part in fanout.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"{fanout!r} is no list of whole numbers; write one for each hop, as 15,10,5", param_hint="--fanout"
        ) from None


def _check_types(path: Path, types: int, model: str, options: list[str]) -> None:
    """Refuses options and models that are for data sets of one type, before the large parts of others are read."""
    from ..training.hetero_models import check_hetero_model

    if options:
        raise ConfigError(f"{path}: has vertices of {types} types, and {options[0]} takes data sets with one; leave it out")
    check_hetero_model(model)


def _opened(
    path: Path, how: TrainOptionGroup, ranks: Ranks, features: PlacementOptions, check_types: Callable[[int], None]
) -> AnyDataset:
    from .. import datasets
    from ..datasets.files import HOST_BUDGET, source_of
    from ..training import open_shared
    from ..training.settings import check_patience

    def say(what: str) -> None:
        if ranks.is_first:
            print(f"hinterland: {what}", file=sys.stderr)

    def opened() -> Source:
        source = source_of(path, None, None)
        if source.heterogeneous:
            check_types(len(source.vertices))
        if source.heterogeneous or any(len(part) for part in source.splits.values()):  # others get random ones
            check_patience(how.patience, source.splits)
        return source

    source = ranks.agreed(opened)
    both_ways = source.leads_one_way
    if both_ways:
        say(f"{path}: relations lead one way only; those that lead back are added, and what joins one type goes both ways")
    loaded = open_shared(source, ranks, symmetrize=both_ways, **vars(features))
    if isinstance(loaded, datasets.HeteroDataset):
        _say_who_is_heard(say, loaded, len(_numbers(how.fanout)))
    if source.heterogeneous or any(len(part) for part in loaded.splits.values()):
        if features.placement == "storage":
            _say_what_stays(say, path, loaded, features.host_budget or HOST_BUDGET)
        return loaded
    loaded = datasets.largest_component(loaded)
    loaded.splits = datasets.random_splits(loaded, how.seed)
    say(f"{path} has no splits; drew some of its largest component (seed {how.seed})")
    return loaded


def _say_who_is_heard(say: Callable[[str], None], loaded: HeteroDataset, count: int) -> None:
    from ..training.hetero_models import heard_from, typed_layers

    layers = typed_layers(loaded.graphs, loaded.features, loaded.target, count)
    for kind in (kind for kind in loaded.num_vertices if kind not in loaded.features):
        first = heard_from(layers, kind)
        when = f"not heard in {count} layers" if first is None else f"heard from layer {first} of {count} on"
        say(f"{kind} has no features of its own, and is {when}")


def _say_what_stays(say: Callable[[str], None], path: Path, loaded: AnyDataset, budget: str) -> None:
    from ..datasets import HeteroDataset
    from ..training.row_gather import each_of

    graphs = each_of(loaded.graphs if isinstance(loaded, HeteroDataset) else loaded.graph)
    lists = [graph.neighbor_lists for graph in graphs]
    edges = sum(one.arrays[name].nbytes for one in lists for name, place in one.placement.items() if place == "storage")
    table = format_bytes(sum(table.nbytes for table in each_of(loaded.features)))
    stay = f"features ({table})" + (f" and edges ({format_bytes(edges)})" if edges else "")
    say(
        f"{stay} stay in {path}; their pages take at most {format_bytes(parse_bytes(budget))}, and of the graph "
        f"{format_bytes(sum(one.nbytes for one in lists) - edges)} are in memory besides"
    )


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
        "ranked": plan.ranked,
        "budget": plan.budget,
        "kept": dataclasses.asdict(plan.split),
        "predicted": dataclasses.asdict(plan.predicted),
        "costs": dataclasses.asdict(plan.costs),
    }


def _text(result: dict[str, Any]) -> str:
    best, test, epochs = result["best"], result["test"], result["epochs"]
    lines = [f"{result['model']} with {result['parameters']:,} parameters, {len(epochs)} epochs"]
    if best is not None:
        lines.append(f"best validation loss {best['loss']:.4f} after epoch {best['epoch']}, accuracy {best['accuracy']:.2%}")
    if test is not None:
        lines.append(f"test accuracy {test['accuracy']:.2%}")
    return "\n".join(lines)
