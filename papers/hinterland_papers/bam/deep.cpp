// A search of many levels by active tiles, on the CPU.
#include "hinterland_papers/bam/deep.hpp"

#include "bindings.hpp"
#include "core/bind_team.hpp"
#include "core/team.hpp"
#include "hinterland_papers/bam/array.hpp"
#include "hinterland_papers/bam/stored_params.hpp"

namespace hinterland::native {

HINTERLAND_STRUCT(bam::EmogiDeepParams, stored, source, listed, queues, counts, team);

namespace {

template <class Edge>
void search(const bam::EmogiDeepParams& p) {
  ThreadTeam team;
  if (p.stored.edges.store != nullptr)
    bam::search_by_tiles<Edge, bam::DeviceSources>(team, p);
  else
    bam::search_by_tiles<Edge, memory::Unmetered>(team, p);
}

void emogi_deep_search(const bam::EmogiDeepParams& p, int64_t edge_bytes) {
  edge_bytes == 4 ? search<int32_t>(p) : search<int64_t>(p);
}

}  // namespace

const Binding bam_deep([](nanobind::module_& m) {
  def_native(m, "emogi_deep_search", emogi_deep_search, nanobind::arg("params"), nanobind::arg("edge_bytes"),
             "A search by active tiles on the CPU, over edges that are read through a source.");
});

}  // namespace hinterland::native
