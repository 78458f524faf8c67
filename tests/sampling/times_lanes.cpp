// Weights and times of the neighbours that a sampler chooses among, of edges and of vertices: all come through sources, here of
// a family whose arrays lie nowhere: an address is the number of an array. Prints the first check that goes wrong.
#include <array>
#include <cstdio>

#include "hinterland/sampling/choose.hpp"

using namespace hinterland;

namespace {

enum Array : uintptr_t { kOffsets = 1, kEdges, kWeights, kTimes, kEdgeTimes };

constexpr int64_t kVertices = 4, kDegree = 3;
constexpr std::array<int64_t, kDegree> kNeighbors{2, 0, 3}, kOfEdges{10, 70, 40};
constexpr std::array<int64_t, kVertices> kOfVertices{50, 90, 20, 60};

int64_t element(uintptr_t array, int64_t at) {
  switch (array) {
    case kOffsets: return at == 0 ? 0 : kDegree;
    case kEdges: return kNeighbors[at];
    case kWeights: return at + 1;
    case kTimes: return kOfVertices[at];
    default: return kOfEdges[at];
  }
}

template <class T>
struct Listed {
  uintptr_t array;

  Listed(const void* array, int64_t) : array(reinterpret_cast<uintptr_t>(array)) {}
  Listed(const memory::ArrayWords& words, int64_t) : Listed(words.home, 0) {}
  T read_alone(int64_t at) const { return static_cast<T>(element(array, at)); }
};

struct ListedSources {
  using Meter = memory::NoMeter;
  template <class T>
  using Whole = Listed<T>;
  template <class T>
  using Large = Listed<T>;
};

const void* name(Array array) { return reinterpret_cast<const void*>(static_cast<uintptr_t>(array)); }

}  // namespace

int main() {
  using Graph = graph::Csr<int32_t, graph::NoWeight, ListedSources>;
  graph::GraphWords words{};
  words.num_vertices = kVertices;
  words.num_edges = kDegree;
  words.offsets = {name(kOffsets), 8};
  words.edges.home = name(kEdges);
  words.weights.home = name(kWeights);
  const Graph graph(words);
  const sampling::SampleWeights<ListedSources> weights(words, sampling::SampleWeightKind::kInt32);
  for (const bool vertices_have : {false, true})
    for (const bool edges_have : {false, true}) {
      const memory::ArrayWords edge_times{name(kEdgeTimes), nullptr, nullptr, nullptr};
      for (const uint64_t window : {~uint64_t{0}, uint64_t{30}, uint64_t{0}}) {
        const sampling::ChoiceRule rule{false,
                                        false,
                                        vertices_have ? static_cast<const int64_t*>(name(kTimes)) : nullptr,
                                        edges_have ? &edge_times : nullptr,
                                        1.0,
                                        window};
        const int64_t limit = 45;
        const sampling::Candidates<Graph> from(graph, weights, rule, kVertices, {0, 0, kDegree}, limit);
        for (int64_t i = 0; i < kDegree; ++i) {
          int64_t time = 0;
          if (edges_have) time = kOfEdges[i];
          if (vertices_have) time = std::max(time, kOfVertices[kNeighbors[i]]);
          const bool in_time = time <= limit && static_cast<uint64_t>(limit - time) <= window;
          const double weight = in_time || !rule.temporal() ? static_cast<double>(i + 1) : 0.0;
          if ((rule.temporal() && from.time(i) != time) || from.weight(i) != weight) {
            std::printf("vertices have times: %d, edges: %d, neighbour %d\n", vertices_have, edges_have, static_cast<int>(i));
            return 1;
          }
        }
      }
    }
}
