// Atomic operations on plain memory, the same on both processors: libcu++ on the GPU (device scope), std::atomic_ref on the
// CPU. All are relaxed unless the name says otherwise; ordering between phases comes from barriers and kernel ends.
#pragma once

#include "hinterland/core/platform.hpp"

#if defined(__CUDACC__)
#include <cuda/atomic>
#else
#include <atomic>
#endif

namespace hinterland {

#if defined(__CUDACC__)
template <class T>
using AtomicRef = ::cuda::atomic_ref<T, ::cuda::thread_scope_device>;
namespace order = ::cuda::std;
#else
template <class T>
using AtomicRef = ::std::atomic_ref<T>;
namespace order = ::std;
#endif

template <class T>
HINTERLAND_FN T atomic_load(T& place) {
  return AtomicRef<T>(place).load(order::memory_order_relaxed);
}

template <class T>
HINTERLAND_FN void atomic_store(T& place, T value) {
  AtomicRef<T>(place).store(value, order::memory_order_relaxed);
}

template <class T>
HINTERLAND_FN T atomic_add(T& place, T value) {
  return AtomicRef<T>(place).fetch_add(value, order::memory_order_relaxed);
}

template <class T>
HINTERLAND_FN T atomic_or(T& place, T bits) {
  return AtomicRef<T>(place).fetch_or(bits, order::memory_order_relaxed);
}

template <class T>
HINTERLAND_FN T atomic_and(T& place, T bits) {
  return AtomicRef<T>(place).fetch_and(bits, order::memory_order_relaxed);
}

// Stores `value` if `expected` is there; returns what was there before.
template <class T>
HINTERLAND_FN T atomic_cas(T& place, T expected, T value) {
  AtomicRef<T>(place).compare_exchange_strong(expected, value, order::memory_order_relaxed);
  return expected;
}

// Stores min(place, value) and returns what was there before.
template <class T>
HINTERLAND_FN T atomic_min(T& place, T value) {
#if HINTERLAND_ON_GPU
  return AtomicRef<T>(place).fetch_min(value, order::memory_order_relaxed);
#else  // std::atomic_ref has fetch_min only from C++26 on
  AtomicRef<T> ref(place);
  T seen = ref.load(order::memory_order_relaxed);
  while (value < seen && !ref.compare_exchange_weak(seen, value, order::memory_order_relaxed)) {
  }
  return seen;
#endif
}

}  // namespace hinterland
