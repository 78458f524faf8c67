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
//   a.reader(begin, end)       for a lane that reads all of a run in order: reader[i] copies a few elements at once, and asks
// for the
//                              next lines of the run before they are wanted (BaM's array_ref)
//
// HINTERLAND_ARRAY_KINDS says which kinds there may be, as a sum; the host knows before it compiles. Where all are near, a[i]
// is what it is of a pointer, to the instruction. Of all arrays on storage that a kernel takes the store is one.
#pragma once

#include "hinterland/core/platform.hpp"
#include "hinterland/kernels/changes.hpp"

#define HINTERLAND_NEAR 1
#define HINTERLAND_TIERED 2
#define HINTERLAND_STORED 4
#define HINTERLAND_WRITTEN 8   // beside HINTERLAND_STORED: an array<T> may be on storage, too
#define HINTERLAND_SEVERAL 16  // beside HINTERLAND_STORED: in several files
#if !defined(HINTERLAND_ARRAY_KINDS)
#define HINTERLAND_ARRAY_KINDS (HINTERLAND_NEAR | HINTERLAND_TIERED | HINTERLAND_STORED | HINTERLAND_SEVERAL)
#endif

#if HINTERLAND_ARRAY_KINDS & HINTERLAND_TIERED
#include "hinterland/memory/placement.hpp"
#endif
#if HINTERLAND_ARRAY_KINDS & HINTERLAND_STORED
#include "hinterland/storage/coalesced.hpp"
#include "hinterland/storage/page_store.hpp"
#endif

namespace hinterland::kernels {

// An array as the host describes it.
struct ArgumentWords {
  void* home;    // where its elements lie; of an array on storage, their position in what its store reads
  int64_t size;  // elements
  int64_t kind;
  const void* finds;     // of tiers, the memory::Tiers; of storage, the storage::DeviceStore
  int64_t row_elements;  // of a row of a table in tiers
  int64_t reciprocal;    // of that (memory::divided_by)
};

template <class T>
class array {
  using Element = stdlib::remove_const_t<T>;
  static constexpr bool kIsConst = !stdlib::is_same_v<T, Element>;
  // Whether a[i] is a place in memory, wherever it lies.
  static constexpr bool kIsPlace =
      kIsConst ? HINTERLAND_ARRAY_KINDS == HINTERLAND_NEAR : (HINTERLAND_ARRAY_KINDS & HINTERLAND_WRITTEN) == 0;

 public:
  // An element of an array that may lie on storage, as what its type is computed with.
  class Reference : public Changes<Reference, Computed<Element>> {
   public:
    HINTERLAND_FN Reference(const array& of, int64_t at) : of_(of), at_(at) {}
    Reference(const Reference&) = default;
    HINTERLAND_FN operator Computed<Element>() const { return of_.read(at_); }
    HINTERLAND_FN Reference& operator=(Computed<Element> value) {
      of_.write(at_, value);
      return *this;
    }
    HINTERLAND_FN Reference& operator=(const Reference& other) { return *this = static_cast<Computed<Element>>(other); }

   private:
    const array& of_;
    int64_t at_;
  };
  class Reader;

  HINTERLAND_FN array(T* elements, int64_t size)
      : words_{const_cast<Element*>(elements), size, HINTERLAND_NEAR, nullptr, 0, 0} {}

  HINTERLAND_FN int64_t size() const { return words_.size; }

  HINTERLAND_FN decltype(auto) operator[](int64_t at) const {
    if constexpr (kIsPlace)
      return static_cast<T*>(words_.home)[at];
    else if constexpr (kIsConst)
      return read(at);
    else
      return Reference(*this, at);
  }

  HINTERLAND_FN void write(int64_t at, Element value) const {
    static_assert(!kIsConst, "an array of const elements is only read");
#if HINTERLAND_ARRAY_KINDS & HINTERLAND_WRITTEN
    if (words_.kind == HINTERLAND_STORED) return write_stored(words_, at, value);
#endif
    static_cast<Element*>(words_.home)[at] = value;
  }

  HINTERLAND_FN void prefetch([[maybe_unused]] int64_t first, [[maybe_unused]] int64_t count) const {
#if HINTERLAND_ARRAY_KINDS & HINTERLAND_STORED
    if (words_.kind == HINTERLAND_STORED)
      prefetch_stored(words_, max_of(first, int64_t{0}), first + min_of(count, words_.size - first));
#endif
  }

  HINTERLAND_FN Reader reader(int64_t begin, int64_t end) const { return {*this, begin, end}; }

 private:
  HINTERLAND_FN Element read(int64_t at) const {
#if HINTERLAND_ARRAY_KINDS & HINTERLAND_STORED
    if (words_.kind == HINTERLAND_STORED) {
      if (has(words_, at)) [[likely]]
        return read_stored(words_, at);
      return read_beside(words_, at);
    }
#endif
#if HINTERLAND_ARRAY_KINDS & HINTERLAND_TIERED
    if (words_.kind == HINTERLAND_TIERED) return read_tiered(at);
#endif
    return static_cast<const Element*>(words_.home)[at];
  }

#if HINTERLAND_ARRAY_KINDS & HINTERLAND_TIERED
  HINTERLAND_FN Element read_tiered(int64_t at) const {
    const auto& tiers = *static_cast<const memory::Tiers*>(words_.finds);
    const int64_t row = words_.row_elements == 1 ? at : memory::divided_by(words_.reciprocal, at);
    int64_t place[] = {row};
    tiers.locate(place);
    const memory::Spot spot = tiers.spot(place[0]);
    return reinterpret_cast<const Element*>(spot.memory)[spot.row * words_.row_elements + at - row * words_.row_elements];
  }
#endif

#if HINTERLAND_ARRAY_KINDS & HINTERLAND_STORED
  using Store = storage::DeviceStore;

  HINTERLAND_FN static storage::Positions<Element> positions(const ArgumentWords& words) {
    return storage::Positions<Element>({words.home, nullptr, nullptr, nullptr});
  }
  using Stored = storage::Coalesced<Element, Store, (HINTERLAND_ARRAY_KINDS & HINTERLAND_SEVERAL) != 0>;
  HINTERLAND_FN static Stored stored(const ArgumentWords& words) {
    return {positions(words), *static_cast<const Store*>(words.finds)};
  }

  // Apart: what they keep would push out of registers what the kernel keeps.
  HINTERLAND_APART static Element read_stored(ArgumentWords words, int64_t at) { return stored(words).read(at); }
  // What lies beside an array is read from there, by the number 0: its own might say that nothing is asked for (kNowhere).
  HINTERLAND_APART static Element read_beside(ArgumentWords words, int64_t at) {
    words.home = reinterpret_cast<void*>(positions(words).position(storage::within_reach(at)));
    return stored(words).read(0);
  }
  HINTERLAND_FN static bool has(const ArgumentWords& words, int64_t at) {
    return static_cast<uint64_t>(at) < static_cast<uint64_t>(words.size);
  }
  HINTERLAND_APART static void prefetch_stored(ArgumentWords words, int64_t begin, int64_t end) {
    stored(words).prefetch(begin, end);
  }
#endif

#if HINTERLAND_ARRAY_KINDS & HINTERLAND_WRITTEN
  // What lies beside the array is not its kernel's, and nobody would see that it was overwritten.
  HINTERLAND_APART static void write_stored(ArgumentWords words, int64_t at, Element value) {
    const auto array = stored(words);
    if (has(words, at))
      array.write(at, value);
    else
      array.leave_out(at);
  }
#endif

  ArgumentWords words_;
};

template <class T>
class array<T>::Reader {
 public:
  HINTERLAND_FN Reader(const array& of, [[maybe_unused]] int64_t begin, [[maybe_unused]] int64_t end)
      : of_(of)
#if HINTERLAND_ARRAY_KINDS & HINTERLAND_STORED
        ,
        run_(positions(of.words_), static_cast<const Store*>(of.words_.finds), storage::within_reach(begin),
             storage::within_reach(end))
#endif
  {
#if HINTERLAND_ARRAY_KINDS & HINTERLAND_STORED
    const int64_t wanted = min_of(end, of.size()) - max_of(begin, int64_t{0});
    if (of_.words_.kind == HINTERLAND_STORED && wanted > 0)
      static_cast<const Store*>(of_.words_.finds)->template count_asked<Element>(static_cast<uint64_t>(wanted), 0);
#endif
  }

  HINTERLAND_FN Element operator[](int64_t at) {
#if HINTERLAND_ARRAY_KINDS & HINTERLAND_STORED
    if (of_.words_.kind == HINTERLAND_STORED) return run_.read_alone(at);
#endif
    return of_.read(at);
  }

 private:
  array of_;
#if HINTERLAND_ARRAY_KINDS & HINTERLAND_STORED
  storage::RunReader<Element, Store> run_;
#endif
};

}  // namespace hinterland::kernels
