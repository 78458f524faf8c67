// A run of a graph's edges as text, one edge a line, formatted by all threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hinterland::native {

struct EdgeRun {
  const int64_t* indptr;
  int64_t vertices;
  const void* indices;      // of the whole graph
  int index_bytes;          // 4 or 8
  const int64_t* integers;  // weights of this run only; or
  const double* reals;      // these; or neither
  int64_t begin, end;       // positions in `indices`
};

struct EdgeText {
  std::string start;  // what each line begins with
  char separator = ' ';
  int64_t base = 0;         // the number of the first vertex
  bool lower_only = false;  // only edges to a vertex that is not larger: one triangle of a symmetric matrix
};

// Consecutive pieces of the text. Numbers are written so that they read back exactly.
std::vector<std::string> format_edges(const EdgeRun& run, const EdgeText& text);

}  // namespace hinterland::native
