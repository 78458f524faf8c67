// A warp: 32 lanes in step on the GPU, one lane on the CPU. Code written against it is the same for both, and on the CPU
// every vote and shuffle folds into the identity.
#pragma once

#include "hinterland/core/platform.hpp"

namespace hinterland {

struct Warp {
#if defined(__CUDACC__)
  static constexpr int kWidth = 32;
#else
  static constexpr int kWidth = 1;
#endif
  static constexpr uint32_t kAll = 0xffffffffu;
  static constexpr int kScratchWords = 512;

  HINTERLAND_FN static int lane() {
#if HINTERLAND_ON_GPU
    return static_cast<int>(threadIdx.x & 31u);
#else
    return 0;
#endif
  }

  // One bit a lane: who holds.
  HINTERLAND_FN static uint32_t ballot(bool holds) {
#if HINTERLAND_ON_GPU
    return __ballot_sync(kAll, holds);
#else
    return holds ? 1u : 0u;
#endif
  }

  HINTERLAND_FN static bool any(bool holds) { return ballot(holds) != 0; }

  template <class T>
  HINTERLAND_FN static T broadcast(T value, [[maybe_unused]] int from) {
#if HINTERLAND_ON_GPU
    return __shfl_sync(kAll, value, from);
#else
    return value;
#endif
  }

  // Sum over the lanes before this one.
  template <class T>
  HINTERLAND_FN static T exclusive_sum([[maybe_unused]] T value) {
#if HINTERLAND_ON_GPU
    T sum = value;
    for (int step = 1; step < 32; step *= 2) {
      T from_below = __shfl_up_sync(kAll, sum, step);
      if (lane() >= step) sum += from_below;
    }
    return sum - value;
#else
    return T{0};
#endif
  }

  // Sum over all lanes, the same in each.
  template <class T>
  HINTERLAND_FN static T sum(T value) {
#if HINTERLAND_ON_GPU
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(kAll, value, step);
#endif
    return value;
  }

  // The largest of all lanes' values, the same in each.
  template <class T>
  HINTERLAND_FN static T max(T value) {
#if HINTERLAND_ON_GPU
    for (int step = 16; step > 0; step /= 2) value = max_of(value, __shfl_xor_sync(kAll, value, step));
#endif
    return value;
  }

  // One bit a lane: who has the same value as the caller.
  HINTERLAND_FN static uint32_t same([[maybe_unused]] uint64_t value) {
#if HINTERLAND_ON_GPU
    return __match_any_sync(kAll, static_cast<unsigned long long>(value));
#else
    return 1;
#endif
  }

  // Sum over each `lanes` neighbouring lanes (a power of two), the same in each of them.
  template <class T>
  HINTERLAND_FN static T sum_within(T value, [[maybe_unused]] int lanes) {
#if HINTERLAND_ON_GPU
    for (int step = lanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(kAll, value, step);
#endif
    return value;
  }

  // The value of the lane whose number differs from the caller's in the bits of `step`; on one lane the caller's own.
  template <class T>
  HINTERLAND_FN static T swapped(T value, [[maybe_unused]] int step) {
#if HINTERLAND_ON_GPU
    return __shfl_xor_sync(kAll, value, step);
#else
    return value;
#endif
  }

  // All lanes' bits together, the same in each lane. T is unsigned, of four or eight bytes.
  template <class T>
  HINTERLAND_FN static T bits_of_all(T bits) {
#if HINTERLAND_ON_GPU
    if constexpr (sizeof(T) == 8) {
      const T high = __reduce_or_sync(kAll, static_cast<uint32_t>(bits >> 32));
      return high << 32 | __reduce_or_sync(kAll, static_cast<uint32_t>(bits));
    } else {
      return __reduce_or_sync(kAll, bits);
    }
#else
    return bits;
#endif
  }

  // kScratchWords words that the lanes share, in blocks of at most 512 threads. Everyone who takes them has the same.
  HINTERLAND_FN static uint32_t* scratch() {
#if HINTERLAND_ON_GPU
    __shared__ uint32_t words[16][kScratchWords];
    return words[threadIdx.x / 32];
#else
    return nullptr;
#endif
  }

  // kCount items of the caller's own that the lanes share, with the same limit; on one lane there are none.
  template <class T, int kCount>
  HINTERLAND_FN static T* shared() {
#if HINTERLAND_ON_GPU
    __shared__ T items[16][kCount];
    return items[threadIdx.x / 32];
#else
    return nullptr;
#endif
  }

  // All lanes wait for each other, and see what the others wrote.
  HINTERLAND_FN static void sync() {
#if HINTERLAND_ON_GPU
    __syncwarp();
#endif
  }

  // Of lanes that come to a place whatever the others do: who is there now, one bit a lane. It may be fewer than will come.
  // With kAll, all have it and are together.
  HINTERLAND_FN static uint32_t active() {
#if HINTERLAND_ON_GPU
    return __activemask();
#else
    return kAll;
#endif
  }

  // The same as above among the lanes of a group, of which each is one and each has the same bits.
  HINTERLAND_FN static uint32_t same([[maybe_unused]] uint32_t group, [[maybe_unused]] uint64_t value) {
#if HINTERLAND_ON_GPU
    return __match_any_sync(group, static_cast<unsigned long long>(value));
#else
    return 1;
#endif
  }

  template <class T>
  HINTERLAND_FN static T broadcast([[maybe_unused]] uint32_t group, T value, [[maybe_unused]] int from) {
#if HINTERLAND_ON_GPU
    return __shfl_sync(group, value, from);
#else
    return value;
#endif
  }

  HINTERLAND_FN static void sync([[maybe_unused]] uint32_t group) {
#if HINTERLAND_ON_GPU
    __syncwarp(group);
#endif
  }
};

}  // namespace hinterland
