// A step of the hotness scores on the CPU.
#pragma once

#include "hinterland/hotness/propagate.hpp"

namespace hinterland::native {

void propagate(const hotness::PropagateParams& params);

}  // namespace hinterland::native
