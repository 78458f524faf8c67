// Sums over lists by warps of one lane, as threads make them: each edge is added once, and atomically where other tasks have
// a part of the list. Prints the first seed that goes wrong.
#include <cstdio>
#include <random>
#include <vector>

#include "hinterland/graph/sum_over_lists.hpp"

using namespace hinterland;

namespace {

// A sum that knows whether it was added to as if nobody else did.
struct Sum {
  double value = 0;
  bool alone = false;

  Sum() = default;
  Sum(double value) : value(value) {}
  explicit operator double() const { return value; }
  Sum& operator+=(const Sum& other) {
    value += other.value;
    alone = true;
    return *this;
  }
};

void atomic_add(Sum& place, const Sum& other) { place.value += other.value; }

bool agrees(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int64_t> offsets{0};
  std::vector<int32_t> edges;
  std::vector<double> values(graph::kGroup);
  for (double& value : values) value = static_cast<double>(random() % 1000);
  std::vector<Sum> expected(graph::kGroup), sums(graph::kGroup);
  uint32_t word = 0;
  for (int v = 0; v < graph::kGroup; ++v) {
    const int kind = random() % 8, about = (1 + random() % 3) * graph::kTaskEdges + random() % 5 - 2;
    const int length = kind == 0 ? 0 : kind < 3 ? about : random() % 400;
    const bool active = random() % 4 != 0;
    if (active) word |= graph::bit_of(v);
    for (int i = 0; i < length; ++i) {
      edges.push_back(static_cast<int32_t>(random() % graph::kGroup));
      if (active) expected[v].value += values[edges.back()];
    }
    offsets.push_back(static_cast<int64_t>(edges.size()));
  }
  graph::GraphWords words{};
  words.num_vertices = graph::kGroup;
  words.num_edges = offsets.back();
  words.offsets = {offsets.data(), 8};
  words.edges.home = edges.data();
  const graph::Csr<int32_t> graph(words);
  graph::Scratch none{nullptr};
  graph::Frontier frontier(none, graph::kGroup, words.num_edges);
  frontier.current = &word;

  int64_t active_edges = 0;
  std::vector<int64_t> first(graph::kGroup), last(graph::kGroup);  // tasks that have a part of each list
  for (int v = 0; v < graph::kGroup; ++v) {
    first[v] = active_edges / graph::kTaskEdges;
    if (word & graph::bit_of(v)) active_edges += offsets[v + 1] - offsets[v];
    last[v] = (active_edges - 1) / graph::kTaskEdges;
  }
  graph::StepCounts<> counts;
  graph::SumOverLists<Sum, const double*> visitor(values.data(), sums.data());
  for (int64_t k = 0; k * graph::kTaskEdges < active_edges; ++k) {
    visit(graph, frontier, graph::Task::of(0, k), visitor, counts);
    visitor.end_task();
  }
  for (int v = 0; v < graph::kGroup; ++v)
    if (sums[v].value != expected[v].value || (sums[v].alone && first[v] < last[v])) return false;
  return counts.bad == graph::FrontierControl::kNone;
}

}  // namespace

int main() {
  for (unsigned seed = 0; seed < 200; ++seed)
    if (!agrees(seed)) {
      std::printf("seed %u\n", seed);
      return 1;
    }
}
