// The first half of a level of Louvain's method (Blondel, Guillaume, Lambiotte and Lefebvre 2008): vertices go, one after the
// other, to the neighbouring community that raises modularity most, until none does. In directed graphs modularity is that of
// Leicht and Newman (2008).
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
  int64_t* communities;  // [vertices]: each vertex by itself; where it ends up
};

HINTERLAND_STRUCT(WeightedRows, indptr, neighbors, weights);
HINTERLAND_STRUCT(LouvainParams, out, in, order, out_degrees, in_degrees, vertices, total, resolution, communities);

namespace {

constexpr double kLeastGain = 1e-13;  // below it, rounding would have vertices go to and fro

class Moves {
 public:
  explicit Moves(const LouvainParams& p)
      : p_(p),
        outs_(p.out_degrees, p.out_degrees + p.vertices),
        ins_(p.in_degrees, p.in_degrees + p.vertices),
        shared_(p.vertices, 0),
        seen_(p.vertices, 0) {}

  int64_t pass() {
    int64_t moves = 0;
    for (int64_t i = 0; i < p_.vertices; ++i) moves += move(p_.order[i]);
    return moves;
  }

 private:
  bool move(int64_t u) {
    const int64_t own = p_.communities[u];
    near_.clear();
    add(p_.out, u);
    add(p_.in, u);
    outs_[own] -= p_.out_degrees[u];
    ins_[own] -= p_.in_degrees[u];
    const double stays = worth(u, own);
    double most = kLeastGain;
    int64_t best = own;
    for (const int64_t community : near_) {
      const double gain = worth(u, community) - stays;
      if (gain > most) most = gain, best = community;
    }
    outs_[best] += p_.out_degrees[u];
    ins_[best] += p_.in_degrees[u];
    for (const int64_t community : near_) shared_[community] = seen_[community] = 0;
    p_.communities[u] = best;
    return best != own;
  }

  // The weight of u's edges with each community.
  void add(const WeightedRows& rows, int64_t u) {
    for (int64_t e = rows.indptr[u]; e < rows.indptr[u + 1]; ++e) {
      const int64_t v = rows.neighbors[e];
      if (v == u) continue;
      const int64_t community = p_.communities[v];
      if (!seen_[community]) seen_[community] = 1, near_.push_back(community);
      shared_[community] += rows.weights[e];
    }
  }

  // What u in a community, of which it is no part now, adds to modularity.
  double worth(int64_t u, int64_t community) const {
    const double expected = p_.out_degrees[u] * ins_[community] + p_.in_degrees[u] * outs_[community];
    return (shared_[community] - p_.resolution * expected / p_.total) / p_.total;
  }

  const LouvainParams& p_;
  std::vector<double> outs_, ins_;  // of all vertices in a community
  std::vector<double> shared_;
  std::vector<char> seen_;
  std::vector<int64_t> near_;
};

// Returns whether any vertex moved.
bool louvain_moves(const LouvainParams& p) {
  Moves moves(p);
  bool any = false;
  while (moves.pass() != 0) any = true;
  return any;
}

}  // namespace

void bind_graph_louvain(nanobind::module_& m) { def_native(m, "louvain_moves", louvain_moves, nanobind::arg("params")); }

}  // namespace hinterland::native
