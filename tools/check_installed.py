"""Tries an installed Hinterland, away from any checkout: the library, the command, its headers, and what it is linked to."""

import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib import metadata
from pathlib import Path

import torch

import hinterland as hl

package = Path(hl.__file__).parent
site = Path(sysconfig.get_path("platlib"))
assert package == site / "hinterland", f"imported from {package}, not from this environment"
assert hl.__version__ == metadata.version("hinterland")
assert (package / "include/hinterland/memory/source.hpp").exists() and list(package.rglob("*.cu")), (
    "the kernels' sources are missing"
)
assert (package / "py.typed").exists() and (package / "_core.pyi").exists(), "the types are missing"

graph = hl.from_edges(torch.tensor([0, 1, 2]), torch.tensor([1, 2, 3]), num_vertices=5)
assert hl.bfs(graph, 0, device="cpu").levels.tolist() == [0, 1, 2, 3, -1]
table = hl.UnifiedTensor.from_tensor(torch.arange(12.0).view(4, 3))
assert table[torch.tensor([3, 1])].tolist() == [[9, 10, 11], [3, 4, 5]]

command = [str(Path(sys.executable).with_name("hinterland"))]
with tempfile.TemporaryDirectory() as folder:
    path = f"{folder}/g.hl"
    subprocess.run([*command, "generate", "kronecker", "--scale", "8", "--output", path], check=True, capture_output=True)
    assert hl.load_graph(path).num_vertices == 256
    done = subprocess.run([*command, "bfs", path, "--verify", "--device", "cpu"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

assert Path(hl.get_include()) == package / "include"
cmake = shutil.which("cmake")
assert (Path(hl.get_cmake_dir()) / "hinterlandConfigVersion.cmake").exists(), "the CMake package is missing"
if cmake and shutil.which("g++"):
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.24)\nproject(user LANGUAGES CXX)\nfind_package(hinterland 0.1 REQUIRED)\n"
            "add_executable(user user.cpp)\ntarget_link_libraries(user PRIVATE hinterland::hinterland)\n"
        )
        (Path(folder) / "user.cpp").write_text('#include "hinterland/kernels/array.hpp"\nint main() {}\n')
        subprocess.run(
            [cmake, "-B", "build", f"-Dhinterland_DIR={hl.get_cmake_dir()}"], cwd=folder, check=True, capture_output=True
        )
        subprocess.run([cmake, "--build", "build"], cwd=folder, check=True, capture_output=True)
else:
    print("find_package was not tried: there is no CMake or no g++ here")

core = next(package.glob("_core*.so"))
linked = subprocess.run(["ldd", str(core)], check=True, capture_output=True, text=True).stdout
assert "not found" not in linked, linked
tags = [line for line in metadata.distribution("hinterland").read_text("WHEEL").splitlines() if line.startswith("Tag:")]
print(f"hinterland {hl.__version__} works from {package}: {', '.join(tags)}")
