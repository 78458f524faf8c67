"""As the product's, headers of papers compile alone, and each has the namespace of its folder, or native code's."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from hinterland_papers import FOLDER

from ..core.test_headers import begun_with
from ..programs import NATIVE, needs_compiler

HEADERS = sorted(path.relative_to(FOLDER).as_posix() for path in (FOLDER / "hinterland_papers").rglob("*.hpp"))
# The module is built of the sources.
BEGUN = begun_with(FOLDER, HEADERS, (FOLDER / "hinterland_papers").rglob("*.cpp"))


@needs_compiler
@pytest.mark.parametrize(
    "headers", [HEADERS * 2, *([header] for header in HEADERS if header not in BEGUN)], ids=lambda of: of[-1]
)
def test_headers_compile_twice_and_alone(headers):
    text = "".join(f'#include "{header}"\n' for header in headers)
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++", "-", *NATIVE, f"-I{FOLDER}"]
    done = subprocess.run(["g++", *flags], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("header", HEADERS)
def test_a_header_has_the_namespace_of_its_folder(header):
    opened = set(re.findall(r"^namespace hinterland::([\w:]+) \{", (FOLDER / header).read_text(), re.MULTILINE))
    folder = Path(header).parent.name
    assert opened == {"native"} or folder in opened <= {folder, "emogi"}
