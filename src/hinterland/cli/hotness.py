"""``hinterland hotness``: which score foretells best what sampling will fetch, on one graph."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..runtime.errors import ConfigError
from .output import emit
from .parameters import Device, Json, named_path

SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
_SEEDS_SHARE = 0.01  # of the vertices, as in papers100M


if TYPE_CHECKING:
    import torch

    from ..graph import Graph
    from ..hotness import Comparison


def hotness(
    graph: Annotated[
        Path, typer.Argument(metavar="GRAPH", help="A graph file; the list of v holds what v samples from.", parser=named_path)
    ],
    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|COUNT", help="Begin at the vertices in this file, or at so many random ones; by default 1 in 100."
        ),
    ] = None,
    fanout: Annotated[str, typer.Option(help="What each hop samples; -1 is the whole list.")] = "15,10,5",
    batch_size: Annotated[int, typer.Option(min=1, help="Seeds of a mini-batch.")] = 1024,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs to count, besides those of pre-sampling.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Draws seeds, their order and the samples.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Write a picture (.png, .svg or .pdf).")] = None,
    device: Device = None,
    json: Json = False,
) -> None:
    """Hit rate against cached share for every score: what a cache of the hottest rows would serve of the rows fetched."""
    from ..graph import load_graph
    from ..hotness import compare
    from ..hotness.plot import plot as write_plot
    from ..runtime.files import check_place
    from ..runtime.pictures import check_plot
    from ..sampling import NeighborSampler

    fanouts = _fanouts(fanout)
    if plot is not None:
        check_plot(plot)
        check_place(plot)
    loaded = load_graph(graph)
    begin = _seeds(loaded, seeds, seed)
    sampler = NeighborSampler(loaded, fanouts, seed=seed, device=device)
    found = compare(loaded, sampler, begin, fanouts, batch_size, epochs, seed, device)
    if plot is not None:
        write_plot(found, plot, f"{graph.name}, {len(begin):,} seeds, fanout {fanout}, batches of {batch_size:,}")
        print(f"wrote {plot}", file=sys.stderr)
    settings = {"seeds": len(begin), "fanouts": fanouts, "batch_size": batch_size, "epochs": epochs}
    report = _report(loaded, found, settings)
    emit(report, json, "" if json else _text(report))


def _fanouts(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise ConfigError(f"fanout {text!r} is no row of whole numbers; write for example 15,10,5") from None


def _seeds(graph: Graph, seeds: str | None, seed: int) -> torch.Tensor:
    """Those of the file, or as many random ones as asked for, each once, among the vertices that have neighbours."""
    import torch

    from ..graph.sources import read_sources
    from ..runtime.shuffle import shuffled

    if seeds is not None and not seeds.isdecimal():
        return torch.tensor(read_sources(seeds, graph))
    candidates = graph.to_original(graph.degrees().cpu()).nonzero()[:, 0]
    count = max(1, round(_SEEDS_SHARE * graph.num_vertices)) if seeds is None else int(seeds)
    if not 1 <= count <= len(candidates):
        raise ConfigError(
            f"{count:,} seeds cannot be drawn from the {len(candidates):,} vertices that have neighbours; use 1 to as many"
        )
    return shuffled(candidates, seed, 0)[:count]


def _report(graph: Graph, found: Comparison, settings: dict[str, Any]) -> dict[str, Any]:
    rates = found.hit_rates(SHARES)
    return {
        "graph": {"vertices": graph.num_vertices, "edges": graph.num_edges},
        **settings,
        "fetches": int(found.counts.sum()),
        "shares": list(SHARES),
        "scores": {name: {"hit_rates": rates[name], "seconds": found.seconds[name]} for name in rates},
        "device": str(found.counts.device),
    }


def _text(report: dict[str, Any]) -> str:
    counts, fanouts = report["graph"], ",".join(map(str, report["fanouts"]))
    columns = " ".join(f"{f'{share:.0%}':>6}" for share in report["shares"])
    lines = [
        f"{counts['vertices']:,} vertices, {counts['edges']:,} stored edges, on {report['device']}",
        f"{report['seeds']:,} seeds in batches of {report['batch_size']:,}, fanout {fanouts}: "
        f"{report['fetches']:,} rows fetched in {report['epochs']} epochs",
        "",
        f"{'rows served, % of fetches, if cached':<36} {columns} {'made in':>10}",
    ]
    for name, score in report["scores"].items():
        rates = " ".join(f"{100 * rate:>6.1f}" for rate in score["hit_rates"])
        lines.append(f"{name:<36} {rates} {score['seconds']:>8.2f} s")
    return "\n".join(lines)
