// Ways in which threads share out the elements of an array (Mailthody 2022, sections 6.1 and 6.2), with their negative
// controls: each says which element a thread reads in which turn, and how many turns are asked for at once. All have every
// element read once, but for RandomElements, and none knows where it lies, so each can be timed over plain memory, over lines
// that are all there, and over a device.
//
//   pattern           who reads a line                                 lines that W warps ask for at a time
//   InOrder           as many warps as it has chunks of 32 elements     W * 32 / its elements (equation 6.1)
//   FarApart          the same, in four places at once                  four times that
//   PerLine, 32       one warp (listing 6.2)                            W (equation 6.2)
//   HeldLines         one warp, which holds it once (section 5.2.2)    W
//   PerLine, 16 or 8  a part of a warp (section 6.2.3)                  W * 32 / width (the example beside equation 6.3)
//   PerLine, 256      a block                                           W * 32 / width
//   SeveralLines      one warp, which reads four lines side by side     W * 4
//   Strided           warps that are `width` chunks apart               up to W (listing 6.4, of chunks in place of lists)
//   RandomElements    whoever comes to it                               W * 32 * 4
//
// Threads of a line that has fewer than four turns for them ask for the next lines with it.
#pragma once

#include "hinterland/core/philox.hpp"
#include "hinterland_papers/bam/array.hpp"

namespace hinterland::bam {

struct PatternParams {
  memory::ArrayWords array;
  int64_t elements;       // of the array
  int64_t line_elements;  // a power of two
  int64_t width;          // threads that share a line, a power of two; the stride of Strided
  int64_t reads;          // of RandomElements
  uint64_t* sum;          // of all that was read, as unsigned numbers
};

inline constexpr int kPatternThreads = 256;
inline constexpr int64_t kChunkElements = 32;  // what the lanes of a warp read together

// Listing 6.1: threads that follow each other read elements that do, and then what lies a grid further.
struct InOrder {
  static constexpr int kInFlight = 1;
  int64_t elements, threads;

  HINTERLAND_FN InOrder(const PatternParams& p, int64_t threads) : elements(p.elements), threads(threads) {}
  HINTERLAND_FN int64_t turns() const { return ceil_div(elements, threads); }
  HINTERLAND_FN int64_t at(int64_t thread, int64_t turn) const { return turn * threads + thread; }
};

// Far-away coarsening (figure 6.3a): four of those turns at once.
struct FarApart : InOrder {
  static constexpr int kInFlight = 4;
  using InOrder::InOrder;
};

// Cache-line awareness, near coarsening (listing 6.2, figure 6.3b): `width` threads read a line, and then one a grid further.
template <int kLines>
struct LinesOfGroups {
  static constexpr int kInFlight = 4;
  int64_t elements, lines, groups;
  int line_shift, width_shift;

  HINTERLAND_FN LinesOfGroups(const PatternParams& p, int64_t threads)
      : elements(p.elements),
        lines(ceil_div(p.elements, p.line_elements)),
        line_shift(stdlib::countr_zero(static_cast<uint64_t>(p.line_elements))),
        width_shift(stdlib::countr_zero(static_cast<uint64_t>(min_of(p.width, p.line_elements)))) {
    groups = threads >> width_shift;
  }
  HINTERLAND_FN int steps_shift() const { return line_shift - width_shift; }
  HINTERLAND_FN int64_t turns() const { return ceil_div(lines, groups * kLines) * kLines << steps_shift(); }
  // A group goes through kLines lines side by side.
  HINTERLAND_FN int64_t at(int64_t thread, int64_t turn) const {
    const int64_t own = turn / kLines, round = own >> steps_shift(), step = own & ((int64_t{1} << steps_shift()) - 1);
    const int64_t line = (round * groups + (thread >> width_shift)) * kLines + turn % kLines;
    const int64_t lane = thread & ((int64_t{1} << width_shift) - 1);
    return (line << line_shift) + (step << width_shift) + lane;
  }
};
using PerLine = LinesOfGroups<1>;
using SeveralLines = LinesOfGroups<4>;

// A warp reads a line under one hold, and then one that lies as many lines further as there are warps.
struct HeldLines {};

// Listing 6.4: warps that follow each other read chunks that are `width` apart.
struct Strided {
  static constexpr int kInFlight = 1;
  int64_t elements, threads;
  uint32_t stride, pivot;

  HINTERLAND_FN Strided(const PatternParams& p, int64_t threads)
      : elements(p.elements),
        threads(threads),
        stride(static_cast<uint32_t>(p.width)),
        pivot(static_cast<uint32_t>(ceil_div(ceil_div(p.elements, kChunkElements), p.width))) {}
  HINTERLAND_FN int64_t turns() const { return ceil_div(int64_t{pivot} * stride * kChunkElements, threads); }
  HINTERLAND_FN int64_t at(int64_t thread, int64_t turn) const {
    const int64_t place = turn * threads + thread;
    const auto worker = static_cast<uint32_t>(place / kChunkElements);
    if (worker >= pivot * stride) return memory::kNowhere;
    return int64_t{worker / pivot + worker % pivot * stride} * kChunkElements + place % kChunkElements;
  }
};

// So many elements, each anywhere.
struct RandomElements {
  static constexpr int kInFlight = 4;
  int64_t elements, threads, reads;

  HINTERLAND_FN RandomElements(const PatternParams& p, int64_t threads)
      : elements(p.elements), threads(threads), reads(p.reads) {}
  HINTERLAND_FN int64_t turns() const { return ceil_div(reads, threads); }
  HINTERLAND_FN int64_t at(int64_t thread, int64_t turn) const {
    const int64_t i = turn * threads + thread;
    if (i >= reads) return memory::kNowhere;
    return static_cast<int64_t>(Philox{0}.below(static_cast<uint64_t>(elements), static_cast<uint64_t>(i)));
  }
};

// What thread `thread` reads in a turn and those that it asks for with it; all lanes of a warp call it together.
template <class T, class Array, class Pattern>
HINTERLAND_FN uint64_t read_turn(const Array& array, const Pattern& pattern, int64_t thread, int64_t turn, int64_t turns) {
  int64_t at[Pattern::kInFlight];
  T found[Pattern::kInFlight];
  for (int k = 0; k < Pattern::kInFlight; ++k) {
    at[k] = turn + k < turns ? pattern.at(thread, turn + k) : memory::kNowhere;
    if (at[k] >= pattern.elements) at[k] = memory::kNowhere;
  }
  memory::NoMeter meter;
  if constexpr (requires { array.store; } && stdlib::is_same_v<Pattern, RandomElements>)
    array.read_scattered(at, found, meter);
  else
    array.read(at, found, meter);
  uint64_t sum = 0;
  for (int k = 0; k < Pattern::kInFlight; ++k) sum += static_cast<uint64_t>(found[k]);
  return sum;
}

// What a warp reads of HeldLines; where nothing is held, a line all the same.
template <class T, class Array>
HINTERLAND_FN uint64_t read_held_lines(const Array& array, const PatternParams& p, int64_t warp, int64_t warps) {
  memory::NoMeter meter;
  uint64_t sum = 0;
  for (int64_t begin = warp * p.line_elements; begin < p.elements; begin += warps * p.line_elements) {
    const int64_t end = min_of(begin + p.line_elements, p.elements);
    if constexpr (requires { array.store; }) {
      array.read_run(begin, end, [&](int64_t, T element) { sum += static_cast<uint64_t>(element); }, meter);
    } else {
      constexpr int kInFlight = 8;
      for (int64_t first = begin; first < end; first += kInFlight * Warp::kWidth) {
        int64_t at[kInFlight];
        T found[kInFlight];
        for (int k = 0; k < kInFlight; ++k) {
          at[k] = first + k * Warp::kWidth + Warp::lane();
          if (at[k] >= end) at[k] = memory::kNowhere;
        }
        array.read(at, found, meter);
        for (const T element : found) sum += static_cast<uint64_t>(element);
      }
    }
  }
  return sum;
}

// What threads [begin, end) of `threads` read, turn by turn: on a GPU, this one.
template <class T, class Sources, class Pattern>
HINTERLAND_FN void read_pattern(const PatternParams& p, int64_t begin, int64_t end, int64_t threads) {
  const typename Sources::template Large<T> array(p.array, p.elements);
  uint64_t sum = 0;
  if constexpr (stdlib::is_same_v<Pattern, HeldLines>) {
    // A lane reads with its warp; a CPU's thread for each warp whose first thread it stands for.
    const int64_t first = Warp::kWidth == 1 ? ceil_div(begin, int64_t{kWarpLanes}) : begin / kWarpLanes;
    const int64_t last = Warp::kWidth == 1 ? ceil_div(end, int64_t{kWarpLanes}) : first + 1;
    for (int64_t warp = first; warp < last; ++warp) sum += read_held_lines<T>(array, p, warp, threads / kWarpLanes);
  } else {
    const Pattern pattern(p, threads);
    const int64_t turns = pattern.turns();
    for (int64_t turn = 0; turn < turns; turn += Pattern::kInFlight)
      for (int64_t thread = begin; thread < end; ++thread) sum += read_turn<T>(array, pattern, thread, turn, turns);
  }
  sum = Warp::sum(sum);
  if (Warp::lane() == 0) atomic_add(*p.sum, sum);
}

}  // namespace hinterland::bam
