// What the threads of a store are told apart by, and what they cost.
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>

namespace hinterland::native {

// A thread of this process, numbered as it first asks.
inline int thread_number() {
  static std::atomic<int> next{0};
  static thread_local const int number = next++;
  return number;
}

// The processor time that this thread has taken.
inline int64_t thread_cpu_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

}  // namespace hinterland::native
