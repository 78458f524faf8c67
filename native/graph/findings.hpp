// What verifiers find, in parallel loops: the first rule that does not hold, and the first place where it does not.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>

#include "hinterland/core/atomic.hpp"

namespace hinterland::native {

// A rule by its number, 0 where all hold, and the smallest vertex, or position in the edge array, where it does not.
using Finding = std::pair<int64_t, int64_t>;

// Rules are reported in the order of their enumeration, which begins with kNone and ends with `last`.
template <class Rule, Rule last>
class FirstBroken {
 public:
  FirstBroken() { std::fill(std::begin(first_), std::end(first_), kNowhere); }

  void report(Rule rule, int64_t position) { atomic_min(first_[static_cast<int64_t>(rule)], position); }

  [[nodiscard]] Finding finding() const {
    for (int64_t rule = 1; rule <= static_cast<int64_t>(last); ++rule)
      if (first_[rule] != kNowhere) return {rule, first_[rule]};
    return {0, 0};
  }

  [[nodiscard]] bool any() const { return finding().first != 0; }

 private:
  static constexpr int64_t kNowhere = std::numeric_limits<int64_t>::max();

  int64_t first_[static_cast<int64_t>(last) + 1];
};

}  // namespace hinterland::native
