// Texts in UTF-8.
#pragma once

#include <cstdint>

namespace hinterland::native {

// Bytes of the character at `at`; 0 where none begins there. By Unicode's table 3-7.
inline int64_t utf8_bytes(const uint8_t* at, const uint8_t* end) {
  const uint8_t first = *at++;
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const int64_t more = first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
  if (end - at < more) return 0;
  for (int64_t i = 0; i < more; ++i) {
    if (at[i] < 0x80 || at[i] > 0xbf) return 0;
  }
  if ((first == 0xe0 && at[0] < 0xa0) || (first == 0xed && at[0] > 0x9f)) return 0;  // too long, and surrogates
  if ((first == 0xf0 && at[0] < 0x90) || (first == 0xf4 && at[0] > 0x8f)) return 0;  // too long, and too large
  return 1 + more;
}

}  // namespace hinterland::native
