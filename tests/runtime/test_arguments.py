"""One check for each kind of value: what it takes, what it gives back, and what it says."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch

from hinterland import datasets
from hinterland.graph import Graph, load_graph
from hinterland.runtime import arguments, jit
from hinterland.runtime.errors import ConfigError, HinterlandError, StorageError


def test_whole_numbers_are_pythons_numpys_and_tensors_of_one():
    for value in (5, np.int16(5), torch.tensor(5), np.uint64(5)):
        found = arguments.whole_number("n", value, 0, 5)
        assert type(found) is int and found == 5


NO_COUNTS = [None, "5", 5.0, float("nan"), torch.ones(2), torch.tensor(5, device="meta"), 2**64 + 5, 10**5000]


@pytest.mark.parametrize("value", NO_COUNTS, ids=lambda value: type(value).__name__)
def test_what_is_no_whole_number_gets_one_line(value):
    with pytest.raises(ConfigError, match="count .* is not a whole number from 0 on") as raised:
        arguments.whole_number("count", value, 0)
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 200


def test_switches_are_pythons_numpys_and_tensors_of_one():
    for value in (True, np.True_, torch.tensor(True), 1, np.int8(1)):
        assert arguments.switch("on", value) is True
    for value in (False, np.False_, torch.tensor(False), 0):
        assert arguments.switch("on", value) is False
    assert arguments.switches(a=np.True_, b=False) == [True, False]


@pytest.mark.parametrize(
    "value", [None, "no", 2, -1, 0.0, [], np.zeros(2, dtype=bool), torch.zeros(2), torch.tensor(True, device="meta"), object()]
)
def test_what_is_no_switch(value):
    with pytest.raises(ConfigError, match="on .* is neither True nor False"):
        arguments.switch("on", value)


@pytest.mark.parametrize("value", [float("nan"), 0, -1, "3", None, 1j, 10**400], ids=lambda value: type(value).__name__)
def test_what_is_no_time(value):
    with pytest.raises(ConfigError, match="timeout"):
        arguments.seconds("timeout", value)


def test_tensors_without_elements_side_by_side_are_told_apart():
    ones = torch.ones(2, 2)
    for tensor, word in (
        (ones.to_sparse(), "sparse"),
        (ones.to("meta"), "meta"),
        (torch.nested.nested_tensor([ones[0], ones[1, :1]]), "nested"),
        (torch.quantize_per_tensor(ones, 0.1, 0, torch.quint8), "quantized"),
    ):
        with pytest.raises(ConfigError, match=word):
            arguments.dense("rows", tensor)


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64])
def test_the_range_of_unsigned_weights_goes_up_to_their_largest(dtype):
    bits = 8 * dtype.itemsize
    values = np.array([1, 2**bits - 1, 2 ** (bits - 1), 3], dtype=f"u{dtype.itemsize}")
    graph = Graph(torch.tensor([0, 4]), torch.zeros(4, dtype=torch.int64), torch.from_numpy(values))
    assert (graph.weight_range.least, graph.weight_range.most) == (1, 2**bits - 1)


@pytest.fixture
def place():
    """A folder that other users reach; pytest's own are closed to them."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def raised_by_nobody(call):
    """What ``call`` raises in a process of the user nobody, whom the system refuses things."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            call()
            found = "nothing"
        except BaseException as error:
            found = f"{type(error).__name__}: {error}"
        os.write(writing, found.encode()[:4000])
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as told:
        return told.read()


@pytest.mark.parametrize("closed", ["features.npy", "dataset.json", "train.npy", "graph.hl", "."])
def test_a_file_of_a_data_set_that_may_not_be_read(place, closed):
    made = datasets.generate(
        datasets.Shape({"node": 100}, {"node": 2}, {("node", "to", "node"): 300}, (50, 9, 9), 2), placement="pageable"
    )
    datasets.save(made, place / "set")
    (place / "set" / closed).chmod(0)
    said = raised_by_nobody(lambda: datasets.open(place / "set"))
    (place / "set").chmod(0o755)
    assert said.startswith("StorageError") and "Permission denied; check the permissions" in said


def test_a_kernel_cache_that_may_not_be_entered(place):
    (place / "kernels").mkdir()
    (place / "kernels").chmod(0)
    said = raised_by_nobody(lambda: jit._load(place / "kernels" / "bfs.cubin"))
    assert said.startswith("ConfigError: the kernel cache") and "HINTERLAND_CACHE_DIR" in said


@pytest.mark.parametrize("name", ["loop", "é" * 200])
def test_links_that_lead_back_and_names_too_long(tmp_path, name):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    word = os.strerror(errno.ELOOP if name == "loop" else errno.ENAMETOOLONG)
    for read in (load_graph, datasets.open):
        with pytest.raises(StorageError, match=word):
            read(tmp_path / name)
    with pytest.raises(ConfigError, match="kernel cache"):
        jit._load(tmp_path / name / "bfs.cubin")


def test_a_header_of_brackets_in_brackets(tmp_path):
    (tmp_path / "dataset.json").write_text("[" * 100_000)
    with pytest.raises(HinterlandError, match="damaged"):
        datasets.open(tmp_path)
