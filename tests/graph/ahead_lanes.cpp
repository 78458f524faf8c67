// What warps of a GPU ask for before they read it, by sources that note it: of tasks, just what visit() reads later; of the
// lists that a loop over vertices reads the beginning of, that. Prints the first seed that goes wrong.
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>

#include "../rounds.hpp"
#include "hinterland/graph/advance.hpp"
#include "hubs.hpp"
#include "lane_team.hpp"
#include "scratch.hpp"

using namespace hinterland;

namespace {

constexpr int64_t kAhead = 2;  // fewer than a team has warps

template <class T>
struct Noted : memory::Paged<T> {
  using memory::Paged<T>::Paged;
  inline static std::vector<int> asked;  // how often, for each element

  int64_t ask(int64_t begin, int64_t end) const {
    Warp::sync();  // which ends the process, if some of the lanes are elsewhere
    for (int64_t at = begin; at < end; ++at) atomic_add(asked.at(at), 1);
    return 0;
  }
  int64_t bytes_ahead() const { return kAhead * graph::kTaskEdges * (sizeof(int32_t) + sizeof(int64_t)); }
  int64_t bytes_read(int64_t elements) const { return elements * static_cast<int64_t>(sizeof(T)); }
};

struct Notes {
  using Meter = memory::NoMeter;
  static constexpr bool kWaits = true;
  template <class T>
  using Whole = memory::Pointer<T>;
  template <class T>
  using Large = Noted<T>;
};

using Weighted = graph::Csr<int32_t, int64_t, Notes>;

// Notes the edges that it is shown, which their weights name, and how many they are of each task.
struct Visits {
  std::vector<int>& visits;
  std::vector<int64_t>& of_task;
  int64_t edges = 0;

  template <class Batch>
  void operator()(const Batch& batch) {
    for (int k = 0; k < batch.kSize; ++k)
      if (batch.from[k] >= 0) atomic_add(visits[batch.weight[k]], 1), ++edges;
  }
  void end_task() {
    const int64_t all = Warp::sum(edges);
    if (Warp::lane() == 0) of_task.push_back(all);
    edges = 0;
  }
};

Adjacency random_lists(std::mt19937& random) {
  Adjacency lists(1 + random() % 300);
  const int kind = random() % 3;
  for (auto& list : lists) {
    const int length = random() % 20 == 0 ? hub_length(random) : random() % (kind == 0 ? 4 : kind == 1 ? 200 : 40);
    for (int i = 0; i < length; ++i) list.push_back(static_cast<int>(random() % lists.size()));
  }
  return lists;
}

int64_t edges_of(const Adjacency& lists) {
  int64_t edges = 0;
  for (const auto& list : lists) edges += static_cast<int64_t>(list.size());
  return edges;
}

struct Held {
  std::vector<int64_t> names;
  ListArrays<Weighted> lists;
  HeldFrontier frontier;

  Held(const Adjacency& adjacency, std::mt19937& random)
      : names(edges_of(adjacency)), lists(adjacency, 0, 0, random(), named()), frontier(adjacency.size(), names.size()) {
    Noted<int32_t>::asked.assign(names.size(), 0);
    Noted<int64_t>::asked.assign(names.size(), 0);
  }

 private:
  const std::vector<int64_t>& named() {
    std::iota(names.begin(), names.end(), 0);
    return names;
  }
};

// Each edge of the tasks from the second on that is somebody's soon is asked for once, with its weight, and no other.
bool asks_for_tasks(unsigned seed) {
  std::mt19937 random(seed);
  const Adjacency lists = random_lists(random);
  const unsigned share = 1 + random() % 3;
  Held held(lists, random);
  const Weighted graph(held.lists.words);
  std::vector<int> visits(graph.num_edges);
  std::vector<int64_t> of_task;
  Lanes::run([&] {
    LaneTeam team;
    visit_lists(
        team, graph, held.frontier.frontier, [&](int64_t vertex) { return vertex % share == 0; },
        [&](auto&) { return Visits{visits, of_task}; });
  });
  const std::vector<int>& asked = Noted<int32_t>::asked;
  if (asked != Noted<int64_t>::asked) return false;
  int64_t unasked = 0, edge = 0;
  for (size_t v = 0; v < lists.size(); ++v)
    for (size_t i = 0; i < lists[v].size(); ++i, ++edge) {
      if (visits[edge] != (v % share == 0) || asked[edge] > visits[edge]) return false;
      unasked += visits[edge] - asked[edge];
    }
  const auto first_later = of_task.begin() + std::min<int64_t>(kAhead, of_task.size());
  return unasked == std::accumulate(of_task.begin(), first_later, int64_t{0});
}

// In a loop over all vertices: of their lists the first elements, once, but not for the first group of a warp's.
bool asks_for_lists(unsigned seed) {
  std::mt19937 random(seed);
  const Adjacency lists = random_lists(random);
  const int64_t most = 1 + random() % 3;
  Held held(lists, random);
  const Weighted graph(held.lists.words);
  Lanes::run([&] {
    LaneTeam team;
    for_each_list(team, graph, held.frontier.frontier, 0, most, [](int64_t, bool, auto&) {});
  });
  int64_t edge = 0;
  std::vector<int64_t> asked_of(lists.size() / graph::kGroup + 1), begins_of(asked_of.size());
  for (size_t v = 0; v < lists.size(); ++v)
    for (size_t i = 0; i < lists[v].size(); ++i, ++edge) {
      const bool begins = static_cast<int64_t>(i) < most;
      if (Noted<int32_t>::asked[edge] > begins) return false;
      asked_of[v / graph::kGroup] += Noted<int32_t>::asked[edge];
      begins_of[v / graph::kGroup] += begins;
    }
  if (asked_of[0] != 0) return false;
  int64_t left = 0;
  for (size_t group = 0; group < asked_of.size(); ++group) {
    if (asked_of[group] == begins_of[group]) continue;
    if (asked_of[group] != 0) return false;
    ++left;
  }
  return left <= 1 + static_cast<int64_t>(asked_of.size()) / 6;  // of a warp's six groups
}

}  // namespace

int main() {
  for (unsigned seed = 0; seed < test::rounds(40); ++seed)
    if (!asks_for_tasks(seed) || !asks_for_lists(seed)) {
      std::printf("seed %u\n", seed);
      return 1;
    }
}
