// Sampling of neighbours on the CPU.
#pragma once

#include "hinterland/sampling/neighbors.hpp"

namespace hinterland::native {

void sample_neighbors(const sampling::SampleParams& params);

}  // namespace hinterland::native
