#include "query/snappy.hpp"

#include <cstring>

#include "query/varint.hpp"

namespace hinterland::native {

namespace {

// A whole number of so many bytes.
uint32_t number_at(const uint8_t* from, int64_t bytes) {
  uint32_t number = 0;
  std::memcpy(&number, from, static_cast<size_t>(bytes));
  return number;
}

void copy_eight(uint8_t* to, const uint8_t* from) {
  uint64_t eight;
  std::memcpy(&eight, from, 8);
  std::memcpy(to, &eight, 8);
}

// Repeats the `back` bytes before `to`, and may write kSnappyRoom beyond.
void copy_back(uint8_t* to, int64_t back, int64_t count) {
  const uint8_t* const from = to - back;
  if (back >= 16) {
    for (int64_t i = 0; i < count; i += 16) std::memcpy(to + i, from + i, 16);
    return;
  }
  while (back < 8 && count > 0) {  // of eight bytes as many are right as lie between; then twice as many do
    copy_eight(to, from);
    to += back, count -= back, back *= 2;
  }
  for (int64_t i = 0; i < count; i += 8) copy_eight(to + i, to + i - back);
}

}  // namespace

bool snappy_decompress(const uint8_t* from, int64_t size, uint8_t* to, int64_t full) {
  const uint8_t *const end = from + size, *const begin = to, *const to_end = to + full;
  uint64_t length;
  if (!read_varint(from, end, 5, length) || length != static_cast<uint64_t>(full)) return false;
  while (from < end) {
    const int tag = *from++, kind = tag & 3;
    int64_t count = (tag >> 2) + 1;
    if (kind == 0) {
      const int64_t bytes = count > 60 ? count - 60 : 0;
      if (bytes > end - from) return false;
      if (bytes > 0) count = int64_t{number_at(from, bytes)} + 1;
      from += bytes;
      if (count > end - from || count > to_end - to) return false;
      if (count <= 16 && end - from >= 16) {
        std::memcpy(to, from, 16);
      } else {
        std::memcpy(to, from, static_cast<size_t>(count));
      }
      from += count;
    } else {
      const int64_t bytes = kind == 3 ? 4 : kind;
      if (bytes > end - from) return false;
      int64_t back = number_at(from, bytes);
      if (kind == 1) back |= (tag >> 5) << 8, count = 4 + (tag >> 2 & 7);
      from += bytes;
      if (back == 0 || back > to - begin || count > to_end - to) return false;
      copy_back(to, back, count);
    }
    to += count;
  }
  return to == to_end;
}

}  // namespace hinterland::native
