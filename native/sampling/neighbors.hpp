// Sampling of neighbours on the CPU.
#pragma once

#include <cstdint>

#include "hinterland/sampling/neighbors.hpp"

namespace hinterland::native {

void sample_neighbors(const sampling::BatchWords& batch, int64_t from, int64_t to);

}  // namespace hinterland::native
