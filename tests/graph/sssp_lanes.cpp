// Shortest and widest paths as a warp of a GPU finds them, against a queue: random graphs with hubs, gaps and empty lists,
// arrays that begin anywhere within a cache line, buckets of any width. Prints the first seed that goes wrong.
#include <cstdio>
#include <limits>
#include <queue>
#include <random>
#include <vector>

#include "hinterland/graph/sswp.hpp"
#include "lane_team.hpp"
#include "offset_widths.hpp"
#include "scratch.hpp"

using namespace hinterland;

namespace {

int64_t buckets = 0, steps = 0, steps_at_once = 0, handed_over = 0;

template <class Edge, class Weight, template <class> class PolicyFor>
bool agrees(unsigned seed) {
  using Policy = PolicyFor<Weight>;
  using Key = typename Policy::Key;
  std::mt19937 random(seed);
  const int64_t vertices = 1 + random() % 150, edges = random() % (15 * vertices), source = random() % vertices;
  const int64_t padding = random() % 40, hubs = 1 + random() % vertices, largest = random() % 2 == 0 ? 3 : 200;
  struct Out {
    Edge to;
    Weight weight;
  };
  std::vector<std::vector<Out>> lists(vertices);
  for (int64_t i = 0; i < edges; ++i)
    lists[random() % (i % 2 == 0 ? hubs : vertices)].push_back(
        {static_cast<Edge>(random() % vertices), static_cast<Weight>(static_cast<double>(random() % 1000) * largest / 1000)});

  std::vector<int64_t> offsets{0};
  std::vector<Edge> to(padding, -1);
  std::vector<Weight> weights(padding, 0);
  for (const auto& list : lists) {
    for (const Out& out : list) to.push_back(out.to), weights.push_back(out.weight);
    offsets.push_back(to.size() - padding);
  }
  const HeldOffsets held(offsets, seed % 2);
  graph::GraphWords words{};
  words.num_vertices = vertices;
  words.num_edges = offsets.back();
  words.offsets = held.view();
  words.edges.home = to.data() + padding;
  words.weights.home = weights.data() + padding;
  const graph::Csr<Edge, Weight> graph(words);

  std::vector<Key> expected(vertices, Policy::kUnset);
  using Entry = std::pair<Key, int64_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> queue;
  queue.push({expected[source] = Policy::source(), source});
  for (; !queue.empty();) {
    const auto [key, u] = queue.top();
    queue.pop();
    if (key > expected[u]) continue;
    for (const Out& out : lists[u])
      if (const Key offer = Policy::extend(key, out.weight); offer < expected[out.to])
        queue.push({expected[out.to] = offer, out.to});
  }

  const double infinity = std::numeric_limits<double>::infinity();
  // With all steps of one loop, with none, and with both; from the beginning, or once two steps in a row were of few groups.
  for (const double delta : {1.0, 30.0, infinity})
    for (const auto& [thin, patience] : {std::pair<int64_t, int64_t>{1000, 0}, {0, 1}, {2, 0}, {2, 2}}) {
      std::vector<Key> keys(vertices, Policy::kUnset);
      graph::PathParams p{};
      p.keys = keys.data();
      std::vector<char> scratch = scratch_of<graph::PathState<Policy>>(p, vertices, offsets.back());
      const graph::PathState<Policy> state(p, vertices, offsets.back());
      Lanes::run([&] {
        LaneTeam team;
        const graph::PathStand begin = state.at_source({delta, delta == 1.0 ? 50 : -1});
        team.single([&] { state.begin_at(source); });
        team.wait();
        if (patience == 0) return best_paths<true>(team, graph, state, begin, thin, patience);
        best_paths<false>(team, graph, state, begin, thin, patience);
        team.wait();
        if (!state.goes_on()) return;
        team.single([&] { ++handed_over; });
        best_paths<true>(team, graph, state, state.handover->stand, thin, patience);
      });
      if (keys != expected || state.frontier.control->bad != graph::FrontierControl::kNone) return false;
      if (delta == infinity && state.path->buckets != 0) return false;
      buckets += state.path->buckets;
      (thin == 0 ? steps : steps_at_once) += thin == 2 ? 0 : state.frontier.control->depth;
    }
  return true;
}

template <template <class> class PolicyFor>
bool all_agree(unsigned seed) {
  return agrees<int32_t, uint8_t, PolicyFor>(seed) && agrees<int32_t, int32_t, PolicyFor>(seed) &&
         agrees<int64_t, int64_t, PolicyFor>(seed) && agrees<int32_t, float, PolicyFor>(seed) &&
         agrees<int64_t, double, PolicyFor>(seed);
}

}  // namespace

int main() {
  for (unsigned seed = 0; seed < Lanes::rounds(4); ++seed)
    if (!all_agree<graph::Shortest>(seed) || !all_agree<graph::Widest>(seed)) {
      std::printf("seed %u\n", seed);
      return 1;
    }
  if (buckets < Lanes::rounds(500)) {
    std::printf("only %lld buckets\n", static_cast<long long>(buckets));
    return 1;
  }
  if (handed_over < Lanes::rounds(40)) {
    std::printf("only %lld searches went on at once\n", static_cast<long long>(handed_over));
    return 1;
  }
  // A warp goes on with what it finds, so it takes fewer steps.
  if (steps_at_once * 4 > steps * 3) {
    std::printf("%lld steps at once of %lld\n", static_cast<long long>(steps_at_once), static_cast<long long>(steps));
    return 1;
  }
}
