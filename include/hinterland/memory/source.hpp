// Sources: what kernels read large data through (DESIGN: "a kernel never knows where a row lives"). A source is a small
// value with two calls. read(i) is one element. span(begin, end) is a run of elements that a warp reads together: its
// first() steps back to the cache line that holds `begin`, so that every request of the warp starts on a line (merged and
// aligned access, Min 2022, listing 2.2).
#pragma once

#include "hinterland/core/platform.hpp"
#include "hinterland/core/warp.hpp"

namespace hinterland::memory {

// Any address that this processor can load from: its own memory, a peer GPU's, or mapped host memory.
template <class T>
struct PointerSource {
  using value_type = T;

  const T* base;

  struct Span {
    const T* base;
    int64_t begin, end;

    // This lane's first index; lanes before `begin` idle in the first step (holds() is false for them). The next index
    // of a lane is Warp::kWidth further.
    HINTERLAND_FN int64_t first() const { return aligned_begin() + Warp::lane(); }
    HINTERLAND_FN bool holds(int64_t i) const { return i >= begin && i < end; }
    HINTERLAND_FN T operator[](int64_t i) const { return base[i]; }

    HINTERLAND_FN int64_t aligned_begin() const {
      if constexpr (Warp::kWidth == 1) {
        return begin;
      } else {
        const uintptr_t address = reinterpret_cast<uintptr_t>(base + begin);
        const int64_t past_line = static_cast<int64_t>(address % kLineBytes / sizeof(T));
        return begin - past_line;
      }
    }

    // Bytes that cross the link: whole sectors, from the one that holds `begin` to the one that holds `end - 1`.
    HINTERLAND_FN int64_t sector_bytes() const {
      if (begin >= end) return 0;
      const uintptr_t from = reinterpret_cast<uintptr_t>(base + begin) / kSectorBytes;
      const uintptr_t to = (reinterpret_cast<uintptr_t>(base + end) - 1) / kSectorBytes;
      return static_cast<int64_t>(to - from + 1) * kSectorBytes;
    }
  };

  HINTERLAND_FN T read(int64_t i) const { return base[i]; }
  HINTERLAND_FN Span span(int64_t begin, int64_t end) const { return {base, begin, end}; }
};

}  // namespace hinterland::memory
