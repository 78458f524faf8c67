// Generated edges and weights on the CPU.
#pragma once

#include <cstdint>

#include "graph/build.hpp"

namespace hinterland::native {

enum class GeneratorKind : int { kKronecker = 0, kUniform = 1, kGrid = 2 };

EdgeSource generated_edges(GeneratorKind kind, int64_t edges, const graph::GraphShape& shape);

// weights[i], uint8, int32 or float32, of the edge that entry i of the rows stands for. Vertex v counts as names[v], or as v
// where names is null.
void generate_weights(const int64_t* indptr, int64_t vertices, NeighborArray neighbors, int64_t edges, const int64_t* names,
                      uint64_t seed, WeightArray weights);

// Edges [begin, end) of a source as two columns.
void list_edges(const EdgeSource& source, int64_t begin, int64_t end, int64_t* from, int64_t* to);

// to[i] = the Permutation of [0, size) with this key at `first` + i.
void list_permutation(uint64_t key, int64_t size, int64_t first, int64_t count, int64_t* to);

}  // namespace hinterland::native
