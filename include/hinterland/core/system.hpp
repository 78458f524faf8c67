// Loads and stores of words that a GPU shares with others: a CPU, another GPU or a device, each of which may write them while
// this thread reads. PTX at system scope on the GPU, std::atomic_ref on the CPU.
//
// What one side wrote before system_store_release() the other side sees after its system_load_acquire() has returned that
// value. Fences by themselves are not offered: ThreadSanitizer does not see them.
#pragma once

#include "hinterland/core/platform.hpp"

#if !HINTERLAND_ON_GPU
#include <atomic>
#endif

namespace hinterland {

#if HINTERLAND_ON_GPU

// `reg`: the constraint of a register for a T; `bits`: its width in PTX.
#define HINTERLAND_SYSTEM_LOAD(name, T, reg, order, bits)     \
  HINTERLAND_FN T name(T& place) {                            \
    T value;                                                  \
    asm volatile("ld." order ".sys.global." bits " %0, [%1];" \
                 : "=" reg(value)                             \
                 : "l"(__cvta_generic_to_global(&place))      \
                 : "memory");                                 \
    return value;                                             \
  }

#define HINTERLAND_SYSTEM_STORE(name, T, reg, order, bits)           \
  HINTERLAND_FN void name(T& place, T value) {                       \
    asm volatile("st." order ".sys.global." bits " [%0], %1;"        \
                 :                                                   \
                 : "l"(__cvta_generic_to_global(&place)), reg(value) \
                 : "memory");                                        \
  }

#define HINTERLAND_SYSTEM_ACCESS(T, reg, bits)                         \
  HINTERLAND_SYSTEM_LOAD(system_load, T, reg, "relaxed", bits)         \
  HINTERLAND_SYSTEM_LOAD(system_load_acquire, T, reg, "acquire", bits) \
  HINTERLAND_SYSTEM_STORE(system_store, T, reg, "relaxed", bits)       \
  HINTERLAND_SYSTEM_STORE(system_store_release, T, reg, "release", bits)

HINTERLAND_SYSTEM_ACCESS(uint32_t, "r", "b32")
HINTERLAND_SYSTEM_ACCESS(uint64_t, "l", "b64")

// Two neighbours, of which the first lies at a multiple of 8 bytes and the second is written last, by a store that releases:
// both by one load, so that a word across the link is waited for once.
HINTERLAND_FN void system_load_acquire_pair(uint32_t* places, uint32_t (&values)[2]) {
  const uint64_t both = system_load_acquire(*reinterpret_cast<uint64_t*>(places));
  values[0] = static_cast<uint32_t>(both), values[1] = static_cast<uint32_t>(both >> 32);
}

#undef HINTERLAND_SYSTEM_ACCESS
#undef HINTERLAND_SYSTEM_LOAD
#undef HINTERLAND_SYSTEM_STORE

#else

template <class T>
HINTERLAND_FN T system_load(T& place) {
  return std::atomic_ref<T>(place).load(std::memory_order_relaxed);
}

template <class T>
HINTERLAND_FN T system_load_acquire(T& place) {
  return std::atomic_ref<T>(place).load(std::memory_order_acquire);
}

HINTERLAND_FN void system_load_acquire_pair(uint32_t* places, uint32_t (&values)[2]) {
  values[1] = system_load_acquire(places[1]);
  values[0] = system_load(places[0]);
}

template <class T>
HINTERLAND_FN void system_store(T& place, T value) {
  std::atomic_ref<T>(place).store(value, std::memory_order_relaxed);
}

template <class T>
HINTERLAND_FN void system_store_release(T& place, T value) {
  std::atomic_ref<T>(place).store(value, std::memory_order_release);
}

#endif

}  // namespace hinterland
