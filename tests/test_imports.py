"""Who imports whom in src/hinterland: no circles, and no arrow up (docs/architecture.md). An import inside a function, or one
that is there for type checkers alone, counts as any other; there are no exceptions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import hinterland

ROOT = Path(hinterland.__file__).parent
REPOSITORY = Path(__file__).parents[1]
PAPERS = REPOSITORY / "papers" / "hinterland_papers"  # which stands on all of it
# From the ground up; wings of one level know nothing of each other. "" is hinterland/__init__.py, which has the public names.
LEVELS = (
    ("_core",),
    ("runtime",),
    ("machine",),
    ("memory",),
    ("storage",),
    ("table",),
    ("kernels", "probe"),
    ("graph",),
    ("datasets", "hotness", "query", "sampling"),
    ("fullgraph",),
    ("nn",),
    ("training",),
    ("demo",),
    ("pyg",),
    ("",),
    ("cli", "nx_backend"),
    ("__main__",),
)


def imports(root: Path) -> dict[str, set[str]]:
    """The modules of the package at ``root``, and which others of them each imports anywhere in its text."""
    files = {_module(root, path): path for path in root.rglob("*.py")}
    known = files.keys() | {f"{root.name}._core"}
    return {name: set(_imported(name, path, known)) - {name} for name, path in files.items()}


def _module(root: Path, path: Path) -> str:
    parts = path.relative_to(root.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(name: str, path: Path, known: set[str]) -> Iterator[str]:
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        if isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                inside = f"{base}.{alias.name}"
                yield from {inside if inside in known else base} & known


def circle(found: dict[str, set[str]]) -> list[str]:
    """Modules that import each other round and round; empty where there are none."""
    try:
        TopologicalSorter(found).prepare()
    except CycleError as error:
        return error.args[1]
    return []


@pytest.mark.parametrize("root", [ROOT, PAPERS], ids=lambda root: root.name)
def test_no_module_imports_itself_through_others(root):
    found = circle(imports(root))
    assert not found, " imports ".join(reversed(found))


def test_the_product_takes_nothing_of_papers():
    files = [path for top in ("include", "native", "src") for path in (REPOSITORY / top).rglob("*")]
    texts = {path: path.read_text() for path in files if path.suffix in (".py", ".hpp", ".cpp", ".cu")}
    taken = re.compile(rf'^\s*(?:#include ["<]|from |import ){PAPERS.name}\b', re.MULTILINE)
    assert len(texts) > 500 and [path for path, text in texts.items() if taken.search(text)] == []
    assert taken.search(f'#include "{PAPERS.name}/emogi/tiles.hpp"') and taken.search(
        f"    from {PAPERS.name}.emogi import bfs"
    )


def test_arrows_between_wings_point_down():
    height = {wing: level for level, wings in enumerate(LEVELS) for wing in wings}
    wings = [
        (name, target, *([*module.split("."), ""][1] for module in (name, target)))
        for name, targets in imports(ROOT).items()
        for target in targets
    ]
    unknown = {wing for *_, one, other in wings for wing in (one, other)} - height.keys()
    assert not unknown, f"{unknown}: give new wings their level in LEVELS, and in docs/architecture.md"
    up = [f"{name} imports {target}" for name, target, a, b in wings if a != b and height[a] <= height[b]]
    assert up == []


def test_graphs_on_storage_go_through_the_table():
    """Neither do they take from the table's modules what these have of storage."""
    found, below = imports(ROOT), f"{ROOT.name}.storage"
    above = {name: targets for name, targets in found.items() if name.split(".")[1:2] in (["graph"], ["sampling"])}
    assert len(above) > 60
    assert [(name, one) for name, targets in above.items() for one in targets if one.startswith(below)] == []
    tables = [ast.walk(ast.parse(path.read_text())) for path in (ROOT / "table").rglob("*.py")]
    of_storage = {name for nodes in tables for name in _taken(nodes, "storage")}
    assert {"StorageCache", "DeviceStore"} <= of_storage
    by_graphs = [
        (name, taken)
        for name in above
        for taken in _taken(ast.walk(ast.parse(_file(name).read_text())), "table")
        if taken in of_storage
    ]
    assert by_graphs == []


def _file(module: str) -> Path:
    path = ROOT.parent.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _taken(nodes: Iterable[ast.AST], wing: str) -> set[str]:
    """Names that a text imports from a wing."""
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == wing]
    return {alias.name for node in froms for alias in node.names}


def asked(root: Path) -> list[str]:
    """Where a module that is not in table/ asks which kind of table it has."""
    trees = {path: ast.parse(path.read_text()) for path in sorted(root.rglob("*.py"))}
    classes = [node for path, tree in trees.items() if path.parent.name == "table" for node in tree.body]
    kinds, before = {"Table", "Placement"}, 0
    while len(kinds) > before:
        before = len(kinds)
        kinds |= {one.name for one in classes if isinstance(one, ast.ClassDef) and kinds & {_last(base) for base in one.bases}}
    found = []
    for path, tree in trees.items():
        unions = [one for one in tree.body if isinstance(one, ast.Assign) and kinds & _names(one.value)]
        here = kinds | {_last(target) for one in unions for target in one.targets}
        calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and _last(node.func) == "isinstance")
        found += [f"{path.relative_to(root)}:{call.lineno}" for call in calls if here & _names(call.args[1])]
    return [one for one in found if not one.startswith("table/")]


def _last(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _names(node: ast.expr) -> set[str]:
    return {_last(part) for part in ast.walk(node) if isinstance(part, ast.Name | ast.Attribute)}


def test_no_wing_asks_which_kind_of_table_it_has():
    assert asked(ROOT) == []


def test_who_asks_is_found(tmp_path):
    (tmp_path / "table").mkdir()
    (tmp_path / "table/one.py").write_text("class Table: pass\nclass Near(Table): pass\nclass Nearer(Near): pass")
    (tmp_path / "above.py").write_text("Either = Nearer | Far\ndef f(x):\n    return isinstance(x, torch.Tensor | Either)")
    assert asked(tmp_path) == ["above.py:3"]


@pytest.mark.parametrize(
    "back",
    [
        "from . import above",
        "import house.above",
        "def lazy():\n    from .above import roof",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house.above import roof",
    ],
)
def test_circles_are_found_wherever_an_import_stands(tmp_path, back):
    house = tmp_path / "house"
    house.mkdir()
    for name, text in (("__init__", ""), ("above", "from .ground import floor\nroof = 2"), ("ground", "floor = 1")):
        (house / f"{name}.py").write_text(text)
    assert imports(house)["house.above"] == {"house.ground"} and circle(imports(house)) == []
    (house / "ground.py").write_text(f"{back}\nfloor = 1")
    assert set(circle(imports(house))) == {"house.above", "house.ground"}
