// Offsets in the widths that a graph may have them in, for tests that run with each.
#pragma once

#include <vector>

#include "hinterland/graph/adjacency.hpp"

namespace hinterland {

// A copy of offsets as they are, or as a GPU keeps them, in four bytes each.
class HeldOffsets {
 public:
  HeldOffsets() = default;
  HeldOffsets(const std::vector<int64_t>& offsets, bool narrow) {
    if (narrow)
      narrow_.assign(offsets.begin(), offsets.end());
    else
      wide_ = offsets;
  }

  graph::Offsets view() const { return narrow_.empty() ? graph::Offsets{wide_.data(), 8} : graph::Offsets{narrow_.data(), 4}; }

 private:
  std::vector<int64_t> wide_;
  std::vector<uint32_t> narrow_;
};

}  // namespace hinterland
