// Folds that do not depend on who folds: the loops of kernels that are written from functions in Python (kernels/text.py).
//
// kLanes lanes fold a row: lane l takes the row's elements of number l modulo kLanes, in their order, and then lane l takes in
// lane l + kLanes / 2, then l + kLanes / 4, ... (as query/aggregate.hpp adds). On a GPU a thread plays one lane, or a few
// neighbours of a short row; on a CPU one plays them all, which its vectors hold. The result is the same.
#pragma once

#include "hinterland/core/warp.hpp"
#include "hinterland/kernels/arithmetic.hpp"
#include "hinterland/kernels/neighbours.hpp"
#include "hinterland/kernels/on_cpu.hpp"

namespace hinterland::kernels {

// Elements of a block of `each`: a block's threads on a GPU take them in turns, and on a CPU one thread takes them all.
inline constexpr int64_t kEach = 4096;
// Threads of a GPU's block that takes rows.
inline constexpr int kThreads = 256;
// What a thread of a GPU reads before it needs the first of it: enough bytes under way for the memory's whole rate.
inline constexpr int kUnderWay = HINTERLAND_ON_GPU ? 4 : 1;

// 128 bits of a sum of whole numbers; 2^31 values do not overflow the halves.
struct Halves {
  int64_t high;
  int64_t low;
};

HINTERLAND_FN Halves halves(int64_t value) { return {value >> 32, value & 0xffffffff}; }
HINTERLAND_FN Halves together(Halves a, Halves b) { return {a.high + b.high, a.low + b.low}; }

template <class T>
HINTERLAND_FN T from_lane(T value, int step) {
  if constexpr (sizeof(T) < 4)
    return static_cast<T>(Warp::swapped(static_cast<int32_t>(value), step));
  else
    return Warp::swapped(value, step);
}
HINTERLAND_FN Halves from_lane(Halves value, int step) {
  return {Warp::swapped(value.high, step), Warp::swapped(value.low, step)};
}

template <class T>
HINTERLAND_FN T greatest_of() {
  if constexpr (stdlib::is_floating_point_v<T>)
    return stdlib::numeric_limits<T>::infinity();
  else
    return stdlib::numeric_limits<T>::max();
}
template <class T>
HINTERLAND_FN T least_of() {
  if constexpr (stdlib::is_floating_point_v<T>)
    return -stdlib::numeric_limits<T>::infinity();
  else
    return stdlib::numeric_limits<T>::min();
}

// kOfThread: lanes that a thread of a GPU plays. They are neighbours, so that it reads their elements at once, and a warp whole lines,
// as the link to the host wants it.
template <int kLanes, int kOfThread = 1>
struct Lanes {
  static constexpr int kOwn = HINTERLAND_ON_GPU ? kOfThread : kLanes;  // lanes that a thread plays
  static constexpr int kStep = kLanes / kOwn;                          // threads of a row

  HINTERLAND_FN static int64_t thread() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }

  // The row of these lanes, by the launch's threads.
  HINTERLAND_FN static int64_t row() { return thread() / kStep; }
  HINTERLAND_FN static int first() { return static_cast<int>(thread() % kStep); }
  HINTERLAND_FN static int element(int lane) { return first() * kOwn + lane; }  // of a turn, of one of a thread's lanes

  // What is made of each element of a row, put together in the order above: value(j, n) is Some of elements j to j + n, where n is a
  // Count. `none` changes nothing that it is put together with.
  template <class T, class Value, class Together>
  HINTERLAND_FN static T fold(int64_t size, T none, const Value& value, const Together& together) {
    T own[kOwn];
    for (int lane = 0; lane < kOwn; ++lane) own[lane] = none;
    int64_t at = 0;
    constexpr int kTurns = HINTERLAND_ON_GPU ? 2 * kUnderWay / kOwn : 2 * kUnderWay;
    for (; at + kTurns * kLanes <= size; at += kTurns * kLanes) {
      T got[kTurns * kOwn];
      HINTERLAND_UNROLLED
      for (int turn = 0; turn < kTurns; ++turn)
        take(value, at + turn * kLanes, [&](int lane, T one) { got[turn * kOwn + lane] = one; });
      HINTERLAND_UNROLLED
      for (int turn = 0; turn < kTurns; ++turn) {
        for (int lane = 0; lane < kOwn; ++lane) own[lane] = together(own[lane], got[turn * kOwn + lane]);
      }
    }
    HINTERLAND_ROLLED
    for (; at + kLanes <= size; at += kLanes) {
      take(value, at, [&](int lane, T one) { own[lane] = together(own[lane], one); });
    }
    for (int lane = 0; lane < kOwn && at + lane < size; ++lane) {  // of a whole last turn none is left
      if (at + element(lane) < size) own[lane] = together(own[lane], value(at + element(lane), Count<1>{})[0]);
    }
    return taken_in(own, together);
  }

  template <class T, class Value>
  HINTERLAND_FN static T sum(int64_t size, const Value& value) {
    return fold(size, T{0}, value, [](T a, T b) { return add(a, b); });
  }
  template <class Value>
  HINTERLAND_FN static Halves exact_sum(int64_t size, const Value& value) {
    const auto part = [&](int64_t j, auto n) {
      const auto given = value(j, n);
      Some<Halves, n> made;
      for (int k = 0; k < n; ++k) made[k] = halves(given[k]);
      return made;
    };
    return fold(size, Halves{0, 0}, part, [](Halves a, Halves b) { return together(a, b); });
  }
  template <class T, class Value>
  HINTERLAND_FN static T amax(int64_t size, const Value& value) {
    return fold(size, least_of<T>(), value, [](T a, T b) { return maximum(a, b); });
  }
  template <class T, class Value>
  HINTERLAND_FN static T amin(int64_t size, const Value& value) {
    return fold(size, greatest_of<T>(), value, [](T a, T b) { return minimum(a, b); });
  }

  // write(j) for each element j of a row.
  template <class Write>
  HINTERLAND_FN static void each(int64_t size, const Write& write) {
    for (int64_t j = first(); j < size; j += kStep) write(j);
  }

 private:
  // use(lane, value) for this thread's lanes, in the turn that begins at an element. (A loop in another is no vector's.)
  template <class Value, class Use>
  HINTERLAND_FN static void take(const Value& value, int64_t at, const Use& use) {
#if HINTERLAND_ON_GPU
    const auto got = value(at + element(0), Count<kOwn>{});
    for (int lane = 0; lane < kOwn; ++lane) use(lane, got[lane]);
#else
    for (int lane = 0; lane < kOwn; ++lane) use(lane, value(at + element(lane), Count<1>{})[0]);
#endif
  }

  // All lanes in one, for the row's first thread. While threads have several lanes each, two that take each other's in go on with
  // half of them: 5 values are handed on for 4 threads of 4 lanes, in place of 8.
  template <class T, class Together>
  HINTERLAND_FN static T taken_in(T (&own)[kOwn], const Together& together) {
    HINTERLAND_UNROLLED
    for (int half = kStep / 2; half > 0; half /= 2) {
      const int held = kOwn * half / kStep;  // from now on; 0: no more than one, and both have the same
      const bool is_upper = (first() & half) != 0;
      for (int lane = 0; lane < held; ++lane) {
        const T low = own[lane], high = own[lane + held];
        const T kept = is_upper ? high : low;
        const T given = from_lane(is_upper ? low : high, half);
        own[lane] = is_upper ? together(given, kept) : together(kept, given);
      }
      if (held == 0) own[0] = together(own[0], from_lane(own[0], half));
    }
    constexpr int kHeld = kOwn > kStep ? kOwn / kStep : 1;
    HINTERLAND_UNROLLED
    for (int half = kStep / 2; half > kStep * kHeld / kOwn / 2; half /= 2) {  // the threads that parted a thread's lanes
      for (int lane = 0; lane < kHeld; ++lane) own[lane] = together(own[lane], from_lane(own[lane], half));
    }
    HINTERLAND_UNROLLED
    for (int half = kHeld / 2; half > 0; half /= 2) {
      for (int lane = 0; lane < half; ++lane) own[lane] = together(own[lane], own[lane + half]);
    }
    return own[0];
  }
};

// work(i, n) for neighbours [i, i + n), n <= kSome, of all from 0 to `count`, by a launch of a block for each kEach of them.
template <class Work>
HINTERLAND_FN void each(int64_t count, const Work& work) {
  const int64_t step = kSome * (HINTERLAND_ON_GPU ? int64_t{blockDim.x} : 1);
  const int64_t begin = int64_t{blockIdx.x} * kEach + int64_t{kSome} * threadIdx.x;
  const int64_t end = min_of<int64_t>(count, (int64_t{blockIdx.x} + 1) * kEach);
  for (int64_t i = begin; i < end; i += step) work(i, static_cast<int>(min_of<int64_t>(kSome, end - i)));
}

// write(i, value(i)) for rows i from 0 to `count`, by a launch of a block for each kRows of them: on a GPU by teams of lanes, each
// of which reads what it needs of all its rows before the first is written, as one short row is too little to wait for; on a CPU
// one thread takes them all.
template <class T, class Team, int kRows, class Value, class Write>
HINTERLAND_FN void rows(int64_t count, const Value& value, const Write& write) {
  const int64_t begin = int64_t{blockIdx.x} * kRows;
#if HINTERLAND_ON_GPU
  constexpr int kTeams = kThreads / Team::kStep, kOfTeam = kRows / kTeams;
  const int64_t first = begin + threadIdx.x / Team::kStep;
  T got[kOfTeam];
  HINTERLAND_UNROLLED
  for (int k = 0; k < kOfTeam; ++k)
    got[k] = value(min_of(first + k * kTeams, count - 1));  // lanes without a row work with the others
  if (Team::first() != 0) return;
  HINTERLAND_UNROLLED
  for (int k = 0; k < kOfTeam; ++k)
    if (first + k * kTeams < count) write(first + k * kTeams, got[k]);
#else
  for (int64_t i = begin; i < min_of(count, begin + kRows); ++i) write(i, value(i));
#endif
}

}  // namespace hinterland::kernels
