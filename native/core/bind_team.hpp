// What Python is told of a team's control block, which lies in those of its runs.
#pragma once

#include "hinterland/core/grid.hpp"
#include "params.hpp"

namespace hinterland::native {

HINTERLAND_STRUCT(TeamControl, arrived, padding0, taken, padding1);

}  // namespace hinterland::native
