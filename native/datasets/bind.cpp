#include "bindings.hpp"
#include "datasets/generate.hpp"
#include "graph/edges.hpp"

namespace nb = nanobind;

namespace hinterland::native {

void bind_datasets(nb::module_& m) {
  nb::class_<CommunityVertices>(m, "CommunityVertices")
      .def("__init__", [](CommunityVertices* self, uint64_t seed, int64_t count, int64_t communities) {
        new (self) CommunityVertices{seed, count, communities};
      });
  m.def("community_edges",
        [](int64_t edges, uint64_t seed, const CommunityVertices& owners, const CommunityVertices& members) {
          return EdgeSource{GeneratedEdges<Communities>{Communities(seed, owners, members), edges}};
        });
  m.def("fill_communities", [](const CommunityVertices& vertices, uintptr_t communities) {
    GilReleased released;
    fill_communities(vertices, reinterpret_cast<int32_t*>(communities));
  });
  m.def("fill_features", [](const CommunityVertices& vertices, uintptr_t communities, int64_t begin, int64_t end,
                            int64_t columns, uintptr_t to) {
    GilReleased released;
    fill_features(vertices, reinterpret_cast<const int32_t*>(communities), begin, end, columns, reinterpret_cast<float*>(to));
  });
}

}  // namespace hinterland::native
