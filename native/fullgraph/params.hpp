// Structs that several kernels of full graphs take.
#pragma once

#include "hinterland/fullgraph/part_rows.hpp"
#include "params.hpp"

namespace hinterland::native {

HINTERLAND_STRUCT(fullgraph::RowArray, base, stride);
HINTERLAND_STRUCT(fullgraph::RowWords, own, halo, own_rows, owners, reader, row_bits);

}  // namespace hinterland::native
