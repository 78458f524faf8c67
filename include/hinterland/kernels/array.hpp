// array<T>: elements by their numbers, in a kernel of the user's own, wherever they lie (BaM's array, Mailthody 2022, section 5.3.3
// and listing 5.3). A pointer becomes an array in a kernel's parameters, and nothing else of the kernel changes:
//
//   __global__ void add(array<const float> a, array<const float> b, array<float> c, int64_t n) {
//     const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
//     if (i < n) c[i] = a[i] + b[i];
//   }
//
// An array whose elements are const may lie anywhere: in memory that the processor addresses (its own, a peer's, the host's), in
// the tiers of a table, of which the GPU has the hottest rows, or on storage, behind a cache. Any lane may read any element at any
// time, whatever the others do. One whose elements are not const is memory that the processor addresses, and a[i] an element of it.
//
// HINTERLAND_ARRAY_KINDS says which kinds there may be, as a sum; the host knows before it compiles. Where all are near, a[i] is
// what it is of a pointer, to the instruction.
#pragma once

#include "hinterland/core/platform.hpp"

#define HINTERLAND_NEAR 1
#define HINTERLAND_TIERED 2
#define HINTERLAND_STORED 4
#if !defined(HINTERLAND_ARRAY_KINDS)
#define HINTERLAND_ARRAY_KINDS (HINTERLAND_NEAR | HINTERLAND_TIERED | HINTERLAND_STORED)
#endif

#if HINTERLAND_ARRAY_KINDS & HINTERLAND_TIERED
#include "hinterland/memory/placement.hpp"
#endif
#if HINTERLAND_ARRAY_KINDS & HINTERLAND_STORED
#include "hinterland/storage/page_store.hpp"
#include "hinterland/storage/source.hpp"
#endif

namespace hinterland::kernels {

// An array as the host describes it.
struct ArrayWords {
  void* home;    // where its elements lie; of an array on storage, their position in what its store reads
  int64_t size;  // elements
  int64_t kind;
  const void* finds;     // of tiers, the memory::Tiers; of storage, the storage::DeviceStore
  int64_t row_elements;  // of a row of a table in tiers
  int64_t reciprocal;    // of that: 2^63 / row_elements + 1, rounded down, for two or more
};

template <class T>
class array {
  using Element = stdlib::remove_const_t<T>;
  static constexpr bool kIsConst = !stdlib::is_same_v<T, Element>;

 public:
  HINTERLAND_FN array(T* elements, int64_t size)
      : words_{const_cast<Element*>(elements), size, HINTERLAND_NEAR, nullptr, 0, 0} {}

  HINTERLAND_FN int64_t size() const { return words_.size; }

  HINTERLAND_FN decltype(auto) operator[](int64_t at) const {
    if constexpr (!kIsConst || HINTERLAND_ARRAY_KINDS == HINTERLAND_NEAR)
      return static_cast<T*>(words_.home)[at];
    else
      return read(at);
  }

 private:
  HINTERLAND_FN Element read(int64_t at) const {
#if HINTERLAND_ARRAY_KINDS & HINTERLAND_STORED
    if (words_.kind == HINTERLAND_STORED) return read_stored(words_, at);
#endif
#if HINTERLAND_ARRAY_KINDS & HINTERLAND_TIERED
    if (words_.kind == HINTERLAND_TIERED) return read_tiered(at);
#endif
    return static_cast<const Element*>(words_.home)[at];
  }

#if HINTERLAND_ARRAY_KINDS & HINTERLAND_TIERED
  HINTERLAND_FN Element read_tiered(int64_t at) const {
    const auto& tiers = *static_cast<const memory::Tiers*>(words_.finds);
    // at / row_elements by a multiplication, as DealtRound divides (memory/placement.hpp).
    const int64_t row = words_.row_elements == 1
                            ? at
                            : static_cast<int64_t>(Philox::multiply_high(static_cast<uint64_t>(at) * 2,
                                                                         static_cast<uint64_t>(words_.reciprocal)));
    int64_t place[] = {row};
    tiers.locate(place);
    const memory::Spot spot = tiers.spot(place[0]);
    return reinterpret_cast<const Element*>(spot.memory)[spot.row * words_.row_elements + at - row * words_.row_elements];
  }
#endif

#if HINTERLAND_ARRAY_KINDS & HINTERLAND_STORED
  // Apart: what it keeps would push out of registers what the kernel keeps.
  HINTERLAND_APART static Element read_stored(ArrayWords words, int64_t at) {
    using Store = storage::DeviceStore;
    const memory::ArrayWords where{words.home, nullptr, nullptr, nullptr};
    return storage::Stored<Element, Store>(storage::Positions<Element>(where), *static_cast<const Store*>(words.finds))
        .read_alone(at);
  }
#endif

  ArrayWords words_;
};

}  // namespace hinterland::kernels
