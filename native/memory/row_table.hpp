// The CPU's shell around hinterland/memory/row_table.hpp.
#pragma once

#include "hinterland/memory/row_table.hpp"
#include "memory/gather.hpp"

namespace hinterland::native {

// A batch, or all that is to be flushed, on all threads and in one call, which Ctrl-C does not divide; which positions name no
// row. `way` counts as src/hinterland/memory/row_table.py does.
FoundFault serve_rows(const memory::RowTableParams& params, int64_t way);

}  // namespace hinterland::native
