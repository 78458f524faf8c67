"""No function over 80 lines, in Python and in C++, and no Python signature over 12 parameters of our own making."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST_LINES = 80
MOST_PARAMETERS = 12

# Signatures that others have made. One that is here for nothing fails the test.
_PYG = "PyG's parameters, in PyG's order, and where to keep what"
_LAYER = "PyG's parameters, in PyG's order, and which strategy"
_TYPER = "an option of a command is a parameter of its function for typer, and can be nothing else"
NOT_OURS = {
    ("src/hinterland/cli/generate.py", "generate"): _TYPER,
    ("src/hinterland/nn/gat.py", "GATConv.__init__"): _LAYER,
    ("src/hinterland/nn/gat.py", "GATv2Conv.__init__"): _LAYER,
    ("src/hinterland/pyg/loader.py", "NeighborLoader.__init__"): _PYG,
    ("src/hinterland/pyg/loader.py", "LinkNeighborLoader.__init__"): _PYG,
    ("src/hinterland/pyg/sampler.py", "Sampler.__init__"): _PYG,
}


def python_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Each function's name, lines from its ``def`` to its end, and parameters (``self`` and ``cls`` are none)."""

    def inside(node: ast.AST, outer: str, in_class: bool) -> Iterator[tuple[str, int, int]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                name, given, lines = f"{outer}{child.name}", child.args, (child.end_lineno or 0) - child.lineno + 1
                named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
                bound = in_class and not any(ast.unparse(d) == "staticmethod" for d in child.decorator_list)
                yield name, lines, len(named) - bound + sum(a is not None for a in (given.vararg, given.kwarg))
                yield from inside(child, f"{name}.", False)
            elif isinstance(child, ast.ClassDef):
                yield from inside(child, f"{outer}{child.name}.", True)
            else:
                yield from inside(child, outer, in_class)

    return inside(ast.parse(text), "", False)


_NO_CODE = re.compile(
    r"""//[^\n]* | /\*.*?\*/                       # comments
    | R"\((?:.*?)\)" | "(?:\\.|[^"\\\n])*"         # text
    | (?<![\w])'(?:\\.|[^'\\\n])+'                 # characters, but not the apostrophe of 1'000
    | ^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*               # what the preprocessor reads
    """,
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
# A brace after these, with no parameters between, is that of a namespace or a class.
_HOUSE = re.compile(r"\b(?:namespace|struct|class|union|enum)\b(?:alignas\([^()]*\)|[^()])*$|\bextern\s*$")
_ATTRIBUTE = re.compile(r"\b(?:__\w+__|alignas)\s*\([^()]*\)")


def cpp_functions(text: str) -> Iterator[tuple[str, int]]:
    """Each function's name, and lines from the first of its declaration to its closing brace. Lambdas are part of theirs."""
    code = _NO_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    head = opened = depth = 0  # where a declaration begins, and its body; how deep the braces are there
    for brace in re.finditer(r"[{};]", code):
        at, kind = brace.start(), brace[0]
        if depth:
            depth += {"{": 1, "}": -1, ";": 0}[kind]
            if depth or re.match(r"\s*[,{]", code[at + 1 :]):  # the last is after a member's value, as in S() : a{1} {
                continue
            declared = _ATTRIBUTE.sub("", code[head:opened])
            if found := re.search(r"(operator\W+|[\w~:]+)\s*\(", declared):
                yield found[1], code[head:at].lstrip().count("\n") + 1
        elif kind == "{" and not _HOUSE.search(code[head:at]):
            depth, opened = 1, at
            continue
        head = at + 1  # a namespace or a class is gone into


def files(*endings: str) -> list[Path]:
    """The sources of the library. The headers are in include/, whatever a build has copied into the package."""
    found = (
        path for top in ("include", "native", "src", "papers") for path in (ROOT / top).rglob("*") if path.suffix in endings
    )
    return [path for path in found if (ROOT / "src/hinterland/include") not in path.parents]


def long_ones(found: Iterable[tuple[Path, str, int]]) -> dict[tuple[str, str], int]:
    return {(str(path.relative_to(ROOT)), name): lines for path, name, lines in found if lines > MOST_LINES}


def test_no_python_function_is_long():
    assert long_ones((p, name, lines) for p in files(".py") for name, lines, _ in python_functions(p.read_text())) == {}


def test_no_python_signature_of_ours_is_long():
    many = {
        (str(path.relative_to(ROOT)), name): count
        for path in files(".py")
        for name, _, count in python_functions(path.read_text())
        if count > MOST_PARAMETERS
    }
    assert {where: count for where, count in many.items() if where not in NOT_OURS} == {}
    assert NOT_OURS.keys() - many.keys() == set(), "these need no exception any more"


def test_no_cpp_function_is_long():
    sources = files(".hpp", ".h", ".cpp", ".cu")
    found = [(path, *function) for path in sources for function in cpp_functions(path.read_text())]
    assert len(found) > 500  # the scan sees functions
    long = long_ones(found)
    assert long == {}


@pytest.mark.parametrize("head", ["def f():", "async def f():", "class C:\n  def f(self):", "def g():\n  def f():"])
def test_a_long_python_function_is_found(head):
    body = "\n".join(["    pass"] * MOST_LINES)
    found = {name.split(".")[-1]: lines for name, lines, _ in python_functions(f"{head}\n{body}\n")}
    assert found["f"] == MOST_LINES + 1


@pytest.mark.parametrize(
    ("signature", "count"),
    [
        ("def f(a, /, b, *c, d=1, **e): ...", 5),
        ("class C:\n  def f(self, a): ...", 1),
        ("class C:\n  @staticmethod\n  def f(a, b): ...", 2),
        ("class C:\n  def g(self):\n    def f(a): ...", 1),
    ],
)
def test_parameters_are_counted(signature, count):
    assert [n for name, _, n in python_functions(signature) if name.endswith("f")] == [count]


PLANTED = (
    "void f(int a) {",
    "template <typename T, class U = int>\n__device__ inline T f(const struct Given& a,\n    U b) noexcept {",
    "struct alignas(8) S {\n  int a = 1;\n  S() : a{2} {}\n  auto f() const -> int {",
    "struct f {\n  f() : a{1}, b{2} {",
    "class S : Base<int> {\n public:\n  void f() override {",
    'extern "C" __global__ void __launch_bounds__(1 << 5) kernel(Params p) {\n}\nnamespace a::b {\nint f() {',
    "#define BRACE {\nenum class E : int { A, B };\n// one { more\nauto s = \"{\"; char c = '{'; long n = 1'000;\nbool f() {",
)


@pytest.mark.parametrize("head", PLANTED)
def test_a_long_cpp_function_is_found(head):
    body = "\n".join(["  if (a) { g([] { return 1; }); }"] * MOST_LINES)
    text = f"#pragma once\nnamespace n {{\n{head}\n{body}\n}}\nint after() {{ return 0; }}\n"
    found = dict(cpp_functions(text))
    assert MOST_LINES < found["f"] <= MOST_LINES + 4 and found["after"] == 1
