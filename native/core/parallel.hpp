// OpenMP loops whose bodies may throw: the first exception leaves the loop, as it would leave a serial one.
#pragma once

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

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

// body(i, thread) for i in [0, count), handed out in order as threads come free, which are numbered from 0. For short loops
// that take turns with other work: between them OpenMP's threads would spin for milliseconds and keep cores from it; these end.
template <class Body>
void parallel_tasks(int64_t count, Body&& body) {
  std::exception_ptr first;
  std::atomic<bool> failed{false};
  std::atomic<int64_t> next{0};
  const auto work = [&](int64_t thread) {
    try {
      for (int64_t i; !failed.load(std::memory_order_relaxed) && (i = next.fetch_add(1)) < count;) body(i, thread);
    } catch (...) {
      if (!failed.exchange(true)) first = std::current_exception();
    }
  };
  const int64_t threads = std::min<int64_t>(num_threads(), count);
  if (omp_get_proc_bind() != omp_proc_bind_false) {  // the caller is bound to a core, where threads it starts would stay
#pragma omp parallel num_threads(static_cast<int>(threads)) if (threads > 1)
    work(omp_get_thread_num());
  } else {
    std::vector<std::thread> others;
    try {
      for (int64_t thread = 1; thread < threads; ++thread) others.emplace_back(work, thread);
    } catch (const std::system_error&) {
      // The system grants no more: those that run do the work.
    }
    work(0);
    for (std::thread& other : others) other.join();
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace hinterland::native
