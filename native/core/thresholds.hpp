// As include/hinterland/core/thresholds.hpp: numbers that only CPUs have, and what each stands on.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace hinterland::native {
// clang-format off

// loops of threads
inline constexpr int64_t kItemsOfChunk = 1024;  // that a thread takes at a time, by default. Guess
inline constexpr int64_t kTeamPiece = 1 << 14;  // items of a team's piece. Guess
inline constexpr int64_t kTasksAlone = 16;  // that one thread does. Guess
inline constexpr int64_t kBytesCopied = 1 << 20;  // by a thread. Derived: 50 us at 20 GB/s, ten times what waking one takes

// graph
inline constexpr int64_t kPieceEdges = 1 << 16;  // that a thread takes where rows are built. Guess
inline constexpr int64_t kHugeRow = 1 << 20;  // edges; such rows are sorted by all threads together. Guess
inline constexpr int64_t kEdgesWeighed = 1 << 14;  // by a thread at a time. Guess
inline constexpr int64_t kReorderAhead = 16;  // entries. Measured: 2 to 64 take 9.1 to 12.0 ns each, none 10.5 (two cores)
inline constexpr int64_t kSourcesTogether = 4;  // of a thread, in betweenness of small graphs. Guess
inline constexpr int64_t kMostSums = 64;  // held at once. Guess
inline constexpr int64_t kBytesOfSums = 1 << 24;  // and bytes of them. Guess

// shortest paths by bins
inline constexpr int64_t kLastBin = 1023;  // for all paths beyond the others. Guess
inline constexpr double kBinsInBucket = 8;  // at most, once buckets have grown. Guess
inline constexpr int64_t kPathPiece = 32;  // vertices of a thread. Measured: 8 1.04 to 1.20 (notes/gap-on-16-cores.md)
inline constexpr int64_t kOwnEdges = 4096;  // that it goes on with. Measured: 1024 1.00 to 1.20 (notes/gap-on-16-cores.md)
inline constexpr int64_t kPathsAhead = 8;  // vertices asked for. Derived: a core has 10 to 16 misses under way
inline constexpr int64_t kPathEdgesAhead = 64;  // of each. Derived: four lines; the processor fetches what follows

// text and names
inline constexpr int64_t kTextPieces = 4;  // for each thread, so that all end together. Guess
inline constexpr int64_t kSmallestText = 1 << 18;  // bytes of a piece. Guess
inline constexpr int64_t kLargestText = 1 << 20;  // bytes of a piece. Guess
inline constexpr int64_t kRunEdges = 1 << 16;  // sorted together. Derived: twice 0.8 MB fit a core's second cache
inline constexpr int64_t kPartsPerThread = 32;  // of rows; after each memory is given back. Guess
inline constexpr int64_t kPartEntries = 1 << 15;  // at least. Guess
inline constexpr int64_t kHeldTwice = 8;  // Derived: at most so small a part of all entries is held twice
inline constexpr int64_t kEntriesOfMark = 128;  // Derived: a mark is then an eighth of a byte an entry, of some six
inline constexpr int64_t kEdgesWritten = 1 << 16;  // by a thread. Derived: a megabyte of text, which fits its second cache
inline constexpr uint32_t kNamesAhead = 8;  // whose slots are asked for. Derived: a core has 10 to 16 misses under way
inline constexpr int64_t kNameShards = 256;  // a lock each. Derived: one in 16 is taken, of 16 threads

// rows
inline constexpr int64_t kFewCounted = 1 << 13;  // rows that one thread counts. Guess
inline constexpr int kBagElements = 128;  // of a row, summed at a time. Derived: 512 bytes lie in the first cache
inline constexpr int64_t kBagPiecesAlone = 512;  // that one thread does. Guess
inline constexpr int64_t kBagPieces = 64;  // that others take at a time. Guess
inline constexpr int64_t kRowTasksTogether = 16;  // rows whose neighbours a thread sums. Guess
inline constexpr int64_t kRowsTaken = 256;  // that a thread copies at a time. Guess
inline constexpr int64_t kCollectRowsAhead = 32;  // asked for. Measured: 41 of 64 B, 65 of 512 B (gather-on-h200.md)
inline constexpr int64_t kCollectBytesAhead = 32 << 10;  // of them, at most. Derived: a small part of the second cache
inline constexpr int64_t kCollectBuffer = 2 << 10;  // bytes of lines stored together. Measured: 0.5 and 8 KiB are alike (gather-on-h200.md)
inline constexpr int64_t kCollectPiece = 64 << 10;  // bytes that a thread takes. Derived: 50 us, ten times what taking costs

// kernels of users, and queries
inline constexpr int64_t kThreadsOfCore = 4096;  // of blocks that a core takes at a time. Guess
inline constexpr int64_t kTurnsOfCore = 8;  // at least, where there are as many blocks. Guess
inline constexpr int64_t kValuesCoded = 1 << 14;  // by a thread at a time. Guess
inline constexpr int64_t kTextsOfThread = 4096;  // at a time. Guess
inline constexpr int64_t kTextsOfRound = 1 << 18;  // looked for before new ones are numbered. Guess
inline constexpr int64_t kTextsAhead = 64;  // whose slots are fetched first. Guess
inline constexpr int64_t kPageRanges = 256;  // that a thread asks for. Derived: 2.5 ms, at 10 us each

// storage
inline constexpr int64_t kBlocksSummed = 4;  // by a thread at a time. Guess
inline constexpr int64_t kRowsVisited = 256;  // by a thread at a time. Guess
inline constexpr int64_t kBytesVisited = 1 << 20;  // and bytes. Guess
inline constexpr int64_t kTransposeBytes = 8 << 20;  // of a tile. Derived: 28 KB of each of 300 columns, seven pages
inline constexpr int kTransposeThreads = 16;  // Derived: 16 tiles are 128 MiB, which is then all the memory taken besides
inline constexpr int64_t kTransposeSide = 32;  // elements. Derived: 32 lines of each side, 4 KiB, lie in the first cache
inline constexpr size_t kPagesFlushed = 32;  // by a thread at a time. Guess
inline constexpr auto kRoomPatience = std::chrono::milliseconds(100);  // Derived: 1,000 reads of 100 us each
inline constexpr int64_t kFramesTouched = 4;  // all are, once a ring has moved this part of them. Guess
inline constexpr int64_t kReadsTold = 16;  // to the system at once. Derived: an eighth of TRANSFER_DEPTH, as they end
inline constexpr int64_t kSequentialBytes = 4 << 20;  // a request. Derived: 1 ms at 4 GB/s, ten times what it takes to begin
inline constexpr uint64_t kDevicePiece = 64 << 10;  // bytes. Derived: what a command's list of pages has room for
inline constexpr uint64_t kDeviceDepth = 32;  // Derived: 2 MiB are 7 GB/s for 300 us, the time of a read
inline constexpr uint32_t kChannelEntries = 256;  // Derived: what a thread has under way (CONTROLLER_DEPTH)
inline constexpr uint32_t kChannelPages = 256;  // lists of pages. Derived: one for each entry
inline constexpr auto kTransferAwake = std::chrono::microseconds(50);  // Derived: what Linux wakes late by
inline constexpr auto kTransferNap = std::chrono::microseconds(20);  // Derived: with that, a disk's read
inline constexpr uint64_t kControllerSpins = 20'000;  // ns. Derived: two reads of the fastest disks, 10 us each
inline constexpr uint64_t kControllerYields = 500'000;  // ns. Guess
inline constexpr uint64_t kLongestNap = 50'000;  // ns. Derived: what Linux wakes a sleeper late by (timer slack)

// clang-format on
}  // namespace hinterland::native
