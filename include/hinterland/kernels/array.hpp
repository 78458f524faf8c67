// array<T>: elements by their numbers, in a kernel of the user's own, wherever they lie (BaM's array, Mailthody 2022, section
// 5.3.3 and listing 5.3). A pointer becomes an array in a kernel's parameters, and nothing else of the kernel changes:
//
//   __global__ void add(array<const float> a, array<const float> b, array<float> c, int64_t n) {
//     const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
//     if (i < n) c[i] = a[i] + b[i];
//   }
//
// An array may lie anywhere: in memory that the processor addresses (its own, a peer's, the host's), in the tiers of a table,
// of which the GPU has the hottest rows, or on storage, behind a cache. Any lane may read any element at any time, whatever the
// others do. In tiers elements are const. On storage array<T> may be written, by any lane at any time as well, if the host says
// so (HINTERLAND_WRITTEN); then a[i] stands for an element, and is none. Else a[i] of array<T> is an element in memory.
//
//   a.write(i, x)              what a[i] = x does
//   a.prefetch(first, count)   has these elements read, as far as there is room for them now, and waits for nothing. Every lane
//                              for its own; of memory, nothing
//   a.reader(begin, end)       for a lane that reads all of a run in order: an array_ref (array_ref.hpp) that asks for the next
//                              lines of the run before they are wanted
//
// HINTERLAND_ARRAY_KINDS says which kinds there may be, as a sum; the host knows before it compiles. Where all are near, a[i]
// is what it is of a pointer, to the instruction. Each file has a store. Where an array lies on storage, the call hears of the
// first element that is asked for and that its array, in whatever memory, does not have.
#pragma once

#include "hinterland/core/platform.hpp"
#include "hinterland/kernels/changes.hpp"

#define HINTERLAND_NEAR 1
#define HINTERLAND_TIERED 2
#define HINTERLAND_STORED 4
#define HINTERLAND_WRITTEN 8   // beside HINTERLAND_STORED: an array<T> may be on storage, too
#define HINTERLAND_SEVERAL 16  // beside HINTERLAND_STORED: in several files
#define HINTERLAND_CACHED 32   // in tiers of which one is filled with what is asked for
#if !defined(HINTERLAND_ARRAY_KINDS)
#define HINTERLAND_ARRAY_KINDS \
  (HINTERLAND_NEAR | HINTERLAND_TIERED | HINTERLAND_STORED | HINTERLAND_SEVERAL | HINTERLAND_CACHED)
#endif

#if HINTERLAND_ARRAY_KINDS & (HINTERLAND_TIERED | HINTERLAND_CACHED)
#include "hinterland/memory/requested.hpp"
#endif
#if defined(HINTERLAND_STORED_CALLS)
#include "hinterland/storage/calls.hpp"
#elif HINTERLAND_ARRAY_KINDS & HINTERLAND_STORED
#include "hinterland/storage/coalesced.hpp"
#endif

namespace hinterland::kernels {

// An array as the host describes it.
struct ArgumentWords {
  void* home;    // where its elements lie; of an array on storage, their position in what its store reads
  int64_t size;  // elements
  int32_t kind;
  int32_t number;        // of the parameter
  const void* store;     // the storage::DeviceStore of its file
  void* left_out;        // the storage::LeftOut of a call with a file
  const void* tiers;     // the memory::Tiers of an array in tiers, or its memory::RequestedRows
  int64_t row_elements;  // of a row of a table in tiers; of a line of storage
  int64_t reciprocal;    // of a row's (memory::divided_by)
};

template <class T>
class run_reader;

// An element of what may be no place in memory, as what its type is computed with. `Of` reads and writes it by its number.
template <class Of, class Value>
class Assigned : public Changes<Assigned<Of, Value>, Value> {
 public:
  HINTERLAND_FN Assigned(Of& of, int64_t at) : of_(of), at_(at) {}
  Assigned(const Assigned&) = default;
  HINTERLAND_FN operator Value() const { return of_.read(at_); }
  HINTERLAND_FN Assigned& operator=(Value value) {
    of_.write(at_, value);
    return *this;
  }
  HINTERLAND_FN Assigned& operator=(const Assigned& other) { return *this = static_cast<Value>(other); }

 private:
  Of& of_;
  int64_t at_;
};

template <class T>
class array {
  using Element = stdlib::remove_const_t<T>;
  static constexpr bool kIsConst = !stdlib::is_same_v<T, Element>;
  // Whether a[i] is a place in memory, wherever it lies.
  static constexpr bool kIsPlace =
      kIsConst ? HINTERLAND_ARRAY_KINDS == HINTERLAND_NEAR : (HINTERLAND_ARRAY_KINDS & HINTERLAND_WRITTEN) == 0;

 public:
  HINTERLAND_FN array(T* elements, int64_t size)
      : words_{const_cast<Element*>(elements), size, HINTERLAND_NEAR, 0, nullptr, nullptr, nullptr, 0, 0} {}

  HINTERLAND_FN int64_t size() const { return words_.size; }
  HINTERLAND_FN const ArgumentWords& words() const { return words_; }
  HINTERLAND_FN bool has(int64_t at) const { return static_cast<uint64_t>(at) < static_cast<uint64_t>(words_.size); }

  HINTERLAND_FN decltype(auto) operator[](int64_t at) const {
    if constexpr (kIsPlace)
      return *place(at);
    else if constexpr (kIsConst)
      return read(at);
    else
      return Assigned<const array, Computed<Element>>(*this, at);
  }
  HINTERLAND_FN decltype(auto) operator*() const { return (*this)[0]; }

  HINTERLAND_FN Element read(int64_t at) const {
#if HINTERLAND_ARRAY_KINDS & HINTERLAND_STORED
    if (is_beside(at)) [[unlikely]] {
      Lines::leave_out(words_.left_out, words_.number, at, storage::Beside::kRead);
      return Element{};
    }
    if (words_.kind == HINTERLAND_STORED) return of_bits(lines().access(position(at), 0, sizeof(T), false));
#endif
#if HINTERLAND_ARRAY_KINDS & HINTERLAND_TIERED
    if (words_.kind == HINTERLAND_TIERED) return read_row<memory::Tiers>(at);
#endif
#if HINTERLAND_ARRAY_KINDS & HINTERLAND_CACHED
    if (words_.kind == HINTERLAND_CACHED) return read_row<memory::RequestedRows>(at);
#endif
    return static_cast<const Element*>(words_.home)[at];
  }

  HINTERLAND_FN void write(int64_t at, Element value) const {
    static_assert(!kIsConst, "an array of const elements is only read");
#if HINTERLAND_ARRAY_KINDS & HINTERLAND_WRITTEN
    if (is_beside(at)) [[unlikely]] {
      Lines::leave_out(words_.left_out, words_.number, at, storage::Beside::kWritten);
      return;
    }
    if (words_.kind == HINTERLAND_STORED) {
      lines().access(position(at), stdlib::bit_cast<Bits>(value), sizeof(T), true);
      return;
    }
#endif
    *place(at) = value;
  }

  HINTERLAND_FN void prefetch([[maybe_unused]] int64_t first, [[maybe_unused]] int64_t count) const {
#if HINTERLAND_ARRAY_KINDS & HINTERLAND_STORED
    const int64_t begin = max_of(first, int64_t{0}), end = first + min_of(count, words_.size - first);
    if (words_.kind == HINTERLAND_STORED) lines().prefetch(position(begin), begin < end ? position(end) : position(begin));
#endif
  }

  HINTERLAND_FN run_reader<T> reader(int64_t begin, int64_t end) const { return {*this, begin, end}; }

 private:
  using Bits = stdlib::conditional_t<sizeof(T) <= 2, stdlib::conditional_t<sizeof(T) == 1, uint8_t, uint16_t>,
                                     stdlib::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;

  HINTERLAND_FN T* place(int64_t at) const {
#if HINTERLAND_ARRAY_KINDS & HINTERLAND_STORED
    if (is_beside(at)) [[unlikely]]
      return static_cast<T*>(Lines::leave_out(words_.left_out, words_.number, at, storage::Beside::kEither));
#endif
    return static_cast<T*>(words_.home) + at;
  }

#if HINTERLAND_ARRAY_KINDS & (HINTERLAND_TIERED | HINTERLAND_CACHED)
  template <class Rows>
  HINTERLAND_FN Element read_row(int64_t at) const {
    const int64_t row = words_.row_elements == 1 ? at : memory::divided_by(words_.reciprocal, at);
    const memory::Spot spot = spot_of(*static_cast<const Rows*>(words_.tiers), row);
    return reinterpret_cast<const Element*>(spot.memory)[spot.row * words_.row_elements + at - row * words_.row_elements];
  }

  HINTERLAND_FN static memory::Spot spot_of(const memory::Tiers& tiers, int64_t row) {
    int64_t place[] = {row};
    tiers.locate(place);
    return tiers.spot(place[0]);
  }
  HINTERLAND_FN static memory::Spot spot_of(const memory::RequestedRows& rows, int64_t row) { return rows.spot(row); }
#endif

#if HINTERLAND_ARRAY_KINDS & HINTERLAND_STORED
#if defined(HINTERLAND_STORED_CALLS)
  using Lines = storage::LibraryLines;
#else
  using Lines = storage::DeviceLines<(HINTERLAND_ARRAY_KINDS & HINTERLAND_SEVERAL) != 0>;
#endif
  HINTERLAND_FN Lines lines() const { return {words_.store}; }
  // In bytes.
  HINTERLAND_FN uint64_t position(int64_t at) const {
    return reinterpret_cast<uintptr_t>(words_.home) + static_cast<uint64_t>(at) * sizeof(T);
  }
  HINTERLAND_FN static Element of_bits(uint64_t bits) { return stdlib::bit_cast<Element>(static_cast<Bits>(bits)); }
  // Of arrays that the kernel has made itself nobody is told.
  HINTERLAND_FN bool is_beside(int64_t at) const { return !has(at) && words_.left_out != nullptr; }
#endif

  template <class, class>
  friend class array_ref;

  ArgumentWords words_;
};

}  // namespace hinterland::kernels

#include "hinterland/kernels/array_ref.hpp"
