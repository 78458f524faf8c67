// Sources: what kernels read large arrays through, wherever these lie (DESIGN: "a kernel never knows where a row lives"). A
// source is a small value with four calls, and no address among them:
//
//   read(at, to, meter)   elements at[k] to to[k], for all k at once: all are asked for, and then waited for once. kNowhere
// asks for
//                         nothing, and gives zero. All lanes of a warp call it together.
//   read_alone(at)        one element, for a lane that the others do not wait for.
//   span(begin, end)      how a warp reads a run of elements: from the cache line on that holds the first, so that each of its
//                         requests begins on a line (merged and aligned access, Min 2022, listing 2.2).
//
//   reader(begin, end)    what one lane reads a run by, in order, with read_alone(at): the source itself, or something that
// copies
//                         several elements at once. The lane makes it, and has no other use of it.
//
// and for whoever has the meter count in another order than it reads, because lines are read again and again, or a lane reads a
// whole run: count_reads(at, meter), which counts what read() would, and count_run(begin, end, meter). prefetch() asks a CPU
// for what will be read soon; a source need not have it.
//
// A family of sources says which one an array gets: ByAddress is the one whose arrays a processor can load from. Another family
// (lines that come from storage, say) is another argument of the templates that read graphs. It makes a source of an address
// and a number of elements, and one of a large array of its words.
#pragma once

#include "hinterland/core/platform.hpp"
#include "hinterland/core/thresholds.hpp"
#include "hinterland/core/warp.hpp"
#include "hinterland/memory/meter.hpp"

namespace hinterland::memory {

inline constexpr int64_t kNowhere = -1;
inline constexpr int64_t kProcessorLine = 64;  // bytes that a CPU reads at once

// A run of elements up to `end`, of which a warp takes chunks of one for each lane.
struct Span {
  int64_t first, end;  // the first chunk begins at `first`, less than a chunk before the run

  HINTERLAND_FN int64_t chunks() const { return ceil_div<int64_t>(end - first, Warp::kWidth); }
};

// A large array as Python describes it (src/hinterland/graph/device_graph.py). What a new tier has to know of it is a word more
// here.
struct ArrayWords {
  const void* home;      // null where the array is not there
  const void* kept;      // the pages of it that the GPU keeps, one after another; null where none is
  const int32_t* slots;  // which of them each page is, or -1
  void* store;           // of an array on storage (storage/source.hpp), and `home` is its position there; else null
  int64_t bytes = 0;     // of an element as it is stored, for who reads several widths by one instance; else of no account
};

// An array in any memory that this processor can load from: its own, a peer GPU's, or mapped host memory.
template <class T>
struct Pointer {
  using Element = T;

  const T* base;

  HINTERLAND_FN explicit Pointer(const void* base, int64_t /*count*/ = 0) : base(static_cast<const T*>(base)) {}

  HINTERLAND_FN T read_alone(int64_t at) const { return base[at]; }
  HINTERLAND_FN Pointer reader(int64_t /*begin*/, int64_t /*end*/) const { return *this; }
#if !HINTERLAND_ON_GPU
  void prefetch(int64_t at) const { __builtin_prefetch(base + at); }
#endif

  template <int kCount>
  HINTERLAND_FN void read(const int64_t (&at)[kCount], T (&to)[kCount]) const {
    for (int k = 0; k < kCount; ++k) to[k] = at[k] == kNowhere ? T{} : base[at[k]];
  }
};

inline constexpr int64_t kPageElements = int64_t{1} << kPageShift;

// An array of which the GPU keeps some pages: those that have a slot.
template <class T>
struct Paged {
  using Element = T;

  const T* home;
  const T* kept;
  const int32_t* slots;

  HINTERLAND_FN Paged(const ArrayWords& words, int64_t /*count*/)
      : home(static_cast<const T*>(words.home)), kept(static_cast<const T*>(words.kept)), slots(words.slots) {}

  HINTERLAND_FN T read_alone(int64_t at) const {
    if (Warp::kWidth > 1 && slots != nullptr) {  // what a CPU reads lies nowhere nearer
      const int64_t slot = slots[at >> kPageShift];
      if (slot >= 0) return kept[slot << kPageShift | (at & (kPageElements - 1))];
    }
    return home[at];
  }
#if !HINTERLAND_ON_GPU
  void prefetch(int64_t begin, int64_t end) const {
    for (int64_t at = begin; at < end; at += kProcessorLine / static_cast<int64_t>(sizeof(T))) __builtin_prefetch(home + at);
  }
#endif

  template <class Meter>
  HINTERLAND_FN T read_alone(int64_t at, Meter& meter) const {
    const int64_t all[] = {at};
    count_reads(all, meter);
    return read_alone(at);
  }

  HINTERLAND_FN Paged reader(int64_t /*begin*/, int64_t /*end*/) const { return *this; }

  template <int kCount, class Meter>
  HINTERLAND_FN void read(const int64_t (&at)[kCount], T (&to)[kCount], Meter& meter) const {
    for (int k = 0; k < kCount; ++k) to[k] = at[k] == kNowhere ? T{} : read_alone(at[k]);
    count_reads(at, meter);
  }

  template <int kCount, class Meter>
  HINTERLAND_FN void count_reads(const int64_t (&at)[kCount], Meter& meter) const {
    if constexpr (Meter::kCounts)
      for (int k = 0; k < kCount; ++k)
        meter.count(at[k] == kNowhere ? nullptr : home + at[k], at[k] != kNowhere && is_kept(at[k]));
  }

  template <class Meter>
  HINTERLAND_FN void count_run(int64_t begin, int64_t end, Meter& meter) const {
    if constexpr (Meter::kCounts)
      for (int64_t from = begin, to; from < end; from = to) {
        to = slots == nullptr ? end : min_of(end, ((from >> kPageShift) + 1) << kPageShift);
        meter.count_run(home + from, home + to, to - from, is_kept(from));
      }
  }

  HINTERLAND_FN Span span(int64_t begin, int64_t end) const {
    if constexpr (Warp::kWidth == 1) return {begin, end};
    const auto past_line = reinterpret_cast<uintptr_t>(home + begin) % kLineBytes / sizeof(T);
    return {begin - static_cast<int64_t>(past_line), end};
  }

 private:
  HINTERLAND_FN bool is_kept(int64_t at) const { return slots != nullptr && slots[at >> kPageShift] >= 0; }
};

// Arrays that a processor can load from. A large one may have pages that are kept.
template <class MeterType>
struct ByAddress {
  using Meter = MeterType;
  template <class T>
  using Whole = Pointer<T>;
  template <class T>
  using Large = Paged<T>;
};

using Unmetered = ByAddress<NoMeter>;
using Metered = ByAddress<Meter>;

}  // namespace hinterland::memory
