// What differs between a C++20 compiler and NVRTC, and nothing else: the standard library and the function qualifier.
#pragma once

#if defined(__CUDACC_RTC__)
#include "hinterland/core/nvrtc.hpp"
#elif defined(__CUDACC__)
#include <cuda/std/bit>
#include <cuda/std/cmath>
#include <cuda/std/cstddef>
#include <cuda/std/cstdint>
#include <cuda/std/limits>
#include <cuda/std/type_traits>
namespace hinterland {
namespace stdlib = ::cuda::std;
}
#else
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
namespace hinterland {
namespace stdlib = ::std;
}
#endif

// HINTERLAND_APART: a function by itself, where what its caller keeps would push it out of registers, or it out of its
// caller's.
// HINTERLAND_WITHIN: a function that becomes part of its caller in any case: one that only prefetches g++ would drop, called.
#if defined(__CUDACC__)
#define HINTERLAND_FN __host__ __device__ __forceinline__
#define HINTERLAND_APART __host__ __device__ __noinline__
#define HINTERLAND_WITHIN HINTERLAND_FN
#define HINTERLAND_ROLLED _Pragma("unroll 1")  // before a loop whose turns are many instructions and not worth one copy each
#define HINTERLAND_UNROLLED _Pragma("unroll")  // before a loop whose arrays must stay in registers
#else
#define HINTERLAND_FN inline
#define HINTERLAND_APART inline __attribute__((noinline))
#define HINTERLAND_WITHIN inline __attribute__((always_inline))
#define HINTERLAND_ROLLED
#define HINTERLAND_UNROLLED _Pragma("GCC unroll 16")
#endif

// True while code for the GPU is being generated (NVRTC generates no other).
#if defined(__CUDA_ARCH__)
#define HINTERLAND_ON_GPU 1
#else
#define HINTERLAND_ON_GPU 0
#endif

namespace hinterland {

using stdlib::int16_t;
using stdlib::int32_t;
using stdlib::int64_t;
using stdlib::int8_t;
using stdlib::size_t;
using stdlib::uint16_t;
using stdlib::uint32_t;
using stdlib::uint64_t;
using stdlib::uint8_t;
using stdlib::uintptr_t;

// A GPU merges the accesses of a warp into requests of at most one line, counted in sectors (Min 2022, section 2.3.3).
inline constexpr int kLineBytes = 128;
inline constexpr int kSectorBytes = 32;

// Lanes of a GPU's warp, for arithmetic about its warps that any processor does (Warp::kWidth is that of the processor at
// hand).
inline constexpr int kWarpLanes = 32;

inline constexpr int kCpuLineBytes = 64;

// Has a CPU fetch a line before it is read; a GPU has other warps meanwhile.
HINTERLAND_WITHIN void prefetch([[maybe_unused]] const void* line) {
#if !defined(__CUDACC__)
  __builtin_prefetch(line);
#endif
}

template <class T>
HINTERLAND_FN constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

template <class T>
HINTERLAND_FN constexpr T min_of(T a, T b) {
  return b < a ? b : a;
}

template <class T>
HINTERLAND_FN constexpr T max_of(T a, T b) {
  return a < b ? b : a;
}

}  // namespace hinterland
