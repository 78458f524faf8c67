// Atomic operations on plain memory, the same on both processors: PTX on the GPU (device scope), std::atomic_ref on the CPU.
// All are relaxed unless the name says otherwise; ordering between phases comes from barriers and kernel ends.
//
// What they work on is global memory: the GPU's own, a peer's or the host's, but never shared memory. PTX is told so. Where an
// address could be either, each 64-bit operation would become a test and two ways, ten instructions in place of one.
#pragma once

#include "hinterland/core/platform.hpp"

#if !HINTERLAND_ON_GPU
#include <atomic>
#endif

namespace hinterland {

#if HINTERLAND_ON_GPU

#define HINTERLAND_ADDRESS(place) "l"(__cvta_generic_to_global(&(place)))

// atomic_load(place) and atomic_store(place, value). `reg`: the constraint of a register for a T; `bits`: its width in PTX.
#define HINTERLAND_ATOMIC_ACCESS(T, reg, bits)                                                                        \
  HINTERLAND_FN T atomic_load(T& place) {                                                                             \
    T value;                                                                                                          \
    asm volatile("ld.relaxed.gpu.global." bits " %0, [%1];" : "=" reg(value) : HINTERLAND_ADDRESS(place) : "memory"); \
    return value;                                                                                                     \
  }                                                                                                                   \
  HINTERLAND_FN void atomic_store(T& place, T value) {                                                                \
    asm volatile("st.relaxed.gpu.global." bits " [%0], %1;" ::HINTERLAND_ADDRESS(place), reg(value) : "memory");      \
  }

// name(place, value) writes what `operation` makes of both, and returns what was there before.
#define HINTERLAND_ATOMIC_UPDATE(name, T, reg, order, operation)         \
  HINTERLAND_FN T name(T& place, T value) {                              \
    T before;                                                            \
    asm volatile("atom." order ".gpu.global." operation " %0, [%1], %2;" \
                 : "=" reg(before)                                       \
                 : HINTERLAND_ADDRESS(place), reg(value)                 \
                 : "memory");                                            \
    return before;                                                       \
  }

#define HINTERLAND_ATOMIC_CAS(name, T, reg, order, bits)                    \
  HINTERLAND_FN T name(T& place, T expected, T value) {                     \
    T before;                                                               \
    asm volatile("atom." order ".gpu.global.cas." bits " %0, [%1], %2, %3;" \
                 : "=" reg(before)                                          \
                 : HINTERLAND_ADDRESS(place), reg(expected), reg(value)     \
                 : "memory");                                               \
    return before;                                                          \
  }

// A load that acquires and a store that releases, for one type.
#define HINTERLAND_ATOMIC_ORDERED_ACCESS(T, reg, bits)                                                                \
  HINTERLAND_FN T atomic_load_acquire(T& place) {                                                                     \
    T value;                                                                                                          \
    asm volatile("ld.acquire.gpu.global." bits " %0, [%1];" : "=" reg(value) : HINTERLAND_ADDRESS(place) : "memory"); \
    return value;                                                                                                     \
  }                                                                                                                   \
  HINTERLAND_FN void atomic_store_release(T& place, T value) {                                                        \
    asm volatile("st.release.gpu.global." bits " [%0], %1;" ::HINTERLAND_ADDRESS(place), reg(value) : "memory");      \
  }

HINTERLAND_ATOMIC_ACCESS(int32_t, "r", "b32")
HINTERLAND_ATOMIC_ACCESS(uint32_t, "r", "b32")
HINTERLAND_ATOMIC_ACCESS(int64_t, "l", "b64")
HINTERLAND_ATOMIC_ACCESS(uint64_t, "l", "b64")
HINTERLAND_ATOMIC_ACCESS(float, "f", "b32")
HINTERLAND_ATOMIC_ACCESS(double, "d", "b64")

HINTERLAND_ATOMIC_UPDATE(atomic_add, int32_t, "r", "relaxed", "add.s32")
HINTERLAND_ATOMIC_UPDATE(atomic_add, uint32_t, "r", "relaxed", "add.u32")
HINTERLAND_ATOMIC_UPDATE(atomic_add, int64_t, "l", "relaxed", "add.u64")
HINTERLAND_ATOMIC_UPDATE(atomic_add, uint64_t, "l", "relaxed", "add.u64")
HINTERLAND_ATOMIC_UPDATE(atomic_add, float, "f", "relaxed", "add.f32")
HINTERLAND_ATOMIC_UPDATE(atomic_add, double, "d", "relaxed", "add.f64")

HINTERLAND_ATOMIC_UPDATE(atomic_or, uint32_t, "r", "relaxed", "or.b32")
HINTERLAND_ATOMIC_UPDATE(atomic_or, uint64_t, "l", "relaxed", "or.b64")
HINTERLAND_ATOMIC_UPDATE(atomic_and, uint32_t, "r", "relaxed", "and.b32")
HINTERLAND_ATOMIC_UPDATE(atomic_and, uint64_t, "l", "relaxed", "and.b64")

HINTERLAND_ATOMIC_UPDATE(atomic_min, int32_t, "r", "relaxed", "min.s32")
HINTERLAND_ATOMIC_UPDATE(atomic_min, uint32_t, "r", "relaxed", "min.u32")
HINTERLAND_ATOMIC_UPDATE(atomic_min, int64_t, "l", "relaxed", "min.s64")
HINTERLAND_ATOMIC_UPDATE(atomic_min, uint64_t, "l", "relaxed", "min.u64")

HINTERLAND_ATOMIC_CAS(atomic_cas, int32_t, "r", "relaxed", "b32")
HINTERLAND_ATOMIC_CAS(atomic_cas, uint32_t, "r", "relaxed", "b32")
HINTERLAND_ATOMIC_CAS(atomic_cas, int64_t, "l", "relaxed", "b64")
HINTERLAND_ATOMIC_CAS(atomic_cas, uint64_t, "l", "relaxed", "b64")

HINTERLAND_ATOMIC_UPDATE(atomic_add_release, uint64_t, "l", "release", "add.u64")
HINTERLAND_ATOMIC_UPDATE(atomic_add_acquire, uint64_t, "l", "acquire", "add.u64")
HINTERLAND_ATOMIC_UPDATE(atomic_or_release, uint64_t, "l", "release", "or.b64")
HINTERLAND_ATOMIC_CAS(atomic_cas_acq_rel, uint64_t, "l", "acq_rel", "b64")
HINTERLAND_ATOMIC_CAS(atomic_cas_acquire, uint32_t, "r", "acquire", "b32")
HINTERLAND_ATOMIC_CAS(atomic_cas_acquire, uint64_t, "l", "acquire", "b64")
HINTERLAND_ATOMIC_UPDATE(atomic_or_acq_rel, uint32_t, "r", "acq_rel", "or.b32")
HINTERLAND_ATOMIC_UPDATE(atomic_and_acq_rel, uint32_t, "r", "acq_rel", "and.b32")
HINTERLAND_ATOMIC_UPDATE(atomic_exchange_acquire, int64_t, "l", "acquire", "exch.b64")
HINTERLAND_ATOMIC_ORDERED_ACCESS(uint32_t, "r", "b32")
HINTERLAND_ATOMIC_ORDERED_ACCESS(uint64_t, "l", "b64")

HINTERLAND_FN void atomic_store(uint8_t& place, uint8_t value) {
  asm volatile("st.relaxed.gpu.global.b8 [%0], %1;" ::HINTERLAND_ADDRESS(place), "r"(uint32_t{value}) : "memory");
}

// Two neighbours, of which the first lies at a multiple of 16 bytes: each is loaded atomically, both by one instruction.
HINTERLAND_FN void atomic_load_pair(uint64_t* places, uint64_t (&values)[2]) {
  asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];"
               : "=l"(values[0]), "=l"(values[1])
               : HINTERLAND_ADDRESS(*places)
               : "memory");
}

// Each is there with all that was done before: one fence orders both.
HINTERLAND_FN void atomic_store_release(uint64_t& first, uint64_t value, uint32_t& second, uint32_t second_value) {
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
  atomic_store(first, value);
  atomic_store(second, second_value);
}

// The same value to several places of an array, of which numbers below 0 are none: one fence orders all after what was done
// before. (By pointers that may be null, ptxas 13 made a reduction at 0 in spite of the test before it: a zero that was written
// to the pointer's registers before the address came after it.)
template <int kCount>
HINTERLAND_FN void atomic_add_release(uint64_t* array, const int32_t (&at)[kCount], uint64_t value) {
  bool any = false;
  for (const int32_t one : at) any |= one >= 0;
  if (any) asm volatile("fence.acq_rel.gpu;" ::: "memory");
  for (const int32_t one : at)
    if (one >= 0)
      asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::HINTERLAND_ADDRESS(array[one]), "l"(value) : "memory");
}

HINTERLAND_FN void atomic_store_release(int64_t& place, int64_t value) {
  asm volatile("st.release.gpu.global.b64 [%0], %1;" ::HINTERLAND_ADDRESS(place), "l"(value) : "memory");
}

// atomic_load() of what will hardly be read again soon: the first to leave L2 when it has no room.
template <class T>
HINTERLAND_FN T atomic_load_passing(const T& place) {
  static_assert(sizeof(T) <= 8);
#define HINTERLAND_PASSING(reg, bits, to)                                                \
  asm volatile(                                                                          \
      "{.reg .b64 policy; createpolicy.fractional.L2::evict_first.b64 policy, 1.0; "     \
      "ld.relaxed.gpu.global.L1::no_allocate.L2::cache_hint." bits " %0, [%1], policy;}" \
      : "=" reg(to)                                                                      \
      : HINTERLAND_ADDRESS(place)                                                        \
      : "memory")
  if constexpr (sizeof(T) == 8) {
    uint64_t bits;
    HINTERLAND_PASSING("l", "b64", bits);
    return stdlib::bit_cast<T>(bits);
  } else {
    uint32_t bits;
    if constexpr (sizeof(T) == 4) HINTERLAND_PASSING("r", "b32", bits);
    if constexpr (sizeof(T) == 2) HINTERLAND_PASSING("r", "b16", bits);
    if constexpr (sizeof(T) == 1) HINTERLAND_PASSING("r", "b8", bits);
    if constexpr (sizeof(T) == 4) return stdlib::bit_cast<T>(bits);
    if constexpr (sizeof(T) == 2) return stdlib::bit_cast<T>(static_cast<uint16_t>(bits));
    if constexpr (sizeof(T) == 1) return stdlib::bit_cast<T>(static_cast<uint8_t>(bits));
  }
#undef HINTERLAND_PASSING
}

// What this thread reads from now on is not older than what it has read by atomic_load().
HINTERLAND_FN void atomic_fence_acquire() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
// Of two threads that change a word each, and look at the other's behind this, one sees the other's change.
HINTERLAND_FN void atomic_fence() { asm volatile("fence.sc.gpu;" ::: "memory"); }

#undef HINTERLAND_ADDRESS
#undef HINTERLAND_ATOMIC_ACCESS
#undef HINTERLAND_ATOMIC_UPDATE
#undef HINTERLAND_ATOMIC_CAS
#undef HINTERLAND_ATOMIC_ORDERED_ACCESS

#else

template <class T>
HINTERLAND_FN T atomic_load(T& place) {
  return std::atomic_ref<T>(place).load(std::memory_order_relaxed);
}

template <class T>
HINTERLAND_FN void atomic_store(T& place, T value) {
  std::atomic_ref<T>(place).store(value, std::memory_order_relaxed);
}

template <class T>
HINTERLAND_FN T atomic_add(T& place, T value) {
  return std::atomic_ref<T>(place).fetch_add(value, std::memory_order_relaxed);
}

template <class T>
HINTERLAND_FN T atomic_or(T& place, T bits) {
  return std::atomic_ref<T>(place).fetch_or(bits, std::memory_order_relaxed);
}

template <class T>
HINTERLAND_FN T atomic_and(T& place, T bits) {
  return std::atomic_ref<T>(place).fetch_and(bits, std::memory_order_relaxed);
}

// Stores `value` if `expected` is there; returns what was there before.
template <class T>
HINTERLAND_FN T atomic_cas(T& place, T expected, T value) {
  std::atomic_ref<T>(place).compare_exchange_strong(expected, value, std::memory_order_relaxed);
  return expected;
}

// Stores min(place, value) and returns what was there before. (std::atomic_ref has fetch_min only from C++26 on.)
template <class T>
HINTERLAND_FN T atomic_min(T& place, T value) {
  std::atomic_ref<T> ref(place);
  T seen = ref.load(std::memory_order_relaxed);
  while (value < seen && !ref.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
  return seen;
}

template <class T>
HINTERLAND_FN T atomic_add_release(T& place, T value) {
  return std::atomic_ref<T>(place).fetch_add(value, std::memory_order_release);
}

template <class T>
HINTERLAND_FN T atomic_add_acquire(T& place, T value) {
  return std::atomic_ref<T>(place).fetch_add(value, std::memory_order_acquire);
}

template <class T>
HINTERLAND_FN T atomic_or_release(T& place, T bits) {
  return std::atomic_ref<T>(place).fetch_or(bits, std::memory_order_release);
}

template <class T>
HINTERLAND_FN T atomic_or_acq_rel(T& place, T bits) {
  return std::atomic_ref<T>(place).fetch_or(bits, std::memory_order_acq_rel);
}

template <class T>
HINTERLAND_FN T atomic_and_acq_rel(T& place, T bits) {
  return std::atomic_ref<T>(place).fetch_and(bits, std::memory_order_acq_rel);
}

template <class T>
HINTERLAND_FN T atomic_cas_acq_rel(T& place, T expected, T value) {
  std::atomic_ref<T>(place).compare_exchange_strong(expected, value, std::memory_order_acq_rel);
  return expected;
}

template <class T>
HINTERLAND_FN T atomic_cas_acquire(T& place, T expected, T value) {
  std::atomic_ref<T>(place).compare_exchange_strong(expected, value, std::memory_order_acquire);
  return expected;
}

template <class T>
HINTERLAND_FN T atomic_exchange_acquire(T& place, T value) {
  return std::atomic_ref<T>(place).exchange(value, std::memory_order_acquire);
}

template <class T>
HINTERLAND_FN T atomic_load_acquire(T& place) {
  return std::atomic_ref<T>(place).load(std::memory_order_acquire);
}

template <class T>
HINTERLAND_FN void atomic_store_release(T& place, T value) {
  std::atomic_ref<T>(place).store(value, std::memory_order_release);
}

HINTERLAND_FN void atomic_load_pair(uint64_t* places, uint64_t (&values)[2]) {
  for (int i = 0; i < 2; ++i) values[i] = atomic_load(places[i]);
}

HINTERLAND_FN void atomic_store_release(uint64_t& first, uint64_t value, uint32_t& second, uint32_t second_value) {
  atomic_store_release(first, value);
  atomic_store_release(second, second_value);
}

template <int kCount>
HINTERLAND_FN void atomic_add_release(uint64_t* array, const int32_t (&at)[kCount], uint64_t value) {
  for (const int32_t one : at)
    if (one >= 0) atomic_add_release(array[one], value);
}

template <class T>
HINTERLAND_FN T atomic_load_passing(const T& place) {
  return atomic_load(const_cast<T&>(place));
}

HINTERLAND_FN void atomic_fence_acquire() { std::atomic_thread_fence(std::memory_order_acquire); }
HINTERLAND_FN void atomic_fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }

#endif

}  // namespace hinterland
