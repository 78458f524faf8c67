#include "memory/gather.hpp"

#include <cstring>

namespace hinterland::native {

namespace {

// Up to here waking threads costs more than the copy gains; if they spin, two gain from 32 KiB on (docs/notes/thresholds.md).
constexpr int64_t kParallelBytes = 64 << 10;

// Row sizes that one load and store can move: known to the compiler, so that memcpy becomes just that. 0 is any other.
template <int64_t kRowBytes, class Table>
void copy_all(const memory::RowCopy<Table>& copy, memory::IndexFault& fault) {
  const int64_t row_bytes = kRowBytes > 0 ? kRowBytes : copy.row_bytes;
#pragma omp parallel for schedule(static) if (copy.count * (row_bytes + 8) > kParallelBytes)
  for (int64_t turn = 0; turn < copy.count; ++turn) {
    const int64_t position = copy.position(turn);
    const int64_t index = copy.index_at(position);
    const int64_t place = copy.place(index);
    char* const here = copy.packed_row(position);
    if (place < 0) report_fault(fault, position, index, copy.table.rows);
    if (row_bytes == 0) continue;  // rows of nothing: only their numbers are checked
    if (place < 0) {
      if (!copy.into_table) std::memset(here, 0, row_bytes);
    } else if (copy.into_table) {
      std::memcpy(copy.table_row(place), here, row_bytes);
    } else {
      std::memcpy(here, copy.table_row(place), row_bytes);
    }
  }
}

template <class Table>
memory::IndexFault copy_by_size(const memory::RowCopy<Table>& copy) {
  memory::IndexFault fault;
  switch (copy.row_bytes) {
    case 1: copy_all<1>(copy, fault); break;
    case 2: copy_all<2>(copy, fault); break;
    case 4: copy_all<4>(copy, fault); break;
    case 8: copy_all<8>(copy, fault); break;
    case 16: copy_all<16>(copy, fault); break;
    case 32: copy_all<32>(copy, fault); break;
    default: copy_all<0>(copy, fault); break;
  }
  return fault;
}

}  // namespace

memory::IndexFault copy_rows(const memory::RowCopy<memory::PointerTable>& copy) { return copy_by_size(copy); }

memory::IndexFault copy_rows(const memory::RowCopy<memory::TieredTable>& copy) {
  const memory::IndexFault fault = copy_by_size(copy);
  if (!copy.into_table || copy.table.others == 0) return fault;
  const memory::TieredTable& table = copy.table;
#pragma omp parallel for schedule(static) if (copy.count * (copy.row_bytes + 8) > kParallelBytes)
  for (int64_t turn = 0; turn < copy.count; ++turn) {  // as replicate_rows does on a GPU
    const int64_t place = copy.place(copy.index_at(turn)), at = place * copy.row_bytes;
    if (!table.is_local(place)) continue;
    for (int64_t i = 0; i < table.others; ++i) std::memcpy(table.replicas[i] + at, table.local + at, copy.row_bytes);
  }
  return fault;
}

}  // namespace hinterland::native
