"""The package itself: light to import, and every public name there when it is asked for."""

from __future__ import annotations

import ast
import pickle
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import hinterland as hl

# What takes long to import.
HEAVY = {"torch", "numpy", "scipy", "networkx", "matplotlib", "pandas", "pyarrow", "cuda"}
REPORT = f"""
import sys
print(*sorted({HEAVY!r} & set(sys.modules)))
"""


def test_importing_it_imports_nothing_heavy():
    done = subprocess.run([sys.executable, "-c", "import hinterland" + REPORT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_type_checkers_see_the_names_that_there_are():
    tree = ast.parse(Path(hl.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert {alias.name for node in imports for alias in node.names} | {"__version__"} == set(hl.__all__)
    for node in imports:
        for alias in node.names if node.module else []:
            home = __import__(f"hinterland.{node.module}", fromlist=[alias.name])
            assert getattr(hl, alias.name) is getattr(home, alias.name)


def test_where_the_headers_are_is_said_at_once():
    text = "import hinterland as hl; hl.get_include(), hl.get_cmake_dir()" + REPORT
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_dir_has_every_name_before_any_is_used():
    text = "import hinterland as hl; assert {*hl.__all__, 'graph'} <= set(dir(hl))" + REPORT
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_star_import_brings_all():
    names: dict[str, object] = {}
    exec("from hinterland import *", names)
    assert set(hl.__all__) <= set(names)


def test_probe_is_the_function_whoever_imports_its_package():
    text = "import hinterland.probe.link, hinterland as hl; assert callable(hl.probe), hl.probe"
    subprocess.run([sys.executable, "-c", text], check=True)
    assert not isinstance(hl.probe, ModuleType)


def test_its_functions_and_classes_are_pickled_by_name():
    assert pickle.loads(pickle.dumps(hl.bfs)) is hl.bfs
    assert pickle.loads(pickle.dumps(hl.Graph)) is hl.Graph


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="bsf"):
        hl.bsf  # noqa: B018
    with pytest.raises(ImportError, match="bsf"):
        from hinterland import bsf  # noqa: F401
