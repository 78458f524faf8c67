// Pages of files in host memory, and what moves them, in four parts: each has its own state and its own lock, and knows those before
// it and none after it.
//
//   rings        transfers of threads                         each is taken by one thread; a lock while devices come and go
//   volumes      files as one space of bytes, their copies    a lock of which volumes there are
//   cache        which slot has which page, and who needs it  a bit in each set of slots; a lock of what is kept
//   read_ahead   what is read before it is asked for          a lock of what it was asked
//
// Whoever waits for a lock may have those before it in this line, and no other: run of readers (HostPages), devices, ring, volumes,
// file. Nobody waits for a ring but who has devices come and go or counts, and nobody for a set's bit. The locks of what is kept,
// of read_ahead and of expected batches are let go before another is asked for.
#pragma once

#include <cstdint>

#include "core/owner.hpp"
#include "storage/host_pages.hpp"
#include "storage/read_ahead.hpp"

namespace hinterland::native {

// Of all volumes together, since the store was made.
struct StoreCounts {
  int64_t reads, writes;  // transfers
  int64_t bytes_read, bytes_written;
  int64_t hits, misses;  // pages that were there, and not, as they were asked for
  int64_t cpu_ns;        // of the threads that asked, in planned reads and writes and in flush; of sources' waits and requests
  int64_t failed_reads;  // of one copy, so that another was asked
  int64_t pinned;        // pages, at present
  int64_t expected_bytes;  // that Expected takes at present
};

class Store {
 public:
  // Frames and all that finds them take `bytes` at the most. A line is a power of two from 512 bytes to 64 KiB. `depth`:
  // transfers in flight for each of the threads. OutOfMemory, or StorageError where kUring is asked for and is not to be had.
  // Not destroyed in a forked process (made_here).
  Store(int64_t bytes, int64_t line_bytes, int threads, unsigned depth, Engine engine);

  // A forked process has none of the threads, and shares what the kernel knows of the parent's transfers: StorageError.
  bool is_own() const { return owner_.is_here(); }
  void require_same_process() const;

  StoreCounts counts();

  const int64_t bytes;
  const Frames frames;
  Rings rings;
  Volumes volumes;
  PageCache cache;
  HostPages host_pages{cache};  // as sources read them (include/hinterland/storage/source.hpp)
  ReadAhead read_ahead{cache};

 private:
  const Owner owner_;
};

}  // namespace hinterland::native
