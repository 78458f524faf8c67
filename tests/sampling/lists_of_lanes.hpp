// The lists that emulated lanes read, as a GPU's kernels do: by address, or on storage through a cache of their own and queues.
#pragma once

#include "graph/views.hpp"
#include "hinterland/storage/on_device.hpp"

namespace hinterland {

// f(graph) with the type that the words describe.
template <class F>
void with_lists_of_lanes(const graph::GraphWords& words, const F& f) {
  const auto with = [&]<class Sources>(Sources) {
    using graph::Csr, graph::PackedCsr, graph::NoWeight;
    if (native::is_packed(words))
      return words.edge_bytes == 8 ? f(PackedCsr<int64_t, NoWeight, Sources>(words))
                                   : f(PackedCsr<int32_t, NoWeight, Sources>(words));
    words.edge_bytes == 8 ? f(Csr<int64_t, NoWeight, Sources>(words)) : f(Csr<int32_t, NoWeight, Sources>(words));
  };
  native::is_stored(words) ? with(storage::OnDevice<memory::NoMeter>{}) : with(memory::Unmetered{});
}

}  // namespace hinterland
