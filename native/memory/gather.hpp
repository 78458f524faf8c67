// The CPU's shells around hinterland/memory/gather.hpp and count.hpp.
#pragma once

#include "hinterland/memory/count.hpp"
#include "hinterland/memory/gather.hpp"

namespace hinterland::native {

// Copies rows on all threads; which positions were outside the table, if any.
memory::IndexFault copy_rows(const memory::RowCopy<memory::OneRange>& copy);
memory::IndexFault copy_rows(const memory::RowCopy<memory::Tiers>& copy);

void count_rows(const memory::CountParams<memory::OneRange>& params);
void count_rows(const memory::CountParams<memory::Tiers>& params);

}  // namespace hinterland::native
