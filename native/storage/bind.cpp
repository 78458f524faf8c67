#include <fcntl.h>
#include <nanobind/stl/filesystem.h>
#include <stdio.h>

#include <cerrno>

#include "bindings.hpp"
#include "storage/file.hpp"

namespace nb = nanobind;

namespace hinterland::native {

void bind_storage(nb::module_& m) {
  m.def(
      "read_file",
      [](const std::filesystem::path& path, int64_t offset, uintptr_t to, int64_t bytes, int threads) {
        nb::gil_scoped_release released;
        read_file(path.native(), offset, reinterpret_cast<void*>(to), bytes, threads);
      },
      nb::arg("path"), nb::arg("offset"), nb::arg("to"), nb::arg("bytes"), nb::arg("threads") = 64);
  m.def(
      "write_file",
      [](const std::filesystem::path& path, int64_t offset, uintptr_t from, int64_t bytes, int threads) {
        nb::gil_scoped_release released;
        write_file(path.native(), offset, reinterpret_cast<const void*>(from), bytes, threads);
      },
      nb::arg("path"), nb::arg("offset"), nb::arg("from_"), nb::arg("bytes"), nb::arg("threads") = 8);
  m.def(
      "exchange",
      [](const std::filesystem::path& one, const std::filesystem::path& other) {
        return ::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) == 0 ? 0 : errno;
      },
      nb::arg("one"), nb::arg("other"),
      "Exchanges what two names stand for, at once. The system's error number; EINVAL where the file system cannot.");
}

}  // namespace hinterland::native
