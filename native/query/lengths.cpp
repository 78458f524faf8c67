#include "query/lengths.hpp"

#include <cstring>

#include "query/varint.hpp"

namespace hinterland::native {

namespace {

enum : int64_t { kSnappy = 1, kGzip = 2, kLz4Raw = 7 };

int64_t of_snappy(const uint8_t* data, int64_t size) {
  uint64_t length;
  return read_varint(data, data + size, 5, length) ? static_cast<int64_t>(length) : -1;
}

int64_t of_gzip(const uint8_t* data, int64_t size) {
  constexpr int64_t kLeast = 18;  // a head and a trailer
  if (size < kLeast) return -1;
  uint32_t length;
  std::memcpy(&length, data + size - sizeof(length), sizeof(length));
  return length;
}

// Literals and a copy of what was there before, in turns; of the last there are literals alone.
int64_t of_lz4(const uint8_t* data, int64_t size) {
  const uint8_t* const end = data + size;
  int64_t length = 0;
  const auto counted = [&](int64_t count) {  // of four bits, and as many bytes as say that more follow
    if (count < 15) return count;
    while (data < end) {
      count += *data;
      if (*data++ != 255) return count;
    }
    return int64_t{-1};
  };
  while (data < end) {
    const int token = *data++;
    const int64_t literals = counted(token >> 4);
    if (literals < 0 || literals > end - data) return -1;
    data += literals;
    length += literals;
    if (data == end) return length;
    if (end - data < 2) return -1;
    data += 2;
    const int64_t copied = counted(token & 15);
    if (copied < 0) return -1;
    length += copied + 4;
  }
  return -1;
}

}  // namespace

int64_t decompressed_bytes(int64_t codec, const uint8_t* data, int64_t size) {
  switch (codec) {
    case kSnappy: return of_snappy(data, size);
    case kGzip: return of_gzip(data, size);
    case kLz4Raw: return of_lz4(data, size);
    default: return -1;
  }
}

}  // namespace hinterland::native
