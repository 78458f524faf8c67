// How many random cases the programs of tests try of each kind: all in `make nightly`, a quarter of them for every change.
#pragma once

#include <cstdlib>
#include <string_view>

namespace test {

inline bool is_nightly() {
  const char* const examples = std::getenv("HINTERLAND_EXAMPLES");
  return examples != nullptr && examples == std::string_view("nightly");
}

inline unsigned rounds(unsigned all) { return is_nightly() ? all : (all + 3) / 4; }

// Of what takes half a minute under ThreadSanitizer: there an eighth.
inline unsigned long_rounds(unsigned all) {
#if defined(__SANITIZE_THREAD__)
  return is_nightly() ? all : (all + 7) / 8;
#else
  return rounds(all);
#endif
}

}  // namespace test
