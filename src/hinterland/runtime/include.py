"""Where the public headers lie, and the CMake package by which other projects find them."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent


def _include_dir() -> Path:
    source_tree = PACKAGE.parent.parent / "include"
    return source_tree if (source_tree / "hinterland").is_dir() else PACKAGE / "include"


# The folder of the public headers: the source tree's where the package runs from one, else the installed copy.
INCLUDE_DIR = _include_dir()


def get_include() -> str:
    """The folder for a compiler's ``-I``, by which ``#include "hinterland/kernels/array.hpp"`` and the like are found."""
    return str(INCLUDE_DIR)


def get_cmake_dir() -> str:
    """The folder of ``hinterlandConfig.cmake``, for ``cmake -Dhinterland_DIR=``; ``find_package(hinterland)`` then works."""
    return str(PACKAGE / "cmake")
