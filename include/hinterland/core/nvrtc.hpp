// What the headers use of the standard library, for NVRTC, which has none. libcu++ has all of it, and parsing it takes as long
// as compiling a kernel.
#pragma once

#if defined(__CUDACC_RTC__)

namespace hinterland::stdlib {

using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long long;
using uint64_t = unsigned long long;
using size_t = decltype(sizeof(0));
using uintptr_t = unsigned long long;

template <class A, class B>
inline constexpr bool is_same_v = false;
template <class T>
inline constexpr bool is_same_v<T, T> = true;

template <class T>
inline constexpr bool is_floating_point_v = is_same_v<T, float> || is_same_v<T, double>;

template <bool kFirst, class A, class B>
struct Conditional {
  using type = A;
};
template <class A, class B>
struct Conditional<false, A, B> {
  using type = B;
};
template <bool kFirst, class A, class B>
using conditional_t = typename Conditional<kFirst, A, B>::type;

template <class T>
struct RemoveConst {
  using type = T;
};
template <class T>
struct RemoveConst<const T> {
  using type = T;
};
template <class T>
using remove_const_t = typename RemoveConst<T>::type;

template <class T>
struct numeric_limits {
  __device__ static constexpr T max() { return static_cast<T>(~uint64_t{0} >> (64 - 8 * sizeof(T) + (T(-1) < T(0)))); }
  __device__ static constexpr T min() { return T(-1) < T(0) ? static_cast<T>(-max() - 1) : T(0); }
};
template <>
struct numeric_limits<float> {
  __device__ static constexpr float max() { return 0x1.fffffep127f; }
  __device__ static constexpr float infinity() { return __builtin_bit_cast(float, 0x7f800000u); }
};
template <>
struct numeric_limits<double> {
  __device__ static constexpr double max() { return 0x1.fffffffffffffp1023; }
  __device__ static constexpr double infinity() { return __builtin_bit_cast(double, uint64_t{0x7ff0000000000000}); }
};

template <class To, class From>
__device__ constexpr To bit_cast(const From& from) {
  return __builtin_bit_cast(To, from);
}

// Of unsigned numbers of 32 and 64 bits.
template <class T>
__device__ int popcount(T bits) {
  return sizeof(T) == 8 ? __popcll(bits) : __popc(bits);
}

template <class T>
__device__ int countl_zero(T bits) {
  return sizeof(T) == 8 ? __clzll(bits) : __clz(bits);
}

template <class T>
__device__ int countr_zero(T bits) {
  return sizeof(T) == 8 ? __clzll(__brevll(bits)) : __clz(__brev(bits));
}

template <class T>
__device__ int bit_width(T bits) {
  return static_cast<int>(8 * sizeof(T)) - countl_zero(bits);
}

__device__ inline float exp(float value) { return expf(value); }
__device__ inline double exp(double value) { return ::exp(value); }
__device__ inline float log(float value) { return logf(value); }
__device__ inline double log(double value) { return ::log(value); }
__device__ inline float sqrt(float value) { return sqrtf(value); }
__device__ inline double sqrt(double value) { return __dsqrt_rn(value); }

}  // namespace hinterland::stdlib

#endif
