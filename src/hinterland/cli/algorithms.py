"""The commands that run an algorithm, made of the algorithms' records.

Records lie beside what they describe, which needs torch. ``--help`` and a wrong option are answered without it: what a command
takes is read from the record's text (``hinterland.graph.algorithms.Algorithm`` says what can be), and the record itself is
imported when the command runs.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from . import parameters

_RECORDS = Path(__file__).parent.parent / "graph"
_TYPES = {"int": int, "float": float}
COUNT = 64  # random sources, where nobody says how many
PUBLISHED = ("bfs", "sssp", "cc", "pagerank")  # took --access, for one version more


@dataclass(frozen=True)
class Described:
    """What the text of a record says.

    Attributes:
        module: the name of its file.
        name, help, options, weights: the record's.
        takes: the arguments of what is called, by name their types as written and their defaults.
    """

    module: str
    name: str
    help: str
    options: Mapping[str, str | tuple[str, str]]
    weights: str | None
    takes: Mapping[str, tuple[str, Any]]


def commands() -> dict[str, Callable[..., None]]:
    """The commands by their names."""
    return {of.name: _command(of) for of in described()}


def described() -> Iterator[Described]:
    """All records that have a command."""
    for path in sorted(_RECORDS.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "\nALGORITHM = " in text:
            yield _described(path.stem, ast.parse(text))


def _described(module: str, file: ast.Module) -> Described:
    (record,) = (
        node.value for node in file.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ALGORITHM"
    )
    (made,) = (node for node in ast.walk(record) if isinstance(node, ast.Call) and ast.unparse(node.func) == "Algorithm")
    given = {keyword.arg: keyword.value for keyword in made.keywords}
    (run,) = (node for node in file.body if isinstance(node, ast.FunctionDef) and node.name == ast.unparse(given["run"]))
    names, defaults = run.args.args, run.args.defaults
    values = [*[inspect.Parameter.empty] * (len(names) - len(defaults)), *map(ast.literal_eval, defaults)]
    takes = {one.arg: (ast.unparse(one.annotation or one), value) for one, value in zip(names, values, strict=True)}

    def literal(name: str, otherwise: Any) -> Any:
        return ast.literal_eval(given[name]) if name in given else otherwise

    name, help = ast.literal_eval(made.args[0]), inspect.cleandoc(literal("help", ""))
    return Described(module, name, help, literal("options", {}), literal("weights", None), takes)


def _command(of: Described) -> Callable[..., None]:
    """The function that typer is to read: with a parameter for each option, named as the arguments of :func:`_run`."""

    def command(**given: Any) -> None:
        _run(of, **given)

    options = {name: _own(*of.takes[name], said) for name, said in of.options.items()} | _begin(of)
    if of.weights == "needed":
        options["random_weights"] = (parameters.RandomWeights, None)
    if "mode" in of.takes:
        options["mode"] = (parameters.Mode, "auto")
    if of.name in PUBLISHED:
        options["access"] = (parameters.Access, None)
    options["options"] = (parameters.RunOptions, inspect.Parameter.empty)
    listed = [inspect.Parameter("graph", inspect.Parameter.POSITIONAL_ONLY, annotation=parameters.GraphFile)]
    for name, (annotation, default) in options.items():
        listed.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default))
    vars(command)["__signature__"] = inspect.Signature(listed)
    command.__doc__ = of.help
    return command


def _run(
    of: Described,
    graph: Path,
    options: parameters.RunOptions,
    start: parameters.Start | None = None,
    sources: Path | None = None,
    count: int | None = None,
    runs: int = 1,
    seed: int = 1,
    random_weights: str | None = None,
    access: None = None,
    **given: Any,
) -> None:
    """Runs the algorithm; ``given``: the mode and its own options. What is wrong is said before the graph is loaded."""
    from .. import graph as graphs
    from ..graph.algorithms import named
    from .traversal import Job, Starts, all_at_once, load, say_weights_are_unused, shares, single_source, traverse, with_weights

    (algorithm,), output = named([of.name]), options.output
    settings = {name: not value if isinstance(value, bool) else value for name, value in given.items()}
    if start is not None:
        seed, starts = start.seed, single_source(start.source, start.sources, start.runs, output)
    elif "sources" in of.takes:
        own_draw = "seed" in of.takes
        drawn = COUNT if sources is None and count is None and not own_draw else count
        starts = all_at_once(sources, drawn, runs, output, own_draw)
    else:

        def starts(graph: graphs.Graph, seed: int) -> Starts:
            return Starts([{}] * runs, [])

    loaded = load(graph, options)
    if of.weights == "needed":
        loaded = with_weights(loaded, random_weights, seed)
    if of.weights == "unused":
        say_weights_are_unused(loaded, of.name)
    if "personalization" in of.takes and sources is not None:
        settings["personalization"] = shares(sources, loaded)
    if algorithm.array in of.takes:
        settings[algorithm.array] = options.verify or (output is not None and output.suffix != ".parquet")
    job = Job(algorithm, getattr(graphs, algorithm.verify), settings)
    traverse(job, loaded, starts(loaded, seed), options)


def _own(type_name: str, default: Any, said: str | tuple[str, str]) -> tuple[Any, Any]:
    """The type and the default of an option for an argument. What is on by default gets a switch that turns it off."""
    if isinstance(said, tuple):
        flag, help = said
        return Annotated[bool, typer.Option(flag, help=help)], False
    of = _TYPES[type_name]
    return Annotated[of, typer.Option(help=said, min=1 if of is int else None)], default


def _begin(of: Described) -> dict[str, tuple[Any, Any]]:
    """The options that say where runs begin, and how many there are."""
    if "source" in of.takes:
        return {"start": (parameters.Start, inspect.Parameter.empty)}
    many = "sources" in of.takes
    found: dict[str, tuple[Any, Any]] = {}
    if many:
        found["sources"] = (parameters.Sources, None)
        found["count"] = (parameters.CountOfAll if "seed" in of.takes else parameters.Count, None)
    elif "personalization" in of.takes:
        found["sources"] = (parameters.Jumps, None)
    return {**found, "runs": (parameters.Repeats, 1), **({"seed": (parameters.Seed, 1)} if many else {})}
