// Scratch memory for a run, as dirty as it may be.
#pragma once

#include <algorithm>
#include <vector>

#include "hinterland/graph/frontier.hpp"

namespace hinterland {

inline std::vector<char> dirty(const graph::Scratch& needed) {
  std::vector<char> memory(needed.bytes, 0x55);
  std::fill_n(memory.begin(), needed.zeroed, 0);
  return memory;
}

// What a State takes; its address is set in `params`.
template <class State, class Params>
std::vector<char> scratch_of(Params& params, int64_t vertices, int64_t edges) {
  std::vector<char> memory = dirty(State(params, vertices, edges).scratch);
  params.scratch = memory.data();
  return memory;
}

// A frontier alone, and its memory.
struct HeldFrontier {
  std::vector<char> memory;
  graph::Scratch scratch;
  graph::Frontier frontier;

  HeldFrontier(int64_t vertices, int64_t edges)
      : memory(dirty(needed(vertices, edges))), scratch{memory.data()}, frontier(scratch, vertices, edges) {}

 private:
  static graph::Scratch needed(int64_t vertices, int64_t edges) {
    graph::Scratch none{nullptr};
    graph::Frontier(none, vertices, edges);
    return none;
  }
};

}  // namespace hinterland
