"""Numbers that decide how work is cut stand in one file for each language, and say what they stand on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
FILES = [
    ROOT / name
    for name in ("include/hinterland/core/thresholds.hpp", "native/core/thresholds.hpp", "src/hinterland/runtime/thresholds.py")
]
KINDS = ("Measured", "Derived", "Guess")
_CPP = re.compile(r"^inline constexpr \w+ (?P<name>\w+) = .*?;(?:  // (?P<why>.*))?$", re.MULTILINE)
_PYTHON = re.compile(r"^(?P<name>[A-Z_]+) = .*?(?:  # (?P<why>.*))?$", re.MULTILINE)


class Threshold(NamedTuple):
    file: Path
    name: str
    why: str | None

    @property
    def kinds(self) -> list[str]:
        return re.findall(rf"\b(?:{'|'.join(KINDS)})\b", self.why or "")


def thresholds(file: Path, text: str) -> list[Threshold]:
    pattern = _CPP if file.suffix == ".hpp" else _PYTHON
    return [Threshold(file, found["name"], found["why"]) for found in pattern.finditer(text)]


ALL = [one for file in FILES for one in thresholds(file, file.read_text())]


def sources() -> dict[Path, str]:
    """What may use a threshold; the headers are in include/, whatever a build has copied into the package."""
    found = (path for top in ("include", "native", "src", "papers") for path in (ROOT / top).rglob("*"))
    kept = [path for path in found if path.suffix in (".py", ".hpp", ".cpp", ".cu")]
    return {path: path.read_text() for path in kept if (ROOT / "src/hinterland/include") not in path.parents}


def test_every_line_of_theirs_is_seen():
    assert len(ALL) == sum(len(re.findall(r"constexpr|^[A-Z_]+ = ", file.read_text(), re.MULTILINE)) for file in FILES)
    assert len({one.name for one in ALL}) == len(ALL) > 100


def test_each_was_measured_is_derived_or_is_a_guess():
    assert [one.name for one in ALL if len(one.kinds) != 1] == []


def test_half_are_no_guess():
    guesses = [one.name for one in ALL if one.kinds == ["Guess"]]
    assert 2 * len(guesses) <= len(ALL), guesses


def test_each_is_used():
    words = {path: set(re.findall(r"\b(?:k[A-Z]\w*|[A-Z][A-Z_]+)\b", text)) for path, text in sources().items()}
    used = set().union(*(found for path, found in words.items() if path not in FILES))
    assert [one.name for one in ALL if one.name not in used] == []


def test_nothing_else_is_said_to_be_chosen():
    chosen = re.compile(r"chosen,{0}(?:not|and hardly){0}measured".replace("{0}", r"(?:\s|//|#)+"), re.IGNORECASE)
    texts = sources()
    assert len(texts) > 500 and [str(path) for path, text in texts.items() if chosen.search(text)] == []
    assert chosen.search("// 10 us: chosen, not\n// measured") and chosen.search("Chosen, not measured:")


@pytest.mark.parametrize("why", ["", "  // elements", "  // Derived: from a Guess"])
def test_what_says_nothing_is_found(why):
    (found,) = thresholds(FILES[0], f"inline constexpr int64_t kPieces = 1 << 20;{why}\n")
    assert found.name == "kPieces" and len(found.kinds) != 1
