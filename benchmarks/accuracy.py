"""Accuracy on Cora and CiteSeer beside the published one, by the protocol of Shchur et al. 2018.

"Pitfalls of graph neural network evaluation", section 3: the largest connected component; random splits with 20 vertices of
each class for training, 30 for validation and the rest for the test; full neighbourhoods; training ends 50 epochs after the
lowest validation loss, the weight decay's term included, whose parameters are tested. Theirs is the mean of 100 splits with 20
initialisations each; this is that of 10 splits with one each (2 with ``small``), with its standard error. The data are beside
the checkout, as for the tests.

``--captured``: on a GPU, mini-batches of finite fanouts, captured and eager, by as many seeds: their means are to agree within
what chance explains.
"""

from __future__ import annotations

import argparse
import statistics
import time
from itertools import product
from pathlib import Path
from typing import Any

import torch

from hinterland import datasets
from hinterland.training import train

from ._rows import Rows, add_seconds, in_time

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
FANOUTS = (-1, -1)
# As their search found them (github.com/shchur/gnn-benchmark, config/optimized). GraphSAGE takes some 500 epochs on CiteSeer:
# ten times its learning rate ends sooner, and a point lower.
SETTINGS: dict[str, dict[str, Any]] = {
    "gcn": {"hidden": 64, "dropout": 0.8, "lr": 0.01, "weight_decay": 1e-3},
    "sage": {"hidden": 32, "dropout": 0.4, "lr": 0.001, "weight_decay": 1e-1},
}
# Per cent, mean and deviation: their Table 1 (GraphSAGE with the mean aggregator).
PUBLISHED = {
    ("cora", "gcn"): (81.5, 1.3),
    ("cora", "sage"): (79.2, 7.7),
    ("citeseer", "gcn"): (71.9, 1.9),
    ("citeseer", "sage"): (71.6, 1.9),
}


CAPTURED_DATA = ["cora", "citeseer", "generated"]
SEEDS, SMALL_SEEDS = 10, 2
CAPTURED: dict[str, Any] = {"lr": 0.01, "batch_size": 64, "epochs": 30}
SMALL: dict[str, Any] = {"lr": 0.01, "batch_size": 1024, "epochs": 1}
BY_CHANCE = 3  # standard errors of a difference of means


def add_options(parser: argparse.ArgumentParser) -> None:
    add_seconds(parser)
    parser.add_argument("--captured", action="store_true", help="captured steps beside eager ones, on a GPU")
    parser.add_argument("--data", nargs="+", choices=CAPTURED_DATA, default=CAPTURED_DATA, help="with --captured: those alone")


def title(options: argparse.Namespace) -> str:
    """By what the results are known."""
    return "accuracy-captured" if options.captured else "accuracy"


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Trains each model on each data set, on the CPU: the graphs are small."""
    seeds = SMALL_SEEDS if options.small else SEEDS
    if options.captured:
        return {"captured": _captured(options.data, seeds, SMALL if options.small else CAPTURED)}
    torch.set_num_threads(1)
    results: dict[str, Any] = {
        "settings": {"fanouts": list(FANOUTS), "patience": 50, **SETTINGS},
        "accuracy": [],
        "runs": Rows(),
    }
    for (name, model), (mean, deviation) in in_time(PUBLISHED.items()):
        dataset = datasets.largest_component(datasets.open(DATA / f"{name}.npz"))
        began, found = time.perf_counter(), []
        for seed in range(seeds):
            dataset.splits = datasets.random_splits(dataset, seed)
            options = {**SETTINGS[model], "batch_size": 256, "patience": 50, "epochs": 10_000, "device": "cpu"}
            trained = train(dataset, model, FANOUTS, seed=seed, **options)
            assert trained.test is not None and trained.best is not None
            found.append(100 * trained.test["accuracy"])
            results["runs"].append(
                {"data": name, "model": model, "seed": seed, "test": found[-1], "best_epoch": trained.best["epoch"]}
            )
        results["accuracy"].append(
            {
                "data": name,
                "model": model,
                "mean": statistics.mean(found),
                "deviation": statistics.stdev(found),
                "error": statistics.stdev(found) / len(found) ** 0.5,
                "published": f"{mean} +- {deviation}",
                "seconds": time.perf_counter() - began,
            }
        )
    return results


def _captured(data: list[str], seeds: int, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """One row by data set and model: its mean and deviation, in per cent, each way."""
    rows = Rows()
    for name, model in in_time(product(data, SETTINGS)):
        if name == "generated":
            dataset = datasets.generate("products", scale=0.005)
        else:
            dataset = datasets.largest_component(datasets.open(DATA / f"{name}.npz"))
        options = {**SETTINGS[model], **settings}
        found: dict[str, list[float]] = {"eager": [], "captured": []}
        replayed = steps = 0
        for seed in range(seeds):
            if name != "generated":
                dataset.splits = datasets.random_splits(dataset, seed)
            for way in found:
                trained = train(dataset, model, (10, 10), seed=seed, capture="auto" if way == "captured" else False, **options)
                assert trained.test is not None
                found[way].append(100 * trained.test["accuracy"])
                if way == "captured":
                    replayed += sum(epoch["replayed"] for epoch in trained.history)
                    steps += sum(epoch["batches"] for epoch in trained.history)
        mean, deviation = ({way: of(values) for way, values in found.items()} for of in (statistics.mean, statistics.stdev))
        error = (sum(value**2 for value in deviation.values()) / seeds) ** 0.5
        row: dict[str, Any] = {"data": name, "model": model, "seeds": seeds, "replayed": replayed, "steps": steps}
        row |= {key: value for way in found for key, value in ((way, mean[way]), (f"{way}_deviation", deviation[way]))}
        apart = abs(mean["captured"] - mean["eager"])
        rows.append({**row, "apart": apart, "by_chance": BY_CHANCE * error, "agree": apart <= BY_CHANCE * error})
    return rows
