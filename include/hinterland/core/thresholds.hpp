// Numbers that decide how work is cut, how much is under way and which of two ways is taken, and what each stands on: it was
// measured, it is derived, or it is a guess. Here are those that kernels have: these are compiled anew when one changes. Those of
// CPUs alone are in native/core/thresholds.hpp, Python's in src/hinterland/runtime/thresholds.py; docs/notes/thresholds.md says
// how they were measured.
#pragma once

#include "hinterland/core/platform.hpp"

namespace hinterland {

// graph

// A page that a GPU keeps has 2^10 elements. Measured: 2^8 take 1.00 to 1.02 times as long, 2^12 0.99 to 1.00.
inline constexpr int kPageShift = 10;
// Betweenness: vertices that are looked at in the time of an edge. Measured: 1 and 16 take 0.99 to 1.02.
inline constexpr int64_t kVerticesOfEdge = 4;
// Shortest paths: lists have room for one group in so many. Measured: 16 takes 0.97 to 1.01, 256 1.01 to 2.36.
inline constexpr int64_t kThinShare = 64;
// And for so many more. Measured: 16 takes 0.99 to 1.02, 1024 0.96 to 1.02.
inline constexpr int64_t kThinLeast = 64;
// Thin steps in a row that are enough for the second kernel. Measured: 8 takes 0.98 to 1.06, 128 1.01 to 1.24.
inline constexpr int64_t kThinSteps = 32;
// What a warp has found and goes on with by itself. Measured: 32 take 1.00 to 1.16, 128 0.98 to 1.02.
inline constexpr uint32_t kWarpQueueItems = 64;

// memory

// Pieces of rows that a thread has under way. Measured: 2 take 1.00 to 1.06, 8 0.98 to 1.21.
inline constexpr int kGatherInFlight = 4;
// Of a block that pools rows. Measured: 128 take 1.00 to 1.16, 512 1.00 to 1.18.
inline constexpr int kBagThreads = 256;
// Of a block that admits rows to a cache. Measured: 256 take 0.95 to 1.00, 1024 0.95 to 1.03.
inline constexpr int kAdmitThreads = 512;
// Chunks of a batch of such rows. Measured with the next: 256 take 0.75 to 1.01, 4096 1.05 to 2.04.
inline constexpr int64_t kMostChunks = 1024;
// Rows of a chunk, if there are as many. Measured with the last.
inline constexpr int64_t kLeastOfChunk = 1024;

// sampling

// Of edges, of a long list that is read. Derived: 8,192 weights of 8 bytes are 64 KiB, the largest line of a cache.
inline constexpr int64_t kTasksAhead = 4;
// Before what is left is counted. Derived: where half of all pairs are edges, so many draws fail once in 2^64.
inline constexpr int64_t kNegativeTries = 64;
// That a core goes on with in turns. Derived: it has 10 to 16 misses under way.
inline constexpr int kWalks = 8;
// The same, of lists on storage. Derived: as many reads as a thread has under way (TRANSFER_DEPTH).
inline constexpr int kStoredWalks = 128;

// data sets that are made

// Vertices that show any community in their features. Guess: features alone say little, neighbours add to it.
inline constexpr double kAstrayShare = 0.4;
// From the middle to the centre of a community, 128ths. Guess: half a deviation of the noise, for the same reason.
inline constexpr int kSignal = 72;

}  // namespace hinterland
