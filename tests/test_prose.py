"""Guides are read by people in a hurry: short sentences, and pages that fit in a sitting."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from .pages import PAGES, ROOT

pytestmark = pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="the pages are not beside the tests")

GUIDES = [page for page in PAGES if page.parent.name != "notes"]
MOST_LINES, MOST_WORDS, LONG, MOST_LONG = 200, 20, 35, 0.05  # of a page; a sentence in the mean; a long one; their share


def sentences(text: str) -> Iterator[str]:
    """Those of paragraphs and items of lists; headings, tables, pictures and code are none."""
    text = re.sub(r"```.*?```", "\n\n", text, flags=re.DOTALL)
    text = re.sub(r"^\s*([|#<!].*)$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^\s*([-*]|\d+\.)\s", "\n\n", text, flags=re.MULTILINE)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    for paragraph in re.split(r"\n\s*\n", text):
        yield from re.split(r"(?<=[.!?:])\s+(?=[A-Z`*\"(])", " ".join(paragraph.split()))


def lengths(text: str) -> list[int]:
    """Words of each sentence of two or more."""
    return [count for one in sentences(text) if (count := sum(bool(re.search(r"\w", word)) for word in one.split())) > 1]


def test_words_are_counted_in_sentences():
    text = "# A heading\n\nOne two three. Four five.\n\n- six `seven`\n- [eight nine](ten.md)\n\n| a table |\n```\ncode x\n```"
    assert lengths(text) == [3, 2, 2, 2]


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in GUIDES])
def test_a_page_is_read_quickly(page):
    text = page.read_text()
    assert len(text.splitlines()) <= MOST_LINES, "what is longer is a note: docs/notes"
    counts = lengths(text)
    assert sum(counts) <= MOST_WORDS * len(counts), f"{sum(counts) / len(counts):.1f} words a sentence in the mean"
    long = [count for count in counts if count > LONG]
    assert len(long) <= MOST_LONG * len(counts), f"of {len(counts)} sentences {len(long)} have more than {LONG} words"
