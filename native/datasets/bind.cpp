#include "bindings.hpp"
#include "datasets/generate.hpp"
#include "graph/edges.hpp"

namespace nb = nanobind;

namespace hinterland::native {

void bind_datasets(nb::module_& m) {
  nb::class_<graph::CommunityVertices>(m, "CommunityVertices")
      .def("__init__", [](graph::CommunityVertices* self, uint64_t seed, int64_t count, int64_t communities) {
        new (self) graph::CommunityVertices{seed, count, communities};
      });
  m.def("community_edges",
        [](int64_t edges, uint64_t seed, const graph::CommunityVertices& owners, const graph::CommunityVertices& members) {
          return EdgeSource{GeneratedEdges<graph::Communities>{graph::Communities(seed, owners, members), edges}};
        });
  m.def("fill_communities", [](const graph::CommunityVertices& vertices, uintptr_t communities) {
    GilReleased released;
    fill_communities(vertices, reinterpret_cast<int32_t*>(communities));
  });
  m.def("fill_features", [](const graph::CommunityVertices& vertices, uintptr_t communities, int64_t begin, int64_t end,
                            int64_t columns, uintptr_t to) {
    GilReleased released;
    fill_features(vertices, reinterpret_cast<const int32_t*>(communities), begin, end, columns, reinterpret_cast<float*>(to));
  });
}

}  // namespace hinterland::native
