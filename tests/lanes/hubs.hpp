// Graphs with lists that are about as long as some tasks together, the only way to their neighbours: where lists are cut in a
// way that loses an edge, a vertex is lost. All lists ascend.
#pragma once

#include <algorithm>
#include <random>

#include "hinterland/graph/frontier.hpp"
#include "list_arrays.hpp"

namespace hinterland {

// The edges of some tasks, and up to 40 more or less; often a few more, or up to a line less.
inline int hub_length(std::mt19937& random, int most_tasks = 3) {
  const int tasks = 1 + random() % most_tasks, kind = random() % 3, any = random() % 81;
  return tasks * graph::kTaskEdges + (kind == 0 ? any % 6 - 2 : kind == 1 ? -(any % 32) : any - 40);
}

struct HubGraph {
  Adjacency lists;
  int start;  // where a search should begin that is to meet the hubs
};

namespace hubs {

// `count` numbers below `vertices`, in random order.
inline std::vector<int> some_of(std::mt19937& random, int vertices, int count) {
  std::vector<int> found;
  while (static_cast<int>(found.size()) < count)
    if (const int v = random() % vertices; std::find(found.begin(), found.end(), v) == found.end()) found.push_back(v);
  return found;
}

inline void sort_lists(Adjacency& lists) {
  for (auto& list : lists) std::sort(list.begin(), list.end());
}

}  // namespace hubs

// `count` hubs, each known to the one before alone, all other vertices each to one hub, and the first hub to all: a search
// goes from one hub to the next.
inline HubGraph chain_of_hubs(std::mt19937& random, int count, int most_tasks = 2) {
  std::vector<int> lengths(count);
  for (int& length : lengths) length = hub_length(random, most_tasks);
  int vertices = 1;
  for (const int length : lengths) vertices += length;
  const std::vector<int> hub = hubs::some_of(random, vertices, count);
  Adjacency lists(vertices, {hub[0]});
  for (const int v : hub) lists[v].clear();
  for (int i = 0; i + 1 < count; ++i) lists[hub[i]].push_back(hub[i + 1]);
  for (int v = 0, i = 0; v < vertices; ++v) {
    if (std::find(hub.begin(), hub.end(), v) != hub.end()) continue;
    while (static_cast<int>(lists[hub[i]].size()) == lengths[i]) ++i;
    lists[hub[i]].push_back(v);
  }
  hubs::sort_lists(lists);
  return {lists, hub[0]};
}

// `count` hubs, the only way to their neighbours, that are found with a crowd of vertices.
inline HubGraph hubs_in_a_crowd(std::mt19937& random, int count, int crowd) {
  std::vector<int> lengths(count);
  for (int& length : lengths) length = hub_length(random, 2);
  int vertices = 1 + count + crowd;
  for (const int length : lengths) vertices += length;
  const std::vector<int> found = hubs::some_of(random, vertices, 1 + count + crowd);
  const int start = found[0];
  Adjacency lists(vertices);
  std::vector<bool> is_leaf(vertices, true);
  for (const int v : found) is_leaf[v] = false;
  lists[start].assign(found.begin() + 1, found.end());
  for (int i = 0; i < crowd; ++i) lists[found[1 + count + i]] = {start};
  for (int v = 0, i = 0; v < vertices; ++v) {
    if (!is_leaf[v]) continue;
    while (static_cast<int>(lists[found[1 + i]].size()) == lengths[i]) ++i;
    lists[found[1 + i]].push_back(v);
    if (random() % 8 == 0) lists[v] = {start};
  }
  hubs::sort_lists(lists);
  return {lists, start};
}

// Hubs that the same vertices lead to, and a crowd besides, one of it to each: in the hub's list of in-neighbours a search
// meets that one alone, which is the last, or about where a task ends. Hubs lack up to 4 of the vertices.
inline HubGraph hubs_seen_by_one(std::mt19937& random, int count, int crowd) {
  const int others = graph::kTaskEdges + hub_length(random, 2) - 1, vertices = 1 + count + others + crowd,
            tasks = others / graph::kTaskEdges;
  std::vector<int> place;  // of each hub's one among the others
  for (int i = 0; i < count; ++i) {
    const int about = (1 + static_cast<int>(random() % tasks)) * graph::kTaskEdges + static_cast<int>(random() % 5) - 1;
    place.push_back(i % 2 == 0 ? others : std::min(about, others));
  }
  while (static_cast<int>(place.size()) < crowd) place.push_back(random() % (others + 1));
  std::vector<int> order(crowd), number(crowd);
  for (int i = 0; i < crowd; ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](int a, int b) { return place[a] < place[b]; });
  const int start = vertices - 1;
  Adjacency lists(vertices);
  std::vector<int> hub, lacking;
  for (int i = 0; i < count; ++i) hub.push_back(others + crowd + i), lacking.push_back(random() % 5);
  for (int other = 0, next = 0, v = 0; v < others + crowd; ++v) {
    if (next < crowd && place[order[next]] == other) {
      number[order[next++]] = v;
      continue;
    }
    for (int i = 0; i < count; ++i)
      if (other >= lacking[i]) lists[v].push_back(hub[i]);
    ++other;
  }
  for (int i = 0; i < crowd; ++i)
    for (int k = 0; k < 20; ++k) lists[number[i]].push_back(number[random() % crowd]);
  for (int i = 0; i < count; ++i) lists[number[i]].push_back(hub[i]);
  lists[start] = number;
  hubs::sort_lists(lists);
  return {lists, start};
}

// One of these.
inline HubGraph random_hubs(std::mt19937& random, unsigned which) {
  switch (which % 3) {
    case 0: return chain_of_hubs(random, 1 + random() % 2, 3);
    case 1: return hubs_in_a_crowd(random, 1 + random() % 2, 150);
    default: return hubs_seen_by_one(random, 4, 150);
  }
}

}  // namespace hinterland
