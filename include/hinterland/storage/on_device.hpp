// What a GPU's kernels read arrays through that may lie on storage: their own cache, and queues that host threads serve.
#pragma once

#include "hinterland/storage/mixed.hpp"
#include "hinterland/storage/page_store.hpp"

namespace hinterland::storage {

template <class Meter>
using OnDevice = Mixed<DeviceStore, Meter>;

}  // namespace hinterland::storage
