"""``hinterland train``: what it prints, writes and refuses. That training is right is tested where it is."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import typer

from hinterland import cli, datasets, hotness
from hinterland.cli import train as train_command
from hinterland.cli.parameters import spread
from hinterland.runtime.devices import cuda_available
from hinterland.runtime.units import format_bytes
from hinterland.training import checkpoint as checkpoints

from ..datasets import writers

SHAPE = datasets.Shape({"node": 300}, {"node": 64}, {("node", "to", "node"): 3000}, (120, 60, 120), 3, undirected=True)
FAST = ("--fanout", "5,3", "--hidden", "16", "--batch-size", "32", "--lr", "0.02", "--epochs", "2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "set"
    datasets.save(datasets.generate(SHAPE, device="cpu"), path)
    return path


@pytest.fixture
def command(command_line):
    """Runs the command on the CPU: exit status, standard output, standard error."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)

    def run(*words: object) -> tuple[int, str, str]:
        where = () if "--devices" in words else ("--device", "cpu")
        return command_line(cli.main, "hinterland", "train", *words, *where)

    yield run
    torch.set_num_threads(threads)


def test_json(command, folder):
    status, out, err = command(folder, *FAST, "--model", "gat", "--json")
    found = json.loads(out)
    assert status == 0 and len(out.splitlines()) == 1
    assert found["model"] == "gat" and found["fanouts"] == [5, 3] and found["device"] == "cpu" and found["ranks"] == 1
    assert found["dataset"]["vertices"] == 300 and found["dataset"]["splits"] == {"train": 120, "valid": 60, "test": 120}
    assert [epoch["epoch"] for epoch in found["epochs"]] == [1, 2]
    for epoch in found["epochs"]:
        assert epoch["seeds"] == 120 and epoch["seeds_per_second"] > 0 and epoch["edges_per_second"] > 0
        assert set(epoch["stages"]) == {"sample", "gather", "train", "wait"}
        assert 0 <= epoch["accuracy"] <= 1 and 0 <= epoch["valid_accuracy"] <= 1
    assert found["best"]["epoch"] in (1, 2) and 0 <= found["test"]["accuracy"] <= 1
    assert err.count("epoch ") == 2 and "seeds/s" in err
    assert found["roles"] is None


def test_captured_steps(command, folder):
    status, out, err = command(folder, *FAST, "--no-capture", "--json")
    assert status == 0 and [epoch["replayed"] for epoch in json.loads(out)["epochs"]] == [0, 0]
    status, _, err = command(folder, *FAST, "--capture")
    assert status == 1 and "capture=True: CUDA graphs are captured on a GPU, and batches are made on the CPU" in err
    status, out, err = command(folder, "--full-graph", "--epochs", "1", "--no-capture", "--json")
    assert status == 0 and [epoch["replayed"] for epoch in json.loads(out)["epochs"]] == [0]
    status, _, err = command(folder, "--full-graph", "--capture")
    assert status == 1 and "capture=True: CUDA graphs are captured on a GPU, and this run trains on the CPU" in err


def test_json_is_printed_whatever_the_test_says(command, folder, tmp_path):
    """A vertex of no split, which those of the test alone hear from, has no features."""
    loaded = datasets.open(folder)
    lone = int(loaded.splits["valid"][0])
    begin, end = loaded.graph.indptr[lone : lone + 2].tolist()
    near = {lone, *loaded.graph.indices[begin:end].tolist()}
    splits = {name: part[torch.tensor([int(v) not in near for v in part])] for name, part in loaded.splits.items()}
    splits["test"] = torch.tensor(sorted(near - {lone}))
    loaded.features.cpu()[lone] = float("nan")
    datasets.save(dataclasses.replace(loaded, splits=splits), tmp_path / "spoilt")
    status, out, err = command(tmp_path / "spoilt", *FAST, "--fanout", "-1", "--json")
    found = json.loads(out)
    assert status == 0 and found["test"]["loss"] is None and len(found["epochs"]) == 2
    assert "the test loss is not finite" in err


def test_precision_and_a_timeline(command, folder, tmp_path):
    status, out, err = command(
        folder, *FAST, "--batch-size", 4, "--precision", "bfloat16", "--trace", tmp_path / "t.json", "--json"
    )
    assert status == 0 and f"{tmp_path / 't.json'} is a timeline of some steps; open it on https://ui.perfetto.dev" in err
    assert {"sample", "gather", "train"} <= {
        event["name"] for event in json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    }
    assert err.count("; bound by CPU: ") == 2 and json.loads(out)["epochs"][0]["binds"].startswith("CPU: ")
    assert (
        json.loads(command(folder, *FAST, "--batch-size", 4, "--json")[1])["epochs"][0]["loss"]
        != json.loads(out)["epochs"][0]["loss"]
    )


def test_several_devices(command, folder):
    status, out, _ = command(folder, *FAST, "--devices", "cpu,cpu", "--round", 1, "--json")
    found = json.loads(out)
    assert status == 0 and found["roles"].pop("seconds")["sample"] > 0
    assert found["roles"] == {"trainers": ["cpu"], "samplers": ["cpu"], "round": 1}
    status, out, _ = command(folder, *FAST, "--devices", "cpu,cpu")
    assert status == 0 and "a step averages the gradients of 2 consecutive batches" in out


def test_text_and_resumption(command, folder, tmp_path):
    checkpoint = ("--checkpoint", tmp_path / "c.pt")
    status, out, _ = command(folder, *FAST, *checkpoint)
    assert status == 0 and "sage with" in out and "2 epochs" in out and "test accuracy" in out
    status, out, err = command(folder, *FAST, *checkpoint)
    assert status == 1 and "holds a run already; resume it, or remove the file" in err
    status, out, err = command(folder, *FAST[:-1], "3", *checkpoint, "--resume")
    assert status == 0 and "3 epochs" in out and err.count("epoch ") == 1


def test_what_was_kept_and_served(command, folder):
    cache = ("--cache", "auto", "--gpu-budget", "60KiB")
    status, out, err = command(folder, *FAST, *cache)
    assert status == 0 and "policy auto: " in out and "of 60.00 KiB" in out
    assert err.count("kept in GPU memory: ") == 2 and "% of rows, " in err and "link" not in err
    status, out, err = command(folder, *FAST, *cache, "--json")
    found = json.loads(out)
    kept, epoch = found["cache"], found["epochs"][-1]
    assert kept["ranked"].startswith("inclusion probability")
    assert kept["policy"] == "auto" and kept["budget"] == 60 << 10 and kept["costs"]["source"]
    assert 0 < kept["kept"]["feature_bytes"] + kept["kept"]["adjacency_bytes"] <= kept["budget"]
    assert 0 < kept["predicted"]["rows"] < 1 and 0 < epoch["served"]["rows"]["local"] < 1 and epoch["link"] is None
    status, out, err = command(folder, *FAST, "--json")
    assert json.loads(out)["cache"] is None and "kept" not in err


def test_scores_of_a_file_say_what_is_kept(command, folder, tmp_path):
    scores = tmp_path / "scores.npy"
    np.save(scores, hotness.degree(datasets.open(folder).graph).numpy())
    status, out, err = command(folder, *FAST, "--cache", str(scores), "--gpu-budget", "90%", "--json")
    found = json.loads(out)["cache"]
    assert status == 0 and found["policy"] == "scores" and found["ranked"] == "scores given"
    by_degree = json.loads(command(folder, *FAST, "--cache", "degree", "--gpu-budget", "90%", "--json")[1])["cache"]
    assert found["kept"] == by_degree["kept"] and found["predicted"]["rows"] == by_degree["predicted"]["rows"]
    np.save(scores, np.ones(3))
    status, _, err = command(folder, *FAST, "--cache", str(scores), "--gpu-budget", "90%")
    assert status == 1 and "cache has scores of shape (3,) for " in err


def test_several_devices_share_a_cache(command, folder):
    several = ("--devices", "cpu,cpu", "--round", "2")
    plain = json.loads(command(folder, *FAST, *several, "--json")[1])
    status, out, _ = command(folder, *FAST, *several, "--cache", "presample", "--gpu-budget", "90%", "--json")
    found = json.loads(out)
    assert status == 0 and found["cache"]["policy"] == "presample" and found["test"] == plain["test"]
    assert found["cache"]["kept"]["dealt_rows"] > 0 and 0 < found["cache"]["predicted"]["peers"] < 1


def test_what_stays_on_storage_is_said(command, folder):
    held = datasets.open(folder)
    edges, offsets = (format_bytes(array.nbytes) for array in (held.graph.indices, held.graph.indptr))
    status, _, err = command(folder, *FAST, "--placement", "storage", "--host-budget", "40KiB")
    said = (
        f"hinterland: features ({format_bytes(held.features.nbytes)}) and edges ({edges}) stay in {folder}; their pages take "
    )
    assert status == 0 and f"{said}at most 40.00 KiB, and of the graph {offsets} are in memory besides\n" in err
    status, _, err = command(folder, *FAST)
    assert status == 0 and " stay in " not in err


def test_features_and_graph_on_storage_within_budgets(command, folder):
    """A budget alone is that of the cache 'auto'; the results are those of both in memory."""
    budgets = ("--placement", "storage", "--host-budget", "40KiB", "--gpu-budget", "60KiB")
    status, out, err = command(folder, *FAST, *budgets, "--json")
    found = json.loads(out)
    assert status == 0 and found["cache"]["policy"] == "auto" and found["cache"]["budget"] == 60 << 10
    for epoch in found["epochs"]:
        rows, storage = epoch["served"]["rows"], epoch["storage"]
        assert 0 < rows["local"] < 1 and rows["storage"] == pytest.approx(1 - rows["local"])
        assert storage["bytes"] > 0 and storage["hits"] > 0 and storage["cpu_us_per_request"] > 0
    plain = json.loads(command(folder, *FAST, "--json")[1])
    assert found["test"] == plain["test"] and plain["epochs"][0]["storage"] is None
    status, out, err = command(folder, *FAST, *budgets)
    assert status == 0 and "policy auto: " in out and err.count("us of a CPU for each") == 2


def test_a_cache_without_a_budget_on_the_cpu(command, folder):
    status, out, err = command(folder, *FAST, "--cache", "auto", "--json")
    assert status == 0 and json.loads(out)["cache"] is None
    assert "--cache auto kept nothing: a CPU has no step's memory to measure; name --gpu-budget" in err


def test_every_option_is_on_the_page_of_the_command_line():
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    app = typer.Typer(add_completion=False)
    app.command("train")(spread(train_command.train))
    options = typer.main.get_command(app).params
    named = [option.opts[0] for option in options if option.opts[0].startswith("--") and option.name != "help"]
    assert len(named) > 15
    section = page[page.index("## hinterland train") :]
    assert [name for name in named if f"`{name}`" not in section and f"`{name} " not in section] == []


def test_data_sets_without_splits_get_random_ones(command, real_data):
    options = ("--model", "gcn", "--fanout", "5,5", "--hidden", "16", "--epochs", "1", "--json")
    status, out, err = command(real_data / "cora.npz", *options)
    assert status == 0 and "has no splits; drew some of its largest component (seed 0)" in err
    assert json.loads(out)["dataset"]["splits"] == {"train": 140, "valid": 210, "test": 2135}


def test_the_whole_graph(command, folder, tmp_path):
    """One line of JSON, epochs and what was chosen on standard error; and a run that goes on."""
    fast = (
        "--full-graph",
        "--model",
        "gin",
        "--layers",
        "3",
        "--hidden",
        "8",
        "--parts",
        "2",
        "--checkpoint",
        tmp_path / "c.pt",
    )
    status, out, err = command(folder, *fast, "--epochs", "2", "--json")
    found = json.loads(out)
    assert status == 0 and len(out.splitlines()) == 1
    assert found["model"] == "gin" and found["layers"] == 3 and found["parts"] == 2 and found["strategy"] == "auto"
    assert found["dataset"]["vertices"] == 300 and found["device"] == "cpu" and found["ranks"] == 1
    assert [epoch["epoch"] for epoch in found["epochs"]] == [1, 2]
    for epoch in found["epochs"]:
        assert epoch["seeds"] == 120 and epoch["edges_per_second"] > 0 and 0 <= epoch["valid_accuracy"] <= 1
        assert set(epoch["stages"]) == {"forward", "backward", "step", "validate"}
    assert found["best"]["epoch"] in (1, 2) and 0 <= found["test"]["accuracy"] <= 1
    assert {choice["what"] for choice in found["choices"]} == {"sum of 8 x float32", "sum of 64 x float32"}
    for choice in found["choices"]:
        assert choice["strategy"] in {cost["strategy"] for cost in choice["costs"] if cost["measured"] is not None}
    assert err.count("epoch ") == 2 and "forward" in err and "sum of 64 x float32: " in err
    assert "fanouts" not in found and "cache" not in found
    status, out, err = command(folder, *fast, "--epochs", "3", "--resume")
    assert status == 0 and "gin with" in out and "3 epochs" in out and err.count("epoch ") == 1
    status, out, err = command(folder, *fast, "--precision", "float64", "--resume")
    assert status == 1 and "was saved with precision='float32', but this run has 'float64'" in err


def test_the_whole_graph_within_a_budget(command, folder):
    fast = ("--full-graph", "--epochs", "1", "--hidden", "8", "--precision", "float64", "--dropout", "0", "--json")
    status, out, err = command(folder, *fast, "--gpu-budget", "1MiB")
    found = json.loads(out)
    assert status == 0 and len(found["plans"]) == 2 and "lie in host memory" in err
    status, out, _ = command(folder, *fast)
    assert status == 0 and not json.loads(out)["plans"]
    assert found["test"]["loss"] == pytest.approx(json.loads(out)["test"]["loss"], abs=1e-9)
    status, _, err = command(folder, *fast, "--gpu-budget", "1KiB")
    assert status == 1 and "are needed at least" in err


def test_the_whole_graph_is_tuned_first(command, folder, monkeypatch, tmp_path):
    monkeypatch.setenv("HINTERLAND_CACHE_DIR", str(tmp_path))
    fast = ("--full-graph", "--epochs", "1", "--hidden", "8", "--model", "gcn", "--json")
    status, out, err = command(folder, *fast, "--tune")
    tuned = json.loads(out)["tuned"]
    assert status == 0 and [one["what"] for one in tuned] == ["sum of 8 x float32", "sum of 3 x float32"]
    assert "sum of 8 x float32 by halo: longest" in err and tuned[0]["table"][0][1] > 0
    status, out, err = command(folder, *fast)
    assert status == 0 and json.loads(out)["tuned"] == [] and "longest" not in err


def test_the_whole_graph_over_several_devices(command, folder):
    status, out, _ = command(folder, "--full-graph", "--epochs", "1", "--hidden", "8", "--devices", "cpu,cpu,cpu", "--json")
    assert status == 0 and json.loads(out)["parts"] == 3 and json.loads(out)["model"] == "sage"


@pytest.mark.parametrize(
    "arguments, status, sentence",
    [
        (("--fanout", "5,x"), 2, "'5,x' is no list of whole numbers; write one for each hop"),
        (("--fanout", "5,0"), 1, "fanouts=[5, 0] sample nothing"),
        (("--model", "mlp"), 1, "model 'mlp' is not one of sage, gcn, gat, pinsage"),
        (("--model", "gat", "--hidden", "6"), 1, "hidden=6 cannot be shared by gat's 4 heads"),
        (("--epochs", "0"), 1, "epochs=0 is too small"),
        (("--lr", "-1"), 1, "lr=-1.0 is no learning rate"),
        (("--resume",), 1, "there is no checkpoint to write or to go on from"),
        (("--checkpoint", "/nowhere/c.pt"), 1, "/nowhere/c.pt: cannot be written"),
        (("--trace", "/nowhere/t.json"), 1, "/nowhere/t.json: cannot be written"),
        (("--precision", "half"), 1, "precision 'half' is not one of float32, bfloat16"),
        *[
            (("--full-graph", option, value), 1, f"{option} is of mini-batches, and --full-graph trains without any")
            for option, value in (
                ("--fanout", "15,10,5"),
                ("--batch-size", "1024"),
                ("--cache", "auto"),
                ("--round", "1"),
                ("--checkpoint-every", "3"),
                ("--trace", "t.json"),
            )
        ],
        *[
            ((option, value), 1, f"{option} is of training on whole graphs; name --full-graph, too")
            for option, value in (("--layers", "2"), ("--parts", "2"), ("--strategy", "auto"))
        ],
        (("--tune",), 1, "--tune is of training on whole graphs; name --full-graph, too"),
        (("--full-graph", "--tune", "--model", "gat"), 1, "tune=True, but gat attends, and sums alone are tuned"),
        (("--full-graph", "--tune", "--gpu-budget", "1MiB"), 1, "tune=True, but with strategy='host', a gpu_budget"),
        (("--full-graph", "--model", "pinsage"), 1, "model 'pinsage' is not one of gcn, sage, gin, gat, gatv2"),
        (("--full-graph", "--gpu-budget", "much"), 1, "not a size in bytes: 'much'"),
        (("--full-graph", "--precision", "half"), 1, "precision 'half' is not one of float32, bfloat16, float64"),
        (("--full-graph", "--strategy", "push"), 1, "strategy 'push' is not one of auto, direct, halo"),
        (("--full-graph", "--resume"), 1, "there is no checkpoint to write or to go on from"),
        (("--cache", "lru"), 1, "cache='lru' is neither one of auto"),
        (("--cache", "auto", "--gpu-budget", "lots"), 1, "not a size in bytes: 'lots'"),
        (("--devices", "cpu,cpu", "--cache", "auto"), 1, "name the cache's size for each of devices="),
        (("--gpu-budget", "110%"), 1, "not a share: '110%'; write a number from 0 to 100 with %"),
        (("--cache", "no/scores.npy"), 1, "no/scores.npy: cannot be read"),
        pytest.param(
            ("--devices", "all"),
            1,
            "--devices all needs an NVIDIA GPU",
            marks=pytest.mark.skipif(cuda_available(), reason="there are GPUs"),
        ),
    ],
)
def test_bad_arguments_before_anything_is_loaded(command, arguments, status, sentence):
    """The data set does not even exist."""
    found, out, err = command("/absent", *arguments)
    assert found == status and out == "" and sentence in " ".join(err.replace("│", "").split())


def test_options_that_would_do_nothing_are_refused(command, folder, tmp_path):
    status, _, err = command(folder, "--host-budget", "1MiB")
    assert status == 1 and "host_budget='1MiB' bounds the pages of a data set on storage" in err
    blind = datasets.open(folder)
    blind.splits = {"train": blind.splits["train"]}
    datasets.save(blind, tmp_path / "blind")
    for option in ((), ("--full-graph",)):
        status, _, err = command(tmp_path / "blind", "--patience", "3", *option)
        assert status == 1 and "patience=3 waits for a lower validation loss" in err


def test_bad_data_sets(command, tmp_path):
    status, _, err = command(tmp_path / "absent")
    assert status == 1 and "absent: cannot be read: No such file or directory" in err


# Data sets of several types

MAG240M = datasets.Shape(
    {"paper": 400, "author": 300, "institution": 10},
    {"paper": 64},
    dict(zip(writers.MAG_RELATIONS, (400, 1500, 2000), strict=True)),
    (160, 80, 100),
    4,
    dtype=torch.float16,
    target="paper",
)
IGBH = datasets.Shape(
    {"paper": 400, "author": 300, "institute": 10, "fos": 20},
    dict.fromkeys(("paper", "author", "institute", "fos"), 1024),
    dict(zip(writers.IGB_RELATIONS, (2000, 1500, 400, 700), strict=True)),
    (240, 80, 80),
    4,
    target="paper",
)
TYPED = (*FAST[:-1], "6", "--dropout", "0.2")


def written(shape, write, folder):
    """A data set with labels that can be learned, in the files of a public one."""
    made = datasets.generate(shape, seed=1, device="cpu")
    edges = {}
    for kind, graph in made.graphs.items():
        targets = torch.repeat_interleave(torch.arange(graph.num_vertices), graph.indptr.cpu().diff())
        edges[kind] = torch.stack([graph.indices.cpu().long(), targets]).numpy()
    labels = torch.where(made.labels < 0, torch.nan, made.labels.float()).numpy()
    features = {kind: table.cpu().numpy() for kind, table in made.features.items()}
    splits = {name: part.numpy() for name, part in made.splits.items()}
    return write(folder, writers.Truth(features, dict(made.num_vertices), edges, labels, splits, made.num_classes))


@pytest.fixture(scope="module")
def mag240m(tmp_path_factory):
    return written(MAG240M, writers.write_mag240m, tmp_path_factory.mktemp("data") / "mag240m_kddcup2021")


@pytest.fixture(scope="module")
def igbh(tmp_path_factory):
    return written(IGBH, partial(writers.write_igb, bare=True), tmp_path_factory.mktemp("data") / "large")


@pytest.mark.parametrize("model", ["sage", "gat"])
def test_mag240m_as_it_lies_after_download(command, mag240m, model):
    """Two papers in five show a random class."""
    status, out, err = command(mag240m, *TYPED, "--model", model, "--json")
    found = json.loads(out)
    assert status == 0 and len(out.splitlines()) == 1 and found["test"]["accuracy"] > 0.7
    assert found["dataset"]["vertices"] == {"paper": 400, "author": 300, "institution": 10}
    assert found["dataset"]["features"] == {"paper": [400, 64]} and found["dataset"]["target"] == "paper"
    assert list(found["dataset"]["edges"]) == [
        "author affiliated_with institution",
        "institution rev_affiliated_with author",
        "author writes paper",
        "paper rev_writes author",
        "paper cites paper",
    ]
    assert found["dataset"]["classes"] == 4 and found["dataset"]["splits"] == {"train": 160, "valid": 80, "test": 100}
    assert found["model"] == model and found["fanouts"] == [5, 3] and found["roles"] is None and found["cache"] is None
    for epoch in found["epochs"]:
        assert epoch["seeds"] == 160 and epoch["edges_per_second"] > 0 and 0 <= epoch["valid_accuracy"] <= 1
        assert epoch["bytes"] > 0 and epoch["bytes"] % 128 == 0 and epoch["served"]["rows"]["host"] == 1
        assert set(epoch["stages"]) == {"sample", "gather", "train", "wait"}
    assert err.count("epoch ") == 6 and "relations lead one way only; those that lead back are added" in err
    assert "hinterland: author has no features of its own, and is heard from layer 2 of 2 on\n" in err
    assert "hinterland: institution has no features of its own, and is not heard in 2 layers\n" in err


def test_igbh_as_it_lies_after_download(command, igbh):
    status, out, err = command(igbh, *TYPED, "--json")
    found = json.loads(out)
    assert status == 0 and found["test"]["accuracy"] > 0.7 and found["dataset"]["classes"] == 19
    assert found["dataset"]["features"] == {kind: [n, 1024] for kind, n in IGBH.vertices.items()}
    assert len(found["dataset"]["edges"]) == 7 and "no features" not in err and "those that lead back are added" in err


def test_igbh_with_2983_classes(command, igbh, tmp_path):
    datasets.convert(igbh, tmp_path / "set", num_classes=2983)
    status, out, _ = command(tmp_path / "set", *FAST, "--epochs", "1", "--json")
    assert status == 0 and json.loads(out)["dataset"]["classes"] == 2983


def test_several_types_go_on_and_over_several_devices(command, mag240m, tmp_path):
    options = (*FAST[:-1], "1", "--checkpoint", tmp_path / "c.pt")
    assert command(mag240m, *options)[0] == 0
    status, out, err = command(mag240m, *FAST, "--checkpoint", tmp_path / "c.pt", "--resume")
    assert status == 0 and "2 epochs" in out and "test accuracy" in out and err.count("epoch ") == 1
    status, out, _ = command(mag240m, *FAST, "--devices", "cpu,cpu", "--round", "1", "--json")
    factored = json.loads(out)
    plain = json.loads(command(mag240m, *FAST, "--json")[1])
    assert status == 0 and factored["roles"]["round"] == 1 and factored["test"] == plain["test"]


def test_several_types_on_storage(command, mag240m, tmp_path):
    """Of files as they were downloaded the graphs are read; of a folder that was made symmetric nothing is."""
    plain = json.loads(command(mag240m, *FAST, "--json")[1])
    away = ("--placement", "storage", "--host-budget", "40KiB", "--json")
    with pytest.warns(
        UserWarning, match="hinterland dataset convert --symmetrize makes a folder whose graph can be read in place"
    ):
        status, out, err = command(mag240m, *FAST, *away)
    assert status == 0 and "hinterland: features (50.00 KiB) stay in" in err
    assert json.loads(out)["test"] == plain["test"] and json.loads(out)["epochs"][0]["storage"]["bytes"] > 0
    datasets.convert(mag240m, tmp_path / "set", symmetrize=True)
    status, out, err = command(tmp_path / "set", *FAST, *away)
    assert status == 0 and "hinterland: features (50.00 KiB) and edges (" in err and "those that lead back" not in err
    assert json.loads(out)["test"]["loss"] == pytest.approx(plain["test"]["loss"], rel=1e-4)


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (("--model", "gcn"), "model 'gcn' takes vertices of one type, and the data set has several; use one of sage, gat"),
        (("--full-graph",), "has vertices of 3 types, and --full-graph takes data sets with one; leave it out"),
        (("--cache", "auto"), "has vertices of 3 types, and --cache takes data sets with one; leave it out"),
        (("--gpu-budget", "1MiB"), "has vertices of 3 types, and --gpu-budget takes data sets with one; leave it out"),
    ],
)
def test_what_is_not_for_several_types(command, mag240m, monkeypatch, arguments, sentence):
    """Said before the large parts are read."""
    monkeypatch.setattr(datasets.files, "read_rows", None)
    status, out, err = command(mag240m, *arguments)
    assert status == 1 and out == "" and sentence in err


def test_several_types_that_nothing_reaches(command, mag240m):
    status, _, err = command(mag240m, *FAST, "--fanout", "3")
    assert status == 0 and "author has no features of its own, and is not heard in 1 layers" in err


def test_ctrl_c_ends_it(folder, tmp_path):
    """With exit status 130, and a whole checkpoint."""
    checkpoint = tmp_path / "c.pt"
    arguments = [*FAST[:-1], "1000000", "--device", "cpu", "--checkpoint", str(checkpoint)]
    process = subprocess.Popen(
        [sys.executable, "-m", "hinterland.cli", "train", str(folder), *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        while not checkpoint.exists() and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130 and err.rstrip().endswith("hinterland: interrupted")
    assert checkpoints.load(checkpoint)["history"]
    assert os.listdir(tmp_path) == ["c.pt"]
