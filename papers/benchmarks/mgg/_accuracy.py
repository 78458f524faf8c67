"""Sampled against full-graph training: accuracy and time (MGG, table 3).

Same splits, settings and seeds, ten of them. Of Cora and CiteSeer, as benchmarks/accuracy.py has them, each seed is another
split; a generated data set, whose classes are planted, has one. ``sampled 25,10``: GraphSAGE's fanouts, in batches of 256;
``3,3``: fewer; ``full``: one step an epoch, over the whole graph. All are tested with whole neighbourhoods, at the lowest
validation loss, after which 50 epochs brought no lower one. ``mean`` and ``deviation`` in per cent; ``epoch ms``: the median of
epochs, without validation; ``epochs``: up to the best one, in the mean.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks._rows import Rows as Printed
from benchmarks.accuracy import DATA, SETTINGS
from hinterland import datasets
from hinterland.datasets.generate import Shape
from hinterland.runtime import devices
from hinterland.training import train, train_full

# Sixteen neighbours a vertex: of so many the vote of all says more than that of some.
SHAPE = Shape({"node": 10_000}, {"node": 64}, {("node", "to", "node"): 80_000}, (1000, 500, 8500), 20, undirected=True)
PLANTED = {"hidden": 64, "dropout": 0.5, "lr": 0.01, "weight_decay": 0.0}
FANOUTS = ((25, 10), (3, 3))
SEEDS = 10


def sampled_and_full(small: bool) -> tuple[Printed, Printed]:
    """A row for each data set and way, and one for each run. Real data sets lie beside the checkout; without them, and with
    ``small``, there is the generated one alone."""
    found, runs = Printed(), Printed()
    for name, model, settings, of_seed in _cases(small):
        for way in (None, *FANOUTS):
            label = "full" if way is None else "sampled " + ",".join(map(str, way))
            made = []
            for seed in range(2 if small else SEEDS):
                made.append(_run(of_seed(seed), model, way, seed, settings))
                runs.append({"data": name, "way": label, "seed": seed, **made[-1]})
            tested = [one["test"] for one in made]
            row = {"data": name, "model": model, "way": label, "mean": statistics.mean(tested)}
            row |= {"deviation": statistics.stdev(tested), "epochs": statistics.mean(one["epochs"] for one in made)}
            found.append({**row, "epoch ms": statistics.median(one["epoch ms"] for one in made)})
    return found, runs


def _cases(small: bool) -> Iterable[tuple[str, str, dict[str, Any], Callable[[int], Any]]]:
    """Names, models, settings, and data sets by seed."""
    settings = {"patience": 50, "epochs": 20 if small else 10_000}
    planted = datasets.generate(SHAPE, scale=0.1 if small else 1, device="cpu")
    yield "planted", "sage", {**PLANTED, **settings}, lambda seed: planted
    for name in ("cora", "citeseer") if DATA.is_dir() and not small else ():
        dataset = datasets.largest_component(datasets.open(DATA / f"{name}.npz"))

        def split(seed: int, dataset: Any = dataset) -> Any:
            dataset.splits = datasets.random_splits(dataset, seed)
            return dataset

        yield name, "gcn", {**SETTINGS["gcn"], **settings}, split


def _run(dataset: Any, model: str, fanouts: tuple[int, ...] | None, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    options = {**settings, "seed": seed, "device": devices.as_device(), "on_epoch": None}
    trained: Any
    if fanouts is None:
        trained = train_full(dataset, model, layers=2, **options)
    else:
        trained = train(dataset, model, fanouts, batch_size=256, **options)
    took = statistics.median(epoch["seconds"] for epoch in trained.history)
    return {"test": 100 * trained.test["accuracy"], "epochs": trained.best["epoch"], "epoch ms": 1e3 * took}
