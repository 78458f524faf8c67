#include <nanobind/stl/filesystem.h>

#include "bindings.hpp"
#include "storage/file.hpp"

namespace nb = nanobind;

namespace hinterland::native {

void bind_storage(nb::module_& m) {
  m.def(
      "read_file",
      [](const std::filesystem::path& path, int64_t offset, uintptr_t to, int64_t bytes, int threads) {
        GilReleased released;
        read_file(path.native(), offset, reinterpret_cast<void*>(to), bytes, threads);
      },
      nb::arg("path"), nb::arg("offset"), nb::arg("to"), nb::arg("bytes"), nb::arg("threads") = 64);
  m.def(
      "write_file",
      [](const std::filesystem::path& path, int64_t offset, uintptr_t from, int64_t bytes, int threads) {
        GilReleased released;
        write_file(path.native(), offset, reinterpret_cast<const void*>(from), bytes, threads);
      },
      nb::arg("path"), nb::arg("offset"), nb::arg("from_"), nb::arg("bytes"), nb::arg("threads") = 8);
}

}  // namespace hinterland::native
