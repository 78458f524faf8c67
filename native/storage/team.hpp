// Threads that mostly wait for a disk: more of them than there are cores, which is why they are not OpenMP's.
#pragma once

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace hinterland::native {

inline int64_t clock_ns(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

// The processor time that this thread has taken.
inline int64_t thread_cpu_ns() { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

// body(i) for i in [0, count). The first exception stops the others and leaves the call.
template <class Body>
void for_each_of_team(int64_t count, int threads, const Body& body) {
  std::atomic<int64_t> taken{0};
  std::mutex guard;
  std::exception_ptr first;
  const auto work = [&] {
    try {
      for (int64_t i = taken++; i < count; i = taken++) body(i);
    } catch (...) {
      taken = count;
      const std::lock_guard<std::mutex> held(guard);
      if (!first) first = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> team;
    try {
      for (int64_t t = 1; t < std::min<int64_t>(threads, count); ++t) team.emplace_back(work);
    } catch (const std::system_error&) {
      // The system has no more threads to give: those that there are do the work.
    }
    work();
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace hinterland::native
