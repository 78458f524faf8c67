"""The field's words, as CONTRIBUTING lists them: no name of ours for what has one, and no name for two things."""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from .test_shape import _NO_CODE, ROOT, files

GUIDE = ROOT / "CONTRIBUTING.md"
pytestmark = pytest.mark.skipif(not GUIDE.is_file(), reason="the guide is not beside the tests")

PYG = {"GATConv", "GCNConv", "SAGEConv"}  # PyG's names for PyG's layers: over a partitioned graph, and over a mini-batch
# What C++ and Python share: one thing by one name.
SHARED = set(
    "Bags Bfloat16 BucketWidth Clock Controller DeviceError EdgeRuns Float16 FormatError OutOfMemory PackedArrays PackedLists "
    "Pinned Relation StorageError Table Test TierCount VertexSet Volume WeightType".split()
)


@functools.cache
def listed() -> list[tuple[set[str], set[str], set[str]]]:
    """Rows of the guide's table: our words, of what they are (files, texts, names), and the wings it is about (none: all)."""
    table = GUIDE.read_text().partition("\n## Words\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| `")]
    found = []
    for ours, _, where in rows:
        words = set(re.findall(r"`([^`]+)`", where))
        kinds = {kind for kind in ("files", "texts") if kind in where.split()} or {"names"}
        found.append((set(re.findall(r"`([^`]+)`", ours)), kinds, words))
    return found


def python_names(text: str) -> Iterator[str]:
    """Functions, classes, parameters, attributes and constants, but no variables of a function."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg | ast.keyword):
            yield node.arg or ""
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            yield node.attr
    for node in tree.body:
        yield from (name.id for name in getattr(node, "targets", []) if isinstance(name, ast.Name))


def python_texts(text: str) -> Iterator[str]:
    """Texts that are one word."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def cpp_names(text: str) -> Iterator[str]:
    yield from re.findall(r"[A-Za-z_]\w*", _NO_CODE.sub(" ", text))


def wing(path: Path) -> str:
    return path.parent.relative_to(ROOT).as_posix().replace("hinterland/", "").partition("/")[2].partition("/")[0]


def of_ours(path: Path, text: str) -> set[str]:
    """Words of the guide's list that a file uses for what the field calls otherwise."""
    is_python = path.suffix == ".py"
    names = {name.strip("_") for name in (python_names if is_python else cpp_names)(text)}
    has = {"files": {path.stem}, "names": names, "texts": set(python_texts(text)) if is_python else set()}
    return {
        word
        for words, kinds, wings in listed()
        if not wings or wing(path) in wings
        for kind in kinds
        for word in words & has[kind]
    }


def sources(*endings: str) -> list[Path]:
    return [path for path in files(*endings) if (ROOT / "papers") not in path.parents]


def test_the_guide_has_a_list():
    words = set().union(*(words for words, _, _ in listed()))
    assert {"mapped", "bring", "heads", "outer", "apart", "rows"} <= words


def test_names_are_the_fields():
    found = {path: of_ours(path, path.read_text()) for path in sources(".py", ".hpp", ".cpp", ".cu")}
    assert {str(path.relative_to(ROOT)): words for path, words in found.items() if words} == {}


@pytest.mark.parametrize(
    ("path", "text", "word"),
    [
        ("src/hinterland/graph/rows.py", "", "rows"),
        ("native/storage/held.cpp", "", "held"),
        ("src/hinterland/memory/x.py", "def f(place='heap'): ...", "heap"),
        ("src/hinterland/memory/x.py", "class Shown: ...", "Shown"),
        ("src/hinterland/graph/x.py", "def inner(): ...", "inner"),
        ("src/hinterland/graph/x.py", "f(heads=1)", "heads"),
        ("include/hinterland/storage/x.hpp", "int bring(); // hold", "bring"),
        ("src/hinterland/runtime/x.py", "self.apart = 1", "apart"),
    ],
)
def test_a_word_of_ours_is_found(path, text, word):
    assert of_ours(ROOT / path, text) == {word}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/hinterland/nn/x.py", "def f(heads): ..."),  # those of attention
        ("native/storage/x.hpp", "// bring it, hold it\nint inner_;"),
        ("src/hinterland/storage/x.py", "def f():\n  mapped = 1"),
    ],
)
def test_a_word_with_another_meaning_is_none(path, text):
    assert of_ours(ROOT / path, text) == set()


_CPP_CLASS = re.compile(
    r"^(?:template\s*<.*>\s*)?(?:struct|class|enum class)\s+(?:alignas\(\w+\)\s+)?(\w+)\s*(?:final\s*)?(?::(?!:)[^;{]*)?\{",
    re.M,
)


def classes() -> dict[str, dict[str, list[str]]]:
    """Where public classes at the top of a file are defined: by language, then by name."""
    found: dict[str, dict[str, list[str]]] = {"Python": defaultdict(list), "C++": defaultdict(list)}
    for path in sources(".py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found["Python"][node.name].append(str(path.relative_to(ROOT)))
    for path in sources(".hpp", ".cpp", ".cu"):
        for name in _CPP_CLASS.findall(path.read_text()):
            found["C++"][name].append(str(path.relative_to(ROOT)))
    return found


def twice(names: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: where for name, where in names.items() if len(where) > 1 and name not in PYG}


def test_no_class_has_the_name_of_another():
    found = classes()
    assert len(found["Python"]) > 300 and len(found["C++"]) > 300  # the scan sees classes
    assert [twice(names) for names in found.values()] == [{}, {}]
    both = found["Python"].keys() & found["C++"].keys()
    assert both - SHARED == set(), "another thing in C++ than in Python"
    assert SHARED - both == set(), "these are not shared any more"


def test_a_second_class_of_a_name_is_found():
    assert twice({"Rows": ["a.py", "b.py"], "GATConv": ["c.py", "d.py"], "Once": ["a.py"]}) == {"Rows": ["a.py", "b.py"]}
    assert _CPP_CLASS.findall(
        "template <class T>\nstruct Rows : Base {\nclass Later;\nstruct Rows::Part {\n  struct Within {\n"
    ) == ["Rows"]
