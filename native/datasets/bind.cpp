#include "bindings.hpp"
#include "datasets/generate.hpp"
#include "graph/edges.hpp"
#include "params.hpp"

namespace nb = nanobind;

namespace hinterland::native {

HINTERLAND_STRUCT(datasets::FeatureParams, seed, communities, community_of, begin, end, columns, to);

void bind_datasets(nb::module_& m) {
  nb::class_<graph::CommunityVertices>(m, "CommunityVertices")
      .def("__init__", [](graph::CommunityVertices* self, uint64_t seed, int64_t count, int64_t communities) {
        new (self) graph::CommunityVertices{seed, count, communities};
      });
  m.def("community_edges",
        [](int64_t edges, uint64_t seed, const graph::CommunityVertices& owners, const graph::CommunityVertices& members) {
          return EdgeSource{GeneratedEdges<graph::Communities>{graph::Communities(seed, owners, members), edges}};
        });
  def_native(m, "fill_communities", fill_communities);
  def_loop(m, "fill_features", fill_features);
}

}  // namespace hinterland::native
