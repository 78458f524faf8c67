// The rows that a part of a graph reads (MGG, section 4.3): its own, and those of others, which lie in a buffer of its own once
// they were fetched (a halo), or where they are, in the memory of their owners.
//
// A part's entries name a row by its place. Places below `own_rows` are the part's own rows; what the others mean, only a
// source knows. Rows are read in vectors of up to 16 bytes, widened to the type that is computed in.
#pragma once

#include "hinterland/core/floats.hpp"
#include "hinterland/core/platform.hpp"
#include "hinterland/memory/table.hpp"

namespace hinterland::fullgraph {

// Sums of 32-bit and shorter elements are made in float32, those of float64 in float64.
template <class T>
using Real = stdlib::conditional_t<stdlib::is_same_v<T, double>, double, float>;

template <class T, int kWide>
struct Vector {
  T at[kWide];
};

// Loads and stores take at most 16 bytes each; rows of a vector begin at a multiple of its size, or of that.
template <class T, int kWide>
inline constexpr int kEach = kWide * static_cast<int>(sizeof(T)) < 16 ? kWide : 16 / static_cast<int>(sizeof(T));

template <class T, int kWide>
HINTERLAND_FN Vector<T, kWide> load_vector(const T* from) {
  constexpr int kPart = kEach<T, kWide>;
  using Unit = memory::UnitOf<kPart * sizeof(T)>;
  Vector<T, kWide> found;
  for (int first = 0; first < kWide; first += kPart) {
    const auto part = stdlib::bit_cast<Vector<T, kPart>>(*reinterpret_cast<const Unit*>(from + first));
    for (int i = 0; i < kPart; ++i) found.at[first + i] = part.at[i];
  }
  return found;
}

template <class T, int kWide>
HINTERLAND_FN void store_vector(T* to, const Vector<T, kWide>& value) {
  constexpr int kPart = kEach<T, kWide>;
  using Unit = memory::UnitOf<kPart * sizeof(T)>;
  for (int first = 0; first < kWide; first += kPart) {
    Vector<T, kPart> part;
    for (int i = 0; i < kPart; ++i) part.at[i] = value.at[first + i];
    *reinterpret_cast<Unit*>(to + first) = stdlib::bit_cast<Unit>(part);
  }
}

// Has a CPU fetch what lies there before it is read.
HINTERLAND_WITHIN void prefetch_bytes(const void* from, int64_t nbytes) {
  const auto begin = reinterpret_cast<uintptr_t>(from);
  for (auto line = begin / kCpuLineBytes * kCpuLineBytes; line < begin + nbytes; line += kCpuLineBytes)
    prefetch(reinterpret_cast<const void*>(line));
}

// Rows of one length, one after another: `stride` bytes from one to the next.
struct RowArray {
  const char* base;
  int64_t stride;

  template <class T>
  HINTERLAND_FN const T* row(int64_t number) const {
    return reinterpret_cast<const T*>(base + number * stride);
  }
};

// What a kernel is told of where rows lie.
struct RowWords {
  RowArray own;               // places [0, own_rows)
  RowArray halo;              // places from own_rows on
  int64_t own_rows;           //
  const char* const* owners;  // OwnersRows: where each part's rows begin, for this processor
  int64_t reader;             // OwnersRows: which part this processor's is
  int64_t row_bits;           // OwnersRows: of a place
};

// Where the row of an entry lies. Place: uint32_t, int64_t, or void where it is the entry's number; AnyPlace: as place_bytes
// says, none of which is void.
struct AnyPlace {};

template <class Place>
HINTERLAND_FN int64_t place_of(const void* places, [[maybe_unused]] int64_t place_bytes, int64_t entry) {
  if constexpr (stdlib::is_same_v<Place, AnyPlace>) {
    if (place_bytes == 0) return entry;
    return place_bytes == 4 ? static_cast<const uint32_t*>(places)[entry] : static_cast<const int64_t*>(places)[entry];
  } else if constexpr (stdlib::is_same_v<Place, void>) {
    return entry;
  } else {
    return static_cast<int64_t>(static_cast<const Place*>(places)[entry]);
  }
}

// Own rows, and fetched ones behind them.
struct HaloRows {
  RowArray own, halo;
  int64_t own_rows;

  HINTERLAND_FN explicit HaloRows(const RowWords& words) : own(words.own), halo(words.halo), own_rows(words.own_rows) {}

  template <class T>
  HINTERLAND_FN const T* row(int64_t place) const {
    return place < own_rows ? own.row<T>(place) : halo.row<T>(place - own_rows);
  }
  HINTERLAND_FN static int64_t own_place(int64_t row) { return row; }
};

// Rows where their owners have them, the caller's own among them. A place is the owner's number, and below it kRowBits bits
// that are its row's: of 32-bit places 28, so that there are up to 16 owners; of 64-bit ones 48.
inline constexpr int kRowBits32 = 28, kRowBits64 = 48;

template <int kRowBits>
struct OwnersRows {
  const char* const* owners;
  int64_t stride, reader;

  HINTERLAND_FN explicit OwnersRows(const RowWords& words)
      : owners(words.owners), stride(words.own.stride), reader(words.reader) {}

  template <class T>
  HINTERLAND_FN const T* row(int64_t place) const {
    constexpr int64_t kRow = (int64_t{1} << kRowBits) - 1;
    return reinterpret_cast<const T*>(owners[place >> kRowBits] + (place & kRow) * stride);
  }
  HINTERLAND_FN int64_t own_place(int64_t row) const { return reader << kRowBits | row; }
};

// Any of the above, as the words say: where code is to be short, not fast.
struct AnyRows {
  const RowWords& words;

  HINTERLAND_FN explicit AnyRows(const RowWords& given) : words(given) {}

  template <class T>
  HINTERLAND_FN const T* row(int64_t place) const {
    if (words.owners == nullptr) return HaloRows(words).row<T>(place);
    return words.row_bits == kRowBits32 ? OwnersRows<kRowBits32>(words).row<T>(place)
                                        : OwnersRows<kRowBits64>(words).row<T>(place);
  }
  HINTERLAND_FN int64_t own_place(int64_t row) const {
    return words.owners == nullptr ? row : words.reader << words.row_bits | row;
  }
};

}  // namespace hinterland::fullgraph
