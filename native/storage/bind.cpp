#include <fcntl.h>
#include <nanobind/stl/filesystem.h>
#include <stdio.h>

#include <algorithm>
#include <cerrno>

#include "bindings.hpp"
#include "core/thresholds.hpp"
#include "storage/checksum.hpp"
#include "storage/columns.hpp"
#include "storage/file.hpp"

namespace nb = nanobind;

namespace hinterland::native {

template <>
struct Argument<std::span<const uint64_t>> {
  using Parts = std::tuple<uintptr_t, size_t>;
  static std::span<const uint64_t> whole(uintptr_t address, size_t count) {
    return {reinterpret_cast<const uint64_t*>(address), count};
  }
};

namespace {

// One sum for each block, written to `sums`.
void checksums(const char* data, int64_t bytes, uint64_t seed, uint64_t* sums) {
  const int64_t blocks = (bytes + kChecksumBlock - 1) / kChecksumBlock;
#pragma omp parallel for schedule(dynamic, kBlocksSummed) if (blocks > kBlocksSummed)
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t at = i * kChecksumBlock;
    sums[i] = checksum(data + at, std::min(kChecksumBlock, bytes - at), seed + i);
  }
}

}  // namespace

const Binding storage([](nb::module_& m) {
  m.attr("CHECKSUM_BLOCK") = kChecksumBlock;
  def_native(m, "checksums", checksums, nb::arg("data"), nb::arg("bytes"), nb::arg("seed"), nb::arg("sums"),
             "One 64-bit sum for each CHECKSUM_BLOCK bytes, written to `sums`.");
  using ByPath = void (*)(const std::filesystem::path&, int64_t, void*, int64_t, int, std::span<const uint64_t>);
  def_native(m, "read_file", static_cast<ByPath>(read_file), nb::arg("path"), nb::arg("offset"), nb::arg("to"),
             nb::arg("bytes"), nb::arg("threads") = 64, nb::arg("sums") = 0, nb::arg("blocks") = 0,
             "Fills `bytes` bytes at `to`. `sums`: where the checksums of all the file's blocks are, to be checked against.");
  def_native(m, "read_columns", read_columns, nb::arg("path"), nb::arg("offset"), nb::arg("column_bytes"), nb::arg("columns"),
             nb::arg("count"), nb::arg("rows"), nb::arg("element_bytes"), nb::arg("to"), nb::arg("row_bytes"),
             "Rows of a file that has one column after the other, `columns` of them, written to `to`.");
  def_native(m, "write_file", write_file, nb::arg("path"), nb::arg("offset"), nb::arg("from_"), nb::arg("bytes"),
             nb::arg("threads") = 8);
  m.def(
      "exchange",
      [](const std::filesystem::path& one, const std::filesystem::path& other) {
        return ::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) == 0 ? 0 : errno;
      },
      nb::arg("one"), nb::arg("other"),
      "Exchanges what two names stand for, at once. The system's error number; EINVAL where the file system cannot.");
});

}  // namespace hinterland::native
