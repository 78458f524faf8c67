// Packed lists as a warp of a GPU reads them: random graphs with hubs, gaps, empty lists and parallel edges. Every edge is
// visited once, by tasks that begin anywhere; the first neighbour that passes a test is found; a search in both directions
// finds what a queue finds; broken lists are reported. Prints the first check that goes wrong.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <queue>
#include <random>
#include <vector>

#include "../rounds.hpp"
#include "hinterland/graph/bfs.hpp"
#include "hinterland/graph/visit_packed.hpp"
#include "lane_team.hpp"
#include "offset_widths.hpp"
#include "scratch.hpp"

using namespace hinterland;

namespace {

using Adjacency = std::vector<std::vector<int64_t>>;

struct Packed {
  std::vector<int64_t> offsets{0}, at{0};
  std::vector<uint32_t> words;
  int64_t vertices;

  // `vertices` may be more than there are lists: it decides the width of the fields.
  Packed(const Adjacency& lists, int64_t vertices) : vertices(vertices) {
    std::vector<uint8_t> stream;
    for (const auto& list : lists) {
      const graph::PackedShape shape(vertices, list.size());
      stream.resize(at.back() + packed_list_bytes(shape, list.data()));
      pack_list(shape, list.data(), stream.data() + at.back(), static_cast<int64_t>(stream.size()) - at.back());
      at.push_back(stream.size());
      offsets.push_back(offsets.back() + list.size());
    }
    words.resize(graph::packed_bytes(stream.size()) / 4);
    std::copy(stream.begin(), stream.end(), reinterpret_cast<uint8_t*>(words.data()));
  }
  Packed(const Packed&) = delete;

  // The graph as it is now, with either kind of offsets in four bytes or in eight.
  graph::GraphWords view(int widths) {
    const auto of_all = [&](std::vector<int64_t> some) {  // vertices behind the last list have none; nobody reads all of many
      some.resize(std::min<int64_t>(vertices, 1 << 17) + 1, some.back());
      return some;
    };
    held = HeldOffsets(of_all(offsets), widths % 2);
    held_at = HeldOffsets(of_all(at), widths / 2 % 2);
    graph::GraphWords view{};
    view.num_vertices = vertices;
    view.num_edges = offsets.back();
    view.offsets = held.view();
    view.metered = 1;
    view.packed.home = words.data();
    view.packed_offsets = held_at.view();
    view.packed_end = static_cast<int64_t>(words.size()) * 4 - graph::packed_bytes(0);
    return view;
  }

 private:
  HeldOffsets held, held_at;
};

template <class Edge>
using Metered = graph::PackedCsr<Edge, graph::NoWeight, memory::Metered>;

Adjacency random_lists(std::mt19937_64& random, int64_t lists, int64_t vertices) {
  Adjacency neighbours(lists);
  const int kind = random() % 3;
  const int staged = random() % 2 == 0 ? graph::kPackedBlock : graph::PackedFinder<Metered<int32_t>>::kStaged;
  const int64_t near = 1 + random() % vertices;  // a narrow range makes parallel edges
  for (auto& list : neighbours) {
    const int hub = random() % 40;
    list.resize(kind == 0 ? random() % 2 * (random() % 60) : kind == 1 ? random() % 5 : 20 + random() % 40);
    if (hub == 0) list.resize((1 + random() % 2) * graph::kTaskEdges + random() % 81 - 40);
    if (hub == 1) list.resize((1 + random() % 3) * staged + random() % 5 - 2);
    for (int64_t& v : list) v = vertices - 1 - random() % near;
    std::sort(list.begin(), list.end());
  }
  return neighbours;
}

using Edges = std::vector<std::pair<int64_t, int64_t>>;

// What lanes visit, each for itself.
struct Collect {
  std::vector<Edges> of = std::vector<Edges>(Warp::kWidth);

  template <class Batch>
  void operator()(const Batch& batch) {
    for (int k = 0; k < Batch::kSize; ++k)
      if (batch.from[k] >= 0) of[Warp::lane()].emplace_back(batch.from[k], batch.to[k]);
  }

  Edges all() const {
    Edges edges;
    for (const Edges& visited : of) edges.insert(edges.end(), visited.begin(), visited.end());
    return edges;
  }
};

template <class Edge>
bool visits_every_edge(unsigned seed, int64_t vertices) {
  std::mt19937_64 random(seed);
  const int64_t lists = 1 + random() % 200;
  const Adjacency neighbours = random_lists(random, lists, vertices);
  Packed packed(neighbours, vertices);
  const Metered<Edge> graph(packed.view(seed));

  const int64_t groups = ceil_div<int64_t>(lists, graph::kGroup);
  HeldFrontier held(lists, graph.num_edges);
  const graph::Frontier& frontier = held.frontier;
  std::fill_n(frontier.current, frontier.num_groups, 0);
  Edges expected;
  Collect collect;
  int64_t bytes = 0;
  bool bad = false;
  for (int64_t v = 0; v < lists; ++v) {
    if (random() % 4 == 0) continue;
    frontier.current[graph::group_of(v)] |= graph::bit_of(v);
    for (int64_t u : neighbours[v]) expected.emplace_back(v, u);
  }
  Lanes::run([&] {
    graph::CountsOf<std::decay_t<decltype(graph)>> counts;
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t v = group * graph::kGroup + Warp::lane();
      const bool active = frontier.current[group] >> Warp::lane() & 1u;
      const int64_t chunks = lists_of(graph, v, active, counts).chunks;
      for (int64_t first = 0; first < chunks; first += graph::kTaskChunks)
        visit(graph, frontier, graph::Task::of(group, first / graph::kTaskChunks), collect, counts);
    }
    const int64_t all = Warp::sum((counts.meter.home.bytes() + counts.meter.kept.bytes()));
    const bool any = Warp::any(counts.bad != graph::FrontierControl::kNone);
    if (Warp::lane() == 0) bytes = all, bad = any;
  });
  Edges found = collect.all();
  std::sort(expected.begin(), expected.end());
  std::sort(found.begin(), found.end());
  // Whole lines are staged, some twice, and of each run there is at least one byte.
  return !bad && found == expected && bytes % kSectorBytes == 0 && (expected.empty() || bytes > 0) &&
         bytes <= 2 * packed.at.back() + 2 * kLineBytes * lists;
}

template <class Edge>
bool finds_neighbours(unsigned seed) {
  std::mt19937_64 random(seed);
  const int64_t vertices = 100 + random() % 5000;
  Adjacency neighbours = random_lists(random, 30, vertices);
  neighbours.resize(vertices);
  Packed packed(neighbours, vertices);
  const Metered<Edge> graph(packed.view(seed));
  bool right = false;
  Lanes::run([&] {
    bool holds = true;
    for (int64_t v = 0; v < 30; ++v) {
      const auto& list = neighbours[v];
      for (const int64_t from : {size_t{0}, list.size() / 2, list.size()})
        for (const int64_t wanted : {list.empty() ? 0 : list[list.size() / 3], vertices / 2, int64_t{-1}}) {
          const auto test = [&](int64_t u) { return u >= wanted && wanted >= 0; };
          graph::CountsOf<std::decay_t<decltype(graph)>> counts;
          const int64_t end = graph.offsets.read_alone(v + 1);
          const int64_t found = find_neighbor(graph, v, graph.offsets.read_alone(v) + from, end, test, counts);
          const auto place = std::find_if(list.begin() + from, list.end(), test);
          const int64_t bytes = Warp::sum((counts.meter.home.bytes() + counts.meter.kept.bytes())),
                        whole = packed.at[v + 1] - packed.at[v];
          holds &= found == (place == list.end() ? -1 : *place);
          holds &= bytes <= 3 * whole + 4 * kLineBytes && (bytes > 0) == (from < static_cast<int64_t>(list.size()));
        }
    }
    holds = !Warp::any(!holds);
    if (Warp::lane() == 0) right = holds;
  });
  return right;
}

bool searches(unsigned seed, int64_t& pulled) {
  std::mt19937_64 random(seed);
  const int64_t vertices = 1 + random() % 300, source = random() % vertices;
  const Adjacency neighbours = random_lists(random, vertices, vertices);
  Adjacency before(vertices);
  for (int64_t u = 0; u < vertices; ++u)
    for (int64_t v : neighbours[u]) before[v].push_back(u);
  std::vector<int32_t> levels(vertices, -1);
  std::vector<uint32_t> parents(vertices, std::numeric_limits<uint32_t>::max());
  std::queue<int64_t> queue({source});
  levels[source] = 0;
  parents[source] = source;
  for (; !queue.empty(); queue.pop()) {
    const int64_t u = queue.front();
    for (int64_t v : neighbours[u]) {
      if (levels[v] == -1) queue.push(v), levels[v] = levels[u] + 1;
      if (levels[v] == levels[u] + 1) parents[v] = std::min<uint32_t>(parents[v], u);
    }
  }
  Packed out(neighbours, vertices), in(before, vertices);
  const graph::PackedCsr<int32_t> graph(out.view(seed)), incoming(in.view(seed / 2));
  for (const auto* lists : {static_cast<const graph::PackedCsr<int32_t>*>(nullptr), &incoming}) {
    std::vector<int32_t> found_levels(vertices, -1);
    std::vector<uint32_t> found_parents(vertices, graph::BfsState<uint32_t>::kUnset);
    graph::BfsParams p{};
    p.parents = found_parents.data();
    p.levels = found_levels.data();
    std::vector<char> scratch = scratch_of<graph::BfsState<uint32_t>>(p, vertices, graph.num_edges);
    const graph::BfsState<uint32_t> state(p, vertices, graph.num_edges);
    Lanes::run([&] {
      LaneTeam team;
      bfs(team, graph, lists, state, source);
    });
    if (found_levels != levels || found_parents != parents || state.frontier.control->bad != graph::FrontierControl::kNone)
      return false;
    for (int64_t depth = 0; depth < state.frontier.control->depth; ++depth) pulled += state.frontier.record(depth).pulled;
  }
  return true;
}

// Any bits: nothing outside the stream is read (run with a sanitizer to see), and what is found are vertices.
bool survives(unsigned seed) {
  std::mt19937_64 random(seed);
  const int64_t vertices = 1 + random() % 300;
  Packed packed(random_lists(random, vertices, vertices), vertices);
  for (int i = 0; i < 20; ++i) packed.words[random() % packed.words.size()] = static_cast<uint32_t>(random());
  for (int i = 0; i < 3; ++i) packed.at[random() % vertices] = static_cast<int64_t>(random());
  const Metered<int32_t> graph(packed.view(seed));
  HeldFrontier held(vertices, graph.num_edges);
  const graph::Frontier& frontier = held.frontier;
  std::fill_n(frontier.current, frontier.num_groups, 0);
  for (int64_t v = 0; v < vertices; ++v) frontier.current[graph::group_of(v)] |= graph::bit_of(v);
  bool vertex = false, bad = false;
  Collect collect;
  Lanes::run([&] {
    graph::CountsOf<std::decay_t<decltype(graph)>> counts;
    for (int64_t group = 0; group < frontier.num_groups; ++group)
      for (int64_t first = 0; first < 10 * graph::kTaskChunks; first += graph::kTaskChunks)
        visit(graph, frontier, graph::Task::of(group, first / graph::kTaskChunks), collect, counts);
    const bool any_bad = Warp::any(counts.bad != graph::FrontierControl::kNone);
    bool other = false;
    for (int64_t v = 0; v < vertices; ++v)
      other |= find_neighbor(
                   graph, v, graph.offsets.read_alone(v), graph.offsets.read_alone(v + 1),
                   [&](int64_t u) { return !graph.has(u); }, counts) != -1;
    other = Warp::any(other);
    if (Warp::lane() == 0) vertex = !other, bad = any_bad;
  });
  const Edges found = collect.all();
  for (const auto& [from, to] : found) vertex &= graph.has(from) && graph.has(to);
  return vertex && bad == (static_cast<int64_t>(found.size()) < graph.num_edges);
}

template <class Edge>
bool decodes(unsigned seed, int64_t vertices) {
  std::mt19937_64 random(seed);
  const Adjacency neighbours = random_lists(random, 50, vertices);
  const Packed packed(neighbours, vertices);
  const graph::BitReader bits{memory::Pointer<uint32_t>(packed.words.data())};
  bool right = true;
  for (size_t v = 0; v < neighbours.size(); ++v) {
    const graph::PackedShape shape(vertices, neighbours[v].size());
    for (int64_t i = 0; i < shape.degree; ++i)
      right &=
          graph::PackedBlock(bits, 8 * packed.at[v], shape, i / graph::kPackedBlock).neighbor(bits, i % graph::kPackedBlock) ==
          neighbours[v][i];
    std::vector<int64_t> visited(shape.degree, -1);
    const auto keep = [&](int64_t i, int64_t neighbor) { visited[i] = neighbor; };
    right &= packed_list_is_right(bits, 8 * packed.at[v], shape, vertices, packed.at[v + 1] - packed.at[v], keep);
    right &= visited == neighbours[v];
  }
  return right;
}

}  // namespace

int main() {
  int64_t pulled = 0;
  for (unsigned seed = 0; seed < test::rounds(32); ++seed) {
    const std::pair<const char*, bool> checks[] = {
        {"visit", visits_every_edge<int32_t>(seed, 200) && visits_every_edge<int64_t>(seed, 70000) &&
                      visits_every_edge<int64_t>(seed, int64_t{1} << 40)},
        {"find", finds_neighbours<int32_t>(seed) && finds_neighbours<int64_t>(seed)},
        {"search", searches(seed, pulled)},
        {"damage", survives(seed)},
        {"decode", decodes<int32_t>(seed, 200) && decodes<int32_t>(seed, (int64_t{1} << 31) - 1) &&
                       decodes<int64_t>(seed, int64_t{1} << 31) && decodes<int64_t>(seed, int64_t{1} << 47)}};
    for (const auto& [name, right] : checks)
      if (!right) {
        std::printf("%s, seed %u\n", name, seed);
        return 1;
      }
  }
  if (pulled == 0) {
    std::printf("no level was searched bottom-up\n");
    return 1;
  }
}
