// Through what the CPU reads graphs: arrays in its own memory, with what is read counted or not.
#pragma once

#include "hinterland/memory/source.hpp"

namespace hinterland::native {

using Sources = memory::Unmetered;
using MeteredSources = memory::Metered;

}  // namespace hinterland::native
