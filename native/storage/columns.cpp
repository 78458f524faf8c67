#include "storage/columns.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <string>

#include "core/errors.hpp"
#include "core/thresholds.hpp"
#include "storage/descriptor.hpp"
#include "storage/file.hpp"
#include "storage/team.hpp"

namespace hinterland::native {

namespace {

void read_all(const Descriptor& file, const std::string& path, char* to, int64_t bytes, int64_t offset) {
  int error = 0;
  const int64_t got = read_fully(file, to, bytes, offset, error);
  if (got == bytes) return;
  const std::string at = " at offset " + std::to_string(offset + got);
  if (error) throw_errno("cannot read " + path + at, error);
  throw FormatError(path + ": truncated: the file ends" + at + ", within a column");
}

// Elements of `count` columns of `rows`, one column after the other, to rows. In squares, whose lines a core's cache holds.
template <int kBytes>
void transpose(const char* from, int64_t count, int64_t rows, char* to, int64_t row_bytes) {
  for (int64_t row = 0; row < rows; row += kTransposeSide) {
    for (int64_t column = 0; column < count; column += kTransposeSide) {
      const int64_t rows_end = std::min(rows, row + kTransposeSide), end = std::min(count, column + kTransposeSide);
      for (int64_t r = row; r < rows_end; ++r) {
        for (int64_t c = column; c < end; ++c) {
          std::memcpy(to + r * row_bytes + c * kBytes, from + (c * rows + r) * kBytes, kBytes);
        }
      }
    }
  }
}

auto transpose_of(int64_t element_bytes) {
  switch (element_bytes) {
    case 1: return transpose<1>;
    case 2: return transpose<2>;
    case 4: return transpose<4>;
    case 8: return transpose<8>;
    default: return transpose<16>;  // no element is wider
  }
}

}  // namespace

void read_columns(const std::filesystem::path& name, int64_t offset, int64_t column_bytes, const int64_t* columns,
                  int64_t count, int64_t rows, int64_t element_bytes, char* to, int64_t row_bytes) {
  const auto turn = transpose_of(element_bytes);
  if (count <= 0 || rows <= 0) return;
  const std::string& path = name.native();
  const Descriptor file(path, O_RDONLY);
  if (!file.open()) throw_errno("cannot open " + path, errno);
  // A tile has as much of each column as of each row, unless one of them is shorter.
  const int64_t elements = kTransposeBytes / element_bytes, side = std::llround(std::sqrt(static_cast<double>(elements)));
  const int64_t tall = std::min(rows, std::max(side, elements / count)), wide = std::min(count, elements / tall);
  const int64_t across = (count + wide - 1) / wide, down = (rows + tall - 1) / tall;
  for_each_of_team(across * down, kTransposeThreads, [&](int64_t tile) {
    const int64_t row = tile / across * tall, column = tile % across * wide;
    const int64_t height = std::min(tall, rows - row), width = std::min(wide, count - column);
    const int64_t piece = height * element_bytes;
    const DirectMemory part = direct_memory((width * piece + kDirectAlign - 1) / kDirectAlign * kDirectAlign);
    if (!part) throw OutOfMemory("no memory for reading " + path + ": free some, or raise the process's limit");
    for (int64_t begin = 0, end; begin < width; begin = end) {
      // Whole columns that lie one after the other are one read.
      const int64_t first = columns[column + begin];
      for (end = begin + 1; end < width && piece == column_bytes && columns[column + end] == first + end - begin;) ++end;
      const int64_t at = offset + first * column_bytes + row * element_bytes;
      read_all(file, path, part.get() + begin * piece, (end - begin) * piece, at);
    }
    turn(part.get(), width, height, to + row * row_bytes + column * element_bytes, row_bytes);
  });
}

}  // namespace hinterland::native
