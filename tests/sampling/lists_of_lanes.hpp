// The lists that emulated lanes read, as a GPU's kernels do: by address, or on storage through a cache of their own and queues.
#pragma once

#include "graph/views.hpp"
#include "hinterland/storage/on_device.hpp"

namespace hinterland {

// f(graph) with the type that the words describe.
template <class F>
void with_lists_of_lanes(const graph::GraphWords& words, const F& f) {
  using Stored = storage::OnDevice<memory::NoMeter>;
  native::is_stored(words) ? native::with_lists<Stored, graph::NoWeight>(words, f)
                           : native::with_lists<memory::Unmetered, graph::NoWeight>(words, f);
}

}  // namespace hinterland
