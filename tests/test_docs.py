"""README.md, CONTRIBUTING.md and docs/: all code runs as printed, but for sizes, on what this machine has; mypy passes it."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import typer.core

import hinterland
from benchmarks import __main__ as benchmarks
from hinterland import cli
from hinterland.cli import algorithms
from hinterland.cli.parameters import spread
from hinterland_papers import cli as papers

from .pages import PAGES, ROOT, blocks, lay_out, make_files, make_machine

pytestmark = pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="the pages are not beside the tests")

# What would measure the machine for long, needs GPUs or starts processes is read by the command line, but not run.
_ONLY_READ = ("probe --full", "probe --refresh", "probe --disk-path", "bench ", "ablation", "torchrun", "--devices")


def _with(language: str) -> list[Any]:
    pages = [page for page in PAGES if blocks(page, language)]
    return [pytest.param(page, id=str(page.relative_to(ROOT))) for page in pages]


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    make_files(folder)
    return folder


@pytest.fixture(scope="module")
def machine(tmp_path_factory) -> Path:
    """The cache folder of a machine that has been probed; kernels are compiled once for all pages."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HINTERLAND_CACHE_DIR", str(folder))
        make_machine()
    return folder


@pytest.fixture
def here(files, machine, tmp_path, monkeypatch):
    """Makes an own folder the current one, and puts the files there that a page names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HINTERLAND_CACHE_DIR", str(machine))
    return lambda texts: lay_out(files, texts, tmp_path)


@pytest.fixture
def own_networkx(request):
    """One page configures networkx for the whole process. networkx knows the backends of installed packages only."""
    if "networkx.md" not in request.node.name:
        yield
        return
    import networkx as nx

    if "hinterland" not in nx.utils.backends.backends:
        pytest.skip("networkx finds backends of installed packages only: pip install .")
    config, ours = nx.config.backend_priority, nx.config.backends.hinterland
    before, priority = dict(ours), list(config.algos)
    yield
    config.algos = priority
    for name, value in before.items():
        setattr(ours, name, value)


def test_the_readme_links_every_page():
    links = set(re.findall(r"\(docs/(\w+\.md)\)", (ROOT / "README.md").read_text()))
    listed = {f"{of.module}.md" for of in algorithms.described()}  # those of algorithms are found by tools/site.py as well
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md", "architecture.md"}
    assert links <= pages and pages - links <= listed


def test_the_options_of_algorithms_are_explained():
    own = {name for of in algorithms.described() for name in of.options}
    made = algorithms.commands().values()
    has = {name for make in made for name in signature(spread(make)).parameters} - own - {"graph", "access"}
    table = (ROOT / "docs" / "cli.md").read_text().partition("| option | for | meaning |")[2].partition("\n\n")[0]
    told = [re.findall("`--([a-z-]+)", row) for row in table.splitlines() if row.startswith("| `")]
    assert has <= {name.replace("-", "_") for row in told for name in row}
    assert {row[0].replace("-", "_") for row in told} <= has | {"raw"}  # which is of its own


@pytest.mark.parametrize("page", _with("python"))
def test_python(page, here, own_networkx, capsys):
    texts = blocks(page, "python")
    here(texts)
    names: dict[str, Any] = {"__name__": "page"}
    for number, text in enumerate(texts, 1):
        try:
            exec(compile(text, f"{page.name}, block {number}", "exec"), names)
        except ModuleNotFoundError as missing:
            if "pytorch_lightning" not in str(missing):  # PyG's data modules need it; nothing here does
                raise
    if page.name == "README.md":
        assert names["x"].shape == (256, 16) and (names["x"].cpu() == names["y"]).all()
        assert names["result"].levels[42] == 0 and Path("graph.hl").exists()
        assert names["scores"].shape == (names["batch"].batch_size, names["data"].num_classes)


@pytest.mark.parametrize("page", _with("sh"))
def test_commands(page, here, monkeypatch, capsys):
    lines = [line for text in blocks(page, "sh") for line in text.replace("\\\n", " ").splitlines()]
    here(lines)
    handler = signal.getsignal(signal.SIGINT)
    for line in lines:
        words = shlex.split(line, comments=True)
        if words and not _is_known(words):
            main = cli.main
            if words[:3] == ["python", "-m", "hinterland_papers"]:
                main, words = papers.main, words[2:]
            program, *words = words
            if program == "torchrun":
                words = words[words.index("hinterland.cli") + 1 :]
            only_read = any(part in line for part in _ONLY_READ)
            with monkeypatch.context() as patched:
                if only_read:
                    patched.setattr(typer.core.TyperCommand, "invoke", lambda self, context: None)
                patched.setattr(sys, "argv", [program, *words])
                status = _status(main)
            found = capsys.readouterr()
            assert status == 0, f"{line}: {found.err}"
            if "--json" in words and not only_read:
                json.loads(found.out)
    assert signal.getsignal(signal.SIGINT) == handler


def _status(command) -> int:
    try:
        command()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def _is_known(words: list[str]) -> bool:
    """Whether a line of other programs names what is there."""
    match words:
        case ["make", target]:
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        case ["pip", "install", what]:
            extras = (ROOT / "pyproject.toml").read_text().partition("[project.optional-dependencies]")[2].partition("\n[")[0]
            for extra in re.findall(r"\[(.+)\]", what)[0].split(","):
                assert re.search(rf"^{extra} = ", extras, re.MULTILINE), f"{what}: there is no extra {extra}"
        case [_, ".venv/bin/python", "-m", "pytest", "-q", *files]:
            assert all((ROOT / file).exists() for file in files)
        case ["pip", "install", "./papers"]:
            assert (ROOT / "papers" / "pyproject.toml").exists()
        case ["python", "-m", "hinterland_papers", *_]:
            return False
        case ["python", "-m", "benchmarks", name, *_]:
            assert [path for path in benchmarks.files() if path.stem == name]
        case [program, *_]:
            return program not in ("hinterland", "torchrun") and pytest.fail(f"{program} is unknown")
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_is_fenced(page):
    """What is indented is neither run nor highlighted."""
    text = re.sub(r"^( *)```.*?^\1```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert not re.findall(r"^ +(?:import |from \w+ import |hinterland |pip |python |\w+ = hl\.)", text, re.MULTILINE)
    assert set(re.findall(r"^ *```(\w*)$", page.read_text(), re.MULTILINE)) <= {"python", "sh", ""}


# Files at the root, or with folders before them: not `.cu`, nor what a reader may call otherwise.
_FILE = re.compile(r"`((?:[\w.]+/)+[\w.]*|\.?[\w-]+\.(?:md|txt|yml|toml))(?: [A-Z]+)?`|\]\(([\w/.-]+)\)")


def test_the_walks_name_files_that_there_are():
    """Whoever follows CONTRIBUTING.md finds each of them."""
    named = {code or link for code, link in _FILE.findall((ROOT / "CONTRIBUTING.md").read_text())}
    assert len(named) > 50
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_what_commits_try_is_in_the_environment():
    """The hooks are the tools that `make` pins, and nothing that is fetched."""
    text = (ROOT / ".pre-commit-config.yaml").read_text()
    pinned = {line.partition("==")[0] for line in (ROOT / "constraints.txt").read_text().split()}
    assert {"ruff", "clang-format", "pre-commit", "pre-commit-hooks"} <= pinned
    assert re.findall(r"repo: (\S+)", text) == ["local"]
    assert text.count("language: system, entry: .venv/bin/") == text.count("{ id: ") > 5


JSON = [
    ("cli.md", '{"graph"', "bfs graph.hl --source 42 --runs 2 --json"),
    ("cli.md", '{"dataset"', "train ogbn_products --fanout 3,2 --epochs 1 --gpu-budget 64MiB --cache auto --json"),
    ("hotness.md", '{"graph"', "hotness lists.hl --seeds 500 --json"),
]


@pytest.mark.parametrize(("page", "start", "command"), JSON, ids=[command.split()[0] for _, _, command in JSON])
def test_json_is_as_printed(page, start, command, here, monkeypatch, capsys):
    here([command])
    text = (ROOT / "docs" / page).read_text()
    block = text[text.index(f"    {start}") :].partition("\n\n")[0]
    monkeypatch.setattr(sys, "argv", ["hinterland", *command.split()])
    assert _status(cli.main) == 0
    _same_shape(_shape(block), json.loads(capsys.readouterr().out))


def _shape(block: str) -> Any:
    """The object that a page prints; ``...`` stands for a value, or at an end for what is left out."""
    text = block
    for printed, meant in (("{...}", '{"...": 0}'), ("[...]", '["..."]'), (", ...}", ', "...": 0}'), (", ...]", ', "..."]')):
        text = text.replace(printed, meant)
    text = text.replace(": ...", ': "..."')
    return json.loads(text)


def _same_shape(printed: Any, found: Any, where: str = "") -> None:
    if isinstance(printed, dict) and found is not None:
        assert "..." in printed or set(printed) == set(found), where
        for key in set(printed) - {"..."}:
            assert key in found, f"{where}: {key} is printed, but not there"
            _same_shape(printed[key], found[key], f"{where}.{key}")
    elif isinstance(printed, list) and isinstance(printed[0], dict):
        _same_shape(printed[0], found[0], where)


def test_types(tmp_path, pytestconfig):
    """Each page as a file of a user's: our signatures are as narrow as what they print needs."""
    pytest.importorskip("mypy")
    for page in PAGES:
        if texts := blocks(page, "python"):
            (tmp_path / f"{page.stem.replace('-', '_')}_page.py").write_text("\n".join(texts))
    above = Path(hinterland.__file__).parent.parent
    path = {"MYPYPATH": os.pathsep.join([str(ROOT / "papers"), *([] if "site-packages" in above.parts else [str(above)])])}
    kept = pytestconfig.cache.mkdir("mypy")  # torch's types take most of the time
    options = ["--ignore-missing-imports", "--check-untyped-defs", "--cache-dir", str(kept)]
    command = [sys.executable, "-m", "mypy", *options, *(file.name for file in sorted(tmp_path.glob("*.py")))]
    found = subprocess.run(command, cwd=tmp_path, env={**os.environ, **path}, capture_output=True, text=True, timeout=280)
    assert found.returncode == 0, found.stdout + found.stderr
