// Pages of files in host memory, and what moves them, in four parts. Each has its own state and its own lock, and knows those
// before it.
//
//   rings        transfers of threads, one thread's at a time
//   volumes      files and their copies as one space of bytes
//   cache        which slot has which page, and which of them are kept
//   read_ahead   pages that are read before they are asked for
//
// A thread that has a lock asks only for those that come later in this line: readers' runs (HostPages), devices (Rings), a
// ring, a set's bit (storage::Cache), volumes (Volumes), a file's. Rings and sets are tried, and left alone if another has
// them; only who attaches devices, detaches them or counts waits for a ring. Who has the lock of what is kept (PagePins), read
// ahead (ReadAhead) or expected (Expected) asks for no other.
#pragma once

#include <cstdint>

#include "core/owner.hpp"
#include "storage/host_pages.hpp"
#include "storage/read_ahead.hpp"

namespace hinterland::native {

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
