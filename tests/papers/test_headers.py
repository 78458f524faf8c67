"""As the product's, headers of papers compile alone, and each has the namespace of its folder, or native code's."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from hinterland_papers import FOLDER

from ..programs import NATIVE, needs_compiler

HEADERS = sorted(path.relative_to(FOLDER).as_posix() for path in (FOLDER / "hinterland_papers").rglob("*.hpp"))


@needs_compiler
@pytest.mark.parametrize("header", HEADERS)
def test_header_compiles_alone(header):
    text = f'#include "{header}"\n' * 2
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++", "-", *NATIVE, f"-I{FOLDER}"]
    done = subprocess.run(["g++", *flags], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("header", HEADERS)
def test_a_header_has_the_namespace_of_its_folder(header):
    opened = set(re.findall(r"^namespace hinterland::([\w:]+) \{", (FOLDER / header).read_text(), re.MULTILINE))
    folder = Path(header).parent.name
    assert opened == {"native"} or folder in opened <= {folder, "emogi"}
