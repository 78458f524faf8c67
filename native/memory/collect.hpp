// Rows that some threads of the CPU pack for another processor, which takes them once.
#pragma once

#include "memory/gather.hpp"

namespace hinterland::native {

// Packs the rows of turns [begin, end) of a gather at `packed`, the first of them first, by at most so many threads; a row number
// outside the table gives zeros. Which positions were outside.
FoundFault collect_rows(const memory::RowCopy<memory::OneRange>& copy, int64_t begin, int64_t end, int threads);

}  // namespace hinterland::native
