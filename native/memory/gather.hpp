// The CPU's shells around hinterland/memory/gather.hpp, count.hpp and row_table.hpp.
#pragma once

#include <optional>
#include <tuple>

#include "hinterland/memory/count.hpp"
#include "hinterland/memory/gather.hpp"
#include "hinterland/memory/row_table.hpp"

namespace hinterland::native {

// Up to here waking threads costs more than the copy gains; if they spin, two gain from 32 KiB on (docs/notes/thresholds.md).
inline constexpr int64_t kParallelBytes = 64 << 10;

// The arguments of the sentences in src/hinterland/memory/faults.py, if there are any: `first`, `value`, `table_rows` and
// `count`.
using FoundFault = std::optional<std::tuple<int64_t, int64_t, int64_t, int64_t>>;

inline FoundFault found(const memory::IndexFault& fault) {
  if (fault.count == 0) return std::nullopt;
  return std::tuple(fault.first, fault.value, fault.table_rows, fault.count);
}

// Copies rows on all threads; which positions were outside the table.
FoundFault copy_rows(const memory::RowCopy<memory::OneRange>& copy);
FoundFault copy_tiered_rows(const memory::RowCopy<memory::Tiers>& copy);

void count_rows(const memory::CountParams<memory::OneRange>& params);
void count_tiered_rows(const memory::CountParams<memory::Tiers>& params);

// A batch of a row table, or all that is to be flushed, in one call, which Ctrl-C does not divide; which positions name no row.
// `way` counts as src/hinterland/memory/row_table.py does.
FoundFault serve_rows(const memory::RowTableParams& params, int64_t way);

}  // namespace hinterland::native
