// Tables whose files have one column after the other (Fortran order), read into rows.
#pragma once

#include <cstdint>
#include <filesystem>

namespace hinterland::native {

// A part of such a table: `rows` elements of each of `count` columns, which are `columns[0]`, `columns[1]`, ... of the file.
// Column c begins at byte `offset + c * column_bytes`, its elements have `element_bytes` each. Row r is written to
// `to + r * row_bytes`. FormatError where the file ends before.
void read_columns(const std::filesystem::path& path, int64_t offset, int64_t column_bytes, const int64_t* columns,
                  int64_t count, int64_t rows, int64_t element_bytes, char* to, int64_t row_bytes);

}  // namespace hinterland::native
