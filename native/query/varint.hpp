// Whole numbers in groups of seven bits, the lowest first: as Thrift has them.
#pragma once

#include <cstdint>

namespace hinterland::native {

// The number at `at`, which goes past it, of at most so many bytes. False: it ends nowhere.
inline bool read_varint(const uint8_t*& at, const uint8_t* end, int most_bytes, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 7 * most_bytes && at != end; shift += 7) {
    const uint8_t byte = *at++;
    value |= static_cast<uint64_t>(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

}  // namespace hinterland::native
