// The first half of a level of Louvain's method (Blondel, Guillaume, Lambiotte and Lefebvre 2008): vertices go, one after the
// other, to the community that raises modularity most, a neighbouring or an empty one. What Leiden's method puts between the
// halves (Traag, Waltman and van Eck 2019): within the communities found, vertices merge anew, along edges. In directed graphs
// modularity is that of Leicht and Newman (2008).
#include <algorithm>
#include <cmath>
#include <vector>

#include "bindings.hpp"
#include "params.hpp"

namespace hinterland::native {

// Edges by where they begin, or by where they end: an undirected graph has the same ones twice.
struct WeightedRows {
  const int64_t *indptr, *neighbors;
  const double* weights;
};

struct LouvainParams {
  WeightedRows out, in;
  const int64_t* order;  // in which vertices are looked at
  const double *out_degrees, *in_degrees;
  int64_t vertices;
  double total, resolution;
  int64_t* communities;  // [vertices], each below `vertices`: where each vertex begins; where it ends up
};

struct LeidenParams {
  LouvainParams level;    // whose communities begin with each vertex by itself
  const int64_t* within;  // [vertices]: the communities that are not left
  const double* draws;    // [vertices], from 0 to 1
  double randomness;      // theta: a gain of so much weight more makes a community e times as likely
};

HINTERLAND_STRUCT(WeightedRows, indptr, neighbors, weights);
HINTERLAND_STRUCT(LouvainParams, out, in, order, out_degrees, in_degrees, vertices, total, resolution, communities);
HINTERLAND_STRUCT(LeidenParams, level, within, draws, randomness);

namespace {

constexpr double kLeastGain = 1e-13;  // below it, rounding would have vertices go to and fro

// How many vertices communities have, and what their edges weigh, out and in, to whichever vertex.
struct CommunityTotals {
  CommunityTotals(const LouvainParams& p, const int64_t* of) : sizes(p.vertices, 0), outs(p.vertices, 0), ins(p.vertices, 0) {
    for (int64_t u = 0; u < p.vertices; ++u) add(p, u, of[u]);
  }

  void add(const LouvainParams& p, int64_t u, int64_t community) {
    ++sizes[community];
    outs[community] += p.out_degrees[u];
    ins[community] += p.in_degrees[u];
  }

  void remove(const LouvainParams& p, int64_t u, int64_t community) {
    const bool last = --sizes[community] == 0;  // then exactly nothing is left
    outs[community] = last ? 0 : outs[community] - p.out_degrees[u];
    ins[community] = last ? 0 : ins[community] - p.in_degrees[u];
  }

  std::vector<int64_t> sizes;
  std::vector<double> outs, ins;
};

// The weight of one vertex's edges with each community near it.
class Near {
 public:
  explicit Near(const LouvainParams& p) : p_(p), shared_(p.vertices, 0), seen_(p.vertices, 0) {}

  // Of u, with those of its neighbours that are asked for.
  template <class Wanted>
  void look(int64_t u, const Wanted& wanted) {
    for (const int64_t community : near_) shared_[community] = seen_[community] = 0;
    near_.clear();
    for (const WeightedRows* rows : {&p_.out, &p_.in}) {
      for (int64_t e = rows->indptr[u]; e < rows->indptr[u + 1]; ++e) {
        const int64_t v = rows->neighbors[e];
        if (v == u || !wanted(v)) continue;
        const int64_t community = p_.communities[v];
        if (!seen_[community]) seen_[community] = 1, near_.push_back(community);
        shared_[community] += rows->weights[e];
      }
    }
  }

  [[nodiscard]] const std::vector<int64_t>& communities() const { return near_; }
  [[nodiscard]] double shared(int64_t community) const { return shared_[community]; }

  // What u in a community, of which it is no part now, adds to modularity.
  [[nodiscard]] double worth(int64_t u, int64_t community, const CommunityTotals& all) const {
    const double expected = p_.out_degrees[u] * all.ins[community] + p_.in_degrees[u] * all.outs[community];
    return (shared_[community] - p_.resolution * expected / p_.total) / p_.total;
  }

 private:
  const LouvainParams& p_;
  std::vector<double> shared_;
  std::vector<char> seen_;
  std::vector<int64_t> near_;
};

class Moves {
 public:
  explicit Moves(const LouvainParams& p) : p_(p), all_(p, p.communities), near_(p) {
    for (int64_t c = 0; c < p.vertices; ++c) {
      if (all_.sizes[c] == 0) empty_.push_back(c);
    }
  }

  // Whether any vertex moved. Each is looked at, and once more when a neighbour has gone to another community than its own.
  bool run() {
    std::vector<int64_t> ring(p_.order, p_.order + p_.vertices);
    std::vector<char> waits(p_.vertices, 1);
    bool any = false;
    for (int64_t at = 0, waiting = p_.vertices; waiting > 0; at = (at + 1) % p_.vertices) {
      const int64_t u = ring[at];
      --waiting;
      waits[u] = 0;
      if (!move(u)) continue;
      any = true;
      for (const WeightedRows* rows : {&p_.out, &p_.in}) {
        for (int64_t e = rows->indptr[u]; e < rows->indptr[u + 1]; ++e) {
          const int64_t v = rows->neighbors[e];
          if (waits[v] || p_.communities[v] == p_.communities[u]) continue;
          waits[v] = 1;
          ring[(at + 1 + waiting++) % p_.vertices] = v;
        }
      }
    }
    return any;
  }

 private:
  bool move(int64_t u) {
    const int64_t own = p_.communities[u];
    near_.look(u, [](int64_t) { return true; });
    all_.remove(p_, u, own);
    const double stays = near_.worth(u, own, all_);
    double most = kLeastGain;
    int64_t best = own;
    const auto consider = [&](int64_t community) {
      const double gain = near_.worth(u, community, all_) - stays;
      if (gain > most) most = gain, best = community;
    };
    for (const int64_t community : near_.communities()) consider(community);
    if (!empty_.empty()) consider(empty_.back());
    all_.add(p_, u, best);
    p_.communities[u] = best;
    if (best == own) return false;
    if (all_.sizes[best] == 1) empty_.pop_back();
    if (all_.sizes[own] == 0) empty_.push_back(own);
    return true;
  }

  const LouvainParams& p_;
  CommunityTotals all_;
  Near near_;
  std::vector<int64_t> empty_;
};

// "MergeNodesSubset" of the paper's algorithm A.2, of all subsets in one go: no vertex sees another subset's.
class Merges {
 public:
  explicit Merges(const LeidenParams& p)
      : p_(p),
        level_(p.level),
        wholes_(level_, p.within),
        all_(level_, level_.communities),
        near_(level_),
        cuts_(level_.vertices, 0) {
    for (int64_t u = 0; u < level_.vertices; ++u) {
      look(u);
      for (const int64_t community : near_.communities()) cuts_[u] += near_.shared(community);
    }
  }

  void run() {
    for (int64_t i = 0; i < level_.vertices; ++i) merge(level_.order[i]);
  }

 private:
  void look(int64_t u) {
    near_.look(u, [&](int64_t v) { return p_.within[v] == p_.within[u]; });
  }

  // Whether a community's edges with the rest of its subset weigh as much as is expected of them.
  [[nodiscard]] bool well_connected(int64_t community, int64_t subset) const {
    const double outs = all_.outs[community], ins = all_.ins[community];
    const double expected = outs * (wholes_.ins[subset] - ins) + ins * (wholes_.outs[subset] - outs);
    return cuts_[community] >= level_.resolution * expected / level_.total;
  }

  void merge(int64_t u) {
    const int64_t own = level_.communities[u], subset = p_.within[u];
    if (all_.sizes[own] != 1 || !well_connected(own, subset)) return;
    look(u);
    choices_.assign(1, {own, 0});
    double most = 0;
    for (const int64_t community : near_.communities()) {
      const double gain = near_.worth(u, community, all_) * level_.total;
      if (gain < 0 || !well_connected(community, subset)) continue;
      choices_.push_back({community, gain});
      most = std::max(most, gain);
    }
    const int64_t to = chosen(most, p_.draws[u]);
    if (to == own) return;
    cuts_[to] += cuts_[own] - 2 * near_.shared(to);
    all_.remove(level_, u, own);
    all_.add(level_, u, to);
    level_.communities[u] = to;
  }

  // One of the choices, in proportion to e^(gain / randomness); only proportions count, so that of the largest gain is 1.
  int64_t chosen(double most, double draw) {
    double sum = 0;
    for (auto& [community, gain] : choices_) sum += gain = std::exp((gain - most) / p_.randomness);
    double left = draw * sum;
    for (const auto& [community, share] : choices_) {
      left -= share;
      if (left < 0) return community;
    }
    return choices_.back().first;  // where rounding leaves something
  }

  const LeidenParams& p_;
  const LouvainParams& level_;
  CommunityTotals wholes_, all_;
  Near near_;
  std::vector<double> cuts_;  // of a community with the rest of its subset
  std::vector<std::pair<int64_t, double>> choices_;
};

bool louvain_moves(const LouvainParams& p) { return Moves(p).run(); }

void leiden_merges(const LeidenParams& p) { Merges(p).run(); }

}  // namespace

const Binding graph_louvain([](nanobind::module_& m) {
  def_native(m, "louvain_moves", louvain_moves, nanobind::arg("params"));
  def_native(m, "leiden_merges", leiden_merges, nanobind::arg("params"));
});

}  // namespace hinterland::native
