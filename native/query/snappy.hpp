// Snappy's raw format (google/snappy, format_description.txt): literals, and copies of what was written before.
#pragma once

#include <cstdint>

namespace hinterland::native {

inline constexpr int64_t kSnappyRoom = 64;  // bytes beyond what is decompressed that may be written
inline constexpr int64_t kSnappyMost = 22;  // no byte becomes more: a copy of 64 bytes takes three

// Decompresses to `full` bytes, with room behind them. Returns whether there were as many.
bool snappy_decompress(const uint8_t* from, int64_t size, uint8_t* to, int64_t full);

}  // namespace hinterland::native
