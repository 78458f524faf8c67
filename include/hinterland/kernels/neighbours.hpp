// Elements of an array that lie next to each other. Where they lie in memory a thread of a GPU moves four of them by one load or
// store, of up to 16 bytes, so that a warp has four times as much under way.
#pragma once

#include "hinterland/kernels/array.hpp"

namespace hinterland::kernels {

// Neighbours that a thread has in hand at once, of what it takes one by one: of a GPU as many as its widest loads and stores move.
inline constexpr int kSome = HINTERLAND_ON_GPU ? 4 : 1;

// A number that is known when it is compiled.
template <int kCount>
struct Count {
  HINTERLAND_FN constexpr operator int() const { return kCount; }
};

template <class T, int kCount>
struct Some {
  T of[kCount];
  HINTERLAND_FN T operator[](int k) const { return of[k]; }
  HINTERLAND_FN T& operator[](int k) { return of[k]; }
};

// What of `kCount` neighbours is moved at once.
template <class T, int kCount>
struct alignas(kCount * sizeof(T) < 16 ? kCount * sizeof(T) : 16) Piece {
  static constexpr int kOf = kCount * sizeof(T) <= 16 ? kCount : static_cast<int>(16 / sizeof(T));
  T of[kOf];

  // Whether the elements from here on are moved so.
  HINTERLAND_FN static bool is_at(const T* place) {
    return place != nullptr && reinterpret_cast<uintptr_t>(place) % alignof(Piece) == 0;
  }
};

// Elements [at, at + count) of an array; those up to kCount are zeros.
template <int kCount, class T>
HINTERLAND_FN Some<T, kCount> some(const array<const T>& from, int64_t at, int count = kCount) {
  if constexpr (kCount == 1) {
    return {{from[at]}};
  } else {
    using Moved = Piece<T, kCount>;
    Some<T, kCount> got{};
    const T* const place = from.address(at);
    if (count == kCount && Moved::is_at(place)) {
      HINTERLAND_UNROLLED
      for (int k = 0; k < kCount; k += Moved::kOf) {
        const Moved piece = *reinterpret_cast<const Moved*>(place + k);
        for (int i = 0; i < Moved::kOf; ++i) got[k + i] = piece.of[i];
      }
    } else {
      HINTERLAND_UNROLLED
      for (int k = 0; k < kCount; ++k)
        if (k < count) got[k] = from[at + k];
    }
    return got;
  }
}

// The first `count` become elements from at[] on.
template <class T, int kCount>
HINTERLAND_FN void put(const array<T>& to, int64_t at, const Some<T, kCount>& values, int count) {
  using Moved = Piece<T, kCount>;
  T* const place = to.address(at);
  if (kCount > 1 && count == kCount && Moved::is_at(place)) {
    HINTERLAND_UNROLLED
    for (int k = 0; k < kCount; k += Moved::kOf) {
      Moved piece;
      for (int i = 0; i < Moved::kOf; ++i) piece.of[i] = values[k + i];
      *reinterpret_cast<Moved*>(place + k) = piece;
    }
  } else {
    HINTERLAND_UNROLLED
    for (int k = 0; k < kCount; ++k)
      if (k < count) to[at + k] = values[k];
  }
}

}  // namespace hinterland::kernels
