"""For mkdocs: pages link to headers and examples where they lie in the repository, so the site holds a copy of each;
and algorithms are known by their records: which pages are theirs, and what a table says of each. Every note has its place."""

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from hinterland.cli.algorithms import described  # noqa: E402

PAGES = {of.name: f"{of.module}.md" for of in described() if (ROOT / "docs" / f"{of.module}.md").exists()}


def on_config(config: Any) -> Any:
    for section in config["nav"]:
        if "Algorithms" in section:
            section["Algorithms"][:0] = PAGES.values()
    config["nav"].append({"Notes": [f"notes/{path.name}" for path in sorted((ROOT / "docs" / "notes").glob("*.md"))]})
    return config


def on_files(files: Any, config: Any) -> Any:
    headers = [path for top in ("include", "papers") for path in (ROOT / top).rglob("*.hpp")]
    for path in sorted([*headers, *(ROOT / "examples").rglob("*.*")]):
        name = path.relative_to(ROOT).as_posix()
        files.append(File(name, str(ROOT), config["site_dir"], use_directory_urls=False))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    markdown = re.sub(r"\]\(\.\./\.\./papers/", "](", markdown)  # of pages in docs/papers
    markdown = re.sub(r"\]\(\.\./(include|examples)/", r"](\1/", markdown)
    return markdown.replace("<!-- a table of the algorithms -->", _table())


def _table() -> str:
    rows = []
    for of in described():
        name = f"[{of.name}]({PAGES[of.name]})" if of.name in PAGES else of.name
        rows.append(f"| {name} | {of.help.splitlines()[0]} |")
    return "\n".join(["| command | what it does |", "| --- | --- |", *rows])
