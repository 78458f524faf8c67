// Random walks on the CPU.
#pragma once

#include "hinterland/sampling/walks.hpp"

namespace hinterland::native {

void random_walks(const sampling::WalkParams& params);

}  // namespace hinterland::native
