"""``hinterland train --full-graph``: its options, which of the others go with it, and its run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..runtime.errors import ConfigError

if TYPE_CHECKING:
    from ..training import Trained, TrainedFull


@dataclass(frozen=True)
class FullGraphOptions:
    """Training on the whole graph at once, as of hinterland.training.train_full."""

    full_graph: Annotated[
        bool, typer.Option("--full-graph", help="Each epoch is one step on the whole graph: no batches, and no samples.")
    ] = False
    layers: Annotated[int, typer.Option(help="With --full-graph: of the model.")] = 2
    parts: Annotated[
        int | None, typer.Option(help="With --full-graph: divide the graph into so many; by default one for each device.")
    ] = None
    strategy: Annotated[
        str, typer.Option(help="With --full-graph: how rows of other parts are read, as direct or halo; auto chooses.")
    ] = "auto"
    folder: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER", help="With --full-graph --placement storage: where files of rows lie; by default beside features."
        ),
    ] = None
    tune: Annotated[
        bool, typer.Option("--tune", help="With --full-graph: first find how launches of sums best divide their work.")
    ] = False


_OF_BATCHES = (
    "fanout",
    "batch_size",
    "cache",
    "round",
    "checkpoint_every",
    "trace",
)
_OF_WHOLE = ("layers", "parts", "strategy", "folder", "tune")
_SETTINGS = ("epochs", "hidden", "lr", "weight_decay", "dropout", "patience", "seed", "layers", "precision", "tune")


def check_options(full_graph: bool, given: Collection[str]) -> None:
    """Refuses options of the command line that are of the other kind of training.

    Raises:
        ConfigError: names the first one.
    """
    for name in _OF_BATCHES if full_graph else _OF_WHOLE:
        if name in given:
            option = f"--{name.replace('_', '-')}"
            raise ConfigError(
                f"{option} is of mini-batches, and --full-graph trains without any; leave out one of the two"
                if full_graph
                else f"{option} is of training on whole graphs; name --full-graph, too, or leave it out"
            )


def given_on(context: typer.Context) -> set[str]:
    """The parameters of a command that are not left to their defaults."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source is not None and source.name != "DEFAULT"}


@dataclass(frozen=True)
class Done:
    """What training made.

    Attributes:
        found: the model, its history and its scores.
        report: what the JSON object has of this kind of training alone.
        notes: for standard error.
        text: lines for people, after those of every training.
    """

    found: Trained | TrainedFull
    report: dict[str, Any]
    notes: list[str]
    text: list[str]


Run = Callable[..., Done]  # of a data set, with device, devices and on_epoch


def whole_run(
    how: Any, whole: FullGraphOptions, saved: Any, features: Any, given: Collection[str], gpu_budget: str | None
) -> Run:
    """Training on the whole graph, if the options make a run. Those that are not given have defaults of their own."""
    from ..fullgraph.aggregate import WAYS
    from ..runtime import arguments
    from ..runtime.units import parse_bytes
    from ..training import train_full
    from ..training.full import FullSettings, check_tunable
    from ..training.settings import check_checkpoint

    named = {**vars(how), **vars(whole)}
    options: Any = {name: named[name] for name in _SETTINGS if name in given}
    FullSettings(model=how.model, **options)  # refuses what makes no run
    arguments.one_of("strategy", whole.strategy, WAYS)
    if gpu_budget is not None:
        parse_bytes(gpu_budget)
    if whole.tune:
        check_tunable(how.model, whole.strategy == "host" or gpu_budget is not None or features.placement == "storage")
    check_checkpoint(**vars(saved))

    def run(loaded: Any, **where: Any) -> Done:
        found = train_full(
            loaded,
            how.model,
            parts=whole.parts,
            strategy=whole.strategy,
            gpu_budget=gpu_budget,
            placement=features.placement,
            host_budget=features.host_budget,
            folder=whole.folder,
            capture="auto" if how.capture is None else how.capture,
            checkpoint=saved.checkpoint,
            resume=saved.resume,
            **where,
            **options,
        )
        report = {
            "layers": len(found.model.convs),
            "parts": found.partition.world.parts,
            "strategy": whole.strategy,
            "choices": [dataclasses.asdict(choice) for choice in found.choices],
            "plans": [plan.explain() for plan in found.plans],
            "tuned": [dataclasses.asdict(one) for one in found.tuned],
        }
        explained: list[Any] = [*found.choices, *found.plans, *found.tuned]
        return Done(found, report, [one.explain() for one in explained], [])

    return run
