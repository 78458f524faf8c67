// LaneTeam: a team of one warp of 32 emulated lanes (hinterland/core/warp.hpp beside this file), for drivers of traversals.
#pragma once

#include "hinterland/core/warp.hpp"

namespace hinterland {

struct LaneTeam {
  template <class F>
  void single(const F& f) const {
    if (Warp::lane() == 0) f();
  }
  void wait() const { Warp::sync(); }
  static int64_t now_ns() { return 0; }
  static int64_t warps() { return 3; }  // as if, for what they ask ahead

  template <class Queue>
  static Queue appender(const Queue& queue) {
    return queue;
  }

  // Batches of changing size, so that all of them are met.
  template <class Body>
  void static_for(int64_t count, const Body& body) {
    const int64_t batch = 1 + ++loops_ * 5 % Warp::kWidth;
    body([&](const auto& each) {
      for (int64_t i = 0; i < count; i += batch) each(i, i + batch < count ? i + batch : count);
    });
    wait();
  }

  template <class Body>
  void dynamic_for(int64_t count, const Body& body) const {
    body([&](const auto& each) {
      for (int64_t i = 0; i < count; ++i) each(i);
    });
    wait();
  }

 private:
  int64_t loops_ = 0;
};

}  // namespace hinterland
