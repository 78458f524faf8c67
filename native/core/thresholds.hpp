// As include/hinterland/core/thresholds.hpp, for what CPUs alone do: numbers, and what each stands on.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace hinterland::native {

// loops of threads

// Items that a thread takes at a time, by default. Guess.
inline constexpr int64_t kItemsOfChunk = 1024;
// Items of a piece of a loop, where a team asks for pieces. Guess.
inline constexpr int64_t kTeamPiece = 1 << 14;
// One thread does loops of no more tasks. Guess.
inline constexpr int64_t kTasksAlone = 16;
// That a thread copies at a time. Derived: 50 us at 20 GB/s, ten times what it takes to wake a thread.
inline constexpr int64_t kBytesCopied = 1 << 20;

// graph

// Edges that a thread takes at a time where rows are built. Guess.
inline constexpr int64_t kPieceEdges = 1 << 16;
// Rows from here on are sorted by all threads together. Guess.
inline constexpr int64_t kHugeRow = 1 << 20;
// Edges whose weights a thread makes at a time. Guess.
inline constexpr int64_t kEdgesWeighed = 1 << 14;
// Entries that are asked for ahead. Measured: 2 to 64 take 9.1 to 12.0 ns an entry, none 10.5 (two cores).
inline constexpr int64_t kReorderAhead = 16;
// Betweenness of small graphs: sources of a thread. Guess.
inline constexpr int64_t kSourcesTogether = 4;
// Arrays of sums that are held at once. Guess.
inline constexpr int64_t kMostSums = 64;
// And bytes of them. Guess.
inline constexpr int64_t kBytesOfSums = 1 << 24;

// shortest paths by bins

// Bin for all paths that lie beyond the others. Guess.
inline constexpr int64_t kLastBin = 1023;
// At most, once buckets have grown. Guess.
inline constexpr double kBinsInBucket = 8;
// Vertices that a thread takes at a time. Measured: 8 take 1.04 to 1.20 (docs/notes/gap-on-16-cores.md).
inline constexpr int64_t kPathPiece = 32;
// Of vertices that it goes on with by itself. Measured: 1,024 take 1.00 to 1.20 (docs/notes/gap-on-16-cores.md).
inline constexpr int64_t kOwnEdges = 4096;
// Vertices of a list whose memory is asked for before their turn. Derived: a core has 10 to 16 misses under way.
inline constexpr int64_t kPathsAhead = 8;
// Edges of such a vertex. Derived: 64 of 4 bytes are four lines; what follows the processor fetches by itself.
inline constexpr int64_t kPathEdgesAhead = 64;

// text and names

// Text: pieces for each thread, so that all end together. Guess.
inline constexpr int64_t kTextPieces = 4;
// Bytes of a piece. Guess.
inline constexpr int64_t kSmallestText = 1 << 18;
// Bytes of a piece. Guess.
inline constexpr int64_t kLargestText = 1 << 20;
// Edges that are sorted together. Derived: twice 0.8 MB, which fit a core's second cache.
inline constexpr int64_t kRunEdges = 1 << 16;
// Parts that rows are filled in; after each, memory is given back. Guess.
inline constexpr int64_t kPartsPerThread = 32;
// Entries of a part, at least. Guess.
inline constexpr int64_t kPartEntries = 1 << 15;
// A part waits for those before it, this share of all. Derived: so an eighth of the entries is held twice at most.
inline constexpr int64_t kHeldTwice = 8;
// Entries from mark to mark. Derived: 16 bytes a mark are an eighth of a byte an entry, which takes some six.
inline constexpr int64_t kEntriesOfMark = 128;
// That a thread writes at a time. Derived: about a megabyte of text, which fits its second cache.
inline constexpr int64_t kEdgesWritten = 1 << 16;
// Names whose slots are on their way to the cache. Derived: a core has 10 to 16 misses under way.
inline constexpr uint32_t kNamesAhead = 8;
// Of the table of names, a lock each. Derived: of 16 threads one in 16 finds a shard taken.
inline constexpr int64_t kNameShards = 256;

// rows

// Rows that one thread counts. Guess.
inline constexpr int64_t kFewCounted = 1 << 13;
// Of a row that a thread sums at a time. Derived: 512 bytes of sums lie in the first cache; most rows have no more.
inline constexpr int kBagElements = 128;
// Such pieces, or entries, that one thread does. Guess.
inline constexpr int64_t kBagPiecesAlone = 512;
// And that others take at a time. Guess.
inline constexpr int64_t kBagPieces = 64;
// Sums over neighbours: rows, or heads of them, that a thread takes at a time. Guess.
inline constexpr int64_t kRowTasksTogether = 16;
// Rows that a thread copies at a time. Guess.
inline constexpr int64_t kRowsTaken = 256;

// kernels of users, and queries

// Of blocks of a user's kernel, that a core takes at a time. Guess.
inline constexpr int64_t kThreadsOfCore = 4096;
// That each core has at least, where there are as many blocks. Guess.
inline constexpr int64_t kTurnsOfCore = 8;
// Values that a thread codes at a time. Guess.
inline constexpr int64_t kValuesCoded = 1 << 14;
// Texts that a thread takes at a time. Guess.
inline constexpr int64_t kTextsOfThread = 4096;
// Texts that are looked for before new ones are numbered. Guess.
inline constexpr int64_t kTextsOfRound = 1 << 18;
// Texts whose slots are fetched before the first of them is looked for. Guess.
inline constexpr int64_t kTextsAhead = 64;
// Pages that a thread asks for at a time. Derived: 2.5 ms, at 10 us each; of long ones more threads ask for no more.
inline constexpr int64_t kPageRanges = 256;

// storage

// Blocks that a thread sums at a time. Guess.
inline constexpr int64_t kBlocksSummed = 4;
// Rows of a file that a thread takes at a time. Guess.
inline constexpr int64_t kRowsVisited = 256;
// And bytes of them. Guess.
inline constexpr int64_t kBytesVisited = 1 << 20;
// Pages that a thread of a flush takes at a time. Guess.
inline constexpr size_t kPagesFlushed = 32;
// For others to make room. Derived: a thousand reads of a disk, one after the other, of 100 us each.
inline constexpr auto kRoomPatience = std::chrono::milliseconds(100);
// All frames are touched once a ring has moved such a part of them. Guess.
inline constexpr int64_t kFramesTouched = 4;
// Reads that the system is told of at once. Derived: an eighth of TRANSFER_DEPTH, as many as end together.
inline constexpr int64_t kReadsTold = 16;
// Of a request in sequence. Derived: 1 ms at 4 GB/s, ten times what a disk takes to begin one.
inline constexpr int64_t kSequentialBytes = 4 << 20;
// Bytes of a command. Derived: as many as a list of pages (PRP) has room for.
inline constexpr uint64_t kDevicePiece = 64 << 10;
// And commands under way. Derived: 2 MiB are 7 GB/s for 300 us, what a fast disk moves while a read lasts.
inline constexpr uint64_t kDeviceDepth = 32;
// Of a queue. Derived: as many as a thread of the controller has under way (CONTROLLER_DEPTH).
inline constexpr uint32_t kChannelEntries = 256;
// Lists of pages for them. Derived: one each.
inline constexpr uint32_t kChannelPages = 256;
// A thread looks so long before it sleeps. Derived: what Linux wakes a sleeper late by (timer slack).
inline constexpr auto kTransferAwake = std::chrono::microseconds(50);
// And sleeps so long. Derived: with that slack 70 us, about what a disk takes to read a page.
inline constexpr auto kTransferNap = std::chrono::microseconds(20);
// Nanoseconds that a thread spins. Derived: two reads of the fastest disks, of 10 us each.
inline constexpr uint64_t kControllerSpins = 20'000;
// And lets others go first. Guess.
inline constexpr uint64_t kControllerYields = 500'000;
// And sleeps at a time, at most. Derived: what Linux wakes a sleeper late by (timer slack).
inline constexpr uint64_t kLongestNap = 50'000;

}  // namespace hinterland::native
