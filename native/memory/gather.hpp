// The CPU's shell around hinterland/memory/gather.hpp and tiers.hpp.
#pragma once

#include "hinterland/memory/tiers.hpp"

namespace hinterland::native {

// Copies rows on all threads; which positions were outside the table, if any.
memory::IndexFault copy_rows(const memory::RowCopy<memory::PointerTable>& copy);
memory::IndexFault copy_rows(const memory::RowCopy<memory::TieredTable>& copy);

}  // namespace hinterland::native
