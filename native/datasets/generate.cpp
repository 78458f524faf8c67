// Edges, labels and features of generated data sets on the CPU.
#include <algorithm>
#include <cmath>

#include "bindings.hpp"
#include "core/pool.hpp"
#include "graph/bind_arrays.hpp"
#include "graph/edges.hpp"
#include "graph/row_loops.hpp"
#include "hinterland/core/atomic.hpp"
#include "hinterland/datasets/citations.hpp"
#include "hinterland/datasets/features.hpp"

namespace nb = nanobind;

namespace hinterland::native {

HINTERLAND_STRUCT(datasets::FeatureParams, seed, communities, community_of, begin, end, columns, to);
HINTERLAND_STRUCT(datasets::CitationParams, seed, vertices_seed, vertices, fields, areas, first, end, indptr, indices);

namespace {

// How long a list is among others, by 32 random bits: u^(-3/4), so that a hundredth of all lists has a third of the entries, as
// in papers100M (Min 2022, section 4.4.2). Roots and quotients are rounded alike everywhere.
uint64_t list_weight(uint32_t bits) {
  constexpr double kUnit = 1024, kLongest = 1 << 14;  // times the shortest
  const double u = (bits + 0.5) / 4294967296.0, root = std::sqrt(u);
  return static_cast<uint64_t>(kUnit * std::min(1 / (root * std::sqrt(root)), kLongest));
}

// indptr[v] = where list v begins, of lists with `entries` in all; none is longer than there are younger vertices.
void citation_offsets(const datasets::CitationParams& p, int64_t entries, int64_t* indptr) {
  const datasets::CitationLists lists(p);
  uint64_t weights = 0;
  parallel_pieces(p.vertices, [&](int64_t begin, int64_t end) {
    uint64_t sum = 0;
    for (int64_t x = begin; x < end; ++x) sum += list_weight(lists.length_bits(x).word[0]);
    atomic_add(weights, sum);
  });
  int64_t missing = entries;
  parallel_pieces(p.vertices, [&](int64_t begin, int64_t end) {
    int64_t sum = 0;
    for (int64_t v = begin; v < end; ++v) {
      const int64_t x = lists.renumber().inverse(v);
      const Philox::Block bits = lists.length_bits(x);
      const unsigned __int128 wanted = static_cast<unsigned __int128>(entries) * list_weight(bits.word[0]);
      const uint64_t dither = Philox::multiply_high(static_cast<uint64_t>(bits.word[1]) << 32, weights);
      sum += indptr[v + 1] = std::min(static_cast<int64_t>((wanted + dither) / weights), x);
    }
    atomic_add(missing, -sum);
  });
  // Rounding, and the youngest, whom few can cite, have left some out or put some in: the oldest have one more or less.
  for (int64_t x = p.vertices - 1; missing != 0; x = x > 0 ? x - 1 : p.vertices - 1) {
    int64_t& length = indptr[lists.renumber()(x) + 1];
    const int64_t change = missing > 0 ? (length < x) : -(length > 0);
    length += change;
    missing -= change;
  }
  indptr[0] = 0;
  inclusive_sum(indptr + 1, p.vertices);
}

// The lists of rows [p.first, p.end), in no order.
void fill_citations(const datasets::CitationParams& p, int bytes) {
  const datasets::CitationLists lists(p);
  with_neighbors(NeighborArray{p.indices, bytes}, [&]<class Id>(Id* ids) {
    parallel_for(
        p.end - p.first,
        [&](int64_t i) {
          const int64_t begin = p.indptr[i], length = p.indptr[i + 1] - begin;
          const auto list = lists.list(lists.renumber().inverse(p.first + i), length);
          for (int64_t j = 0; j < length; ++j) ids[begin - p.indptr[0] + j] = static_cast<Id>(lists.neighbor(list, j));
        },
        1 << 10);
  });
}

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
  def_native(m, "citation_offsets", citation_offsets);
  def_native(m, "fill_citations", fill_citations);
  def_loop(m, "fill_features", fill_features);
});

}  // namespace hinterland::native
