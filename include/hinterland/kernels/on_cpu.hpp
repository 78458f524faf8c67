// What a CUDA kernel says, for a C++ compiler: the threads of a block run one after the other, and blocks on all cores. Threads
// that wait for each other (__syncthreads, shuffles, shared memory) have no counterpart here.
#pragma once

#if !defined(__CUDACC__)

#include <atomic>
#include <cmath>
#include <cstdint>

#define __global__
#define __device__
#define __host__
#define __constant__ const
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)

namespace hinterland::kernels {

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

inline thread_local dim3 threadIdx{0, 0, 0}, blockIdx{0, 0, 0}, blockDim, gridDim;

template <class T>
inline T __ldg(const T* place) {
  return *place;
}

template <class T>
inline T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
inline T max(T a, T b) {
  return a < b ? b : a;
}
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }

// Each returns what was there before.
template <class T, class Change>
inline T changed(T* place, const Change& change) {
  std::atomic_ref<T> at(*place);
  T before = at.load(std::memory_order_relaxed);
  while (!at.compare_exchange_weak(before, change(before), std::memory_order_relaxed)) {
  }
  return before;
}
template <class T>
inline T atomicAdd(T* place, std::type_identity_t<T> value) {
  return changed(place, [=](T before) { return static_cast<T>(before + value); });
}
template <class T>
inline T atomicSub(T* place, std::type_identity_t<T> value) {
  return changed(place, [=](T before) { return static_cast<T>(before - value); });
}
template <class T>
inline T atomicMin(T* place, std::type_identity_t<T> value) {
  return changed(place, [=](T before) { return min(before, value); });
}
template <class T>
inline T atomicMax(T* place, std::type_identity_t<T> value) {
  return changed(place, [=](T before) { return max(before, value); });
}
template <class T>
inline T atomicOr(T* place, std::type_identity_t<T> value) {
  return changed(place, [=](T before) { return static_cast<T>(before | value); });
}
template <class T>
inline T atomicAnd(T* place, std::type_identity_t<T> value) {
  return changed(place, [=](T before) { return static_cast<T>(before & value); });
}
template <class T>
inline T atomicExch(T* place, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*place).exchange(value, std::memory_order_relaxed);
}
template <class T>
inline T atomicCAS(T* place, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  std::atomic_ref<T>(*place).compare_exchange_strong(expected, value, std::memory_order_relaxed);
  return expected;
}

}  // namespace hinterland::kernels

using hinterland::kernels::__ldg;
using hinterland::kernels::atomicAdd;
using hinterland::kernels::atomicAnd;
using hinterland::kernels::atomicCAS;
using hinterland::kernels::atomicExch;
using hinterland::kernels::atomicMax;
using hinterland::kernels::atomicMin;
using hinterland::kernels::atomicOr;
using hinterland::kernels::atomicSub;
using hinterland::kernels::blockDim;
using hinterland::kernels::blockIdx;
using hinterland::kernels::dim3;
using hinterland::kernels::gridDim;
using hinterland::kernels::max;
using hinterland::kernels::min;
using hinterland::kernels::rsqrt;
using hinterland::kernels::rsqrtf;
using hinterland::kernels::threadIdx;

#endif
