// Floating-point types that tables are stored in. Arithmetic is float32's: elements are widened as they are read and rounded
// (to nearest, ties to even) as they are written, in integer code that both compilers take.
#pragma once

#include "hinterland/core/platform.hpp"

namespace hinterland {

struct Float16 {
  uint16_t bits;
};

struct Bfloat16 {
  uint16_t bits;
};

// e4m3 without infinities: torch.float8_e4m3fn. It is read, and never written.
struct Float8 {
  uint8_t bits;
};

HINTERLAND_FN float float_of(uint32_t bits) { return stdlib::bit_cast<float>(bits); }
HINTERLAND_FN uint32_t bits_of(float value) { return stdlib::bit_cast<uint32_t>(value); }
HINTERLAND_FN float square_root(float value) { return stdlib::sqrt(value); }

HINTERLAND_FN float widen(float value) { return value; }
HINTERLAND_FN double widen(double value) { return value; }

HINTERLAND_FN float widen(Bfloat16 value) { return float_of(static_cast<uint32_t>(value.bits) << 16); }

// The exponent's bias differs by 120. The rest is as the next one's.
HINTERLAND_FN float widen(Float8 value) {
  const int32_t rest = (value.bits & 0x7f) << 20;
  const uint32_t nan = rest == 0x07f00000 ? 0x7fc00000u : 0u;
  return float_of((value.bits & 0x80u) << 24 | bits_of(float_of(static_cast<uint32_t>(rest)) * 0x1p120f) | nan);
}

// The exponent's bias differs by 112. A product with 2^112 mends it for subnormal numbers too.
HINTERLAND_FN float widen(Float16 value) {
  const int32_t rest = (value.bits & 0x7fff) << 13;
  const uint32_t endless = rest >= 0x0f800000 ? 0x7f800000u : 0u;  // infinity and NaN
  return float_of((value.bits & 0x8000u) << 16 | bits_of(float_of(static_cast<uint32_t>(rest)) * 0x1p112f) | endless);
}

HINTERLAND_FN void narrow(float value, float& to) { to = value; }
HINTERLAND_FN void narrow(double value, double& to) { to = value; }

HINTERLAND_FN void narrow(float value, Bfloat16& to) {
  const uint32_t bits = bits_of(value);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  to.bits = static_cast<uint16_t>(nan ? 0x7fc0u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

HINTERLAND_FN void narrow(float value, Float16& to) {
  const uint32_t sign = bits_of(value) >> 16 & 0x8000u;
  uint32_t bits = bits_of(value) & 0x7fffffffu;
  if (bits >= 0x47800000u) {  // 2^16 and up, infinity, NaN
    bits = bits > 0x7f800000u ? 0x7e00u : 0x7c00u;
  } else if (bits < 0x38800000u) {  // below 2^-14: a sum with 0.5, whose last place is this type's least number, rounds
    bits = bits_of(float_of(bits) + 0.5f) - 0x3f000000u;
  } else {
    bits = (bits + 0xfffu + (bits >> 13 & 1u) - (112u << 23)) >> 13;
  }
  to.bits = static_cast<uint16_t>(sign | bits);
}

}  // namespace hinterland
