// The CPU's shell around hinterland/memory/gather.hpp.
#pragma once

#include "hinterland/memory/gather.hpp"

namespace hinterland::native {

// Copies rows on all threads; which positions were outside the table, if any.
memory::IndexFault copy_rows(const memory::RowCopy<memory::OneRange>& copy);
memory::IndexFault copy_rows(const memory::RowCopy<memory::Tiers>& copy);

}  // namespace hinterland::native
