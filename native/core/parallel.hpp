// OpenMP loops whose bodies may throw: the first exception leaves the loop, as it would leave a serial one.
#pragma once

#include <omp.h>

#include <atomic>
#include <cstdint>
#include <exception>

namespace hinterland::native {

// Whether this process was forked. Its OpenMP still counts on the parent's threads, which are not here: a parallel loop
// would wait for them for ever, so a forked process works alone.
inline bool forked = false;

inline int num_threads() { return forked ? 1 : omp_get_max_threads(); }
inline void set_num_threads(int threads) { omp_set_num_threads(threads < 1 || forked ? 1 : threads); }

inline constexpr int64_t kItemsOfChunk = 1024;  // that a thread takes at a time, by default: chosen, not measured

// body() by each of so many threads.
template <class Body>
void parallel_team(int threads, const Body& body) {
  std::exception_ptr first;
  std::atomic<bool> failed{false};
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    try {
      body();
    } catch (...) {
      if (!failed.exchange(true)) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

// body(i) for i in [0, count), in chunks handed out as threads come free.
template <class Body>
void parallel_for(int64_t count, Body&& body, int64_t chunk = kItemsOfChunk) {
  std::exception_ptr first;
  std::atomic<bool> failed{false};
#pragma omp parallel for schedule(dynamic, chunk) if (count > chunk)  // one chunk is not worth waking threads
  for (int64_t i = 0; i < count; ++i) {
    if (failed.load(std::memory_order_relaxed)) continue;
    try {
      body(i);
    } catch (...) {
      if (!failed.exchange(true)) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace hinterland::native
