// Shortest and widest paths as a warp of a GPU finds them, against a queue: random graphs with hubs, gaps and empty lists,
// arrays that begin anywhere within a cache line, buckets of any width, and lists about as long as they are cut, plain and
// packed. Prints the first seed that goes wrong.
#include <cstdio>
#include <limits>
#include <queue>
#include <random>
#include <vector>

#include "../rounds.hpp"
#include "hinterland/graph/sswp.hpp"
#include "hubs.hpp"
#include "lane_team.hpp"
#include "scratch.hpp"

using namespace hinterland;

namespace {

int64_t buckets = 0, steps = 0, steps_at_once = 0, handed_over = 0;

template <class Weight>
struct Out {
  int to;
  Weight weight;
};
template <class Weight>
using Lists = std::vector<std::vector<Out<Weight>>>;

template <class Weight>
Weight any_weight(std::mt19937& random, int64_t largest) {
  return static_cast<Weight>(static_cast<double>(random() % 1000) * largest / 1000);
}

template <class Weight>
Lists<Weight> random_graph(std::mt19937& random) {
  const int64_t vertices = 1 + random() % 150, edges = random() % (15 * vertices);
  const int64_t hubs = 1 + random() % vertices, largest = random() % 2 == 0 ? 3 : 200;
  Lists<Weight> lists(vertices);
  for (int64_t i = 0; i < edges; ++i) {
    auto& list = lists[random() % (i % 2 == 0 ? hubs : vertices)];
    const int to = random() % vertices;
    list.push_back({to, any_weight<Weight>(random, largest)});
  }
  return lists;
}

struct Width {
  double delta;
  int64_t thin, patience;
};

template <class Graph, template <class> class PolicyFor>
bool agrees(const Lists<typename Graph::Weight>& lists, int64_t source, const std::vector<Width>& widths,
            std::mt19937& random) {
  using Weight = typename Graph::Weight;
  using Policy = PolicyFor<Weight>;
  using Key = typename Policy::Key;
  const int64_t vertices = lists.size();
  Adjacency neighbours(vertices);
  std::vector<Weight> weights;
  for (int64_t v = 0; v < vertices; ++v)
    for (const Out<Weight>& out : lists[v]) neighbours[v].push_back(out.to), weights.push_back(out.weight);
  const ListArrays<Graph> held(neighbours, random() % 40, 0, random(), weights);
  const Graph graph(held.words);

  std::vector<Key> expected(vertices, Policy::kUnset);
  using Entry = std::pair<Key, int64_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> queue;
  queue.push({expected[source] = Policy::source(), source});
  for (; !queue.empty();) {
    const auto [key, u] = queue.top();
    queue.pop();
    if (key > expected[u]) continue;
    for (const Out<Weight>& out : lists[u])
      if (const Key offer = Policy::extend(key, out.weight); offer < expected[out.to])
        queue.push({expected[out.to] = offer, out.to});
  }

  const double infinity = std::numeric_limits<double>::infinity();
  for (const auto& [delta, thin, patience] : widths) {
    std::vector<Key> keys(vertices, Policy::kUnset);
    graph::PathParams p{};
    p.keys = keys.data();
    std::vector<char> scratch = scratch_of<graph::PathState<Policy>>(p, vertices, graph.num_edges);
    const graph::PathState<Policy> state(p, vertices, graph.num_edges);
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

// With all steps of one loop, with none, and with both; from the beginning, or once two steps in a row were of few groups.
template <class Graph, template <class> class PolicyFor>
bool finds(unsigned seed) {
  std::mt19937 random(seed);
  const auto lists = random_graph<typename Graph::Weight>(random);
  std::vector<Width> widths;
  for (const double delta : {1.0, 30.0, std::numeric_limits<double>::infinity()})
    for (const auto& [thin, patience] : {std::pair<int64_t, int64_t>{1000, 0}, {0, 1}, {2, 0}, {2, 2}})
      widths.push_back({delta, thin, patience});
  return agrees<Graph, PolicyFor>(lists, random() % lists.size(), widths, random);
}

template <class Graph, template <class> class PolicyFor>
bool finds_hubs(unsigned seed) {
  using Weight = typename Graph::Weight;
  std::mt19937 random(seed);
  const HubGraph hubs = seed % 2 == 0 ? chain_of_hubs(random, 1 + random() % 2, 2) : hubs_in_a_crowd(random, 1, 150);
  Lists<Weight> lists(hubs.lists.size());
  for (size_t v = 0; v < lists.size(); ++v)
    if (hubs.lists[v].size() != 1 || random() % 8 == 0)  // most ways back would take time alone
      for (int to : hubs.lists[v]) lists[v].push_back({to, any_weight<Weight>(random, 200)});
  return agrees<Graph, PolicyFor>(lists, hubs.start, {{std::numeric_limits<double>::infinity(), 2, 0}, {60.0, 0, 1}}, random);
}

template <class Edge, class Weight>
using Plain = graph::Csr<Edge, Weight>;
template <class Edge, class Weight>
using Packed = graph::PackedCsr<Edge, Weight>;

template <template <class> class PolicyFor>
bool all_agree(unsigned seed) {
  return finds<Plain<int32_t, uint8_t>, PolicyFor>(seed) && finds<Plain<int32_t, int32_t>, PolicyFor>(seed + 1) &&
         finds<Plain<int64_t, int64_t>, PolicyFor>(seed + 2) && finds<Plain<int32_t, float>, PolicyFor>(seed + 3) &&
         finds<Plain<int64_t, double>, PolicyFor>(seed + 4);
}

// Plain and packed; weights of one byte, four and eight.
bool all_find_hubs(unsigned seed) {
  using graph::Shortest, graph::Widest;
  return seed / 2 % 2 == 0
             ? finds_hubs<Plain<int32_t, uint8_t>, Shortest>(seed) && finds_hubs<Packed<int64_t, int64_t>, Widest>(seed)
             : finds_hubs<Plain<int64_t, double>, Widest>(seed) && finds_hubs<Packed<int32_t, int32_t>, Shortest>(seed);
}

}  // namespace

int main() {
  for (unsigned seed = 0; seed < test::long_rounds(5); ++seed)
    if (!all_agree<graph::Shortest>(10 * seed) || !all_agree<graph::Widest>(10 * seed + 5)) {
      std::printf("seed %u\n", seed);
      return 1;
    }
  for (unsigned seed = 0; seed < test::long_rounds(16); ++seed)
    if (!all_find_hubs(seed)) {
      std::printf("hubs, seed %u\n", seed);
      return 1;
    }
  if (buckets < test::long_rounds(500)) {
    std::printf("only %lld buckets\n", static_cast<long long>(buckets));
    return 1;
  }
  if (handed_over < test::long_rounds(40)) {
    std::printf("only %lld searches went on at once\n", static_cast<long long>(handed_over));
    return 1;
  }
  // A warp goes on with what it finds, so it takes fewer steps.
  if (steps_at_once * 4 > steps * 3) {
    std::printf("%lld steps at once of %lld\n", static_cast<long long>(steps_at_once), static_cast<long long>(steps));
    return 1;
  }
}
