// GridTeam: all warps of one cooperative launch, as the GPU's side of a traversal's driver (native/core/team.hpp is the CPU's).
//
// A driver is written once, as if by one thread that starts parallel loops. On the GPU every thread runs the driver: what it
// decides by, it reads from memory that nobody writes until the next loop, so all decide alike.
#pragma once

#include "hinterland/core/atomic.hpp"
#include "hinterland/core/platform.hpp"
#include "hinterland/core/warp.hpp"

namespace hinterland {

// What the threads of a team share; zero at the start. Each counter has a cache line of its own.
struct TeamControl {
  uint64_t arrived;  // at the barrier; it only grows, so nobody resets it
  int64_t padding0[15];
  int64_t taken[2];  // items handed out in the current loop and, being cleared, the next
  int64_t padding1[14];
};

#if defined(__CUDACC__)

class GridTeam {
 public:
  __device__ explicit GridTeam(TeamControl* control) : control_(control) {}

  // f(), by one thread. Others see what it did after the next loop.
  template <class F>
  __device__ void single(const F& f) const {
    if (blockIdx.x == 0 && threadIdx.x == 0) f();
  }

  __device__ static int64_t now_ns() {
    int64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
  }

  // What appends to a queue on behalf of a warp: here the queue itself.
  template <class Queue>
  __device__ static Queue appender(const Queue& queue) {
    return queue;
  }

  __device__ static int64_t warps() { return static_cast<int64_t>(gridDim.x) * (blockDim.x / Warp::kWidth); }

  // A loop over [0, count) in order of memory. Each warp calls body once, with a function that calls each(first, last) for
  // the warp's ranges, of at most kWidth items. All wait for each other at the end.
  template <class Body>
  __device__ void static_for(int64_t count, const Body& body) {
    const int64_t all = warps(), batch = min_of<int64_t>(ceil_div(count, all), Warp::kWidth);
    body([&](const auto& each) {
      for (int64_t i = warp() * batch; i < count; i += all * batch) each(i, min_of(i + batch, count));
    });
    wait();
  }

  // The same for items that differ in work: each(i), handed out one by one.
  template <class Body>
  __device__ void dynamic_for(int64_t count, const Body& body) {
    int64_t& taken = control_->taken[takes_ % 2];
    single([&] { control_->taken[(takes_ + 1) % 2] = 0; });
    ++takes_;
    body([&](const auto& each) {
      for (int64_t i = warp(); i < count;) {
        int64_t following = 0;  // asked for before the work, so that the answer is there after it
        if (Warp::lane() == 0) following = warps() + atomic_add(taken, int64_t{1});
        each(i);
        i = Warp::broadcast(following, 0);
      }
    });
    wait();
  }

  // All threads wait for each other, and see what the others wrote.
  __device__ void wait() {
    passed_ += gridDim.x;
    __syncthreads();
    if (threadIdx.x == 0) {
      atomic_add_release(control_->arrived, uint64_t{1});
      while (atomic_load(control_->arrived) < passed_) {
      }
      // One acquire at the end, not one a poll: each empties the L1 cache, which the SM's other block may still be using.
      atomic_fence_acquire();
    }
    __syncthreads();
  }

 private:
  __device__ static int64_t warp() {
    return static_cast<int64_t>(threadIdx.x) / Warp::kWidth * gridDim.x + blockIdx.x;  // neighbours on different SMs
  }

  TeamControl* control_;
  uint64_t passed_ = 0;
  int64_t takes_ = 0;
};

#endif

// body(i) for each i of [0, count), one to a lane.
template <class Team, class Body>
HINTERLAND_FN void for_each(Team& team, int64_t count, const Body& body) {
  team.static_for(count, [&](const auto& ranges) {
    ranges([&](int64_t first, int64_t last) {
      const int64_t i = first + Warp::lane();
      if (i < last) body(i);
    });
  });
}

}  // namespace hinterland
