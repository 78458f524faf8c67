// A search of many levels by active tiles, on the CPU.
#include "hinterland/graph/emogi_deep.hpp"

#include "bindings.hpp"
#include "core/bind_team.hpp"
#include "core/team.hpp"
#include "graph/emogi_stored.hpp"
#include "hinterland/storage/page_store.hpp"

namespace hinterland::native {

HINTERLAND_STRUCT(graph::EmogiDeepParams, stored, source, listed, queues, counts, team);

namespace {

template <class Edge>
void search(const graph::EmogiDeepParams& p) {
  ThreadTeam team;
  if (p.stored.edges.store != nullptr)
    graph::search_by_tiles<Edge, storage::OnStorage<storage::DeviceStore>>(team, p);
  else
    graph::search_by_tiles<Edge, memory::Unmetered>(team, p);
}

void emogi_deep_search(const graph::EmogiDeepParams& p, int64_t edge_bytes) {
  edge_bytes == 4 ? search<int32_t>(p) : search<int64_t>(p);
}

}  // namespace

const Binding graph_emogi_deep([](nanobind::module_& m) {
  def_native(m, "emogi_deep_search", emogi_deep_search, nanobind::arg("params"), nanobind::arg("edge_bytes"),
             "A search by active tiles on the CPU, over edges that are read through a source.");
});

}  // namespace hinterland::native
