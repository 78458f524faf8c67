// The CPU's shells around hinterland/memory/gather.hpp and count.hpp.
#pragma once

#include <optional>
#include <tuple>

#include "hinterland/memory/count.hpp"
#include "hinterland/memory/gather.hpp"

namespace hinterland::native {

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

}  // namespace hinterland::native
