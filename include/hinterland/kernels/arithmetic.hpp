// What torch's functions make of an element, for kernels that are written from functions in Python (kernels/text.py). Both
// arguments are of one type, to which the caller has cast them as torch promotes them.
//
// Sums, products, quotients and roots are rounded each by itself: a GPU gets instructions that are never contracted to a*b + c,
// and a C++ compiler is asked for the same by the text that includes this. Whole numbers wrap around, as torch's do.
#pragma once

#include "hinterland/core/platform.hpp"

namespace hinterland::kernels {

template <class T>
inline constexpr bool kIsFloat = stdlib::is_floating_point_v<T>;
template <class T>
inline constexpr bool kIsBool = stdlib::is_same_v<T, bool>;
template <class T>
inline constexpr int kBits = 8 * static_cast<int>(sizeof(T));

#define HINTERLAND_OF_FLOATS(name)                                   \
  HINTERLAND_FN float name(float value) { return ::name##f(value); } \
  HINTERLAND_FN double name(double value) { return ::name(value); }
HINTERLAND_OF_FLOATS(exp)
HINTERLAND_OF_FLOATS(exp2)
HINTERLAND_OF_FLOATS(expm1)
HINTERLAND_OF_FLOATS(log)
HINTERLAND_OF_FLOATS(log2)
HINTERLAND_OF_FLOATS(log10)
HINTERLAND_OF_FLOATS(log1p)
HINTERLAND_OF_FLOATS(sin)
HINTERLAND_OF_FLOATS(cos)
HINTERLAND_OF_FLOATS(tan)
HINTERLAND_OF_FLOATS(asin)
HINTERLAND_OF_FLOATS(acos)
HINTERLAND_OF_FLOATS(atan)
HINTERLAND_OF_FLOATS(tanh)
HINTERLAND_OF_FLOATS(floor)
HINTERLAND_OF_FLOATS(ceil)
HINTERLAND_OF_FLOATS(trunc)
HINTERLAND_OF_FLOATS(rint)
#undef HINTERLAND_OF_FLOATS

// Where torch leaves open what becomes of a float that a whole number cannot hold, it is the nearest that it can, and NaN is 0.
// Of uint8 torch says it: of what is before the point the last eight bits. What has none gives 0.
template <class To, class From>
HINTERLAND_FN To to(From value) {
  if constexpr (kIsBool<To>) {
    return value != From{0};
  } else if constexpr (kIsFloat<From> && stdlib::is_same_v<To, uint8_t>) {
    const From whole = trunc(value);
    const From last = whole - 256 * floor(whole / 256);  // all exact
    return last == last ? static_cast<uint8_t>(last) : uint8_t{0};
  } else if constexpr (kIsFloat<From> && !kIsFloat<To>) {
    using Limits = stdlib::numeric_limits<To>;
    // 2^bits, the first number that is too large, is a float, which the greatest whole number need not be.
    constexpr From kEnd = static_cast<From>(Limits::max() / 2 + 1) * 2;
    if (value >= kEnd) return Limits::max();
    if (value <= static_cast<From>(Limits::min())) return Limits::min();
    return value == value ? static_cast<To>(value) : To{0};
  } else {
    return static_cast<To>(value);
  }
}

#if HINTERLAND_ON_GPU
HINTERLAND_FN float sum_of(float a, float b) { return __fadd_rn(a, b); }
HINTERLAND_FN double sum_of(double a, double b) { return __dadd_rn(a, b); }
HINTERLAND_FN float product_of(float a, float b) { return __fmul_rn(a, b); }
HINTERLAND_FN double product_of(double a, double b) { return __dmul_rn(a, b); }
HINTERLAND_FN float quotient_of(float a, float b) { return __fdiv_rn(a, b); }
HINTERLAND_FN double quotient_of(double a, double b) { return __ddiv_rn(a, b); }
HINTERLAND_FN float root_of(float a) { return __fsqrt_rn(a); }
HINTERLAND_FN double root_of(double a) { return __dsqrt_rn(a); }
#else
template <class T>
HINTERLAND_FN T sum_of(T a, T b) {
  return a + b;
}
template <class T>
HINTERLAND_FN T product_of(T a, T b) {
  return a * b;
}
template <class T>
HINTERLAND_FN T quotient_of(T a, T b) {
  return a / b;
}
template <class T>
HINTERLAND_FN T root_of(T a) {
  return stdlib::sqrt(a);
}
#endif

template <class T>
HINTERLAND_FN T add(T a, T b) {
  if constexpr (kIsFloat<T>)
    return sum_of(a, b);
  else
    return to<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
template <class T>
HINTERLAND_FN T sub(T a, T b) {
  if constexpr (kIsFloat<T>) return sum_of(a, -b);
#if HINTERLAND_ON_GPU
  // Hidden from the compiler, which makes neg.s16 of 0 - a; ptxas 13.0 takes that of -32768 for 32768 where it widens it.
  if constexpr (sizeof(T) < 4) {
    int32_t difference;
    asm("sub.s32 %0, %1, %2;" : "=r"(difference) : "r"(static_cast<int32_t>(a)), "r"(static_cast<int32_t>(b)));
    return static_cast<T>(difference);
  }
#endif
  return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
template <class T>
HINTERLAND_FN T mul(T a, T b) {
  if constexpr (kIsFloat<T>)
    return product_of(a, b);
  else
    return to<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
template <class T>
HINTERLAND_FN T div(T a, T b) {
  return quotient_of(a, b);
}
template <class T>
HINTERLAND_FN T neg(T a) {
  if constexpr (kIsFloat<T>)
    return -a;
  else
    return sub(T{0}, a);
}
template <class T>
HINTERLAND_FN T abs(T a) {
  if constexpr (kIsFloat<T>)
    return stdlib::bit_cast<T>(stdlib::bit_cast<stdlib::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>>(a) << 1 >> 1);
  else
    return a < T{0} ? neg(a) : a;
}
template <class T>
HINTERLAND_FN T square(T a) {
  return mul(a, a);
}
template <class T>
HINTERLAND_FN T sign(T a) {
  return static_cast<T>((T{0} < a) - (a < T{0}));
}

template <class T>
HINTERLAND_FN T sqrt(T a) {
  return root_of(a);
}
template <class T>
HINTERLAND_FN T reciprocal(T a) {
  return quotient_of(T{1}, a);
}
template <class T>
HINTERLAND_FN T rsqrt(T a) {
  return reciprocal(root_of(a));
}
template <class T>
HINTERLAND_FN T sigmoid(T a) {
  return reciprocal(sum_of(T{1}, exp(-a)));
}

// NaN where either is; the first of two zeros. (In two steps, which compilers turn into vectors; one condition of both they do not.)
template <class T>
HINTERLAND_FN T maximum(T a, T b) {
  const T greater = a < b ? b : a;
  return b != b ? b : greater;
}
template <class T>
HINTERLAND_FN T minimum(T a, T b) {
  const T less = b < a ? b : a;
  return b != b ? b : less;
}

// By which the least whole number cannot be divided.
template <class T>
HINTERLAND_FN bool minus_one(T a) {
  return T(-1) < T{0} && a == T(-1);
}
// What divides instead of a whole number by which one cannot, without a branch: 1, whose rest is 0, as the others' is here.
template <class T>
HINTERLAND_FN T divisor(T a) {
  return a == T{0} || minus_one(a) ? T{1} : a;
}

// Of whole numbers by zero 0, which no processor minds; torch raises on the CPU, and leaves it open on a GPU.
template <class T>
HINTERLAND_FN T fmod(T a, T b) {
  if constexpr (stdlib::is_same_v<T, float>)
    return ::fmodf(a, b);
  else if constexpr (kIsFloat<T>)
    return ::fmod(a, b);
  else
    return static_cast<T>(a % divisor(b));
}
// Of the divisor's sign.
template <class T>
HINTERLAND_FN T remainder(T a, T b) {
  const T rest = fmod(a, b);
  return rest != T{0} && (b < T{0}) != (rest < T{0}) ? add(rest, b) : rest;
}
template <class T>
HINTERLAND_FN T floor_divide(T a, T b) {
  if constexpr (kIsFloat<T>) {  // as Python does: what the rounded quotient would be wrong by is taken off before
    if (b == T{0}) return quotient_of(a, b);
    const T rest = fmod(a, b);
    T whole = quotient_of(sub(a, rest), b);
    if (rest != T{0} && (b < T{0}) != (rest < T{0})) whole = sub(whole, T{1});
    if (whole == T{0}) return product_of(quotient_of(a, b), T{0});  // of the quotient's sign
    const T down = floor(whole);
    return sub(whole, down) > T{0.5} ? add(down, T{1}) : down;
  } else {
    const T rest = fmod(a, b);
    const T down = static_cast<T>(a / divisor(b) - (rest != T{0} && (b < T{0}) != (rest < T{0})));
    return b == T{0} ? T{0} : minus_one(b) ? neg(a) : down;
  }
}
template <class T>
HINTERLAND_FN T pow(T a, T b) {
  if constexpr (stdlib::is_same_v<T, float>) {
    return ::powf(a, b);
  } else if constexpr (kIsFloat<T>) {
    return ::pow(a, b);
  } else {
    if (b < T{0}) return a == T{1} ? T{1} : a == static_cast<T>(-1) ? static_cast<T>(b % 2 == 0 ? 1 : -1) : T{0};
    T power{1};
    for (; b != T{0}; b = static_cast<T>(b >> 1), a = mul(a, a)) {
      if (b & 1) power = mul(power, a);
    }
    return power;
  }
}

template <class T>
HINTERLAND_FN T bitwise_and(T a, T b) {
  return static_cast<T>(a & b);
}
template <class T>
HINTERLAND_FN T bitwise_or(T a, T b) {
  return static_cast<T>(a | b);
}
template <class T>
HINTERLAND_FN T bitwise_xor(T a, T b) {
  return static_cast<T>(a ^ b);
}
template <class T>
HINTERLAND_FN T bitwise_not(T a) {
  if constexpr (kIsBool<T>)
    return !a;
  else
    return static_cast<T>(~a);
}
template <class T>
HINTERLAND_FN T bitwise_left_shift(T a, T b) {
  return b < T{0} || b >= T{kBits<T>} ? T{0} : static_cast<T>(static_cast<uint64_t>(a) << b);
}
// By as many bits as there are, by more and by less than none all go but the sign.
template <class T>
HINTERLAND_FN T bitwise_right_shift(T a, T b) {
  const bool all = b < T{0} || b >= T{kBits<T>};
  const T rest = static_cast<T>(a >> (all ? T{kBits<T> - 1} : b));
  return all && T(-1) > T{0} ? T{0} : rest;
}

template <class T>
HINTERLAND_FN bool eq(T a, T b) {
  return a == b;
}
template <class T>
HINTERLAND_FN bool ne(T a, T b) {
  return a != b;
}
template <class T>
HINTERLAND_FN bool lt(T a, T b) {
  return a < b;
}
template <class T>
HINTERLAND_FN bool le(T a, T b) {
  return a <= b;
}
template <class T>
HINTERLAND_FN bool gt(T a, T b) {
  return a > b;
}
template <class T>
HINTERLAND_FN bool ge(T a, T b) {
  return a >= b;
}
template <class T>
HINTERLAND_FN bool isnan(T a) {
  return a != a;
}
template <class T>
HINTERLAND_FN bool isfinite(T a) {
  return sub(a, a) == T{0};
}
template <class T>
HINTERLAND_FN bool isinf(T a) {
  return !isfinite(a) && !isnan(a);
}
template <class T>
HINTERLAND_FN T where(bool condition, T a, T b) {
  return condition ? a : b;
}

}  // namespace hinterland::kernels
