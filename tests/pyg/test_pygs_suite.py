"""PyG's own test files, at the release that is installed, with these loaders in place of PyG's.

Neither the wheel nor the source distribution of PyG has its tests, so they come from the release's tag in PyG's repository,
where that can be reached. What they look at is in test_pygs_cases.py as well, which needs nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch_geometric

ROOT = Path(__file__).resolve().parents[2]
FILES = [
    *(f"test/loader/test_{name}.py" for name in ("neighbor_loader", "link_neighbor_loader", "zip_loader", "mixin")),
    *(f"test/loader/test_{name}.py" for name in ("cache", "prefetch", "imbalanced_sampler")),
    "test/sampler/test_sampler_neighbor_sampler.py",
]
# docs/pyg.md says why.
FAIL = {
    "test_temporal_custom_neighbor_loader_on_karate",
    "test_homogeneous_neighbor_sampler_weighted_backwards[remote]",
    "test_neighbor_sampler_backwards_not_supported[False-data]",
    "test_neighbor_sampler_backwards_not_supported[False-remote]",
    "test_neighbor_sampler_backwards_not_supported[True-data]",
    "test_neighbor_sampler_backwards_not_supported[True-remote]",
}
PASS = 106


def test_the_page_explains_each_failure():
    page = (ROOT / "docs" / "pyg.md").read_text()
    assert all(f"`{name.partition('[')[0]}`" in page for name in FAIL)
    assert f"{PASS} of {PASS + len(FAIL)}" in page


@pytest.fixture
def pygs_tests(tmp_path):
    """The folder with `test` of PyG's repository, fetched once."""
    version = torch_geometric.__version__
    folder = ROOT / "build" / f"pyg-{version}"
    if not folder.is_dir():
        address = "https://github.com/pyg-team/pytorch_geometric"
        clone = ["git", "clone", "-q", "--depth=1", "--sparse", "--filter=blob:none", f"--branch={version}", address, "pyg"]
        for command in (clone, ["git", "-C", "pyg", "sparse-checkout", "set", "test"]):
            quiet = {"env": os.environ | {"GIT_TERMINAL_PROMPT": "0"}, "capture_output": True, "text": True, "timeout": 60}
            try:
                subprocess.run(command, cwd=tmp_path, check=True, **quiet)
            except (OSError, subprocess.SubprocessError) as error:
                pytest.skip(f"the tests of PyG {version} cannot be had: {getattr(error, 'stderr', None) or error}")
        folder.parent.mkdir(exist_ok=True)
        shutil.move(tmp_path / "pyg", folder)
    return folder


def test_pygs_own_tests(pygs_tests, tmp_path):
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "pygs_suite", "-c", os.devnull, "--rootdir", pygs_tests]
    command += ["--import-mode=importlib", f"--junitxml={tmp_path / 'found.xml'}", *(pygs_tests / file for file in FILES)]
    env = os.environ | {"PYTHONPATH": paths, "CUDA_VISIBLE_DEVICES": ""}  # PyG's batches are where its data is
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    cases = ElementTree.parse(tmp_path / "found.xml").getroot().iter("testcase")
    outcomes = {case.get("name"): {part.tag for part in case} & {"failure", "error", "skipped"} for case in cases}
    assert {name for name, tags in outcomes.items() if tags - {"skipped"}} == FAIL, done.stdout
    assert sum(not tags for tags in outcomes.values()) >= PASS  # a later release has more
