// Negative edges on the CPU.
#pragma once

#include "hinterland/sampling/negatives.hpp"

namespace hinterland::native {

void negative_edges(const sampling::NegativeParams& params);

}  // namespace hinterland::native
