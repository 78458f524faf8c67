// A large array as Python describes it, for the structs that have one.
#pragma once

#include "hinterland/memory/source.hpp"
#include "params.hpp"

namespace hinterland::native {

HINTERLAND_STRUCT(memory::ArrayWords, home, kept, slots, store, bytes);

}  // namespace hinterland::native
