// Numbers that decide how work is cut, how much is under way and which of two ways is taken, and what each stands on: it was
// measured, is derived, or is a guess. A ratio is the time with another value over that with this one, on an H200 unless
// another machine is named (docs/notes/thresholds.md). Here are those that kernels have, which are compiled anew when one
// changes; what only CPUs have is in native/core/thresholds.hpp, Python's numbers in src/hinterland/runtime/thresholds.py.
#pragma once

#include "hinterland/core/platform.hpp"

namespace hinterland {
// clang-format off

// graph
inline constexpr int kPageShift = 10;  // a kept page has 2^10 elements. Measured: 2^8 1.00 to 1.02, 2^12 0.99 to 1.00
inline constexpr int64_t kVerticesOfEdge = 4;  // looked at in the time of an edge. Measured: 1, 16 0.99 to 1.02
inline constexpr int64_t kThinShare = 64;  // lists have room for one group in 64. Measured: 16 0.97 to 1.01, 256 1.01 to 2.36
inline constexpr int64_t kThinLeast = 64;  // and for 64 more. Measured: 16 0.99 to 1.02, 1024 0.96 to 1.02
inline constexpr int64_t kThinSteps = 32;  // thin steps until the second kernel. Measured: 8 0.98 to 1.06, 128 1.01 to 1.24
inline constexpr uint32_t kWarpQueueItems = 64;  // a warp goes on with by itself. Measured: 32 1.00 to 1.16, 128 0.98 to 1.02

// memory
inline constexpr int kGatherInFlight = 4;  // pieces of rows, of a thread. Measured: 2 1.00 to 1.06, 8 0.98 to 1.21
inline constexpr int kBagThreads = 256;  // of a block that pools rows. Measured: 128 1.00 to 1.16, 512 1.00 to 1.18
inline constexpr int kRowTableThreads = 512;  // of a block that moves rows of row tables. Guess: registers for four rows
inline constexpr int kAdmitThreads = 512;  // of a block that admits rows. Measured: 256 0.95 to 1.00, 1024 0.95 to 1.03
inline constexpr int64_t kMostChunks = 1024;  // of a batch of rows. Measured, sums read one by one: 256 0.75 to 1.01, 4096 1.05 to 2.04
inline constexpr int64_t kLeastOfChunk = 128;  // rows, if there are as many. Derived: what a warp looks up at once
inline constexpr int kAsksAhead = 4;  // rows of a lane that are looked up at once. Guess: four round trips in the time of one
inline constexpr int kSumsAhead = 16;  // sums of a lane that are read at once. Derived: kMostChunks in two rounds of a warp

// sampling
inline constexpr int64_t kTasksAhead = 4;  // of a long list. Derived: 8,192 weights are 64 KiB, the largest line of a cache
inline constexpr int64_t kNegativeTries = 64;  // Derived: where half of all pairs are edges, all fail once in 2^64
inline constexpr int kWalks = 8;  // of a core in turns. Derived: it has 10 to 16 misses under way
inline constexpr int kStoredWalks = 128;  // on storage. Derived: reads that a thread has under way (TRANSFER_DEPTH)

// data sets that are made
inline constexpr double kAstrayShare = 0.4;  // vertices whose features mislead. Guess: features alone say little
inline constexpr int kSignal = 72;  // of a centre, 128ths. Guess: half a deviation of the noise, for the same reason

// clang-format on
}  // namespace hinterland
