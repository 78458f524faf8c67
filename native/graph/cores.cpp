// Core numbers by peeling, in time that is proportional to the edges (Batagelj and Zaversnik 2003): vertices lie sorted by how
// many neighbours they have left, and one that loses a neighbour changes places with the first of those that have as many.
#include <algorithm>
#include <vector>

#include "bindings.hpp"

namespace hinterland::native {
namespace {

// cores[v] is the core number of v. An edge is in both its ends' lists, parallel ones as often as they are there.
void core_numbers(const int64_t* indptr, const int64_t* neighbors, int64_t vertices, int64_t* cores) {
  int64_t most = 0;
  for (int64_t v = 0; v < vertices; ++v) most = std::max(most, cores[v] = indptr[v + 1] - indptr[v]);
  std::vector<int64_t> begin(most + 2, 0), sorted(vertices), place(vertices);
  for (int64_t v = 0; v < vertices; ++v) ++begin[cores[v] + 1];
  for (int64_t degree = 0; degree <= most; ++degree) begin[degree + 1] += begin[degree];
  std::vector<int64_t> next(begin);
  for (int64_t v = 0; v < vertices; ++v) sorted[place[v] = next[cores[v]]++] = v;
  for (int64_t i = 0; i < vertices; ++i) {
    const int64_t v = sorted[i];
    for (int64_t e = indptr[v]; e < indptr[v + 1]; ++e) {
      const int64_t u = neighbors[e];
      if (cores[u] <= cores[v]) continue;
      const int64_t first = begin[cores[u]]++, other = sorted[first];
      std::swap(sorted[first], sorted[place[u]]);
      place[other] = place[u];
      place[u] = first;
      --cores[u];
    }
  }
}

}  // namespace

const Binding graph_cores([](nanobind::module_& m) { def_native(m, "core_numbers", core_numbers); });

}  // namespace hinterland::native
