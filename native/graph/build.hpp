// The steps by which edges become a CSR graph. Python allocates between them: only after the first is the size of the
// second's output known. Rows of a graph that a user has can be changed at any time, so whatever reads them is told how many
// edges there are, and takes a row that does not lie among them for an empty one.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "graph/edges.hpp"

namespace hinterland::native {

// Neighbours are int32 or int64; `bytes` is 4 or 8.
struct NeighborArray {
  void* data;
  int bytes;
};

// How the bits of a weight order: as an unsigned number, as a signed one, or as an IEEE float that is no NaN.
enum class WeightOrder : int { kUnsigned = 0, kSigned = 1, kFloat = 2 };

// Weights are moved as words of 1, 2, 4 or 8 bytes; no `data` means none.
struct WeightArray {
  void* data = nullptr;
  int bytes = 0;
  WeightOrder order = WeightOrder::kUnsigned;
};

// Sets indptr[v] to the *end* of row v, and indptr[vertices] to the number of entries. Returns that, and the first edge with an
// end outside [0, vertices), or -1.
std::pair<int64_t, int64_t> count_entries(const EdgeSource& source, const graph::EdgeRules& rules, int64_t vertices,
                                          int64_t* indptr);

// Puts each entry into its row, in no particular order, and thereby turns the ends in `indptr` into beginnings. If the edges
// have changed since they were counted, the beginnings may fall somewhere; nothing is written outside the arrays.
void scatter_entries(const EdgeSource& source, const graph::EdgeRules& rules, int64_t vertices, int64_t* indptr,
                     NeighborArray neighbors, WeightArray from, WeightArray to);

// The same, but writes 2 * edge + direction instead of the neighbour. Sorted rows of these are in the order of the input;
// resolve_entries then looks the neighbours and weights up.
void scatter_order(const EdgeSource& source, const graph::EdgeRules& rules, int64_t vertices, int64_t* indptr, int64_t* order);
void resolve_entries(const EdgeSource& source, const graph::EdgeRules& rules, const int64_t* order, int64_t entries,
                     NeighborArray neighbors, WeightArray from, WeightArray to);

// Sorts each row by (neighbour, weight). With `kept`, of entries with the same neighbour only the first, which has the
// smallest weight, stays, at the front of its row, and kept[0 .. vertices] becomes the offsets of what stays. Returns how
// many entries stay.
int64_t sort_rows(const int64_t* indptr, int64_t vertices, NeighborArray neighbors, WeightArray weights, int64_t* kept);

// Copies the fronts of the rows of `indptr`, as long as the rows of `kept`, to the rows of `kept`.
void compact_rows(const int64_t* indptr, const int64_t* kept, int64_t vertices, const void* from, void* to, int bytes);

// The position of the first offset that breaks CSR's promise (see offset_is_wrong), or -1.
int64_t first_wrong_offset(const int64_t* indptr, int64_t vertices, int64_t edges);

// The position of the first neighbour outside [0, vertices), or -1.
int64_t first_wrong_neighbor(NeighborArray neighbors, int64_t edges, int64_t vertices);

// Whether each row's neighbours ascend; equal ones may follow each other.
bool rows_ascend(const int64_t* indptr, int64_t vertices, NeighborArray neighbors, int64_t edges);

// Whether each row's neighbours ascend, nothing where a neighbour lies outside [0, vertices): one pass for both.
std::optional<bool> check_rows(const int64_t* indptr, int64_t vertices, NeighborArray neighbors, int64_t edges);

// Whether each edge is there as often as its reverse, with the same weights. True but for a coincidence of random
// numbers of 64 bits, false for certain.
bool is_mirrored(const int64_t* indptr, int64_t vertices, NeighborArray neighbors, WeightArray weights, int64_t edges);

// The sum of a random number for each edge and its weight: the same for the same edges in any order, and for those of the
// transposed graph where they are taken as `turned` round.
uint64_t sum_edges(const int64_t* indptr, int64_t vertices, NeighborArray neighbors, WeightArray weights, int64_t edges,
                   bool turned);

// The position of the first NaN among floats of `bytes` bytes whose infinity has the bits `infinity`; -1 if there is none.
int64_t first_nan(const void* values, int64_t count, int bytes, uint64_t infinity);

}  // namespace hinterland::native
