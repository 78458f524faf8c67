// Edges, labels and features of generated data sets on the CPU.
#include <algorithm>

#include "bindings.hpp"
#include "core/pool.hpp"
#include "graph/edges.hpp"
#include "hinterland/datasets/features.hpp"

namespace nb = nanobind;

namespace hinterland::native {

HINTERLAND_STRUCT(datasets::FeatureParams, seed, communities, community_of, begin, end, columns, to);

namespace {

// communities[v] = the community of vertex v, for all of them.
void fill_communities(const graph::CommunityVertices& vertices, int32_t* communities) {
  const graph::Permutation renumber = vertices.renumber();
  parallel_for(
      vertices.count, [&](int64_t x) { communities[renumber(x)] = static_cast<int32_t>(vertices.community(x)); }, 1 << 14);
}

void fill_features(const datasets::FeatureParams& p) {
  using Features = datasets::CommunityFeatures;
  const Features features(p.seed, p.communities);
  const int64_t columns = p.columns;
  const auto row = [&](int64_t i) {
    const int64_t vertex = p.begin + i;
    const int64_t featured = features.featured(vertex, p.community_of[i]);
    float* const out = p.to + i * columns;
    for (int64_t first = 0; first < columns; first += Features::kGroup) {
      const Philox::Block center = features.center(featured, first / Features::kGroup);
      const int64_t last = std::min(first + Features::kGroup, columns);
      int64_t column = first;
      for (; column + Features::kQuad <= last; column += Features::kQuad) {
        features.values(vertex, column / Features::kQuad, center, out + column);
      }
      if (column < last) {
        float rest[Features::kQuad];
        features.values(vertex, column / Features::kQuad, center, rest);
        std::copy_n(rest, last - column, out + column);
      }
    }
  };
  parallel_for(p.end - p.begin, row, 256);
}

}  // namespace

const Binding datasets([](nb::module_& m) {
  nb::class_<graph::CommunityVertices>(m, "CommunityVertices").def(nb::init<uint64_t, int64_t, int64_t>());
  m.def("community_edges",
        [](int64_t edges, uint64_t seed, const graph::CommunityVertices& owners, const graph::CommunityVertices& members) {
          return EdgeSource{GeneratedEdges<graph::CommunityLists>{graph::CommunityLists(seed, owners, members), edges}};
        });
  def_native(m, "fill_communities", fill_communities);
  def_loop(m, "fill_features", fill_features);
});

}  // namespace hinterland::native
