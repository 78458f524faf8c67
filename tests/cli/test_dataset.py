"""``hinterland dataset``: JSON alone on standard output, and sentences for what cannot be done."""

from __future__ import annotations

import json
import os

import pytest
import torch

import hinterland as hl
from hinterland import cli


@pytest.fixture
def dataset(command_line):
    """Runs ``hinterland dataset``: exit status, standard output, standard error."""
    return lambda *words: command_line(cli.main, "hinterland", "dataset", *words)


def test_generate_then_info(dataset, tmp_path):
    status, out, _ = dataset(
        "generate", "products", "--scale", "0.001", "--seed", "4", "--device", "cpu", "--output", tmp_path / "d", "--json"
    )
    made = json.loads(out)
    assert status == 0 and made["shape"] == "products" and made["seed"] == 4
    assert made["bytes"] == sum(file.stat().st_size for file in (tmp_path / "d").iterdir())
    status, out, _ = dataset("info", tmp_path / "d", "--json")
    found, ours = json.loads(out), hl.datasets.generate("products", scale=0.001, seed=4, device="cpu")
    assert status == 0 and found["format"] == "hinterland" and found["name"] == "products"
    assert found["vertices"] == ours.num_vertices and found["edges"] == ours.graph.num_edges
    assert found["features"] == {"columns": 100, "dtype": "float32", "bytes": ours.features.nbytes}
    assert found["splits"] == {name: len(part) for name, part in ours.splits.items()}
    assert found["classes"] == ours.num_classes and found["labelled"] == ours.num_vertices
    assert torch.equal(hl.datasets.open(tmp_path / "d").features.cpu(), ours.features.cpu())


def test_several_types(dataset, tmp_path):
    assert dataset("generate", "mag240m", "--scale", "1e-5", "--output", tmp_path / "d", "--symmetrize")[0] == 0
    status, out, _ = dataset("info", tmp_path / "d", "--json")
    found = json.loads(out)
    assert status == 0 and found["vertices"]["author"] == 1224
    assert "paper rev_writes author" in found["edges"] and list(found["features"]) == ["paper"]
    status, out, _ = dataset("info", tmp_path / "d")
    assert status == 0 and "institution: 1 vertices, no features" in out


def test_convert(dataset, real_data, tmp_path):
    status, out, _ = dataset("convert", real_data / "cora.npz", tmp_path / "cora")
    assert status == 0 and out.startswith(f"{tmp_path}/cora: 14.")
    assert hl.datasets.open(tmp_path / "cora").num_vertices == 2708
    status, out, err = dataset("convert", real_data / "cora.npz", tmp_path / "cora")
    assert (status, out) == (1, "") and "--overwrite" in err
    assert dataset("convert", real_data / "cora.npz", tmp_path / "cora", "--overwrite")[0] == 0


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["info", "missing"], "missing: cannot be read: No such file or directory"),
        (["info", "."], "no data set that is known"),
        (["convert", "missing", "d"], "missing: cannot be read"),
        (["convert", ".", "d", "--format", "npz"], "no data set's format is called 'npz'"),
        (["generate", "reddit", "--output", "d"], "there are products, papers100M"),
        (["generate", "--output", "missing/d"], "make the folder"),
    ],
)
def test_what_cannot_be_done_gets_a_sentence(dataset, tmp_path, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    status, out, err = dataset(*arguments)
    assert (status, out) == (1, "") and says in err and err.startswith("hinterland: ")
    assert os.listdir(tmp_path) == []
