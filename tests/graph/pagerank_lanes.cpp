// PageRank as a warp of a GPU computes it, against a power iteration: random graphs with hubs, gaps, empty lists, lists about
// as long as they are cut, and edge arrays that begin anywhere within a cache line. Prints the first seed that goes wrong.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "../rounds.hpp"
#include "hinterland/graph/pagerank.hpp"
#include "hubs.hpp"
#include "lane_team.hpp"
#include "scratch.hpp"

using namespace hinterland;

namespace {

std::vector<double> expected_scores(const Adjacency& out, const std::vector<double>& p, double damping) {
  std::vector<double> scores = p;
  for (int round = 0; round < 40; ++round) {
    std::vector<double> received(p.size());
    double dangling = 0;
    for (size_t u = 0; u < p.size(); ++u) {
      if (out[u].empty()) dangling += scores[u];
      for (int v : out[u]) received[v] += scores[u] / out[u].size();
    }
    for (size_t v = 0; v < p.size(); ++v) scores[v] = (1 - damping) * p[v] + damping * (received[v] + dangling * p[v]);
  }
  return scores;
}

template <class Graph, class Real>
bool agrees(unsigned seed) {
  std::mt19937 random(seed);
  const int vertices = 1 + random() % 150, kind = seed % 4;
  const bool symmetric = random() % 2;
  Adjacency out(vertices);
  const int edges = kind == 0 ? 2500 : kind == 1 ? 10 * vertices : vertices;  // hubs of several tasks, dense, with gaps
  for (int i = 0; i < edges; ++i) {
    const int u = random() % vertices, v = random() % (kind == 0 ? std::min(vertices, 3) : vertices);
    out[u].push_back(v);
    if (symmetric) out[v].push_back(u);
  }
  for (int hub = 0; kind == 3 && hub < std::min(vertices, 3); ++hub)
    for (int i = hub_length(random); i > 0; --i) {
      const int u = random() % vertices;
      out[u].push_back(hub);
      if (symmetric) out[hub].push_back(u);
    }
  if (kind == 3 && !symmetric) {  // the lists of a group, which are read as one, end within a line or with it
    int all = random() % 32;
    const auto first = [](int v) { return v < graph::kGroup; };
    for (const auto& list : out) all += std::count_if(list.begin(), list.end(), first);
    for (; all % graph::kTaskEdges != 0; ++all) out[random() % vertices].push_back(std::min(vertices, graph::kGroup) - 1);
  }
  hubs::sort_lists(out);

  std::vector<Real> personal(vertices);
  double all = 0;
  for (Real& share : personal) all += share = static_cast<Real>(random() % 5);
  all += personal[0] += 1;
  all -= personal[0] - 1;
  for (Real& share : personal) share = static_cast<Real>(share / all);
  const std::vector<double> uniform(vertices, 1.0 / vertices);

  const ListArrays<Graph> forward(out, random() % 40, 0, random()), backward(transposed(out), random() % 40, 0, random());
  const Graph graph(forward.words), incoming(symmetric ? forward.words : backward.words);
  const graph::PagerankOptions options{0.2, sizeof(Real) == 4 ? 1e-5 : 1e-7};  // a few iterations show what goes wrong
  const Real* shares = random() % 2 ? personal.data() : nullptr;
  std::vector<Real> contributions(vertices, 5), others(vertices, 6), sums(vertices, 7);
  graph::PagerankParams p{};
  p.options = options;
  p.personal = shares;
  p.contributions = contributions.data();
  const bool relaxes = symmetric && seed % 2;
  p.others = relaxes ? others.data() : contributions.data();
  p.sums = sums.data();
  std::vector<char> scratch = scratch_of<graph::PagerankState<Real>>(p, vertices, graph.num_edges);
  const graph::PagerankState<Real> state(p, vertices, graph.num_edges);
  Lanes::run([&] {
    LaneTeam team;
    pagerank(team, graph, incoming, state, 100, relaxes);
  });
  const std::vector<double> expected = expected_scores(
      out, shares == nullptr ? uniform : std::vector<double>(personal.begin(), personal.end()), options.damping);
  double away = 0;
  for (int v = 0; v < vertices; ++v) away += std::abs(expected[v] - static_cast<double>(sums[v]));
  return away < options.tolerance && state.control->final_error < options.tolerance &&
         state.frontier.control->bad == graph::FrontierControl::kNone;
}

}  // namespace

int main() {
  for (unsigned seed = 0; seed < test::rounds(16); ++seed)
    if (!agrees<graph::Csr<int32_t>, float>(seed) || !agrees<graph::Csr<int64_t>, double>(seed) ||
        (seed % 4 == 3 && !agrees<graph::PackedCsr<int32_t>, double>(seed))) {
      std::printf("seed %u\n", seed);
      return 1;
    }
}
