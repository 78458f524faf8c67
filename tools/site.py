"""For mkdocs: pages link to headers and examples where they lie in the repository, so the site holds a copy of each."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent


def on_files(files: Any, config: Any) -> Any:
    headers = [path for top in ("include", "papers") for path in (ROOT / top).rglob("*.hpp")]
    for path in sorted([*headers, *(ROOT / "examples").rglob("*.*")]):
        name = path.relative_to(ROOT).as_posix()
        files.append(File(name, str(ROOT), config["site_dir"], use_directory_urls=False))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    markdown = re.sub(r"\]\(\.\./\.\./papers/", "](", markdown)  # of pages in docs/papers
    return re.sub(r"\]\(\.\./(include|examples)/", r"](\1/", markdown)
