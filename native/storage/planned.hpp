// Rows of files, read and written by their numbers, which are all known before the first is needed: so pages are visited in
// their order, each once, and many are on their way at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "storage/page_cache.hpp"

namespace hinterland::native {

// Rows [first_row, first_row of the next extent) lie one after the other, the first at a byte of the store's space.
struct RowExtent {
  int64_t first_row, position;
};

// Where the rows of a table lie; extents ascend by their rows, from row 0 on.
struct StoredRows {
  std::span<const RowExtent> extents;
  int64_t rows, row_bytes;

  int64_t position(int64_t row) const;
};

// Row numbers[i] to row places[i] of `out`, or to row i without places, for all of them, which are in [0, rows), and which are
// all or a part of a batch (Expected). StorageError for a page that cannot be read.
void gather_stored(PageCache& cache, const StoredRows& table, const int64_t* numbers, int64_t count, char* out,
                   const int64_t* places = nullptr, int64_t batch = Expected::kNoBatch);

// in[i] to row numbers[i]; of equal numbers the last counts. It is in the file once flush() has returned.
void scatter_stored(PageCache& cache, const StoredRows& table, const int64_t* numbers, int64_t count, const char* in);

// The pages that these rows lie in, ascending, each once.
std::vector<storage::Page> pages_of(const PageCache& cache, const StoredRows& table, const int64_t* numbers, int64_t count);

}  // namespace hinterland::native
