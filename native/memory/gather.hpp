// The CPU's shell around hinterland/memory/gather.hpp and tiers.hpp.
#pragma once

#include <array>

#include "hinterland/memory/tiers.hpp"

namespace hinterland::native {

// Copies rows on all threads; which positions were outside the table, if any.
memory::IndexFault copy_rows(const memory::RowCopy<memory::PointerTable>& copy);
memory::IndexFault copy_rows(const memory::RowCopy<memory::TieredTable>& copy);

// The fields of a TieredTable in their order, as src/hinterland/memory/gather.py has them.
using TableWords = std::array<int64_t, 12>;

inline memory::TieredTable tiered_table(const TableWords& words) {
  return {reinterpret_cast<char*>(words[0]),
          words[1],
          reinterpret_cast<const void*>(words[2]),
          words[3],
          reinterpret_cast<char*>(words[4]),
          words[5],
          words[6],
          reinterpret_cast<char* const*>(words[7]),
          words[8],
          words[9],
          reinterpret_cast<char* const*>(words[10]),
          words[11]};
}

}  // namespace hinterland::native
