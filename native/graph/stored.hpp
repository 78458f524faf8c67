// Arrays of graphs on storage as a CPU reads them, and beside them those of the same graph that lie in memory.
#pragma once

#include "hinterland/storage/mixed.hpp"
#include "storage/store.hpp"

namespace hinterland::native {

// They count always: what a disk takes is far more.
struct StoredSources : storage::Mixed<HostPages, memory::Meter> {
  static constexpr bool kReadsAhead = true;
};

}  // namespace hinterland::native
